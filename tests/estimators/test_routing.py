"""Metadata routing: weights and groups find their way through scikit-learn's meta-estimators."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import RidgeCV
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
    TableClassifier,
    TableRegressor,
)
from onefold.heldout import GapKFold

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 3))
NUMBERS = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(60)
LABELS = (NUMBERS > 0).astype(int)
WEIGHTS = RNG.uniform(0.1, 3.0, 60)
GROUPS = RNG.integers(0, 6, 60)
GRID = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0]}
CHOOSERS = [
    (LSSVCCV, LABELS),
    (LSSVRCV, NUMBERS),
    (KernelRidgeCV, NUMBERS),
    (SparseLSSVC, LABELS),
    (SparseLSSVR, NUMBERS),
]
EACH = pytest.mark.parametrize(("kind", "y"), CHOOSERS, ids=lambda v: getattr(v, "__name__", ""))


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@EACH
@pytest.mark.parametrize(
    "cv", [GroupKFold(3), LeaveOneGroupOut(), GroupShuffleSplit(2), StratifiedGroupKFold(2)], ids=repr
)
def test_a_grouped_splitter_is_a_request_for_groups(kind, y, cv) -> None:
    assert kind(cv=cv).get_metadata_routing().fit.requests == {"groups": True, "sample_weight": None}


@EACH
@pytest.mark.parametrize("cv", [5, "loo", KFold(3), GapKFold(3), [([0, 1], [2])]], ids=repr)
def test_other_splits_are_none(kind, y, cv) -> None:
    assert kind(cv=cv).get_metadata_routing().fit.requests["groups"] is None


def test_what_the_user_says_comes_first() -> None:
    own = LSSVRCV(cv=GroupKFold(3)).set_fit_request(groups=False, sample_weight=True)
    for model in (own, clone(own)):
        assert model.get_metadata_routing().fit.requests == {"groups": False, "sample_weight": True}
    named = LSSVRCV(cv=GroupKFold(3).set_split_request(groups="patient"))
    assert named.get_metadata_routing().fit.requests["groups"] == "patient"
    refused = LSSVRCV(cv=GroupKFold(3).set_split_request(groups=False))
    assert refused.get_metadata_routing().fit.requests["groups"] is None


def test_it_is_asked_for_as_in_scikit_learn_s_own() -> None:
    """What Ridge regression's chooser routes to its splitter, ours consumes."""
    theirs, ours = RidgeCV(cv=GroupKFold(3)), LSSVRCV(cv=GroupKFold(3))
    assert "groups" in theirs.get_metadata_routing().consumes("fit", {"groups"})
    assert "groups" in ours.get_metadata_routing().consumes("fit", {"groups"})


@EACH
def test_groups_and_weights_through_a_pipeline(kind, y) -> None:
    inner = kind(**GRID, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    routed = make_pipeline(scaler, inner).fit(X, y, sample_weight=WEIGHTS, groups=GROUPS)
    rows = StandardScaler().fit_transform(X)
    direct = kind(**GRID, cv=GroupKFold(3)).fit(rows, y, sample_weight=WEIGHTS, groups=GROUPS)
    assert routed[-1].best_score_ == direct.best_score_
    assert_array_equal(routed.predict(X), direct.predict(rows))


def test_groups_within_groups() -> None:
    """Outer and inner folds keep groups together; the inner ones see those of their training rows."""
    model = LSSVRCV(**GRID, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
    model.set_score_request(sample_weight=True)
    found = cross_validate(
        model,
        X,
        NUMBERS,
        cv=GroupKFold(2),
        params={"groups": GROUPS, "sample_weight": WEIGHTS},
        return_estimator=True,
        return_indices=True,
    )
    for k in range(2):
        train, test = found["indices"]["train"][k], found["indices"]["test"][k]
        again = LSSVRCV(**GRID, cv=GroupKFold(3)).fit(
            X[train], NUMBERS[train], WEIGHTS[train], GROUPS[train]
        )
        assert found["estimator"][k].best_score_ == again.best_score_
        assert found["test_score"][k] == again.score(X[test], NUMBERS[test], WEIGHTS[test])


def test_inside_a_grid_search() -> None:
    weighted = LSSVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    search = GridSearchCV(weighted, {"alpha": [0.1, 1.0]}, cv=GroupKFold(3))
    search.fit(X, LABELS, sample_weight=WEIGHTS, groups=GROUPS)
    folds = list(GroupKFold(3).split(X, LABELS, GROUPS))
    for alpha, mean in zip([0.1, 1.0], search.cv_results_["mean_test_score"]):
        literal = [
            LSSVC(alpha=alpha).fit(X[a], LABELS[a], WEIGHTS[a]).score(X[b], LABELS[b], WEIGHTS[b])
            for a, b in folds
        ]
        assert mean == pytest.approx(np.mean(literal))


def test_what_nobody_asked_for_is_refused_as_scikit_learn_does() -> None:
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(LSSVRCV(**GRID)).fit(X, NUMBERS, sample_weight=WEIGHTS)
    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        make_pipeline(LSSVRCV(**GRID)).fit(X, NUMBERS, groups=GROUPS)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_scorer_decides_whether_weights_count(n_jobs) -> None:
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    grid = {"gammas": [0.1], "alphas": [0.1, 1.0], "cv": KFold(3), "n_jobs": n_jobs}
    folds = list(KFold(3).split(X))
    for request, weighted in ((True, True), (False, False), (None, True)):
        asking = scorer if request is None else clone_scorer(scorer, request)
        found = LSSVRCV(**grid, criterion=asking).fit(X, NUMBERS, WEIGHTS).cv_results_["mean_test_score"]
        for alpha, score in zip(grid["alphas"], found):
            literal = []
            for a, b in folds:
                fitted = LSSVR(gamma=0.1, alpha=alpha).fit(X[a], NUMBERS[a], WEIGHTS[a])
                weight = WEIGHTS[b] if weighted else None
                literal.append(
                    -mean_absolute_error(NUMBERS[b], fitted.predict(X[b]), sample_weight=weight)
                )
            assert_allclose(score, np.mean(literal), rtol=1e-9)


def clone_scorer(scorer, request):
    return make_scorer(scorer._score_func, greater_is_better=False).set_score_request(
        sample_weight=request
    )


def test_a_scorer_with_another_name_for_weights_is_refused() -> None:
    scorer = get_scorer("r2").set_score_request(sample_weight="importance")
    with pytest.raises(ValueError, match="under the name 'importance'"):
        LSSVRCV(**GRID, criterion=scorer).fit(X, NUMBERS, WEIGHTS)


@pytest.mark.parametrize(("kind", "y"), [(TableClassifier, LABELS), (TableRegressor, NUMBERS)])
def test_estimators_of_tables_ask_for_their_splitter_too(kind, y) -> None:
    model = kind(simple=True, cv=GroupKFold(3))
    assert model.get_metadata_routing().fit.requests["groups"] is True
    assert kind().get_metadata_routing().fit.requests["groups"] is None
    with sklearn.config_context(enable_metadata_routing=True):
        found = make_pipeline(model).fit(X, y, groups=GROUPS)[-1].estimator_
    direct = clone(model).fit(X, y, groups=GROUPS).estimator_
    assert_array_equal(found.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"])
