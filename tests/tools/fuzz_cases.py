"""Small fitted models of every kind that a file can hold, each with rows to predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse
from sklearn.model_selection import KFold

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)
from onefold.approximations import Circulant, Exact, Grid, Nystroem, Toeplitz
from onefold.expansions import Blend, Expansion
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onefold.search import Halving
from onefold.tables import TableRows, learn_preparation, table_model

N = 30
SMALL: dict[str, Any] = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1], "cv": 3}


@dataclass(frozen=True)
class Case:
    """A fitted model and rows that it predicts."""

    model: Any
    rows: Any


def numbers(d: int = 3) -> np.ndarray:
    """Rows of numbers."""
    return np.random.default_rng(7).normal(size=(N, d))


def estimator(model: Any, kind: str = "regression", d: int = 3) -> Callable[[], Case]:
    """The case of an estimator by itself."""

    def build() -> Case:
        X = numbers(d)
        y: Any = np.sin(X[:, 0]) + 0.1 * X[:, -1]
        if kind == "two":
            y = np.where(y > 0, "yes", "no")
        if kind == "three":
            y = np.digitize(y, [-0.5, 0.5])
        if kind == "targets":
            y = np.stack([y, X[:, 0] ** 2], axis=1)
        return Case(model.fit(X, y), X)

    return build


def labels(values: np.ndarray) -> Callable[[], Case]:
    """A classifier of these labels, each with its weight."""

    def build() -> Case:
        weights = {label: 1.0 + i for i, label in enumerate(values)}
        y = values[np.arange(N) % len(values)]
        return Case(LSSVC(class_weight=weights).fit(numbers(), y), numbers())

    return build


def named() -> Case:
    """An estimator that knows the names of its features."""
    frame = pd.DataFrame(numbers(), columns=["a", "b", "c"])
    return Case(LSSVC(gamma=0.5).fit(frame, frame["a"] > 0), frame.to_numpy())


def precomputed() -> Case:
    """A model without centres."""
    X = numbers()
    gram = RBF(0.3)(X, X)
    return Case(LSSVR("precomputed").fit(gram, X[:, 0]), gram)


def blended() -> Case:
    """A search whose expansion is a blend, with notes of families, metrics and members."""
    X = numbers()
    model = LSSVRCV(["rbf", "laplacian"], **SMALL)
    kernels = (RBF(0.3, metric=np.eye(3) + 0.1), Laplacian(0.2), Linear())
    fits = [LSSVR(kernel, alpha=0.1).fit(X, X[:, 0] ** 2).expansion_ for kernel in kernels]
    parts = tuple(Expansion(fit.kernel, X, fit.coef, fit.intercept) for fit in fits)
    plain = LSSVRCV(**SMALL).fit(X, X[:, 0] ** 2)
    vars(model).update({key: value for key, value in vars(plain).items() if key.endswith("_")})
    model.expansion_ = Blend(parts, [0.5, 0.25, 0.25], np.zeros(1))
    note = {"kernel": "rbf", "metric": "full", "round": 1, "gamma": 0.3, "alpha": 0.1, "weight": 0.25}
    model.blend_, model.blend_score_, model.kernel_ = [dict(note) for _ in parts], -0.1, "rbf"
    model.metric_, model.feature_importances_ = np.eye(3) + 0.1, np.array([0.5, 0.25, 0.25])
    model.metric_history_ = [{"round": 0, "score": -0.2, "metric": None}]
    return Case(model, X)


def sparse_rows(kernel: Any, build: Any = sparse.csr_array) -> Callable[[], Case]:
    """A model with sparse centres."""

    def case() -> Case:
        X = build(np.where(numbers(6) > 0.3, numbers(6), 0.0))
        y = np.asarray(X.sum(axis=1)).ravel()
        return Case(LSSVR(kernel, alpha=0.1).fit(X, y), X)

    return case


def series(approximation: Any) -> Callable[[], Case]:
    """A model of evenly spaced points."""

    def case() -> Case:
        t = np.arange(40.0)[:, None]
        model = LSSVRCV(**SMALL, approximation=approximation, refit="same")
        return Case(model.fit(t, np.sin(t[:, 0] / 5)), t)

    return case


def frame() -> pd.DataFrame:
    """A table with numbers, gaps, text, whole numbers and booleans."""
    rng = np.random.default_rng(3)
    length = np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N))
    return pd.DataFrame(
        {
            "length": length,
            "width": rng.normal(size=N) + 5,
            "colour": rng.choice(np.array(["red", "green", "blue", None], dtype=object), N),
            "grade": rng.integers(0, 4, N),
            "sold": rng.random(N) < 0.5,
            "note": [f"row {i}" for i in range(N)],
        }
    )


def table(missing: Any) -> Callable[[], Case]:
    """What `onefold tune` writes."""

    def build() -> Case:
        rows = frame().drop(columns="note").assign(one=1.0)
        rows["colour"] = rows["colour"].fillna("none")
        if missing == "error":
            rows["length"] = rows["length"].fillna(0.0)
        prepared = learn_preparation(TableRows(pa.table(rows)), missing=missing)
        X = prepared.transform(TableRows(pa.table(rows)))
        best = LSSVRCV(**SMALL).fit(X, rows["width"].to_numpy())
        report = {"rows": N, "candidates": 4, "cv": "3 folds", "task": "regression", "best_score": -0.5}
        report |= {
            "criterion": "mse",
            "heldout": {"r2": 0.5, "rmse": 0.1, "rmse_error": 0.1, "baseline_rmse": 1.0},
            "notes": [],
        }
        return Case(table_model(best, prepared, "y", id_column="id", report=report), rows)

    return build


CASES: dict[str, Callable[[], Case]] = {
    "lssvc": estimator(LSSVC(class_weight="balanced"), "two"),
    "lssvc-classes": estimator(LSSVC(Laplacian(0.3), class_weight={0: 1.0, 1: 2.0, 2: 1.5}), "three"),
    "lssvc-names": named,
    "lssvr": estimator(LSSVR("polynomial", gamma="scale", degree=2)),
    "lssvr-sum": estimator(LSSVR(RBF((0.1, 0.2, 0.7)) + Linear() * Matern(1.5))),
    "lssvr-metric": estimator(LSSVR(Matern(0.5, metric=[[1, 0.5, 0], [0, 2, 0], [-1, 0, 0.3]]))),
    "kernelridge": estimator(KernelRidge(Polynomial(0.5, degree=3), alpha=[0.1, 1.0]), "targets"),
    "precomputed": precomputed,
    "blend": blended,
    "sparse-rows": sparse_rows("rbf"),
    "sparse-rows-linear": sparse_rows(Linear(), sparse.csr_matrix),
    "lssvccv": estimator(LSSVCCV(**SMALL), "two"),
    "lssvrcv": estimator(LSSVRCV("matern32", **SMALL, approximation=Exact(), n_jobs=1), "targets"),
    "kernelridgecv": estimator(KernelRidgeCV(gammas=["scale", 1.0], alphas=[0.1], cv="loo")),
    "nystroem": estimator(LSSVRCV(**SMALL, approximation=Nystroem(10, method="uniform"))),
    "grid": estimator(LSSVRCV(**SMALL, approximation=Grid(9), refit="same"), d=2),
    "toeplitz": series(Toeplitz()),
    "circulant": series(Circulant()),
    "sparselssvc": estimator(SparseLSSVC(**SMALL, n_centres=6), "three"),
    "sparselssvr": estimator(SparseLSSVR(**SMALL, tolerance=0.1, weights="robust")),
    "table": table("error"),
    "table-missing": table("impute"),
    "labels-text": labels(np.array(["a", "bb", "ccc"], dtype=object)),
    "labels-bool": labels(np.array([False, True])),
    "labels-whole": labels(np.array([-7, 0, 30], dtype=np.int16)),
    "sigmoid": estimator(LSSVC(gamma=0.1, calibration="sigmoid"), "three"),
    "isotonic": estimator(SparseLSSVC(**SMALL, n_centres=9, calibration="isotonic"), "two"),
    "isotonic-search": estimator(LSSVCCV(**SMALL, calibration="isotonic"), "three"),
    "uncalibrated": estimator(LSSVCCV(**SMALL, calibration=None), "two"),
    "families": estimator(LSSVRCV(["linear", "rbf"], **SMALL, blend=True)),
    "metric": estimator(LSSVRCV("auto", metric="auto", max_rounds=1, **SMALL)),
    "halving": estimator(LSSVRCV(search=Halving(factor=2, min_resources=20), **SMALL)),
    "criteria": estimator(LSSVRCV(**SMALL, criterion=["mse", "press", "r2"])),
    "splitter": estimator(LSSVRCV(**SMALL | {"cv": KFold(3, shuffle=True, random_state=1)})),
    "jackknife+": estimator(LSSVR(intervals="jackknife+")),
    "normalised": estimator(LSSVR(intervals="normalised"), "targets"),
    "no-intercept": estimator(KernelRidge(intervals="cv+")),
    "no-intervals": estimator(LSSVRCV(intervals=None, **SMALL)),
    "landmarks": estimator(LSSVRCV(approximation=Nystroem(9), refit="same", **SMALL)),
}
