"""The ten benchmark sets of ding2011 and edwards2013, and how a method is scored on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.common import DATA

# file, its name in the papers, ding2011 Table 2 (5-fold CV, approximate 5-fold CV: mean, std)
DING2011: dict[str, tuple[str, tuple[float, float], tuple[float, float]]] = {
    "ida_thyroid": ("Thyroid", (5.000, 2.580), (4.773, 2.291)),
    "ida_titanic": ("Titanic", (22.534, 0.688), (22.897, 1.427)),
    "ida_heart": ("Heart", (16.200, 3.259), (18.920, 4.576)),
    "ida_breast_cancer": ("Breast", (26.831, 4.578), (27.831, 5.569)),
    "ida_banana": ("Banana", (10.781, 0.721), (11.283, 0.992)),
    "ida_twonorm": ("Twonorm", (2.560, 0.310), (2.791, 0.566)),
    "ida_diabetis": ("Diabetes", (23.493, 1.663), (26.386, 4.501)),
    "ida_flare_solar": ("Flare solar", (34.172, 1.863), (36.440, 2.752)),
    "ida_german": ("German", (23.793, 2.283), (25.080, 2.375)),
    "ida_image": ("Image", (3.014, 0.877), (4.391, 0.631)),
}
DING2011_REPLICATIONS = {"ida_image": 20}

# edwards2013 Table II: h in (1, 2), h in (10, 11), exact; heart is not in it, waveform is.
EDWARDS2013: dict[str, tuple[str, tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "ida_titanic": ("Titanic", (23.82, 1.44), (22.80, 0.68), (22.92, 0.43)),
    "ida_breast_cancer": ("B. Cancer", (29.87, 5.59), (26.75, 5.92), (25.97, 4.40)),
    "ida_diabetis": ("Diabetes", (25.67, 1.13), (25.27, 2.07), (23.00, 1.27)),
    "ida_flare_solar": ("F. Solar", (35.65, 2.78), (36.65, 2.47), (33.75, 1.44)),
    "ida_banana": ("Banana", (14.10, 1.74), (18.98, 1.76), (10.97, 0.57)),
    "ida_image": ("Image", (17.64, 1.52), (6.89, 0.73), (2.47, 0.53)),
    "ida_twonorm": ("Twonorm", (15.64, 25.71), (6.85, 8.86), (2.35, 0.07)),
    "ida_german": ("German", (29.93, 1.61), (27.40, 1.79), (21.87, 1.77)),
    "ida_waveform": ("Waveform", (19.85, 3.87), (17.57, 1.93), (9.77, 0.31)),
    "ida_thyroid": ("Thyroid", (29.33, 4.07), (17.33, 3.89), (4.17, 3.23)),
}


@dataclass(frozen=True)
class Split:
    """Standardised by the training rows' own mean and deviation."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


@dataclass
class Scores:
    """Test errors in percent and seconds of one method on one set, split by split."""

    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, model: Any, split: Split, seconds: float) -> None:
        self.errors.append(100 * (1 - model.score(split.X_test, split.y_test)))
        self.seconds.append(seconds)

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def std(self) -> float:
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else 0.0

    def text(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


def load_splits(name: str, limit: int) -> tuple[bool, list[Split]]:
    """Whether the splits are the official ones, and up to `limit` of them."""
    with np.load(DATA / f"{name}.npz") as stored:
        official = "train_idx" in stored
        prefix = "" if official else "rand_"
        X, y = stored["X"].astype(np.float64), np.where(stored["y"] > 0, 1, -1)
        pairs = list(zip(stored[f"{prefix}train_idx"], stored[f"{prefix}test_idx"]))[:limit]
    return official, [_standardised(X, y, train, test) for train, test in pairs]


def _standardised(X: Any, y: Any, train: Any, test: Any) -> Split:
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    deviation[deviation == 0] = 1.0
    scale = (X - mean) / deviation
    return Split(scale[train], y[train], scale[test], y[test])


def available(names: Any) -> Iterator[str]:
    """The sets that are there."""
    return (name for name in names if (DATA / f"{name}.npz").exists())
