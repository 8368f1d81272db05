"""The pictures of docs/manual/pictures.md.

python -m benchmarks.pictures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1
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


def main() -> None:
    """Draw all of them."""
    matplotlib.use("Agg")
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
