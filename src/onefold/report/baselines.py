"""Simple models on the splits of the fit: a constant, a linear model, a shallow tree.

They have the matrix that the machine has, and settings that nobody chose: what is left between them and
the machine is what its work has brought.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onefold.linalg import is_sparse
from onefold.machine.threads import limit_blas
from onefold.report.folds import Folds

_MOST_NUMBERS = 4_000_000  # of training rows × features × classes × splits for each model
_FEWEST_ROWS = 500
_DEPTH = 4


@dataclass(frozen=True)
class Baseline:
    """A simple model's predictions of the rows that its splits test, NaN elsewhere.

    Attributes
    ----------
    name : str
    values : ndarray (n, targets) or (n, classes)
        Numbers, or probabilities in the order of the classes.
    train_rows : int or None
        So many rows of each training part were drawn; None for all.
    """

    name: str
    values: np.ndarray
    train_rows: int | None = None


def baselines(
    X: Any, y: np.ndarray, folds: Folds, *, classes: np.ndarray | None, weight: Any = None
) -> list[Baseline]:
    """Held-out predictions of every simple model; O(splits · n d²) for the linear one.

    `X` is None where there are no features, only a kernel matrix: then there is the constant alone.
    """
    kinds = _classifiers() if classes is not None else _regressors(is_sparse(X))
    found = []
    for name, make in kinds.items():
        if X is None and name != next(iter(kinds)):
            continue
        features = np.zeros((len(y), 1)) if X is None else X
        found.append(_tried(name, make, features, y, folds, classes, weight))
    return found


def _regressors(sparse: bool) -> dict[str, Callable[[], Any]]:
    ridge: Any = Ridge(1.0) if sparse else RidgeCV(np.geomspace(1e-3, 1e3, 7))
    return {
        "always the mean": DummyRegressor,
        "linear ridge": lambda: make_pipeline(StandardScaler(with_mean=not sparse), ridge),
        f"tree of depth {_DEPTH}": lambda: DecisionTreeRegressor(max_depth=_DEPTH, random_state=0),
    }


def _classifiers() -> dict[str, Callable[[], Any]]:
    def logistic() -> Any:
        return make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=100, tol=1e-3))

    return {
        "always the most frequent class": lambda: DummyClassifier(strategy="prior"),
        "logistic regression": logistic,
        f"tree of depth {_DEPTH}": lambda: DecisionTreeClassifier(max_depth=_DEPTH, random_state=0),
    }


def _tried(
    name: str,
    make: Callable[[], Any],
    X: Any,
    y: np.ndarray,
    folds: Folds,
    classes: np.ndarray | None,
    weight: Any,
) -> Baseline:
    """The mean of its predictions of each row, over the splits that test the row."""
    columns = len(classes) if classes is not None else (1 if y.ndim == 1 else y.shape[1])
    total, times = np.zeros((len(y), columns)), np.zeros(len(y))
    work = X.shape[1] * columns * len(folds.splits)
    most = max(_FEWEST_ROWS, _MOST_NUMBERS // work)
    drawn = None
    for train, test in folds.splits:
        if weight is not None:
            train = train[weight[train] > 0]
        if len(train) > most:
            drawn = most
            train = np.sort(np.random.default_rng(0).choice(train, most, replace=False))
        predicted = _predicted(make(), X, y, train, test, classes, weight)
        np.add.at(total, test, predicted)
        np.add.at(times, test, 1.0)
    with np.errstate(invalid="ignore"):
        values = np.where(times[:, None] > 0, total / times[:, None], np.nan)
    return Baseline(name, values, drawn)


def _predicted(
    model: Any,
    X: Any,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    classes: np.ndarray | None,
    weight: Any,
) -> np.ndarray:
    last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
    given = {} if weight is None else {f"{last}sample_weight": weight[train]}
    with warnings.catch_warnings(), limit_blas(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        if classes is not None and len(np.unique(y[train])) < 2:
            model, given = DummyClassifier(strategy="prior"), {}
        model.fit(X[train], y[train], **given)
        if classes is None:
            values = np.asarray(model.predict(X[test]), dtype=np.float64)
            return values.reshape(len(test), -1)
        found = np.zeros((len(test), len(classes)))
        found[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X[test])
        return found
