"""A search says what refits would say: its held-out predictions, its scores, its final model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from metamorphic_cases import MACHINES, WAYS, Case
from metamorphic_fits import Data, every, explore, fit, inputs, spread
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

FIXED = {str(m): m for m in MACHINES if not m.searches}
EXACT = WAYS[0]
# Their landmarks are given, or there are none: a training part is treated as all rows are.
TREATS_PARTS_ALIKE = ("exact", "auto", "nystroem", "ding2012", "toeplitz")


def _fixed(case: Case, way: Any) -> Case:
    return Case(FIXED[str(case.machine).removesuffix("CV")], way, case.kernel)


def _settings(case: Case, found: Any) -> dict[str, Any]:
    """The chosen hyper-parameters as those of the fixed estimator."""
    kernel = found.model.kernel
    if case.kernel.has_width:
        kernel = kernel.scaled(found.model.gamma_)
    return {"kernel": kernel, "alpha": found.model.alpha_}


@every(lambda c: c.machine.searches and not c.machine.prunes and c.way.name in TREATS_PARTS_ALIKE)
def test_heldout_predictions_are_those_of_refits(case: Case) -> None:
    """A part of a series is no series, but its Toeplitz matrix is exact: the refit may be exact too."""

    def relation(case: Case, data: Data, weighted: bool) -> None:
        if weighted and case.way.weights:
            data = replace(data, weight=np.random.default_rng(8).uniform(0.2, 3.0, len(data.y)))
        found = fit(case, data)
        single = _fixed(case, EXACT if case.way.name in ("toeplitz", "auto") else case.way)
        for train, test in data.cv:
            part = replace(data.rows(train), cv=None, Z=data.X[test])
            refit = fit(single, part, **_settings(case, found))
            bound = found.slack * spread(case, data.y)
            assert_allclose(found.heldout[test], refit.values, rtol=0, atol=bound)

    explore(case, relation, weighted=st.sampled_from([False, True]))


@every(lambda c: c.machine.searches and not c.machine.prunes and not c.way.picks)
def test_the_final_model_is_the_fixed_one(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        found = fit(case, data, refit="same")
        way = EXACT if case.way.name == "auto" else case.way
        fixed = fit(_fixed(case, way), data, **_settings(case, found))
        bound = found.slack * spread(case, data.y)
        assert_allclose(found.values, fixed.values, rtol=0, atol=bound)

    explore(case, relation, examples=1)


@every(lambda c: c.machine.searches and not c.machine.prunes and not c.machine.classifies)
def test_the_best_score_is_that_of_the_heldout_predictions(case: Case) -> None:
    def relation(case: Case, data: Data, weighted: bool) -> None:
        if weighted and case.way.weights:
            data = replace(data, weight=np.random.default_rng(9).uniform(0.2, 3.0, len(data.y)))
        found = fit(case, data)
        squared = (data.y - found.heldout) ** 2
        weight = np.ones(len(squared)) if data.weight is None else data.weight
        scores = [-np.average(squared[test], weights=weight[test]) for _, test in data.cv]
        assert_allclose(found.model.best_score_, np.mean(scores), rtol=1e-6)

    explore(case, relation, weighted=st.sampled_from([False, True]))


@every(
    lambda c: (
        c.machine.searches and c.way.name in ("exact", "nystroem", "toeplitz") and not c.machine.prunes
    )
)
def test_leave_one_out_is_as_many_folds_as_rows(case: Case) -> None:
    """Its own closed form against that of the blocks; scored together against row by row."""

    def relation(case: Case, data: Data) -> None:
        X, _ = inputs(case, data)
        pooled = fit(case, replace(data, cv="loo"))
        blocks = fit(case, replace(data, cv=list(KFold(len(data.y)).split(X))))
        assert_allclose(pooled.scores, blocks.scores, rtol=1e-6, atol=1e-9)
        if pooled.choice == blocks.choice:
            bound = 10 * pooled.slack * spread(case, data.y)
            assert_allclose(pooled.heldout, blocks.heldout, rtol=0, atol=bound)

    explore(case, relation, examples=1)


@every(lambda c: str(c.machine) in ("LSSVRCV", "KernelRidgeCV") and c.way.name == "exact")
def test_left_out_beside_nothing_of_its_weight(case: Case) -> None:
    """A row of 1e13 times the weight of all others is left out like any other, and so are they."""

    def relation(case: Case, data: Data, heavy: int) -> None:
        weight = np.ones(len(data.y))
        weight[heavy] = 1e13
        cell = {"alphas": [0.3]} | ({"gammas": [1.0]} if case.kernel.has_width else {})
        found = fit(case, replace(data, weight=weight, cv="loo"), **cell)
        for row in (heavy, (heavy + 5) % len(data.y)):
            rest = np.delete(np.arange(len(data.y)), row)
            part = replace(data, weight=weight, Z=data.X[[row]]).rows(rest)
            refit = fit(_fixed(case, EXACT), replace(part, cv=None), **_settings(case, found))
            assert_allclose(found.heldout[row], refit.values[0], rtol=0, atol=1e-6)

    explore(case, relation, heavy=st.integers(0, 23))
