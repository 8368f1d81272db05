"""Every kind of wrong input gets one sentence with the cause, before any long work."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import exact
from onefold.machine import memory

RNG = np.random.default_rng(17)
X = RNG.standard_normal((20, 3))
NUMBERS = RNG.standard_normal(20)
LABELS = np.arange(20) % 2
REGRESSORS = [LSSVR, KernelRidge, LSSVRCV, KernelRidgeCV]
CLASSIFIERS = [LSSVC, LSSVCCV]
CHOSEN = [LSSVCCV, LSSVRCV, KernelRidgeCV]


@pytest.fixture(autouse=True)
def no_long_work(monkeypatch) -> None:
    """The kernel matrix is the first long step: no bad input may reach it."""

    def refuse(*args, **kwargs):
        raise AssertionError("long work began before the input was checked")

    monkeypatch.setattr(exact, "gram", refuse)


def target(kind):
    return LABELS if kind in CLASSIFIERS else NUMBERS


def spoiled(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (spoiled(np.nan), ValueError, "NaN"),
        (spoiled(np.inf), ValueError, "infinity"),
        (np.full((20, 2), "text"), ValueError, "X holds text .*OneHotEncoder"),
        (np.array([["a", 1.0]] * 20, dtype=object), ValueError, "X holds text .*OneHotEncoder"),
        (X[:, 0], ValueError, "2D array"),
        (X[None], ValueError, "dim 3"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (np.empty((20, 0)), ValueError, "0 feature"),
        (X[:19], ValueError, "19"),
    ],
    ids=["nan", "inf", "text", "object", "vector", "cube", "no rows", "no columns", "length"],
)
def test_rows(kind, rows, error, words) -> None:
    with pytest.raises(error, match=words):
        kind().fit(rows, target(kind))


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.where(np.arange(20) == 4, np.nan, 1.0), "NaN"),
        (np.array(["a"] * 20), "could not convert|dtype"),
        (np.zeros((20, 2, 2)), "dim|shape"),
        (None, "y cannot be None|requires y"),
    ],
    ids=["nan", "text", "cube", "none"],
)
def test_targets(kind, y, words) -> None:
    with pytest.raises(ValueError, match=words):
        kind().fit(X, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ones(20), "one class only"),
        (NUMBERS, "continuous"),
        (np.zeros((20, 2)), "1d array|one-dimensional|shape"),
        (np.where(np.arange(20) == 4, np.nan, 1.0), "NaN"),
    ],
    ids=["one class", "continuous", "two columns", "nan"],
)
def test_labels(kind, y, words) -> None:
    with pytest.raises(ValueError, match=words):
        kind().fit(X, y)


@pytest.mark.parametrize("kind", [LSSVR, KernelRidge, LSSVC])
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"alpha": 0.0}, "alpha must be greater than 0"),
        ({"alpha": -1.0}, "alpha must be greater than 0"),
        ({"alpha": np.nan}, "alpha must be greater than 0"),
        ({"alpha": "small"}, "alpha must be positive"),
        ({"gamma": 0.0}, "gamma must be greater than 0"),
        ({"gamma": -2.0}, "gamma must be greater than 0"),
        ({"gamma": "auto"}, "gamma must be a number"),
        ({"gamma": [1.0, 2.0]}, "2 widths but X has 3"),
        ({"kernel": "gauss"}, "unknown kernel"),
        ({"kernel": "precomputed"}, "must be square"),
        ({"approximation": "magic"}, "unknown approximation 'magic'"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
    ids=str,
)
def test_parameters(kind, parameters, words) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**parameters).fit(X, target(kind))


@pytest.mark.parametrize("kind", CHOSEN)
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"alphas": []}, "alphas must be a non-empty list"),
        ({"alphas": [0.1, 0.0]}, "alphas must be greater than 0"),
        ({"gammas": [-1.0]}, "gammas must be greater than 0"),
        ({"gammas": ["wide"]}, "gamma must be a number"),
        ({"gammas": [1.0], "kernel": "linear"}, "no width to search"),
        ({"cv": 21}, "at most the number of rows"),
        ({"cv": 1}, "at least 2"),
        ({"cv": "ten"}, '"loo" or a splitter'),
        ({"criterion": "best"}, "unknown criterion 'best'"),
        ({"refit": "never"}, "refit must be"),
    ],
    ids=str,
)
def test_search_parameters(kind, parameters, words) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**parameters).fit(X, target(kind))


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.full(20, -1.0), "negative"),
        (np.zeros(20), "at least one non-zero"),
        (np.ones(19), "shape"),
        (np.full(20, np.nan), "NaN"),
    ],
    ids=["negative", "zero", "length", "nan"],
)
def test_weights(kind, weights, words) -> None:
    with pytest.raises(ValueError, match=words):
        kind().fit(X, target(kind), weights)


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
def test_more_rows_than_memory(kind, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 5000)
    with pytest.raises(
        MemoryError, match=r"on 20 rows needs 0\.0 GiB but .* use fewer (rows|landmarks)"
    ):
        kind().fit(X, target(kind))


@pytest.mark.parametrize("kind", REGRESSORS + CLASSIFIERS)
def test_unfitted(kind, tmp_path) -> None:
    with pytest.raises(NotFittedError):
        kind().predict(X)
    with pytest.raises(NotFittedError):
        kind().save(tmp_path / "model.onefold")


class TestAfterTheMatrix:
    """What can only be seen once there is a matrix, and prediction."""

    @pytest.fixture(autouse=True)
    def no_long_work(self) -> None:
        """Let the matrix be built here."""

    def test_another_number_of_features(self) -> None:
        with pytest.raises(ValueError, match="2 features, but LSSVR is expecting 3"):
            LSSVR().fit(X, NUMBERS).predict(X[:, :2])

    def test_nan_at_prediction(self) -> None:
        with pytest.raises(ValueError, match="NaN"):
            LSSVR().fit(X, NUMBERS).predict(spoiled(np.nan))

    def test_an_indefinite_kernel(self) -> None:
        K = X @ X.T - 5 * np.eye(20)
        for kind in REGRESSORS + CLASSIFIERS:
            with pytest.raises(ValueError, match="not positive semi-definite"):
                kind(kernel="precomputed").fit(K, target(kind))
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LSSVR(lambda a, b: -a @ b.T).fit(X, NUMBERS)

    def test_a_matrix_that_is_no_kernel(self) -> None:
        with pytest.raises(ValueError, match="not symmetric"):
            LSSVR(kernel="precomputed").fit(np.eye(20) + np.eye(20, k=1) / 9, NUMBERS)
        with pytest.raises(ValueError, match="NaN or infinite"):
            LSSVR(lambda a, b: (a @ b.T) * np.inf).fit(X, NUMBERS)

    def test_one_row(self) -> None:
        model = LSSVR().fit(X[:1], [2.0])
        assert model.predict(X[:1]) == pytest.approx([2.0])
        for kind in (LSSVRCV, KernelRidgeCV):
            with pytest.raises(ValueError, match="n_samples=1"):
                kind().fit(X[:1], [2.0])

    def test_constant_and_duplicated_columns_and_rows(self) -> None:
        rows = np.column_stack([X, X[:, 0], np.ones(20)])[np.arange(20) // 2]
        for kind in REGRESSORS + CLASSIFIERS:
            model = kind().fit(rows, target(kind))
            assert np.isfinite(model.expansion_.coef).all()

    @pytest.mark.parametrize("kind", CLASSIFIERS)
    @pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
    def test_weights_of_classes_that_are_none(self, kind, wrong) -> None:
        labels = np.arange(20) % 3
        with pytest.raises(ValueError, match="class_weight must hold finite numbers, none negative"):
            kind(class_weight={0: 1.0, 1: 1.0, 2: wrong}).fit(X, labels)

    def test_one_weight_for_all(self) -> None:
        for kind in (LSSVR, LSSVRCV):
            one, all_equal = (kind().fit(X, NUMBERS, sample_weight=w) for w in (2.0, np.full(20, 2.0)))
            np.testing.assert_array_equal(one.predict(X), all_equal.predict(X))

    def test_a_splitter_that_was_not_made(self) -> None:
        with pytest.raises(ValueError, match="cv must be a number of folds"):
            LSSVRCV(cv=KFold).fit(X, NUMBERS)

    @pytest.mark.parametrize("criterion", ["mape", "cov", "mse"])
    def test_small_integers_as_targets(self, criterion) -> None:
        y = np.where(np.arange(20) % 3 == 0, -128, 100)
        small, large = (
            LSSVRCV(criterion=criterion).fit(X, y.astype(kind)).cv_results_["mean_test_score"]
            for kind in (np.int8, np.int64)
        )
        np.testing.assert_array_equal(small, large)
