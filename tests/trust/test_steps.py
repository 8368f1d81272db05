"""Pipelines, and what else holds an estimator of ours, in the trust check and in plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, SparseLSSVR, plan, trust
from onefold.approximations import Exact, Nystroem

RNG = np.random.default_rng(1)
X = RNG.standard_normal((90, 4)) * [1.0, 100.0, 0.01, 1.0] + 5.0
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(90)
LABELS = np.digitize(Y, [-0.5, 0.5])
WEIGHTS = RNG.uniform(0.2, 2.0, 90)
GROUPS = RNG.integers(0, 9, 90)
GRID = {"gammas": [0.03, 0.3, 3.0], "alphas": [0.01, 0.1, 1.0]}
CHECK = {"size": 40, "random_state": 0}


def machine(**options: Any) -> LSSVRCV:
    return LSSVRCV(**GRID, approximation=Nystroem(15), **options)


# The trust check


def test_the_last_step_is_checked_on_transformed_rows() -> None:
    pipeline = make_pipeline(StandardScaler(), PCA(3), machine())
    rows = PCA(3).fit_transform(StandardScaler().fit_transform(X))
    found = trust(pipeline, X, Y, **CHECK, sample_weight=WEIGHTS)
    assert found == trust(machine(), rows, Y, **CHECK, sample_weight=WEIGHTS)
    assert found != trust(machine(), X, Y, **CHECK, sample_weight=WEIGHTS)
    assert not hasattr(pipeline[0], "mean_")  # it was a copy that was fitted


def test_nested_single_and_empty_steps() -> None:
    direct = trust(machine(), StandardScaler().fit_transform(X), Y, **CHECK)
    inner = make_pipeline("passthrough", machine())
    assert trust(make_pipeline(StandardScaler(), inner), X, Y, **CHECK) == direct
    assert trust(make_pipeline(machine()), X, Y, **CHECK) == trust(machine(), X, Y, **CHECK)


def test_steps_that_look_at_y_and_frames_with_text() -> None:
    chosen = SelectKBest(f_regression, k=2)
    found = trust(make_pipeline(chosen, machine()), X, Y, **CHECK)
    assert found == trust(machine(), chosen.fit_transform(X, Y), Y, **CHECK)
    frame = pd.DataFrame(X).assign(kind=np.where(Y > 0, "a", "b"))
    frame.columns = frame.columns.astype(str)
    before = make_column_transformer((OneHotEncoder(), ["kind"]), remainder=StandardScaler())
    fixed = KernelRidge(gamma=0.3, approximation=Nystroem(15))
    assert trust(make_pipeline(before, fixed), frame, Y, **CHECK).typical.rows == 40


def test_groups_reach_the_splitter_and_weights_the_steps_that_ask() -> None:
    grouped = make_pipeline(StandardScaler(), machine(cv=GroupKFold(3)))
    rows = StandardScaler().fit_transform(X)
    found = trust(grouped, X, Y, **CHECK, groups=GROUPS)
    assert found == trust(machine(cv=GroupKFold(3)), rows, Y, **CHECK, groups=GROUPS)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = StandardScaler().set_fit_request(sample_weight=True)
        weighted = StandardScaler().fit(X, sample_weight=WEIGHTS).transform(X)
        found = trust(make_pipeline(asking, machine()), X, Y, **CHECK, sample_weight=WEIGHTS)
        assert found == trust(machine(), weighted, Y, **CHECK, sample_weight=WEIGHTS)
        silent = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine())
        found = trust(silent, X, Y, **CHECK, sample_weight=WEIGHTS)
        assert found == trust(machine(), rows, Y, **CHECK, sample_weight=WEIGHTS)


@pytest.mark.parametrize("check", [lambda p: trust(p, X, Y), lambda p: plan(X, estimator=p)])
def test_a_pipeline_that_ends_elsewhere_is_refused(check) -> None:
    with pytest.raises(ValueError, match="does not know a Pipeline that ends in Ridge; give it one"):
        check(make_pipeline(StandardScaler(), Ridge()))
    with pytest.raises(ValueError, match="that ends in a Pipeline that ends in SparseLSSVR"):
        check(make_pipeline(StandardScaler(), make_pipeline(SparseLSSVR())))
    with pytest.raises(ValueError, match="does not know Ridge; give it one"):
        check(Ridge())


# Plans


def same(found: Any, expected: Any) -> bool:
    """But for the free memory and the speed, which are measured anew."""
    facts = ("approximation", "rows", "features", "bytes", "left_out")
    return all(getattr(found, name) == getattr(expected, name) for name in facts)


@pytest.mark.parametrize("shape", [(90, 4), (30_000, 40)])
@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ({}, {}),
        (GRID, {"n_gammas": 3, "n_alphas": 3}),
        ({"gammas": ["scale", 0.1]}, {"n_gammas": 2}),
        ({"cv": "loo"}, {"cv": "loo"}),
        ({"cv": LeaveOneOut()}, {"cv": "loo"}),
        ({"cv": KFold(7)}, {"cv": 7}),
        ({"cv": ShuffleSplit(3)}, {"cv": 3}),
        ({"cv": [([0, 1], [2])] * 4}, {"cv": 4}),
        ({"cv": None}, {"cv": 5}),
        ({"kernel": "auto", "metric": "auto", "blend": True},) * 2,
        ({"approximation": Nystroem(7)},) * 2,
    ],
)
def test_a_plan_takes_what_an_estimator_says(shape, options, keywords) -> None:
    assert same(plan(shape, estimator=LSSVRCV(**options)), plan(shape, **keywords))


def test_fits_with_given_hyper_parameters() -> None:
    found = plan((5000, 10), estimator=LSSVR())
    expected = plan((5000, 10), approximation="exact", n_gammas=1, n_alphas=1, cv=0)
    assert same(found, expected)
    assert found.approximation == Exact()
    several = plan((5000, 10), np.zeros((5000, 2)), estimator=KernelRidge(alpha=[1.0, 2.0]))
    options = {"approximation": "exact", "n_gammas": 1, "n_alphas": 2, "cv": 0, "targets": 2}
    assert same(several, plan((5000, 10), **options))


def test_the_rows_of_a_pipeline_are_those_of_its_last_step() -> None:
    pipeline = make_pipeline(StandardScaler(), PCA(2), LSSVCCV(**GRID))
    found = plan(X, LABELS, estimator=pipeline)
    assert same(found, plan((90, 2), n_gammas=3, n_alphas=3, classes=3))
    with pytest.raises(ValueError, match="give X, not its shape"):
        plan((90, 4), estimator=pipeline)
    assert plan((90, 4), estimator=Pipeline([("last", LSSVC())])).features == 4
    chosen = make_pipeline(SelectKBest(f_regression, k=1), LSSVRCV(**GRID))
    assert plan(X, Y, estimator=chosen).features == 1


def test_what_is_said_twice_or_not_at_all() -> None:
    with pytest.raises(ValueError, match="give kernel and cv or an estimator"):
        plan(X, estimator=LSSVRCV(), kernel="laplacian", cv=3)
    assert plan(X, estimator=LSSVRCV(), seconds=10.0, targets=3).rows == 90
    with pytest.raises(ValueError, match="y belongs to an estimator"):
        plan(X, Y)
    with pytest.raises(ValueError, match="an iterator of splits, which serves once"):
        plan(X, estimator=LSSVRCV(cv=iter([([0], [1])])))
