"""A search says what refits would say, whatever the order of folds and grid and whatever the units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from metamorphic_cases import MACHINES, WAYS, Case
from metamorphic_fits import GAMMAS, Data, agree, alphas_of, fit, inputs, relation, spread
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

FIXED = {str(m): m for m in MACHINES if not m.searches}
EXACT = WAYS[0]
# Their landmarks are given, or there are none: a training part is treated as all rows are.
TREATS_PARTS_ALIKE = ("exact", "auto", "nystroem", "ding2012", "toeplitz")


def searches(case: Case) -> bool:
    return case.machine.searches


def selects(case: Case) -> bool:
    """A cell of a grid, that is: pruning has a path of its own."""
    return case.machine.searches and not case.machine.prunes


# -- refits ---------------------------------------------------------------------------------------------


def _fixed(case: Case, way: Any) -> Case:
    return Case(FIXED[str(case.machine).removesuffix("CV")], way, case.kernel)


def _settings(case: Case, found: Any) -> dict[str, Any]:
    """The chosen hyper-parameters as those of the fixed estimator."""
    kernel = found.model.kernel
    if case.kernel.has_width:
        kernel = kernel.scaled(found.model.gamma_)
    return {"kernel": kernel, "alpha": found.model.alpha_}


@relation(lambda c: selects(c) and c.way.name in TREATS_PARTS_ALIKE, weighted=[False, True])
def test_heldout_predictions_are_those_of_refits(case: Case, data: Data, weighted: bool) -> None:
    """A part of a series is no series, but its Toeplitz matrix is exact: the refit may be exact too."""
    data = data.weighted(8) if weighted and case.way.weights else data
    found = fit(case, data)
    single = _fixed(case, EXACT if case.way.name in ("toeplitz", "auto") else case.way)
    for train, test in data.cv:
        part = replace(data.rows(train), cv=None, Z=data.X[test])
        refit = fit(single, part, **_settings(case, found))
        bound = found.slack * spread(case, data.y)
        assert_allclose(found.heldout[test], refit.values, rtol=0, atol=bound)


@relation(lambda c: selects(c) and not c.way.picks)
def test_the_final_model_is_the_fixed_one(case: Case, data: Data) -> None:
    found = fit(case, data, refit="same")
    fixed = _fixed(case, EXACT if case.way.name == "auto" else case.way)
    values = fit(fixed, data, **_settings(case, found)).values
    assert_allclose(found.values, values, rtol=0, atol=found.slack * spread(case, data.y))


@relation(lambda c: selects(c) and c.way.name in ("exact", "nystroem", "toeplitz"))
def test_leave_one_out_is_as_many_folds_as_rows(case: Case, data: Data) -> None:
    """Its own closed form against that of the blocks; scored together against row by row."""
    X, _ = inputs(case, data)
    pooled = fit(case, replace(data, cv="loo"))
    blocks = fit(case, replace(data, cv=list(KFold(len(data.y)).split(X))))
    assert_allclose(pooled.scores, blocks.scores, rtol=1e-6, atol=1e-9)
    if pooled.choice == blocks.choice:
        bound = 10 * pooled.slack * spread(case, data.y)
        assert_allclose(pooled.heldout, blocks.heldout, rtol=0, atol=bound)


# -- folds and grids ------------------------------------------------------------------------------------
SHUFFLED = {"n_splits": 3, "test_size": 0.3, "random_state": 1}
SPLITTERS = [
    (GroupKFold(3), GroupKFold(3)),
    (KFold(3), StratifiedKFold(3)),
    (ShuffleSplit(**SHUFFLED), StratifiedShuffleSplit(**SHUFFLED)),
]


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # by splitters without groups
@relation(searches, splitter=SPLITTERS)
def test_folds_given_as_indices(case: Case, data: Data, splitter: Any) -> None:
    cv = splitter[case.machine.classifies]
    groups = np.empty(len(data.y), dtype=int)
    for number, (_, test) in enumerate(data.cv):
        groups[test] = number
    X, _ = inputs(case, data)
    listed = fit(case, replace(data, cv=list(cv.split(X, data.y, groups))))
    named = fit(case, replace(data, cv=cv, groups=groups))
    assert named.choice == listed.choice
    assert_array_equal(named.values, listed.values)
    assert_array_equal(named.scores, listed.scores)


@relation(selects, form=["turned", "twice", 0, 1, 2])
def test_the_grid_in_another_form(case: Case, data: Data, form: Any) -> None:
    """In another order, every value twice, or less of it: what loses has no say."""
    one = fit(case, data)

    def other(values: list[float], chosen: float) -> list[float]:
        if form == "turned":
            return values[::-1]
        return 2 * values if form == "twice" else sorted({values[form], chosen})

    grid = {"alphas": other(alphas_of(case), one.model.alpha_)}
    if case.kernel.has_width:
        grid["gammas"] = other(GAMMAS, one.model.gamma_)
    two = fit(case, data, **grid)
    assert one.model.best_params_ == two.model.best_params_
    agree(one, replace(two, choice=one.choice), size=spread(case, data.y))


# -- every criterion sees the same problem in other units, and chooses the same -------------------------
SMOOTHER = ["press", "gcv", "evidence", "span", "radius_margin"]
SOME = ["mse", *SMOOTHER, "r2", "neg_mean_absolute_error"]
OWN = make_scorer(mean_absolute_error, greater_is_better=False)


def judged(case: Case) -> bool:
    """The cases of the criteria."""
    plain = selects(case) and not case.machine.classifies and case.way is EXACT
    return plain and case.kernel.name in ("rbf", "linear", "precomputed")


def same_choice(case: Case, one: Data, two: Data, criterion: Any, ridge: float = 1.0) -> None:
    plain = fit(case, one, criterion=criterion)
    other = fit(case, two, criterion=criterion, ridge=ridge)
    assert plain.choice == other.choice


@relation(
    judged,
    criterion=[*SOME, "mape", "neg_max_error", OWN],
    scale=[1e-12, 1e12, 1e-5, 1e5],
    power=[40, -40, 3],
)
def test_criteria_of_targets_scaled_and_of_weights_and_alpha_growing(
    case: Case, data: Data, criterion: Any, scale: float, power: int
) -> None:
    if criterion not in ("mse", *SMOOTHER):
        return same_choice(case, data, replace(data, y=scale * data.y), criterion)
    data = data.weighted(5)
    factor = 2.0**power
    other = replace(data, y=scale * data.y, weight=factor * data.weight)
    return same_choice(case, data, other, criterion, ridge=factor)


@relation(lambda case: judged(case) and case.machine.intercept, criterion=SOME, shift=[1e8, -1e5])
def test_criteria_of_targets_shifted(case: Case, data: Data, criterion: Any, shift: float) -> None:
    data = replace(data, y=np.round(data.y * 2**20) / 2**20)
    same_choice(case, data, replace(data, y=data.y + shift), criterion)


@relation(judged, criterion=SOME, extreme=[0.0, 1e6])
def test_criteria_of_absent_rows_in_any_order(
    case: Case, data: Data, criterion: Any, extreme: float
) -> None:
    """Rows of weight 0 are absent, and the order of the others is of no consequence."""
    gone = np.array([2, 11, 17])
    data = data.weighted(4)
    kept = np.random.default_rng(6).permutation(np.delete(np.arange(len(data.y)), gone))
    y = data.y.copy()
    weight = data.weight.copy()
    y[gone] = extreme
    weight[gone] = 0.0
    present = fit(case, replace(data, y=y, weight=weight), criterion=criterion)
    absent = fit(case, data.rows(kept), criterion=criterion)
    agree(replace(present, heldout=None), absent, size=spread(case, data.y))
    assert present.model.best_score_ == pytest.approx(absent.model.best_score_, rel=1e-6)


@relation(judged, weighted=[False, True])
def test_press_is_leave_one_out(case: Case, data: Data, weighted: bool) -> None:
    """The closed form of the smoother, and the held-out rows one by one."""
    data = data.weighted(7) if weighted else data
    press = fit(case, data, criterion="press")
    single = fit(case, replace(data, cv="loo"))
    assert_allclose(press.scores, single.scores, rtol=1e-7)
    assert press.choice == single.choice
