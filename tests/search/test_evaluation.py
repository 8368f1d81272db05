"""One candidate evaluated: ridges that cannot be solved with cost no other ridge its score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from onefold.approximations import Model, Problem
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import Splits
from onefold.search.evaluation import solve
from onefold.smoothers.base import UnsolvableError

Y = np.arange(6.0)[:, None]
FOLDS = [np.arange(3), np.arange(3, 6)]


class Fragile(Model):
    """Predicts μ everywhere; fails with any of the bad μ, and learns nothing from it."""

    def __init__(self, bad: tuple[float, ...]) -> None:
        self.bad, self.asked, self.report = bad, 0, {}

    def heldout(self, parts: Any, alphas: Any) -> Any:
        self.asked += 1
        if np.isin(alphas, self.bad).any():
            raise UnsolvableError(f"no solution at {self.bad}; use a larger alpha.")
        return [np.broadcast_to(np.asarray(alphas)[:, None, None], (len(alphas), 3, 1)) for _ in parts]

    def leave_one_out(self, alphas: Any) -> Any:
        raise NotImplementedError

    def expansion(self, alpha: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Given:
    """A candidate whose model is given."""

    made: Model

    def model(self, n_alphas: int) -> Model:
        return self.made


@pytest.mark.parametrize("bad", [(), (2.0,), (1.0, 4.0), (1.0, 2.0, 3.0, 4.0)])
@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_only_unsolvable_ridges_have_no_score(criterion: str, bad: tuple[float, ...]) -> None:
    problem, task = Problem(Y, Y, None, False), Task(Y, Y[:, 0], None)
    scoring = resolve_criterion(criterion, classifier=False).start(
        problem, task, Splits(6, FOLDS, FOLDS)
    )
    mu, model = np.array([1.0, 2.0, 3.0, 4.0]), Fragile(bad)
    candidate: Any = Given(model)
    found = solve([candidate], scoring, mu, False, (0, np.arange(4)))()
    assert_array_equal(np.isnan(found.means), np.isin(mu, bad))
    assert found.unsolved == len(bad)
    assert (found.why is None) == (not bad)
    assert model.asked <= 2 + mu.size
    for number in np.flatnonzero(~np.isin(mu, bad)):
        errors = [np.mean((Y[rows] - mu[number]) ** 2) for rows in FOLDS]
        spread = [np.var(Y[rows]) for rows in FOLDS]
        expected = [-e if criterion == "mse" else 1 - e / v for e, v in zip(errors, spread)]
        np.testing.assert_allclose(found.scores[number], expected, rtol=1e-14)
        heldout, _ = found.heldout(scoring, int(number))
        assert_array_equal(heldout, np.full((6, 1), mu[number]))
