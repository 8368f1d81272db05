"""Every kind of wrong input gets one sentence with the cause, before long work; awkward input fits."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold.approximations import exact
from onefold.machine import memory

RNG = np.random.default_rng(17)
X = RNG.standard_normal((20, 3))
NUMBERS = RNG.standard_normal(20)
LABELS = np.arange(20) % 2
EVEN = np.arange(0, 20, 2)
ONE_NAN = np.where(np.arange(20) == 4, np.nan, 1.0)
GRID = {"gammas": [0.1, 2.0], "alphas": [0.01, 1.0]}
FIXED = [LSSVC, LSSVR, KernelRidge]
REGRESSORS = [LSSVR, KernelRidge, LSSVRCV, KernelRidgeCV]
SEARCHES = [LSSVCCV, LSSVRCV, KernelRidgeCV, SparseLSSVC, SparseLSSVR]
CLASSIFIERS = [LSSVC, LSSVCCV, SparseLSSVC]
ALL = [*FIXED, *SEARCHES]
EVERY = pytest.mark.parametrize("kind", ALL)


def targets(kind: type, n: int = 20, rng: Any = RNG, classes: int = 2) -> Any:
    return rng.permutation(np.arange(n) % classes) if kind in CLASSIFIERS else rng.normal(size=n)


def spoiled(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


BAD: list[tuple[list[type], dict[str, Any], str]] = [  # kinds; X, y, weight or parameters; words
    (ALL, {"X": spoiled(np.nan)}, "NaN"),
    (ALL, {"X": spoiled(np.inf)}, "infinity"),
    (ALL, {"X": np.full((20, 2), "text")}, "X contains text .*OneHotEncoder"),
    (ALL, {"X": np.array([["a", 1.0]] * 20, dtype=object)}, "X contains text .*OneHotEncoder"),
    (ALL, {"X": X[:, 0]}, "2D array"),
    (ALL, {"X": X[None]}, "dim 3"),
    (ALL, {"X": np.empty((0, 3))}, "0 sample"),
    (ALL, {"X": np.empty((20, 0))}, "0 feature"),
    (ALL, {"X": X[:19]}, "19"),
    (REGRESSORS, {"y": ONE_NAN}, "NaN"),
    (REGRESSORS, {"y": np.array(["a"] * 20)}, "could not convert|dtype"),
    (REGRESSORS, {"y": np.zeros((20, 2, 2))}, "dim|shape"),
    (REGRESSORS, {"y": None}, "y cannot be None|requires y"),
    (CLASSIFIERS, {"y": np.ones(20)}, "only one class"),
    (SEARCHES[::3], {"y": LABELS, "cv": [(EVEN, EVEN + 1)]}, "only one class"),
    (CLASSIFIERS, {"y": NUMBERS}, "continuous"),
    (CLASSIFIERS, {"y": np.zeros((20, 2))}, "1d array|one-dimensional|shape"),
    (CLASSIFIERS, {"y": ONE_NAN}, "NaN"),
    *(
        (CLASSIFIERS, {"class_weight": {0: 1.0, 1: w}}, "class_weight must contain finite, non-negative")
        for w in (-1.0, np.nan, np.inf)
    ),
    (ALL, {"sample_weight": np.full(20, -1.0)}, "negative"),
    (ALL, {"sample_weight": np.zeros(20)}, "at least one non-zero"),
    (ALL, {"sample_weight": np.ones(19)}, "shape"),
    (ALL, {"sample_weight": np.full(20, np.nan)}, "NaN"),
    *((FIXED, {"alpha": alpha}, "alpha must be greater than 0") for alpha in (0.0, -1.0, np.nan)),
    (FIXED, {"alpha": "small"}, "alpha must be a positive"),
    ([KernelRidge], {"alpha": [0.1, 1.0, 2.0]}, "one per target"),
    (FIXED, {"gamma": 0.0}, "gamma must be greater than 0"),
    (FIXED, {"gamma": "auto"}, "gamma must be a number"),
    (FIXED, {"gamma": [1.0, 2.0]}, "2 widths but X has 3"),
    (FIXED, {"kernel": "gauss"}, "unknown kernel"),
    (FIXED, {"kernel": "precomputed"}, "must be square"),
    (FIXED, {"approximation": "magic"}, "unknown approximation 'magic'"),
    (FIXED, {"n_jobs": 0}, "n_jobs must not be 0"),
    (FIXED, {"random_state": "now"}, "cannot be used to seed"),
    (SEARCHES[:3], {"alphas": []}, "alphas must be a non-empty list"),
    (SEARCHES[:3], {"alphas": [0.1, 0.0]}, "alphas must be greater than 0"),
    (SEARCHES[:3], {"gammas": [-1.0]}, "gammas must be greater than 0"),
    (SEARCHES[:3], {"gammas": ["wide"]}, "gamma must be a number"),
    (SEARCHES[:3], {"gammas": [1.0], "kernel": "linear"}, "no width to search"),
    (SEARCHES[:3], {"gammas": [1.0], "kernel": lambda A, B: A @ B.T}, "no width to search"),
    (SEARCHES[:3], {"cv": 21}, "at most the number of rows"),
    (SEARCHES[:3], {"cv": 1}, "at least 2"),
    (SEARCHES[:3], {"cv": "ten"}, '"loo", "past:5" or a splitter'),
    (SEARCHES[:3], {"cv": KFold}, "cv must be a number of folds"),
    (SEARCHES[:3], {"refit": "never"}, "refit must be"),
    (SEARCHES[:3], {"criterion": "best"}, "unknown criterion 'best'"),
    (SEARCHES[:3], {"criterion": 3}, "unknown criterion 3"),
    (SEARCHES[:3], {"criterion": {"r2": "r2"}}, "unknown criterion"),
    ([LSSVCCV], {"criterion": "mse"}, "for regression"),
    ([LSSVRCV], {"criterion": "error"}, 'use "mse"'),
    *(
        ([LSSVRCV], {"criterion": name}, "needs probabilities")
        for name in ("neg_log_loss", "neg_brier_score")
    ),
    ([LSSVRCV], {"criterion": "roc_auc"}, "needs decision_function or predict_proba"),
]


@pytest.mark.parametrize(("kinds", "given", "words"), BAD)
def test_is_refused_before_any_work(kinds, given, words, monkeypatch) -> None:
    """The kernel matrix is the first long step: no bad input may reach it."""
    monkeypatch.setattr(exact, "gram", pytest.fail)
    for kind in kinds:
        data = {"X": X, "y": targets(kind)} | {k: v for k, v in given.items() if k in ("X", "y")}
        fit = {k: v for k, v in given.items() if k == "sample_weight"}
        settings = {k: v for k, v in given.items() if k not in (*data, *fit)}
        with pytest.raises(ValueError, match=words):
            kind(**settings).fit(data["X"], data["y"], **fit)


@pytest.mark.parametrize("kind", FIXED)
def test_without_memory(kind, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 5000)
    words = r"on 20 rows needs 0\.0 GiB but .* use fewer (rows|landmarks)"
    with pytest.raises(MemoryError, match=words):
        kind().fit(X, targets(kind))


def test_what_only_a_matrix_or_a_prediction_shows() -> None:
    model = LSSVR().fit(X, NUMBERS)
    cases = [
        (lambda: model.predict(X[:, :2]), "2 features, but LSSVR is expecting 3"),
        (lambda: model.predict(spoiled(np.nan)), "NaN"),
        (lambda: model.predict(np.empty((0, 3))), "0 sample"),
        (lambda: LSSVR(lambda a, b: -a @ b.T).fit(X, NUMBERS), "not positive semi-definite"),
        (lambda: LSSVR(lambda a, b: (a @ b.T) * np.inf).fit(X, NUMBERS), "NaN, infinite or very large"),
        (lambda: LSSVR(lambda a, b: a @ (b + b[:1]).T).fit(X, NUMBERS), "not symmetric"),
        (lambda: LSSVR("precomputed").fit(np.eye(20) + np.eye(20, k=1), NUMBERS), "not symmetric"),
        (lambda: LSSVRCV().fit(X[:1], [2.0]), "need at least 2 rows; got n_samples=1"),
        (lambda: KernelRidgeCV().fit(X[:1], [2.0]), "n_samples=1"),
    ]
    K = X @ X.T - 5 * np.eye(20)
    for kind in ALL[:6]:
        cases.append((lambda k=kind: k("precomputed").fit(K, targets(k)), "not positive semi-definite"))
    for act, words in cases:
        with pytest.raises(ValueError, match=words):
            act()
    assert LSSVR().fit(X[:1], [2.0]).predict(X[:1]) == pytest.approx([2.0])
    for kind in (LSSVR, LSSVRCV):
        one, all_equal = (kind().fit(X, NUMBERS, sample_weight=w) for w in (2.0, np.full(20, 2.0)))
        np.testing.assert_array_equal(one.predict(X), all_equal.predict(X))


@pytest.mark.parametrize("criterion", ["mape", "cov", "mse"])
def test_small_integers_as_rows_and_targets(criterion) -> None:
    rows = np.arange(60).reshape(20, 3) ** 2 % 251
    y = np.where(np.arange(20) % 3 == 0, -128, 100)
    small, large = (
        LSSVRCV(criterion=criterion).fit(rows.astype(kind), y.astype(target)).cv_results_
        for kind, target in ((np.uint8, np.int8), (np.int64, np.int64))
    )
    np.testing.assert_array_equal(small["mean_test_score"], large["mean_test_score"])


# -- awkward data: finite numbers, or one clear sentence ---------------------------------------------
KERNELS = ["rbf", "laplacian", "matern", "polynomial", "linear"]
FEW = settings(max_examples=15)


def make(kind: type, kernel: str = "rbf", **more: Any) -> Any:
    if kind not in SEARCHES:
        return kind(kernel, gamma=0.5, alpha=0.1, **more)
    grid = {"alphas": GRID["alphas"]} if kernel == "linear" else GRID
    return kind(kernel, **(grid | {"cv": 2} | more))


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
    if hasattr(model, "predict_proba"):
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(values).all()
    assert values.shape[0] == np.shape(X)[0]
    return True


@EVERY
@given(
    n=st.integers(1, 16),
    distinct=st.integers(1, 16),
    d=st.integers(1, 4),
    kernel=st.sampled_from(KERNELS),
    classes=st.integers(2, 4),
    constant=st.booleans(),
    seed=st.integers(0, 99),
)
@FEW
def test_few_rows_rows_that_come_again_and_columns_that_never_change(
    kind, n, distinct, d, kernel, classes, constant, seed
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(distinct, d))[rng.integers(0, distinct, n)]
    if constant:
        X[:, 1:] = 7.0
    fitted = fit_or_refuse(make(kind, kernel), X, targets(kind, n, rng, classes))
    if n >= 2 * classes:
        assert fitted


@EVERY
@given(exponent=st.integers(-300, 300), kernel=st.sampled_from(KERNELS))
@example(exponent=-149, kernel="linear")
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
    X = rng.normal(size=(18, 2))
    y = rng.normal(size=18)
    plain = make(kind)
    grown = make(kind)
    assert fit_or_refuse(plain, X, y)
    if fit_or_refuse(grown, X, 10.0**exponent * y):
        bound = 1e-8 * np.abs(y).max()
        assert_allclose(grown.predict(X) / 10.0**exponent, plain.predict(X), rtol=0, atol=bound)
