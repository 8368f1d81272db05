"""The order of rows, folds and grid values is of no consequence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from metamorphic_cases import Case
from metamorphic_fits import GAMMAS, Data, agree, alphas_of, every, explore, fit, inputs, spread
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

SEARCHES = every(lambda case: case.machine.searches)
SELECTS = every(lambda case: case.machine.searches and not case.machine.prunes, share=2)


def _seen(data: Data, index: np.ndarray) -> Data:
    """The rows in another order, and the folds of these rows."""
    where = np.argsort(index)
    cv = [(where[train], where[test]) for train, test in data.cv]
    return replace(data, X=data.X[index], y=data.y[index], cv=cv)


@every(lambda case: not (case.way.ordered or case.way.picks))
def test_rows_permuted(case: Case) -> None:
    def relation(case: Case, data: Data, order: int) -> None:
        index = np.random.default_rng(order).permutation(len(data.y))
        if case.kernel.name == "precomputed":
            data = replace(data, X=data.X.copy())
        agree(fit(case, data), fit(case, _seen(data, index)), size=spread(case, data.y), rows=index)

    explore(case, relation, order=st.integers(0, 99))


@SEARCHES
def test_folds_given_as_indices(case: Case) -> None:
    def relation(case: Case, data: Data, which: int) -> None:
        y = data.y
        if case.machine.classifies:
            kinds = [StratifiedKFold(3), StratifiedShuffleSplit(3, test_size=0.3, random_state=1)]
        else:
            kinds = [KFold(3), ShuffleSplit(3, test_size=0.3, random_state=1)]
        splitter = kinds[which]
        X, _ = inputs(case, data)
        named, listed = (
            fit(case, replace(data, cv=cv)) for cv in (splitter, list(splitter.split(X, y)))
        )
        assert named.choice == listed.choice
        assert_array_equal(named.values, listed.values)
        assert_array_equal(named.scores, listed.scores)

    explore(case, relation, which=st.sampled_from([0, 1]))


@every(lambda case: case.machine.searches and case.way.name in ("exact", "nystroem", "improved"))
def test_groups_are_folds(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        groups = np.empty(len(data.y), dtype=int)
        for number, (_, test) in enumerate(data.cv):
            groups[test] = number
        X, _ = inputs(case, data)
        listed = fit(case, replace(data, cv=list(GroupKFold(3).split(X, data.y, groups))))
        model = listed.model.__class__(**(listed.model.get_params() | {"cv": GroupKFold(3)}))
        model.fit(X, data.y, groups=groups)
        assert_array_equal(model.expansion_.coef, listed.model.expansion_.coef)

    explore(case, relation, examples=1)


@every(lambda case: case.machine.searches, share=2)
def test_folds_in_another_order(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        turned = replace(data, cv=[(train[::-1], test[::-1]) for train, test in data.cv[::-1]])
        one, two = fit(case, data), fit(case, turned)
        agree(one, two, size=spread(case, data.y))
        top = np.max(np.abs(one.scores))
        assert_allclose(two.scores, one.scores, rtol=0, atol=10 * one.slack * max(top, 1e-300))

    explore(case, relation, examples=1)


@SELECTS
def test_grid_in_another_order(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        grid = {"alphas": alphas_of(case)[::-1]} | (
            {"gammas": GAMMAS[::-1]} if case.kernel.has_width else {}
        )
        one, two = fit(case, data), fit(case, data, **grid)
        assert one.model.best_params_ == two.model.best_params_
        agree(one, replace(two, choice=one.choice), size=spread(case, data.y))

    explore(case, relation, examples=1)


@SELECTS
def test_less_of_the_grid(case: Case) -> None:
    """What loses has no say: a grid that keeps the best keeps the choice."""

    def relation(case: Case, data: Data, keep: int) -> None:
        one = fit(case, data)
        alphas = sorted({alphas_of(case)[keep], one.model.alpha_})
        grid = {"alphas": alphas}
        if case.kernel.has_width:
            grid["gammas"] = sorted({GAMMAS[keep], one.model.gamma_})
        two = fit(case, data, **grid)
        assert one.model.best_params_ == two.model.best_params_
        agree(one, replace(two, choice=one.choice), size=spread(case, data.y))

    explore(case, relation, keep=st.sampled_from([0, 1, 2]))


@SELECTS
def test_a_value_of_the_grid_twice(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        grid = {"alphas": 2 * alphas_of(case)} | (
            {"gammas": GAMMAS * 2} if case.kernel.has_width else {}
        )
        one, two = fit(case, data), fit(case, data, **grid)
        assert one.model.best_params_ == two.model.best_params_
        agree(one, replace(two, choice=one.choice), size=spread(case, data.y))

    explore(case, relation, examples=1)


@every(share=3)
def test_predictions_row_by_row(case: Case) -> None:
    """What else is asked for changes no answer."""

    def relation(case: Case, data: Data) -> None:
        found = fit(case, data)
        _, Z = inputs(case, data)
        ask = found.model.decision_function if case.machine.classifies else found.model.predict
        singly = np.concatenate([ask(Z[i : i + 1]) for i in range(len(Z))])
        assert_allclose(singly, found.values, rtol=0, atol=found.slack * spread(case, data.y))

    explore(case, relation, examples=1)
