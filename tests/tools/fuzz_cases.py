"""Small fitted models of every kind that a file can hold, each with rows to predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from onefold import LSSVC, LSSVCCV, LSSVRCV, SparseLSSVC, TablePreparation, TableRegressor
from onefold.approximations import Circulant, StateSpace, Toeplitz
from tests.tools.configurations import configured as configuration

N = 30
SMALL: dict[str, Any] = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1], "cv": 3}
# Among the configurations that snapshots are made of.
NAMES = (
    "lssvr-scale-jackknife", "lssvr-targets-alphas-cv+", "lssvr-normalised-zero-weights",
    "lssvr-polynomial", "lssvr-metric-kernel", "ridge-matern52-targets", "ridge-widths-per-feature",
    "ridge-precomputed", "lssvc-product-text", "lssvc-class-weight-isotonic", "lssvc-torch",
    "lssvc-sparse-rows", "lssvr-nystroem-own-rows", "lssvrcv-repeated-1se", "ridgecv-gap-series",
    "lssvccv-stratified-balanced", "lssvccv-radius-margin", "lssvrcv-nystroem", "lssvrcv-grid",
    "lssvrcv-toeplitz", "ridgecv-circulant-matrix", "lssvccv-auto-auto-blend", "lssvrcv-blend-weights",
    "lssvrcv-diagonal", "ridgecv-full-targets", "lssvrcv-halving", "sparse-lssvr-robust", "sparse-lssvc",
    "table-classifier", "table-regressor",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A fitted model and rows that it predicts."""

    model: Any
    rows: Any


def configured(name: str) -> Case:
    """The model of a configuration, and its rows to predict."""
    estimator, data = configuration(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(data.X, data.y, **data.fit)
    return Case(model, np.asarray(data.new) if "torch" in name else data.new)


def rows() -> np.ndarray:
    """Rows of numbers."""
    return np.random.default_rng(7).normal(size=(N, 3))


def labelled(model: Any, *labels: Any, dtype: Any = None) -> Case:
    """A classifier of these labels in turn."""
    y = np.array(labels, dtype=dtype)[np.digitize(rows()[:, 0], [-0.5, 0.5]) % len(labels)]
    return Case(model.fit(rows(), y), rows())


def named() -> Case:
    """An estimator that knows the names of its features, and has no intervals."""
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"])
    model = LSSVRCV(**SMALL | {"cv": KFold(3, shuffle=True, random_state=1)}, intervals=None)
    return Case(model.fit(frame, frame["a"] ** 2), frame.to_numpy())


def series(**settings: Any) -> Case:
    """A regressor of one feature, by approximations that are for series or serve them."""
    t = np.sort(rows(), axis=0)[:, :1]
    model = LSSVRCV(**SMALL | {"kernel": "matern32"} | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Case(model.fit(t, np.sin(t[:, 0])), t + 0.1)


def table(model: Any) -> Case:
    """A table with columns of every kind, and missing values where the model imputes them."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "length": rng.normal(size=N),
            "colour": rng.choice(np.array(["red", "green", "blue"], dtype=object), N),
            "grade": rng.integers(0, 4, N),
            "sold": rng.random(N) < 0.5,
            "when": pd.date_range("2020-01-01", periods=N, freq="31D"),
            "one": 1.0,
        }
    )
    y = np.exp(frame["length"]) + (frame["colour"] == "red")
    if model.missing == "impute":
        frame.loc[::5, ["length", "colour"]] = None
        frame["note"] = np.where(np.arange(N) % 4, "x", None)  # which says whether it is there
    return Case(model.fit(frame, y), frame)


CASES: dict[str, Callable[[], Case]] = {
    **{name: partial(configured, name) for name in NAMES},
    "names": named,
    "sigmoid": lambda: labelled(LSSVC(gamma=0.1, calibration="sigmoid"), "a", "bb", "ccc"),
    "isotonic": lambda: labelled(LSSVCCV(**SMALL, calibration="isotonic"), -7, 0, 30, dtype=np.int16),
    "sparse-isotonic": lambda: labelled(
        SparseLSSVC(**SMALL, n_centres=9, calibration="isotonic"), False, True
    ),
    "uncalibrated": lambda: labelled(
        LSSVC(class_weight={"x": 1.0, "y": 2.0}, calibration=None), "x", "y", dtype=object
    ),
    "state-space": lambda: series(approximation=StateSpace(), intervals="cv+"),
    "state-space-blend": lambda: series(
        kernel=["matern12", "matern52"], approximation="state_space", blend=True, loss="mean"
    ),
    "toeplitz-kernel": lambda: series(
        approximation=Toeplitz(validate="kernel", negative="solve"), refit="same"
    ),
    "circulant-spacings": lambda: series(
        approximation=Circulant(levels=1, spacing=[0.1, "data"], negative="solve"), refit="same"
    ),
    "sparse-coefficients": lambda: labelled(
        SparseLSSVC(**SMALL, n_centres=9, prune="coefficients", loss="mean"), "a", "b", "c"
    ),
    "table": lambda: table(TableRegressor(simple=True, cv=3, missing="error")),
    "table-missing": lambda: table(TableRegressor(simple=True, cv=3)),
    "preparation": lambda: table(TablePreparation(categorical=["grade"])),
    "preparation-array": lambda: Case(TablePreparation().fit(rows()), rows()),
    "table-log": lambda: table(TableRegressor(simple=True, cv=3, target_transform="log")),
}
