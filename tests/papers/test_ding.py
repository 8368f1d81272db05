"""ding2011 and ding2012: short versions of the tables, the z statistic, and Theorem 3 by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.common import DATA
from onefold import LSSVC
from onefold.approximations import Nystroem
from papers import ding2011, ding2012, ida

needs_data = pytest.mark.skipif(
    not (DATA / "ida_heart.npz").exists(), reason="the IDA sets are not in ONEFOLD_DATA"
)
ROWS, LABELS = make_moons(130, noise=0.3, random_state=0)
Y = 2.0 * LABELS - 1
SPLIT = ida.Split(ROWS[:80], Y[:80], ROWS[80:], Y[80:])


@needs_data
@pytest.mark.parametrize("paper", [ding2011.PAPER, ding2012.PAPER], ids=lambda paper: paper.key)
def test_a_short_version_writes_the_page(paper, tmp_path: Path) -> None:
    paper.run([], True, tmp_path)
    text = (tmp_path / f"{paper.key}.md").read_text("utf-8")
    assert text.count("reproduced:**") + text.count("Reproduced:**") == len(paper.parts)
    for part in paper.parts:
        assert (tmp_path / "images" / f"{paper.key}-{part.name}.png").exists()


@needs_data
def test_random_partitions_are_not_taken_for_official_ones() -> None:
    assert len(ida.load_splits("heart", "official")) == 10
    assert len(ida.load_splits("heart", "random")) == 100
    assert ida.load_splits("thyroid", "official") == []


def test_the_search_finds_what_separate_fits_find() -> None:
    found = ida.select(SPLIT, "exact", 5).cv_results_["mean_test_score"]
    np.testing.assert_allclose(-found.reshape(11, 13).T, ida.literal_cv(SPLIT), atol=1e-12)


def test_z_is_the_difference_over_its_standard_error() -> None:
    first, second = ida.Scores([10.0, 12.0, 14.0], [1.0] * 3), ida.Scores([9.0, 10.0], [3.0, 5.0])
    a, b = first.summary(), second.summary()
    assert (a["mean"], a["std"], a["splits"], b["seconds"]) == (12.0, 2.0, 3, 4.0)
    by_hand = (12 - 9.5) / np.sqrt(4 / 3 + 0.5 / 2)
    assert ida.z_statistic(a, b) == pytest.approx(by_hand)
    assert ida.z_statistic(b, a) == pytest.approx(-by_hand)


def test_the_published_table_contradicts_its_claims() -> None:
    """Standard errors of 100 and 20 replications, from the published deviations."""
    found = [ding2011.published(name) for name in ("thyroid", "heart", "image")]
    z = [ida.z_statistic(one["approximate"], one["exact"]) for one in found]
    by_hand = [
        (4.773 - 5.0) / np.sqrt((2.291**2 + 2.58**2) / 100),
        (18.92 - 16.2) / np.sqrt((4.576**2 + 3.259**2) / 100),
        (4.391 - 3.014) / np.sqrt((0.631**2 + 0.877**2) / 20),
    ]
    np.testing.assert_allclose(z, by_hand)
    assert z[0] < ida.SIGNIFICANT < min(z[1:])
    # One difference of ten, the smallest in size, has the other sign: 2 of 2^10 sign patterns each way.
    exact, approximate = zip(*((a[1], b[1]) for a, b in ding2011.PUBLISHED.values()))
    assert ida.signed_rank(exact, approximate) == pytest.approx(4 / 2**10)


GAMMA = 0.7
K = rbf_kernel(SPLIT.X, gamma=GAMMA)
K_TEST = rbf_kernel(SPLIT.X_test, SPLIT.X, gamma=GAMMA)


@pytest.mark.parametrize("mu", [0.01, 0.5, 8.0])
@pytest.mark.parametrize(("c", "rank"), [(8, 4), (20, 20), (60, 10)])
def test_every_inequality_of_theorem_3(mu: float, c: int, rank: int) -> None:
    columns = np.random.default_rng(c).choice(len(K), c, replace=False)
    low = ding2012.low_rank(K, columns, rank)
    assert np.linalg.matrix_rank(low, tol=1e-6) <= rank
    norm, n = np.linalg.norm(K - low, 2), len(K)
    assert np.linalg.eigvalsh(K - low)[0] > -1e-8  # hence ‖K − K̃‖₂ ≤ ‖K‖₂

    inverse, inverse_low = (np.linalg.inv(one + mu * np.eye(n)) for one in (K, low))
    assert max(np.linalg.norm(inverse, 2), np.linalg.norm(inverse_low, 2)) <= (1 + 1e-9) / mu
    for right in (np.ones(n), SPLIT.y):
        moved = (inverse_low - inverse) @ right
        np.testing.assert_allclose(moved, inverse_low @ (K - low) @ inverse @ right, atol=1e-6)
        assert np.linalg.norm(moved) <= np.sqrt(n) * norm / mu**2

    found = ding2012.change(K, low, K_TEST, SPLIT.y, mu)
    b = inverse.sum(axis=0) @ SPLIT.y / inverse.sum()
    moved = (inverse_low - inverse) @ (SPLIT.y - b)
    assert found["change"] == pytest.approx(np.abs(K_TEST @ moved).max(), rel=1e-6)
    assert found["bound"] == pytest.approx((1 + abs(b)) * norm / (n * (mu / n) ** 2))
    assert found["change"] <= found["schwarz"] <= found["longest row"] <= found["bound"]


def test_the_change_is_that_of_the_estimators() -> None:
    """Algorithm 1 with an own offset, and the exact machine, both by the library."""
    columns, mu = np.arange(0, 80, 4), 0.5
    low = ding2012.low_rank(K, columns, 10)
    structure = Nystroem(SPLIT.X[columns], rank=10, predict="rows")
    settings = {"gamma": GAMMA, "alpha": mu, "calibration": None}
    exact = LSSVC(approximation="exact", **settings).fit(SPLIT.X, SPLIT.y)
    approximate = LSSVC(approximation=structure, **settings).fit(SPLIT.X, SPLIT.y)
    values = [model.decision_function(SPLIT.X_test) for model in (exact, approximate)]
    found = ding2012.change(K, low, K_TEST, SPLIT.y, mu)
    assert found["change, own offset"] == pytest.approx(np.abs(values[1] - values[0]).max(), rel=1e-6)
    assert found["signs changed"] == np.mean((values[0] > 0) != (values[1] > 0))
    assert found["norm"] == pytest.approx(approximate.approximation_["kernel_error"], rel=1e-3)


def test_theorem_2_promises_less_than_nothing_at_the_papers_rank() -> None:
    """‖K − K_k‖_F + 32^(1/4) n for k = c/2 and K_ii = 1: more than ‖K‖_F ≤ n, the error of K̃ = 0."""
    rest = np.sqrt(np.sum(K**2) - np.sum(np.linalg.eigvalsh(K)[-10:] ** 2))
    assert ding2012.expected_error(K, 20, 10) == pytest.approx(rest + 32**0.25 * len(K))
    assert ding2012.expected_error(K, 20, 10) > np.linalg.norm(K)
