"""Small fits that the tests of reports share."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from onefold import LSSVCCV, LSSVRCV
from onefold.tuning import tune_table

FEW = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1, 1.0]}
NAMES = [
    "<script>alert(1)</script>",
    "{{x}} ${y} %s",
    "\"quoted\" & 'more'",
    "عدد الغرف",
    "long " * 60,
    "😀",
    "\x00\u202eodd\ud800",
]


@cache
def numbers(n: int = 150):
    """Rows, targets and a fitted regression."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, LSSVRCV(**FEW).fit(X, y)


@cache
def labels(n: int = 150, classes: int = 3):
    """Rows, labels and a fitted classifier."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    level = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=n)
    names = np.array(["low", "<b>mid</b>", "high"])[:classes]
    y = names[np.searchsorted(np.quantile(level, np.arange(1, classes) / classes), level)]
    return X, y, LSSVCCV(**FEW).fit(X, y)


@cache
def table():
    """A table with gaps, text, a constant, copies and names from everywhere, and a model of it."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(240, 2)), columns=NAMES[:2])
    frame[NAMES[3]] = rng.choice(["red", "blue", "<i>"], 240)
    frame["constant"] = 1.0
    level = frame[NAMES[0]] ** 2 + frame[NAMES[1]] + (frame[NAMES[3]] == "red")
    frame["kind"] = np.where(level < 0.5, "a & b", np.where(level < 1.8, "c", '"d"'))
    frame = pd.concat([frame, frame.iloc[:20]], ignore_index=True)
    frame.loc[::7, NAMES[1]] = np.nan
    return frame, tune_table(frame, "kind", missing="impute", simple=True, **FEW)
