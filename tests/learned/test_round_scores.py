"""Rounds go on while they gain, whatever the criterion counts from."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVRCV

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(1)
X = RNG.standard_normal((80, 12))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.standard_normal(80)


@pytest.mark.parametrize("criterion", ["r2", "mse", "explained_variance"])
def test_shares_that_begin_below_zero(criterion) -> None:
    """Eleven idle features: an isotropic kernel is worse than the mean, and each round gains much."""
    options = {"alphas": [0.1], "gammas": [1.0], "cv": 4}
    model = LSSVRCV("rbf", metric="diagonal", criterion=criterion, **options).fit(X, Y)
    history = [one["score"] for one in model.metric_history_]
    assert history[0] < 0
    assert len(history) == 6
    assert history[5] > history[3] > history[2]
