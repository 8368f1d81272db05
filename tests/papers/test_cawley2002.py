"""Conventional pruning: data are thrown away, and the machine of what is left is worse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from onefold import LSSVR, SparseLSSVR
from papers.cawley2002 import held_out_errors, prune, sizes_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(90)
GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.3]}


pytestmark = pytest.mark.filterwarnings("ignore:the search chose")  # edges of a small grid


def test_a_size_is_the_machine_of_the_strongest_rows_of_the_size_before() -> None:
    first, second = prune(X, Y, [90, 30], **GRID)
    kept = np.sort(np.argsort(-np.abs(first.expansion_.coef[:, 0]))[:30])
    literal = LSSVR(gamma=second.gamma, alpha=second.alpha).fit(X[kept], Y[kept])
    assert np.array_equal(second.expansion_.centres, X[kept])
    assert np.array_equal(second.predict(X), literal.predict(X))


def test_it_is_worse_than_keeping_every_residual() -> None:
    cv = KFold(3, shuffle=True, random_state=0)
    original = held_out_errors(X, Y, sizes_of(90, 20, 0.3), cv, **GRID)
    assert np.isfinite(original).all()
    improved = SparseLSSVR(**GRID, n_centres=20, cv=cv).fit(X, Y)
    assert original[-1].mean() > -improved.best_score_
