"""The configurations that a snapshot fits: each an estimator, and its rows when asked for."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    RepeatedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold import TableClassifier as TableC
from onefold import TableRegressor as TableR
from onefold.approximations import Circulant, ConjugateGradients, Grid, Nystroem, Toeplitz
from onefold.heldout import GapKFold
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onefold.search import Halving

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HOUSES = Path(__file__).parents[2] / "examples" / "houses.csv"


class Data(NamedTuple):
    """Rows to fit, rows to predict, and what else `fit` takes."""

    X: Any
    y: Any
    new: Any
    fit: dict[str, Any] = {}  # noqa: RUF012

    def also(self, **fit: Any) -> Data:
        return self._replace(fit={**self.fit, **fit})


def numbers(n: int = 100, d: int = 5, targets: int = 0, seed: int = 0) -> Data:
    """Regression: a smooth function of five features, and noise."""
    X, y = make_friedman1(n + 30, n_features=max(d, 5), noise=1.0, random_state=seed)
    X = (X - 0.5) * 3.0
    if d < 5:  # the first features alone, so that a grid is possible
        X = X[:, :d]
        y = np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * y
    if targets:
        y = np.column_stack([y, *(np.cos(X[:, j]) * 3 + X[:, 0] for j in range(targets - 1))])
    return Data(X[:n], y[:n], X[n:])


def labels(n: int = 100, classes: int = 2, seed: int = 1, *, text: bool = False) -> Data:
    """Classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 30, 4))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=n + 30)
    y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    named = np.array(["low", "mid", "top"])[y] if text else y
    return Data(X[:n], named[:n], X[n:])


def series(n: int = 120) -> Data:
    """One feature in equal steps."""
    X = np.linspace(0, 6, n)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(2).normal(size=n)
    return Data(X, y, np.linspace(0.1, 5.9, 25)[:, None])


def weighted(data: Data, *, zeros: bool = False) -> Data:
    weight = np.random.default_rng(3).uniform(0.2, 2.0, len(data.y))
    if zeros:
        weight[::7] = 0.0
    return data.also(sample_weight=weight)


def grouped(data: Data, groups: int = 6) -> Data:
    return data.also(groups=np.arange(len(data.y)) * 7 % groups)


def given(data: Data) -> Data:
    """A precomputed kernel matrix of the rows."""
    return data._replace(X=rbf_kernel(data.X, gamma=0.2), new=rbf_kernel(data.new, data.X, gamma=0.2))


def as_torch(data: Data) -> Data:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return Data(torch.asarray(data.X), torch.asarray(data.y), torch.asarray(data.new))


def single(data: Data) -> Data:
    return data._replace(X=data.X.astype(np.float32), new=data.new.astype(np.float32))


def csr(data: Data) -> Data:
    from scipy.sparse import csr_array

    return data._replace(X=csr_array(np.maximum(data.X, 0)), new=csr_array(np.maximum(data.new, 0)))


def dask_rows(data: Data) -> Data:
    import dask.array as da

    return data._replace(X=da.from_array(data.X, chunks=(64, data.X.shape[1])))


def houses(target: str = "price", n: int = 120) -> Data:
    frame = pd.read_csv(HOUSES).drop(columns="house")
    frame.loc[::11, "year_built"] = np.nan
    new = frame.iloc[n : n + 30].drop(columns=target)
    return Data(frame.iloc[:n].drop(columns=target), frame[target].iloc[:n], new)


def rational(A: Any, B: Any) -> Any:
    """A kernel of the user's own."""
    difference = np.asarray(A)[:, None, :] - np.asarray(B)[None, :, :]
    return 1.0 / (1.0 + 0.3 * (difference**2).sum(axis=-1))


class Tuned:
    """An estimator whose `fit` runs `onefold tune` on a CSV file."""

    def fit(self, path: Any, target: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "onefold", "tune", str(path), "--target", target, "--quiet"]
            options = ["--id", "house", "--simple", "--out", f"{folder}/found", "--jobs", "1"]
            subprocess.run([*command, *options], check=True, capture_output=True, env=ONE_THREAD)
            return onefold.load(f"{folder}/found/model.onefold")


class Driven:
    """An estimator whose `fit` asks its objective for some cells, and fits the best of them."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, **fit: Any) -> Any:
        objective = self.estimator.objective(X, y, **fit)
        scores = [objective(gamma=gamma, alpha=alpha) for gamma, alpha in ((0.1, 0.1), (0.03, 1e-3))]
        scores += list(objective.scores(gamma=0.3, alphas=[1e-3, 1e-2, 1e-1]))
        fitted = objective.fit()
        fitted.path_ = {"asked": scores, "best": objective.best_score_}  # kept as a search's would be
        return fitted


WIDTHS = {"gammas": [0.01, 0.05, 0.2, 1.0], "alphas": [1e-4, 1e-2, 1.0]}
FEW = {"alphas": [1e-4, 1e-2, 1.0], "max_rounds": 2}
RELATIVE = {"gammas": [0.3, 1.0, 3.0], **FEW}
OWN_SCORER = make_scorer(mean_absolute_error, greater_is_better=False)

# fmt: off
CASES: dict[str, tuple[Any, Callable[[], Data]]] = {
    # Given hyper-parameters: kernels.
    "lssvr-rbf": (LSSVR(gamma=0.1, alpha=0.1), numbers),
    "lssvr-scale-jackknife": (LSSVR(gamma="scale", alpha=0.3, intervals="jackknife+"), numbers),
    "lssvr-targets-alphas-cv+": (LSSVR(gamma=0.1, alpha=[0.1, 1.0, 0.01], intervals="cv+"),
        lambda: numbers(targets=3)),
    "lssvr-normalised-zero-weights": (LSSVR(gamma=0.1, alpha=0.1, intervals="normalised"),
        lambda: weighted(numbers(), zeros=True)),
    "lssvr-polynomial": (LSSVR("poly", gamma=0.2, degree=2, coef0=0.5, alpha=0.3), numbers),
    "lssvr-metric-kernel": (LSSVR(RBF(0.2, metric=[1.0, 0.5, 0.2, 2.0, 1.0]) + Linear(), alpha=0.1),
        numbers),
    "ridge-matern52-targets": (KernelRidge("matern52", gamma=0.1, alpha=[0.1, 1.0]),
        lambda: numbers(targets=2)),
    "ridge-widths-per-feature": (KernelRidge(RBF((0.1, 0.2, 0.05, 0.3, 0.1)) * Matern(0.05), alpha=0.1),
        numbers),
    "ridge-precomputed": (KernelRidge("precomputed", alpha=0.1), lambda: given(numbers())),
    "lssvc-callable-sigmoid": (LSSVC(rational, alpha=0.1, calibration="sigmoid"), labels),
    "lssvc-product-text": (LSSVC(RBF(0.1) * Laplacian(0.1) + Polynomial(0.1, 2, 1.0), alpha=0.3),
        lambda: labels(classes=3, text=True)),
    "lssvc-class-weight-isotonic": (LSSVC(gamma=0.3, class_weight={0: 1.0, 1: 3.0},
        calibration="isotonic"), labels),
    "lssvc-torch": (LSSVC(gamma=0.3, alpha=0.1), lambda: as_torch(labels(classes=3))),
    "lssvc-sparse-rows": (LSSVC(gamma=0.3, alpha=0.1), lambda: csr(labels())),
    # Given hyper-parameters: approximations.
    "lssvr-nystroem-kmeans": (LSSVR(gamma=0.1, alpha=0.1, approximation=Nystroem(30), intervals="cv+"),
        lambda: numbers(150)),
    "ridge-nystroem-pivoted": (KernelRidge("laplacian", gamma=0.1, approximation=Nystroem(30,
        method="rpcholesky")), lambda: numbers(150)),
    "lssvr-nystroem-own-rows": (LSSVR(gamma=0.1, alpha=0.1, approximation=Nystroem(numbers(40,
        seed=9).X)), lambda: single(numbers(300, targets=2))),
    "lssvr-cg": (LSSVR(gamma=0.1, approximation=ConjugateGradients(20, tolerance=1e-9)),
        lambda: weighted(numbers(150, targets=2))),
    "lssvr-grid": (LSSVR(gamma=0.5, alpha=0.1, approximation=Grid(points=20)),
        lambda: weighted(numbers(200, d=2))),
    "lssvr-toeplitz-averaged": (LSSVR(gamma=0.1, approximation=Toeplitz()), lambda: numbers(90)),
    # Chosen: splitters.
    "lssvrcv-default-grid": (LSSVRCV(), numbers),
    "lssvrcv-loo": (LSSVRCV(cv="loo", **WIDTHS), lambda: weighted(numbers())),
    "lssvrcv-group-zero-weights": (LSSVRCV("matern", cv=GroupKFold(4), **WIDTHS),
        lambda: grouped(weighted(numbers(), zeros=True))),
    "lssvrcv-repeated-1se": (LSSVRCV(cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        select="1se", **WIDTHS), numbers),
    "ridgecv-time-series": (KernelRidgeCV(cv=TimeSeriesSplit(4), **WIDTHS), numbers),
    "ridgecv-gap-series": (KernelRidgeCV(cv=GapKFold(4, gap=3), **WIDTHS), series),
    "lssvccv-default-grid": (LSSVCCV(), lambda: labels(classes=3, text=True)),
    "lssvccv-stratified-balanced": (LSSVCCV(cv=StratifiedKFold(4, shuffle=True, random_state=0),
        class_weight="balanced", **WIDTHS), lambda: weighted(labels(), zeros=True)),
    # Chosen: criteria and calibrations.
    "lssvccv-criteria": (LSSVCCV(criterion=["error", "accuracy", "press", "span", "gcv", "evidence",
    "roc_auc"], calibration="sigmoid", **WIDTHS), labels),
    "lssvccv-log-loss": (LSSVCCV(criterion=["neg_log_loss", "f1_macro", "balanced_accuracy"],
        calibration="isotonic", **WIDTHS), lambda: labels(150, classes=3)),
    "lssvccv-radius-margin": (LSSVCCV(criterion=["radius_margin", "cost"], **WIDTHS), labels),
    "lssvrcv-criteria": (LSSVRCV(criterion=["cov", "mse", "mape", "press", "span", "gcv", "cost",
        OWN_SCORER], intervals="normalised", **WIDTHS), lambda: weighted(numbers())),
    "ridgecv-gcv": (KernelRidgeCV("poly", degree=2, criterion="gcv", **WIDTHS), numbers),
    "lssvrcv-press-jackknife": (LSSVRCV(criterion="press", intervals="jackknife+", **WIDTHS),
        lambda: numbers(targets=2)),
    # Chosen: approximations, other rows.
    "lssvrcv-nystroem": (LSSVRCV(approximation=Nystroem(40), **WIDTHS),
        lambda: weighted(numbers(300), zeros=True)),
    "lssvccv-nystroem-pivoted": (LSSVCCV(approximation=Nystroem(30, method="rpcholesky"),
        refit="exact", **WIDTHS), lambda: labels(200, classes=3)),
    "lssvrcv-ding2012": (LSSVRCV(approximation=Nystroem(40, method="uniform", rank=15,
        predict="rows"), **WIDTHS), lambda: numbers(120)),
    "lssvrcv-grid": (LSSVRCV(approximation="grid", gammas=[0.1, 0.5], alphas=[1e-2, 1.0]),
        lambda: numbers(200, d=2)),
    "lssvrcv-toeplitz": (LSSVRCV(approximation="toeplitz", **WIDTHS), series),
    "lssvrcv-toeplitz-press": (LSSVRCV(approximation=Toeplitz(), criterion=["press", "gcv"],
        intervals=None, **WIDTHS), series),
    "ridgecv-circulant-matrix": (KernelRidgeCV(approximation=Circulant(levels=1, order="given",
        validate="matrix"), refit="same", **WIDTHS), series),
    "lssvrcv-float32-torch": (LSSVRCV(approximation=Nystroem(30, method="uniform"), **WIDTHS),
        lambda: as_torch(single(numbers(200)))),
    "lssvrcv-dask": (LSSVRCV(approximation=Nystroem(30), **WIDTHS), lambda: dask_rows(numbers(200))),
    "lssvrcv-whitened-sums": (LSSVRCV(approximation=Nystroem(500, method="uniform"), gammas=[0.1],
        alphas=[0.01, 1.0], check=True), lambda: numbers(20_000)),
    "lssvrcv-single-sums": (LSSVRCV("laplacian", approximation=Nystroem(600, method="uniform"),
        gammas=[0.1], alphas=[0.01, 1.0]), lambda: single(weighted(numbers(30_000)))),
    "lssvrcv-grid-iterated": (LSSVRCV("laplacian", approximation="grid", gammas=[3.0], alphas=[0.1,
        1.0], cv=3), lambda: numbers(200, d=2)),
    "lssvrcv-toeplitz-iterated": (LSSVRCV(approximation="toeplitz", gammas=[2.0], alphas=[0.1, 1.0],
        cv=3), lambda: series(1200)),
    "lssvrcv-auto-2100": (LSSVRCV(gammas=[0.1], alphas=[0.01, 1.0], intervals=None),
        lambda: numbers(2100)),
    # Families, metrics, blends, searches.
    "lssvrcv-auto-auto-blend": (LSSVRCV("auto", metric="auto", blend=True, **FEW), lambda: numbers(120)),
    "lssvccv-auto-auto-blend": (LSSVCCV("auto", metric="auto", blend=True, **RELATIVE),
        lambda: labels(120, classes=3)),
    "lssvrcv-blend-weights": (LSSVRCV(["rbf", "matern12"], blend=True, alphas=[1e-3, 0.1]),
        lambda: weighted(numbers(), zeros=True)),
    "lssvrcv-diagonal": (LSSVRCV("laplacian", metric="diagonal", **RELATIVE), numbers),
    "ridgecv-full-targets": (KernelRidgeCV("rbf", metric="full", **RELATIVE),
        lambda: numbers(targets=2)),
    "lssvrcv-metric-rows": (LSSVRCV("auto", metric="auto", metric_rows=80, blend=True,
        random_state=3, **RELATIVE), lambda: numbers(300)),
    "lssvrcv-metric-nystroem": (LSSVRCV("rbf", metric="full", metric_rows=80,
        approximation=Nystroem(40), random_state=0, **RELATIVE), lambda: weighted(numbers(300))),
    "lssvrcv-halving": (LSSVRCV(search=Halving(min_resources=40)), lambda: numbers(300)),
    "lssvrcv-objective": (Driven(LSSVRCV()), lambda: weighted(numbers())),
    # Few centres.
    "sparse-lssvr": (SparseLSSVR(**WIDTHS), numbers),
    "sparse-lssvr-robust": (SparseLSSVR(weights="robust", tolerance=0.1, max_centres=40, drop=0.2,
        **WIDTHS), lambda: weighted(numbers(150), zeros=True)),
    "sparse-lssvc": (SparseLSSVC(drop=0.2, class_weight="balanced", calibration="sigmoid", **WIDTHS),
        lambda: labels(classes=3)),
    # Tables.
    "table-regressor": (TableR(kernel=["rbf", "laplacian"], metric="diagonal"), houses),
    "table-classifier": (TableC(simple=True, class_weight="balanced"), lambda: houses("heating", 100)),
    "table-from-csv": (Tuned(), lambda: Data(HOUSES, "price", HOUSES)),
}
# fmt: on


def configured(name: str) -> tuple[Any, Data]:
    """A fresh estimator, and its rows."""
    estimator, data = CASES[name]
    return copy.deepcopy(estimator), data()
