"""The pictures of docs/pictures.md.

python -m benchmarks.pictures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1
from sklearn.preprocessing import scale

from onefold import LSSVCCV, LSSVRCV, SparseLSSVR, trust
from onefold.approximations import Nystroem
from onefold.plots import (
    BlendDisplay,
    GridDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    ReliabilityDisplay,
    RoundsDisplay,
    SearchPathDisplay,
    SparsityDisplay,
    TrustDisplay,
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
    halving = LSSVRCV(search="halving").fit(X, y)
    draw("grid", GridDisplay.from_estimator(plain), SearchPathDisplay.from_estimator(halving))
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
    rng = np.random.default_rng(0)
    rough = rng.normal(size=(300, 3))
    target = np.sign(rough[:, 0]) * np.abs(rough[:, 1]) + 0.2 * rng.normal(size=300)
    blend = LSSVRCV("auto", metric="auto", blend=True, max_rounds=2).fit(rough, target)
    sparse = SparseLSSVR().fit(X, y)
    draw("blend", BlendDisplay.from_estimator(blend), SparsityDisplay.from_estimator(sparse))
    coarse = LSSVRCV(approximation=Nystroem(25, random_state=0))
    found = TrustDisplay.from_finding(trust(coarse, X, y, repeats=5))
    found.plot().figure_.savefig(IMAGES / "pictures_trust.png", dpi=90)


if __name__ == "__main__":
    main()
