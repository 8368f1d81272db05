"""Rows that several splits test: scores are those of each split's model, not of the mean of several."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit

from onefold import LSSVCCV, LSSVRCV
from onefold.search.loop import Search

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(5)
N = 70
X = RNG.standard_normal((N, 3))
SIGNAL = np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.3 * RNG.standard_normal(N)
CLASSES = np.digitize(SIGNAL, [0.0, 0.7])
GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.05, 0.5], "max_rounds": 1}

CASES = {
    "folds": (LSSVRCV, SIGNAL, RepeatedKFold(n_splits=2, n_repeats=4, random_state=1)),
    "shuffled": (LSSVRCV, SIGNAL, ShuffleSplit(4, test_size=0.5, random_state=1)),
    "classes": (LSSVCCV, CLASSES, RepeatedStratifiedKFold(n_splits=2, n_repeats=4, random_state=1)),
}


def loss(values, y):
    if y.dtype.kind == "f":
        return np.mean((values[:, 0] - y) ** 2)
    return np.mean(values.argmax(axis=1) != y)


@pytest.mark.parametrize("case", CASES)
def test_predictions_of_splits_give_the_scores_of_the_search(case) -> None:
    kind, y, cv = CASES[case]
    model = kind("auto", metric="auto", blend=True, cv=cv, **GRID).fit(X, y)
    setup = model.set_up(X, y)
    search = setup.strategy.run(Search(setup))
    tests, table = search.scoring.splits.tests, model.cv_results_
    for leader in search.leaders:
        losses = [loss(values, y[rows]) for values, rows in zip(leader.of_splits, tests)]
        place = search.ledger.index_of(leader.index, leader.ridge)
        assert_allclose(-np.mean(losses), table["mean_test_score"][place], rtol=1e-9)
        total, count = np.zeros(leader.heldout.shape), np.zeros((N, 1))
        for values, rows in zip(leader.of_splits, tests):
            total[rows] += values
            count[rows] += 1
        with np.errstate(invalid="ignore"):
            assert_allclose(total / count, leader.heldout, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_member_alone_has_the_score_of_the_search(case) -> None:
    kind, y, cv = CASES[case]
    model = kind("rbf", blend=True, cv=cv, **GRID).fit(X, y)
    assert [one["weight"] for one in model.blend_] == [1.0]
    assert_allclose(model.blend_score_, model.best_score_, rtol=1e-12)


def test_no_weights_from_the_rows_they_are_judged_by() -> None:
    """Both splits test the same rows: no blend of them could have an honest score."""
    test, rest = np.arange(50, N), np.arange(50)
    pairs = [(rest[:30], test), (rest[20:], test)]
    model = LSSVRCV("auto", blend=True, metric="auto", cv=pairs, **GRID).fit(X, SIGNAL)
    assert [one["weight"] for one in model.blend_] == [1.0]
    assert_allclose(model.blend_score_, model.best_score_, rtol=1e-12)
