"""Families, metrics and blends on any table, in scikit-learn's ways; what cannot be is said."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.01, 0.1, 1.0], "cv": 3, "max_rounds": 2}
ALL = {"kernel": "auto", "metric": "auto", "blend": True, **GRID}
RNG = np.random.default_rng(9)
X = RNG.standard_normal((50, 4))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.standard_normal(50)
NEW = RNG.standard_normal((6, 4))


def fitted(X, y, kind=LSSVRCV, **options):
    return kind(**{**ALL, **options}).fit(X, y)


def sound(model, X, y):
    """What every fit promises."""
    n, d = X.shape
    table = model.cv_results_
    few = model.metric_rows or n
    assert table["params"][model.best_index_] == model.best_params_
    assert np.isfinite(model.best_score_)
    if model.metric_ is not None:
        assert model.metric_.shape in ((d,), (d, d))
        assert np.isfinite(model.metric_).all()
    if model.feature_importances_ is not None:
        assert min(abs(model.feature_importances_.sum() - np.array([0.0, 1.0]))) < 1e-9
        assert (model.feature_importances_ >= 0).all()
    sizes = {one["rows"] for one in model.metric_history_}
    assert sizes == {n} if few >= n else sizes <= set(range(1, max(few, 2) + 2))
    predicted = model.predict(X)
    assert predicted.shape == np.shape(y)
    assert np.isin(predicted, y).all() if isinstance(model, LSSVCCV) else np.isfinite(predicted).all()


@st.composite
def awkward(draw):
    """Few rows of few features: some constant, some repeated, some zero; any number of targets."""
    n = draw(st.integers(3, 24))
    d = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X = rng.standard_normal((n, d))
    if draw(st.booleans()):
        X = np.round(X)
    if draw(st.booleans()):
        X[:, draw(st.integers(0, d - 1))] = draw(st.sampled_from([0.0, 7.5, -1e6]))
    if draw(st.booleans()):
        X = X[rng.integers(0, n, n)]
    what = draw(st.sampled_from(["number", "two", "constant", "labels", "classes"]))
    y = X.sum(axis=1) + rng.standard_normal(n)
    if what == "two":
        y = np.column_stack([y, rng.standard_normal(n)])
    elif what == "constant":
        y = np.full(n, 2.5)
    elif what in ("labels", "classes"):
        y = np.arange(n) % (2 if what == "labels" else 3)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    options = {
        "metric_rows": draw(st.sampled_from([None, 1, 2, n - 1, n, n + 1])),
        "max_rounds": draw(st.integers(1, 2)),
        "metric": draw(st.sampled_from(["auto", "diagonal", "full"])),
        "gammas": draw(st.sampled_from([[1.0], [3.0, 0.3]])),
        "alphas": draw(st.sampled_from([[0.1], [1.0, 0.01, 0.1]])),
        "cv": draw(st.sampled_from([2, KFold(3), KFold(2, shuffle=True, random_state=0)])),
    }
    return X.astype(dtype), y, what, options


@settings(max_examples=30)
@given(awkward())
def test_any_small_table(case) -> None:
    X, y, what, options = case
    labels = what in ("labels", "classes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = fitted(X, y, LSSVCCV if labels else LSSVRCV, **options)
        except ValueError as error:
            if labels and ("class" in str(error) or "split" in str(error)):
                return  # folds that cannot be made of so few rows
            raise
        warnings.simplefilter("error")
        sound(model, X, y)


def test_classes_missing_from_folds() -> None:
    y = np.sort(np.digitize(Y, [-0.5, 0.5]))  # unshuffled folds: each lacks a class to train on
    for rows in (None, 20):
        sound(fitted(X, y, LSSVCCV, cv=KFold(4), metric_rows=rows), X, y)
    with pytest.raises(ValueError, match="only one class"):
        fitted(X, np.sort(Y > 0), LSSVCCV, cv=KFold(2))


# -- what changes nothing ----------------------------------------------------------------------------


@cache
def plain(kind, rows):
    """The table as it is."""
    return fitted(X, Y, kind, metric_rows=rows)


@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
@pytest.mark.parametrize("rows", [None, 20])
@pytest.mark.parametrize(
    ("size", "shift", "scale", "offset"),
    [(1e-12, 0.0, 1e130, 0.0), (1e12, 0.0, 1e-130, 0.0), (1.0, 1e6, 1.0, 1e6)],
)
def test_units_and_offsets_change_nothing(size, shift, scale, offset, rows, kind) -> None:
    """Widths are relative to the mean distance, targets lie about their mean."""
    offset = offset if kind is LSSVRCV else 0.0
    one = plain(kind, rows)
    two = fitted(size * X + shift, scale * Y + offset, kind, metric_rows=rows)
    assert one.best_params_ == two.best_params_
    assert [m["round"] for m in one.blend_] == [m["round"] for m in two.blend_]
    found = (two.predict(size * NEW + shift) - offset) / scale
    assert_allclose(found, one.predict(NEW), rtol=1e-5, atol=1e-4 if offset else 1e-5)
    assert_allclose(two.blend_score_ / scale / scale, one.blend_score_, rtol=1e-5)
    assert_allclose(two.feature_importances_, one.feature_importances_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("model", [LSSVR(gamma="scale"), LSSVRCV("auto", metric="auto", **GRID)])
def test_half_precision_is_computed_with_in_double(model, size) -> None:
    torch = pytest.importorskip("torch")
    rows = (size * X).astype(np.float16)
    expected = model.fit(rows, Y).predict(rows)
    found = model.fit(torch.asarray(rows), torch.asarray(Y)).predict(torch.asarray(rows))
    assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", ["auto", "rbf", ["matern12", "rbf"]], ids=str)
@pytest.mark.parametrize("rows", [None, 25])
def test_sparse_rows_have_the_diagonal_metric_of_dense_ones(kernel, rows) -> None:
    Z = np.where(np.abs(X) > 0.7, X, 0.0)
    options = {"kernel": kernel, "metric": "diagonal", "metric_rows": rows}
    sparse = fitted(sp.csr_array(Z), Y, **options)
    dense = fitted(Z, Y, **options | {"kernel": ["rbf", "powexp"] if kernel == "auto" else kernel})
    assert sparse.best_params_ == dense.best_params_
    assert_allclose(sparse.predict(sp.csr_array(Z)), dense.predict(Z), rtol=1e-6, atol=1e-6)
    assert_allclose(sparse.heldout_prediction_, dense.heldout_prediction_, rtol=1e-6, atol=1e-6)


def test_sparse_rows_have_no_full_metric() -> None:
    with pytest.raises(ValueError, match='use metric="diagonal", or dense rows'):
        fitted(sp.csr_array(X), Y, kernel="rbf", metric="full")
    auto = fitted(sp.csr_array(X), Y)
    assert {one["metric"] for one in auto.metric_history_} == {"none", "diagonal"}


# -- scikit-learn's ways -----------------------------------------------------------------------------
TINY = ALL | {"gammas": [1.0], "alphas": [0.1, 1.0], "max_rounds": 1}
SMALL = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 3, "max_rounds": 1}


@parametrize_with_checks([LSSVCCV(**TINY)])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("rows", [None, 30])
def test_threads_and_seeds(rows) -> None:
    """The same choice for any number of threads, and the same again for the same seed."""
    models = [LSSVRCV(**ALL, metric_rows=rows, n_jobs=jobs, random_state=1) for jobs in (1, 2, None)]
    one, two, three = (model.fit(X, Y) for model in models)
    for other in (two, three):
        assert one.best_params_ == other.best_params_
        assert one.blend_ == other.blend_
        assert_array_equal(one.predict(NEW), other.predict(NEW))
        assert_array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    if rows is not None:
        few = ALL | {"metric_rows": 15}  # of the 40 that may teach; with 30 there is one way to draw
        seeds = [LSSVRCV(**few, random_state=s).fit(X, Y) for s in (0, None, 7)]
        zero, none, seven = ([one["score"] for one in model.metric_history_] for model in seeds)
        assert zero == none
        assert seven != zero


def gram(A, B):
    return A @ B.T


NO_METRIC = "no metric can be learned"
NO_FOLDS = "needs held-out predictions of whole folds"
REFUSED = [
    *(
        ({"approximation": name}, f'cannot be learned with approximation="{name}"')
        for name in ("toeplitz", "circulant", "grid")
    ),
    *(({"kernel": kernel, "gammas": None}, NO_METRIC) for kernel in ("precomputed", gram, ["linear"])),
    *((one, NO_FOLDS) for one in ({"cv": "loo"}, {"cv": LeaveOneOut()}, {"criterion": "gcv"})),
    *(({"metric": one}, '"diagonal", "full", "auto"') for one in ("round", np.ones(2), True)),
    *(({"max_rounds": one}, "max_rounds must be a whole number of at") for one in (0, 1.5, None)),
    *(({"metric_rows": one}, "metric_rows must be a whole number of at") for one in (0, "all")),
    ({"blend": None}, "blend must be True or False"),
    ({"gammas": []}, "gammas must be a non-empty list"),
    ({"gammas": [1.0, 1e-300]}, "too far from 1"),
    ({"gammas": ["scale"]}, "relative to the mean distance"),
    ({"gammas": [np.nan]}, "greater than 0"),
    ({"alphas": []}, "alphas must be"),
]
ELSEWHERE = [
    (LSSVC("auto"), "takes one kernel.*use LSSVCCV"),
    (KernelRidge(["rbf", "matern"]), "takes one kernel.*use KernelRidgeCV"),
    (LSSVRCV("auto", blend=True, cv="loo"), f"blend {NO_FOLDS}"),
    (LSSVRCV("auto", blend=True, criterion="evidence"), f"blend {NO_FOLDS}"),
    (LSSVRCV([]), "empty list"),
    (LSSVRCV(["rbf", "precomputed"]), "cannot be one of several"),
    (LSSVRCV(["rbf", "best"]), "best"),
    (LSSVRCV(["rbf", 3]), "kernel"),
]
LEARNING = {"kernel": "rbf", "metric": "full", **SMALL}


@pytest.mark.parametrize(
    ("estimator", "match"),
    [*((LSSVRCV(**LEARNING | options), words) for options, words in REFUSED), *ELSEWHERE],
    ids=range(len(REFUSED) + len(ELSEWHERE)),
)
def test_what_cannot_be_is_said_in_one_sentence_before_any_work(estimator, match) -> None:
    rows = X @ X.T if isinstance(estimator.kernel, str) and estimator.kernel == "precomputed" else X
    if hasattr(estimator, "callback"):
        estimator.set_params(callback=pytest.fail)
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        estimator.fit(rows, Y > 0)
    assert str(caught.value).strip().endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"cv": "loo"}, {"criterion": "gcv"}])
def test_families_alone_need_no_folds(options) -> None:
    model = LSSVRCV("auto", **SMALL | options).fit(X, Y)
    assert model.best_params_["kernel"] in ("rbf", "powexp", "laplacian")
    assert model.metric_history_ == []
