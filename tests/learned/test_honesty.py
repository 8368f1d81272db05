"""On noise no reported score claims what is not there; `benchmarks/honesty.py` has the long version."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from benchmarks.honesty import draw, losses_of_constant, one_draw, seen_metric
from onefold import LSSVCCV, LSSVRCV

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

GRID = {"gammas": [0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0, 10.0, 100.0], "max_rounds": 2}
SIZES = [(100, None), (240, 100)]


@pytest.mark.parametrize(("n", "metric_rows"), SIZES, ids=["crossfitted", "subsample"])
@pytest.mark.parametrize("kind", ["random numbers", "skewed numbers", "rare labels"])
def test_no_draw_is_far_from_a_constant(kind, n, metric_rows) -> None:
    """Within one standard error of the constant's score: choice and blend, every draw."""
    for seed in range(3):
        found = one_draw(kind, n, metric_rows, seed, **GRID)
        assert abs(found["choice"]) < 1
        assert abs(found["blend"]) < 1


@pytest.mark.parametrize(("n", "metric_rows"), SIZES, ids=["crossfitted", "subsample"])
def test_random_labels(n, metric_rows) -> None:
    """The best of many cells is lucky; where nothing tells labels apart, it is not what is reported."""
    found = [one_draw("random labels", n, metric_rows, seed, **GRID) for seed in range(6)]
    for what in ("choice, paired", "blend, paired"):
        gains = np.array([one[what] for one in found])
        assert abs(gains.mean()) < 1
        assert gains.max() < 2.5


@pytest.mark.parametrize("kind", ["random labels", "random numbers"])
def test_a_metric_that_saw_its_fold_is_what_is_avoided(kind) -> None:
    """The same rounds with one metric from all rows report a gain on noise; own metrics do not."""
    claimed, own = [], []
    for seed in range(3):
        X, y = draw(kind, 120, seed, features=30)
        labels = y.dtype.kind == "i"
        cv = (StratifiedKFold if labels else KFold)(5, shuffle=True, random_state=seed)
        losses = losses_of_constant(y, cv, np.ones(len(y), dtype=bool))
        error = losses.std(ddof=1) / np.sqrt(losses.size)
        seen = max(score for score, _ in seen_metric(X, y, 2, cv))
        model = (LSSVCCV if labels else LSSVRCV)("rbf", metric="full", max_rounds=2, cv=cv).fit(X, y)
        learned = [one["score"] for one in model.metric_history_ if one["round"]]
        claimed.append((seen + losses.mean()) / error)
        own.append((max(model.best_score_, *learned) + losses.mean()) / error)
    assert np.mean(claimed) > 2
    assert np.max(own) < 2
    assert np.all(np.array(claimed) > own)
