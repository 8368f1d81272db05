"""Any shape that is allowed gives finite numbers or one clear sentence: all eight estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

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

GRID = {"gammas": [0.1, 2.0], "alphas": [0.01, 1.0]}
CLASSIFIERS = [LSSVC, LSSVCCV, SparseLSSVC]
SEARCHES = [LSSVCCV, LSSVRCV, KernelRidgeCV, SparseLSSVC, SparseLSSVR]
ALL = [LSSVC, LSSVR, KernelRidge, *SEARCHES]
EVERY = pytest.mark.parametrize("kind", ALL)
KERNELS = ["rbf", "laplacian", "matern", "polynomial", "linear"]
FEW = settings(max_examples=25)


def make(kind: type, kernel: str = "rbf", **more: Any) -> Any:
    if kind not in SEARCHES:
        return kind(kernel, gamma=0.5, alpha=0.1, **more)
    grid = {"alphas": GRID["alphas"]} if kernel == "linear" else GRID
    return kind(kernel, **(grid | {"cv": 2} | more))


def targets(kind: type, n: int, rng: Any, classes: int = 2) -> Any:
    if kind not in CLASSIFIERS:
        return rng.normal(size=n)
    return rng.permutation(np.arange(n) % classes)


def fit_or_refuse(model: Any, X: Any, y: Any, weight: Any = None) -> bool:
    """Fit; finite predictions, or a ValueError of one sentence. Tells which it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        refusal = None
        try:
            model.fit(X, y, weight)
        except ValueError as error:
            refusal = str(error)
    if refusal is not None:
        assert len(refusal) > 20
        assert "\n" not in refusal.strip()
        return False
    values = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    assert np.isfinite(values).all()
    assert values.shape[0] == np.shape(X)[0]
    return True


@EVERY
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 4),
    kernel=st.sampled_from(KERNELS),
    classes=st.integers(2, 4),
    seed=st.integers(0, 99),
)
@FEW
def test_few_rows(kind, n, d, kernel, classes, seed) -> None:
    rng = np.random.default_rng(seed)
    fitted = fit_or_refuse(make(kind, kernel), rng.normal(size=(n, d)), targets(kind, n, rng, classes))
    if n >= 2 * classes:
        assert fitted


@EVERY
@given(
    distinct=st.integers(1, 6),
    kernel=st.sampled_from(KERNELS),
    constant=st.booleans(),
    seed=st.integers(0, 99),
)
@FEW
def test_rows_that_come_again_and_columns_that_never_change(
    kind, distinct, kernel, constant, seed
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(distinct, 3))[rng.integers(0, distinct, 16)]
    if constant:
        X[:, 1:] = 7.0
    assert fit_or_refuse(make(kind, kernel), X, targets(kind, 16, rng))


@EVERY
@given(dtype=st.sampled_from([np.int8, np.uint16, np.int64, np.float16, np.float32, bool, object]))
@FEW
def test_types_of_numbers(kind, dtype) -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, size=(20, 3)) + (0 if dtype is bool else rng.integers(0, 3, size=(20, 3)))
    y = targets(kind, 20, rng)
    plain, typed = make(kind).fit(X.astype(float), y), make(kind).fit(X.astype(dtype), y)
    values = [
        m.decision_function(X.astype(float)) if kind in CLASSIFIERS else m.predict(X.astype(float))
        for m in (plain, typed)
    ]
    assert_allclose(values[1], values[0], rtol=0, atol=1e-4)


@EVERY
@given(exponent=st.integers(-300, 300), kernel=st.sampled_from(KERNELS))
@FEW
def test_rows_of_any_size(kind, exponent, kernel) -> None:
    """What overflows is refused; what does not is finite."""
    rng = np.random.default_rng(4)
    fit_or_refuse(make(kind, kernel), 10.0**exponent * rng.normal(size=(18, 2)), targets(kind, 18, rng))


@pytest.mark.parametrize("kind", [k for k in ALL if k not in CLASSIFIERS])
@given(exponent=st.integers(-300, 150))
@FEW
def test_targets_of_any_size(kind, exponent) -> None:
    """Squared errors of targets near the ends of the range vanish or overflow: refused, or as ever."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(18, 2)), rng.normal(size=18)
    plain, grown = make(kind), make(kind)
    assert fit_or_refuse(plain, X, y)
    if fit_or_refuse(grown, X, 10.0**exponent * y):
        bound = 1e-8 * np.abs(y).max()
        assert_allclose(grown.predict(X) / 10.0**exponent, plain.predict(X), rtol=0, atol=bound)


@pytest.mark.parametrize("kind", [LSSVCCV, SparseLSSVC])
@given(rare=st.integers(1, 4), folds=st.integers(2, 4), seed=st.integers(0, 20))
@FEW
def test_folds_that_miss_a_class(kind, rare, folds, seed) -> None:
    """A training part without one of three classes serves; one with a single class is refused."""
    rng = np.random.default_rng(seed)
    y = np.sort(np.r_[np.zeros(8, int), np.ones(8, int), np.full(rare, 2)])
    fold = rng.integers(0, folds, y.size)
    fold[y == 2] = 0
    cv = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    if all(train.size and test.size and np.unique(y[train]).size > 1 for train, test in cv):
        assert fit_or_refuse(make(kind, cv=cv), rng.normal(size=(y.size, 2)), y)
    only = [(np.flatnonzero(y == 0), np.flatnonzero(y != 0))]
    with pytest.raises(ValueError, match="one class only"):
        make(kind, cv=only).fit(rng.normal(size=(y.size, 2)), y)


@EVERY
def test_weights_that_leave_one_class_or_one_row(kind) -> None:
    """Weight 0 is absence: what is left must be a problem."""
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(16, 2)), targets(kind, 16, rng)
    weight = np.zeros(16)
    weight[y == y[0]] = 1.0
    if kind in CLASSIFIERS:
        with pytest.raises(ValueError, match="class"):
            make(kind).fit(X, y, weight)
    else:
        fit_or_refuse(make(kind), X, y, weight)


@pytest.mark.parametrize("kind", SEARCHES)
@given(gone=st.sets(st.integers(0, 15), max_size=12))
@FEW
def test_test_folds_without_weight(kind, gone) -> None:
    """A fold whose test rows all weigh 0 has no score: others decide, or a sentence says so."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(16, 2)), np.arange(16) % 2 if kind in CLASSIFIERS else rng.normal(size=16)
    weight = np.ones(16)
    weight[list(gone)] = 0.0
    cv = [(np.delete(np.arange(16), part), part) for part in np.array_split(np.arange(16), 4)]
    fit_or_refuse(make(kind, cv=cv), X, y, weight)
