"""Families, metrics and blends keep to scikit-learn's ways, say what happens and what cannot be."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC
from onefold.approximations import ConjugateGradients, Nystroem
from onefold.kernels import RBF
from onefold.search import SearchStoppedWarning

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

SMALL = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 3, "max_rounds": 1}
ALL = {"kernel": "auto", "metric": "auto", "blend": True, **SMALL}
RNG = np.random.default_rng(6)
X = RNG.standard_normal((60, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.standard_normal(60)
NEW = RNG.standard_normal((8, 2))


TINY = ALL | {"gammas": [1.0], "alphas": [0.1, 1.0]}


@parametrize_with_checks([LSSVRCV(**TINY), LSSVCCV(**TINY)])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


def test_copies_are_the_same() -> None:
    model = LSSVRCV(**ALL, metric_rows=40, random_state=3)
    assert clone(model).get_params() == model.get_params()
    fitted = model.fit(X, Y)
    again = clone(fitted).fit(X, Y)
    assert again.best_params_ == fitted.best_params_
    assert_array_equal(again.predict(NEW), fitted.predict(NEW))
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.predict(NEW), fitted.predict(NEW))
    assert loaded.blend_ == fitted.blend_
    changed = clone(fitted).set_params(metric=None, kernel="rbf", blend=False, gammas=[0.5])
    plain = LSSVRCV("rbf", gammas=[0.5], alphas=SMALL["alphas"], cv=3)
    assert_array_equal(changed.fit(X, Y).predict(NEW), plain.fit(X, Y).predict(NEW))
    assert changed.blend_ is None
    assert changed.metric_ is None


def test_in_a_pipeline() -> None:
    pipe = make_pipeline(StandardScaler(), LSSVCCV(**ALL)).fit(X, Y > 0)
    assert pipe.score(X, Y > 0) > 0.8


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


@pytest.mark.parametrize("rows", [None, 30])
def test_events_tell_of_every_candidate(rows, capsys) -> None:
    events = []
    model = LSSVRCV(**ALL, metric_rows=rows, verbose=1, callback=events.append).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(events)
    assert all("kernels, best score" in line for line in lines)
    assert all(0 < event["done"] <= event["total"] for event in events)
    assert events[-1]["done"] == events[-1]["total"]
    assert set(events[-1]["best_params"]) == {"alpha", "gamma", "kernel", "metric", "round"}
    best = max(event["best_score"] for event in events)
    if rows is None:
        assert best == model.cv_results_["mean_test_score"].max()
        assert len(events) == len(model.history_)
    assert {entry["metric"] for entry in model.history_} <= {"none", "diagonal", "full"}


def test_a_callback_may_stop_the_rounds() -> None:
    def stop(event):
        raise KeyboardInterrupt

    with pytest.warns(SearchStoppedWarning, match="the search was interrupted; the best so far is used"):
        model = LSSVRCV(**ALL, callback=stop).fit(X, Y)
    assert model.search_["stopped"] == "interrupted"
    assert np.isfinite(model.predict(NEW)).all()


@pytest.mark.parametrize("rows", [None, 30])
@pytest.mark.parametrize(
    "approximation",
    ["exact", "auto", "nystroem", Nystroem(60), "cg", ConjugateGradients(tolerance=1e-10)],
    ids=str,
)
def test_approximations_that_lose_nothing_find_the_same(approximation, rows) -> None:
    """Landmarks at every row, and conjugate gradients to the end, are the exact machine."""
    exact = LSSVRCV(**ALL, approximation="exact", metric_rows=rows).fit(X, Y)
    model = LSSVRCV(**ALL, approximation=approximation, metric_rows=rows).fit(X, Y)
    if approximation in ("exact", "auto"):
        assert model.best_params_ == exact.best_params_
        assert_array_equal(model.predict(NEW), exact.predict(NEW))
    else:
        assert_allclose(model.best_score_, exact.best_score_, rtol=1e-5)
        assert_allclose(model.blend_score_, exact.blend_score_, rtol=1e-5)
        assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-4)


@pytest.mark.parametrize("rows", [None, 30])
@pytest.mark.parametrize("refit", ["same", "exact"])
def test_the_last_fit(refit, rows) -> None:
    few = Nystroem(12)
    model = LSSVRCV("rbf", metric="full", approximation=few, refit=refit, metric_rows=rows, **SMALL)
    model.fit(X, Y)
    name = model.approximation_["fitted_with"]["name"]
    assert name == ("nystroem" if refit == "same" else "exact")
    metric = model.metric_
    kernel = RBF(model.gamma_, metric=metric)
    assert model.expansion_.kernel == kernel
    if refit == "exact":
        fixed = LSSVR(kernel, alpha=model.alpha_).fit(X, Y)
        assert_allclose(model.predict(NEW), fixed.predict(NEW), rtol=1e-9, atol=1e-9)
    else:
        assert model.expansion_.n_centres == 12


def test_a_fixed_estimator_with_what_was_chosen_is_the_model() -> None:
    model = LSSVCCV("rbf", metric="full", **SMALL).fit(X, Y > 0)
    fixed = LSSVC(RBF(model.gamma_, metric=model.metric_), alpha=model.alpha_).fit(X, Y > 0)
    assert_allclose(model.decision_function(NEW), fixed.decision_function(NEW), rtol=1e-9, atol=1e-9)


def test_sparse_machines_take_a_metric_that_was_learned() -> None:
    model = LSSVCCV("rbf", metric="diagonal", **SMALL).fit(X, Y > 0)
    few = SparseLSSVC(kernel=RBF(metric=model.metric_), n_centres=15).fit(X, Y > 0)
    assert few.n_centres_ == 15
    assert_array_equal(few.expansion_.kernel.metric.values, model.metric_)


@pytest.mark.parametrize("kind", [LSSVC, LSSVR, KernelRidge])
@pytest.mark.parametrize("kernel", ["auto", ["rbf", "matern"]])
def test_choices_are_left_to_the_estimator_that_chooses(kind, kernel) -> None:
    with pytest.raises(ValueError, match=f"takes one kernel.*use {kind.__name__}CV"):
        kind(kernel).fit(X, Y > 0)


def gram(A, B):
    return A @ B.T


REFUSED = [
    ({"approximation": "toeplitz"}, "no metric is learned with a toeplitz matrix"),
    ({"approximation": "circulant"}, "no metric is learned with a circulant matrix"),
    ({"approximation": "grid"}, "no metric is learned with a grid matrix"),
    ({"kernel": "precomputed"}, "has a metric to learn"),
    ({"kernel": gram}, "has a metric to learn"),
    ({"kernel": "linear"}, "has a metric to learn"),
    ({"kernel": ["linear"]}, "has a metric to learn"),
    ({"cv": "loo"}, "needs held-out predictions of whole folds"),
    ({"cv": LeaveOneOut()}, "needs held-out predictions of whole folds"),
    ({"criterion": "gcv"}, "needs held-out predictions of whole folds"),
    ({"metric": "round"}, 'one of "diagonal", "full", "auto"'),
    ({"metric": np.ones(2)}, 'one of "diagonal", "full", "auto"'),
    ({"blend": "no"}, "blend must be True or False"),
    ({"blend": None}, "blend must be True or False"),
    ({"gammas": []}, "gammas must be a non-empty list"),
    ({"gammas": [1e300]}, "too far from 1"),
    ({"gammas": [1.0, 1e-300]}, "too far from 1"),
    ({"metric": True}, 'one of "diagonal", "full", "auto"'),
    ({"max_rounds": 0}, "max_rounds must be a whole number of at least 1"),
    ({"max_rounds": 1.5}, "max_rounds must be a whole number"),
    ({"max_rounds": None}, "max_rounds must be a whole number"),
    ({"metric_rows": 0}, "metric_rows must be a whole number of at least 1"),
    ({"metric_rows": "all"}, "metric_rows must be a whole number"),
    ({"gammas": ["scale"]}, "relative to the mean distance"),
    ({"gammas": [0.0]}, "greater than 0"),
    ({"gammas": [np.nan]}, "greater than 0"),
    ({"alphas": []}, "alphas must be"),
]


@pytest.mark.parametrize(("options", "match"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
def test_what_cannot_be_is_said_in_one_sentence_before_any_work(kind, options, match) -> None:
    events = []
    rows = X @ X.T if options.get("kernel") == "precomputed" else X
    settings = {"kernel": "rbf", "metric": "full", **SMALL, **options}
    if options.get("kernel") == "precomputed":
        settings["gammas"] = None
    with pytest.raises(ValueError, match=match) as caught:
        kind(**settings, callback=events.append).fit(rows, Y)
    assert not events
    assert str(caught.value).strip().endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"cv": "loo"}, {"criterion": "gcv"}, {"criterion": "evidence"}])
def test_a_blend_needs_folds(options) -> None:
    with pytest.raises(ValueError, match="blend needs held-out predictions of whole folds"):
        LSSVRCV("auto", blend=True, **SMALL | options).fit(X, Y)


@pytest.mark.parametrize("options", [{"cv": "loo"}, {"criterion": "gcv"}])
def test_families_alone_do_not(options) -> None:
    model = LSSVRCV("auto", **SMALL | options).fit(X, Y)
    assert model.best_params_["kernel"] in ("rbf", "matern12", "laplacian")
    assert model.metric_history_ == []


@pytest.mark.parametrize("criterion", ["error", "accuracy", "roc_auc"])
def test_criteria_of_a_classifier(criterion) -> None:
    model = LSSVCCV(**ALL, criterion=criterion).fit(X, Y > 0)
    assert np.isfinite(model.best_score_)
    assert np.isfinite(model.blend_score_)


def test_class_weights_count() -> None:
    weights = {False: 1.0, True: 5.0}
    one = LSSVCCV(**ALL, class_weight=weights).fit(X, Y > 0)
    none = LSSVCCV(**ALL).fit(X, Y > 0)
    assert one.decision_function(X).mean() > none.decision_function(X).mean()


def test_leave_out_lists_of_splits_and_iterators() -> None:
    pairs = list(KFold(3).split(X))
    one = LSSVRCV(**ALL | {"cv": iter(pairs)}).fit(X, Y)
    two = LSSVRCV(**ALL | {"cv": pairs}).fit(X, Y)
    assert_array_equal(one.predict(NEW), two.predict(NEW))
