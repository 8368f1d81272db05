"""Which leaders are fitted on all rows, where each fit is dear."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import KFold

from onefold import LSSVRCV
from onefold.search.choice import Leader, worth_fitting
from onefold.search.evaluation import Evaluation
from tests.search.ledgers import empty_ledger

RNG = np.random.default_rng(1)
N = 60
Y = RNG.standard_normal(N)
NOISE = RNG.standard_normal((4, N))
# The best, a copy of it with more noise, one that is wrong where the best is right, pure noise.
HELDOUT = [
    Y + 0.5 * NOISE[0],
    Y + 0.5 * NOISE[0] + 0.3 * NOISE[1],
    Y - 0.6 * NOISE[0],
    NOISE[3] - 3 * Y,
]


def leaders():
    scoring = LSSVRCV(cv=KFold(3)).set_up(np.zeros((N, 1)), Y).scoring
    ledger = empty_ledger([{"gamma": 1.0}] * 4, [1.0], 3)
    for number, values in enumerate(HELDOUT):
        score = -np.mean((values - Y) ** 2)
        ledger.append(Evaluation(number, np.array([0]), np.full((1, 3), score), 0.0, None, {}))
    found = [Leader(None, number, 0, 1.0, values[:, None]) for number, values in enumerate(HELDOUT)]
    return found, ledger, scoring


def kept(*, blend, among=(3, 2, 1, 0)):
    found, ledger, scoring = leaders()
    return [one.index for one in worth_fitting([found[i] for i in among], ledger, scoring, blend=blend)]


def test_the_two_best_for_a_choice() -> None:
    scores = [-np.mean((values - Y) ** 2) for values in HELDOUT]
    assert kept(blend=False) == np.argsort(scores)[::-1][:2].tolist()
    assert kept(blend=False, among=[3]) == [3]


def test_those_with_weight_for_a_blend() -> None:
    """Errors that cancel are worth more than a small error of one's own."""
    assert kept(blend=True) == [0, 2]
    assert kept(blend=True, among=[3]) == [3]
    assert kept(blend=True, among=[3, 1]) == [1]
