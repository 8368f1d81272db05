"""Every criterion sees the same problem in other units, and chooses the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from metamorphic_cases import KERNELS, MACHINES, WAYS, Case
from metamorphic_fits import Data, agree, explore, fit, spread
from sklearn.metrics import make_scorer, mean_absolute_error

REGRESSION = [
    "mse",
    "press",
    "gcv",
    "evidence",
    "span",
    "radius_margin",
    "r2",
    "neg_mean_absolute_error",
    "mape",
    "neg_max_error",
]
SMOOTHER = ["press", "gcv", "evidence", "span", "radius_margin"]
OWN = make_scorer(mean_absolute_error, greater_is_better=False)
CASES = [
    Case(machine, WAYS[0], kernel)
    for machine in MACHINES
    for kernel in KERNELS
    if str(machine) in ("LSSVRCV", "KernelRidgeCV") and str(kernel) in ("rbf", "linear", "precomputed")
]
pytestmark = pytest.mark.hypothesis
EVERY = pytest.mark.parametrize("case", CASES, ids=str)


def _same_choice(case: Case, one: Data, two: Data, criterion: object, ridge: float = 1.0) -> None:
    plain = fit(case, one, criterion=criterion)
    other = fit(case, two, criterion=criterion, ridge=ridge)
    assert plain.choice == other.choice


@EVERY
@pytest.mark.parametrize("criterion", [*REGRESSION, pytest.param(OWN, id="own scorer")])
def test_targets_scaled(case: Case, criterion: object) -> None:
    def relation(case: Case, data: Data, scale: float) -> None:
        _same_choice(case, data, replace(data, y=scale * data.y), criterion)

    explore(case, relation, scale=st.sampled_from([1e-12, 1e12, 1e-5, 1e5]))


@EVERY
@pytest.mark.parametrize("criterion", ["mse", *SMOOTHER, "r2", "neg_mean_absolute_error"])
def test_targets_shifted(case: Case, criterion: str) -> None:
    def relation(case: Case, data: Data, shift: float) -> None:
        if case.machine.intercept:
            data = replace(data, y=np.round(data.y * 2**20) / 2**20)
            _same_choice(case, data, replace(data, y=data.y + shift), criterion)

    explore(case, relation, shift=st.sampled_from([1e8, -1e5]))


@EVERY
@pytest.mark.parametrize("criterion", ["mse", *SMOOTHER, "r2", "neg_mean_absolute_error"])
def test_weight_zero_is_absence(case: Case, criterion: str) -> None:
    def relation(case: Case, data: Data, extreme: float) -> None:
        gone = np.array([2, 11, 17])
        kept = np.delete(np.arange(len(data.y)), gone)
        weight = np.random.default_rng(4).uniform(0.2, 3.0, len(data.y))
        weight[gone] = 0.0
        y = data.y.copy()
        y[gone] = extreme
        present = fit(case, replace(data, y=y, weight=weight), criterion=criterion)
        absent = fit(case, replace(data, weight=weight).rows(kept), criterion=criterion)
        agree(replace(present, heldout=None), absent, size=spread(case, data.y))
        assert present.model.best_score_ == pytest.approx(absent.model.best_score_, rel=1e-6)

    explore(case, relation, extreme=st.sampled_from([0.0, 1e6]))


@EVERY
@pytest.mark.parametrize("criterion", ["mse", *SMOOTHER])
def test_weights_and_alpha_grow_together(case: Case, criterion: str) -> None:
    def relation(case: Case, data: Data, power: int) -> None:
        data = replace(data, weight=np.random.default_rng(5).uniform(0.2, 3.0, len(data.y)))
        factor = 2.0**power
        grown = replace(data, weight=factor * data.weight)
        _same_choice(case, data, grown, criterion, ridge=factor)

    explore(case, relation, power=st.sampled_from([40, -40, 3]))


@EVERY
@pytest.mark.parametrize("criterion", SMOOTHER)
def test_rows_permuted(case: Case, criterion: str) -> None:
    def relation(case: Case, data: Data) -> None:
        index = np.random.default_rng(6).permutation(len(data.y))
        one, two = (fit(case, d, criterion=criterion) for d in (data, data.rows(index)))
        assert one.choice == two.choice
        assert one.model.best_score_ == pytest.approx(two.model.best_score_, rel=1e-6)

    explore(case, relation)


@EVERY
def test_press_is_leave_one_out(case: Case) -> None:
    """The closed form of the smoother, and the held-out rows one by one."""

    def relation(case: Case, data: Data, weighted: bool) -> None:
        if weighted:
            weight = np.random.default_rng(7).uniform(0.2, 3.0, len(data.y))
            data = replace(data, weight=weight)
        press = fit(case, data, criterion="press")
        single = fit(case, replace(data, cv="loo"))
        np.testing.assert_allclose(press.scores, single.scores, rtol=1e-7)
        assert press.choice == single.choice

    explore(case, relation, weighted=st.sampled_from([False, True]))
