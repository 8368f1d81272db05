"""Cells that are compared by something other than their scores: ranks in the ledger and the journal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from onefold import LSSVCCV
from onefold.search.evaluation import Evaluation
from onefold.search.ledger import Ledger
from tests.search.ledgers import empty_ledger

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 2))
LABELS = np.sin(2 * X[:, 0]) + 0.5 * RNG.standard_normal(60) > 0


def small() -> Ledger:
    """Two candidates; by their scores the first is best, by their ranks the second."""
    ledger = empty_ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2)
    scores = np.array([[-0.1, -0.1], [-0.2, -0.2]])
    ledger.append(Evaluation(0, np.arange(2), scores, 0.5, None, {}, np.array([-0.7, np.nan])))
    ledger.append(Evaluation(1, np.arange(2), scores - 0.1, 0.5, None, {}, np.array([-0.6, -0.5])))
    return ledger


def test_ranks_choose_and_scores_are_reported() -> None:
    ledger = small()
    assert ledger.best() == (1, 1)
    assert ledger.best([0]) == (0, 0)
    assert ledger.ranks[1, 1] == -0.5
    assert ledger.means[1, 1] == pytest.approx(-0.3)
    assert ledger.progress()["best_score"] == ledger.means[1, 1]
    assert ledger.cv_results()["rank_test_score"].tolist() == [1, 2, 2, 4]
    ledger.append(
        Evaluation(0, np.array([1]), np.array([[-0.9, -0.9]]), 0.1, None, {}, np.array([-0.4]))
    )
    assert ledger.best() == (0, 1)


@pytest.mark.parametrize("kernel", ["auto", ["linear", "rbf"]], ids=str)
def test_a_search_among_kernels_replayed(kernel, tmp_path: Path) -> None:
    """Classifiers are ranked by squared errors: the journal gives the same choice and the same table."""
    path = str(tmp_path / "search")
    one, two = (
        LSSVCCV(kernel, gammas=[0.3, 1.0], alphas=[0.1, 1.0], cv=4, checkpoint=path).fit(X, LABELS)
        for _ in range(2)
    )
    table, again = one.cv_results_, two.cv_results_
    assert table.keys() == again.keys()
    assert table["params"] == again["params"]
    assert_array_equal(table["mean_test_score"], again["mean_test_score"])
    assert one.best_params_ == two.best_params_
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(
        np.ma.getmaskarray(table["param_gamma"]), np.ma.getmaskarray(again["param_gamma"])
    )
    assert np.ma.getmaskarray(again["param_gamma"]).any() == (kernel != "auto")
