"""Pipelines, tables, and what else holds an estimator of ours, in the trust check and in plans."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    SparseLSSVR,
    TableClassifier,
    TableRegressor,
    plan,
    trust,
)
from onefold.approximations import Nystroem, Workload, resolve_approximation
from onefold.approximations.auto import make_plan

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


SCALED = StandardScaler().fit_transform(X)
REDUCED = PCA(3).fit_transform(SCALED)
PICKED = SelectKBest(f_regression, k=2)
BY_GROUPS = {"cv": GroupKFold(3)}


@pytest.mark.parametrize(
    ("steps", "settings", "rows", "given"),
    [
        ([StandardScaler(), PCA(3)], {}, REDUCED, {"sample_weight": WEIGHTS}),
        ([StandardScaler()], BY_GROUPS, SCALED, {"groups": GROUPS}),  # which reach the splitter
        ([StandardScaler(), "passthrough"], {}, SCALED, {}),
        ([], {}, X, {}),
        ([PICKED], {}, clone(PICKED).fit_transform(X, Y), {}),  # a step that looks at y
    ],
)
def test_the_last_step_is_checked_on_transformed_rows(steps, settings, rows, given) -> None:
    inner = make_pipeline(*steps[1:], machine(**settings))
    asked = make_pipeline(*steps[:1], inner if len(steps) > 1 else inner[-1])  # nested where it can be
    assert trust(asked, X, Y, **CHECK, **given) == trust(machine(**settings), rows, Y, **CHECK, **given)
    if steps:
        with pytest.raises(NotFittedError):  # it was a copy that was fitted
            check_is_fitted(steps[0])


def same(found: Any, expected: Any) -> bool:
    """But for the free memory and the speed, which are measured anew."""
    facts = ("approximation", "rows", "features", "bytes")
    return all(getattr(found, name) == getattr(expected, name) for name in facts)


@pytest.mark.parametrize("shape", [(90, 4), (30_000, 40)])
@pytest.mark.parametrize(
    ("estimator", "y", "load", "more"),
    [
        (LSSVRCV(), None, (13, 11, 5), {}),
        (LSSVRCV(gammas=["scale", 0.1], cv=ShuffleSplit(3)), None, (2, 11, 3), {}),
        (LSSVRCV("linear", alphas=[0.1, 1.0], cv=[([0, 1], [2])] * 4), None, (1, 2, 4), {}),
        (LSSVRCV("auto"), None, (18, 14, 5), {}),
        (LSSVRCV(cv="loo"), None, (13, 11, 1), {"predictions": True}),
        (LSSVCCV(), np.arange(4), (13, 11, 5), {"predictions": True, "targets": 4}),
        (LSSVR(), None, (1, 1, 0), {}),
        (KernelRidge(alpha=[1.0, 2.0]), Y[:, None] ** [1, 2], (1, 2, 0), {"targets": 2}),
    ],
)
def test_a_plan_counts_what_an_estimator_tries(shape, estimator, y, load, more) -> None:
    """Folds, kernels and ridges; single rows and labels keep predictions."""
    load = Workload(*load, whole=False, predictions=more.get("predictions", False))
    approximation = resolve_approximation("auto" if load.folds else "exact")
    expected = make_plan(approximation, *shape, more.get("targets", 1), load)
    assert same(plan(estimator, shape, y), expected)


def test_the_rows_of_a_pipeline_are_those_of_its_last_step() -> None:
    pipeline = make_pipeline(StandardScaler(), PCA(2), LSSVCCV(**GRID))
    found = plan(pipeline, X, LABELS)
    assert same(found, plan(LSSVCCV(**GRID), (90, 2), LABELS))
    with pytest.raises(ValueError, match="pass X, not its shape"):
        plan(pipeline, (90, 4))
    assert plan(Pipeline([("last", LSSVC())]), (90, 4)).features == 4
    chosen = make_pipeline(SelectKBest(f_regression, k=1), LSSVRCV(**GRID))
    assert plan(chosen, X, Y).features == 1


NESTED = make_pipeline(StandardScaler(), make_pipeline(SparseLSSVR()))
UNKNOWN = [
    (make_pipeline(StandardScaler(), Ridge()), "does not support a Pipeline that ends in Ridge; pass"),
    (make_pipeline(StandardScaler(), "passthrough"), "that ends in passthrough; pass LSSVC"),
    (NESTED, "that ends in a Pipeline that ends in SparseLSSVR"),
    (Ridge(), "does not support Ridge; pass LSSVC"),
]


@pytest.mark.parametrize(("asked", "words"), UNKNOWN)
def test_what_ends_elsewhere_is_refused(asked, words) -> None:
    for check in (lambda p: trust(p, X, Y), lambda p: plan(p, X)):
        with pytest.raises(ValueError, match=words):
            check(asked)


# -- estimators of whole tables: what is inside them, on prepared rows -------------------------------
FRAME = pd.DataFrame({"a": RNG.standard_normal(90), "c": RNG.choice(["u", "v", "w"], 90)})
FRAME.loc[::9, "a"] = np.nan
PRICE = (FRAME["c"] == "u") + np.sin(FRAME["a"].fillna(0.0))
TABLES = [(TableRegressor, PRICE), (TableClassifier, pd.Series(np.where(PRICE > 0.3, "high", "low")))]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("kind", "y"), TABLES)
def test_tables_are_looked_at_as_prepared(kind, y, wrapped) -> None:
    model = kind(simple=True, approximation="nystroem")
    asked = make_pipeline(model) if wrapped else model
    found = plan(asked, FRAME, y)
    assert (found.rows, found.features) == (90, 5)  # a, a is missing, u, v, w
    check = trust(asked, FRAME, y, size=50, random_state=0)
    assert check.draws[0].rows == 50
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    if not wrapped:  # a fitted one gives what a copy of it does
        fitted = clone(model).fit(FRAME, y)
        assert plan(fitted, FRAME, y).features == 5
        assert trust(fitted, FRAME, y, size=50, random_state=0) == check


def test_target_weights_and_groups_may_be_columns_and_a_plan_needs_no_target() -> None:
    whole = FRAME.assign(y=PRICE, w=WEIGHTS, g=GROUPS)
    model = TableRegressor(simple=True, approximation="nystroem")
    by_name = trust(model, whole, "y", sample_weight="w", groups="g", size=50, random_state=0)
    by_array = {"sample_weight": WEIGHTS, "groups": GROUPS, "size": 50, "random_state": 0}
    assert by_name == trust(model, FRAME, PRICE, **by_array)
    assert plan(model, whole.drop(columns=["w", "g"]), "y").features == 5
    assert plan(TableRegressor(), FRAME).features == 5
    for asked in (TableRegressor(), make_pipeline(TableRegressor())):
        with pytest.raises(ValueError, match="must be fitted to rows; pass X"):
            plan(asked, (100, 3))
