"""Cells that are compared by something other than their scores: ranks in the ledger and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from onefold import LSSVCCV
from onefold.search import Entry, Ledger

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 2))
LABELS = np.sin(2 * X[:, 0]) + 0.5 * RNG.standard_normal(60) > 0


def small() -> Ledger:
    """Two candidates; by their scores the first is best, by their ranks the second."""
    ledger = Ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2, fingerprint="this one")
    scores = np.array([[-0.1, -0.1], [-0.2, -0.2]])
    ledger.append(Entry(0, np.arange(2), scores, 0.5, None, {}, np.array([-0.7, np.nan])))
    ledger.append(Entry(1, np.arange(2), scores - 0.1, 0.5, None, {}, np.array([-0.6, -0.5])))
    return ledger


def test_ranks_choose_and_scores_are_reported() -> None:
    ledger = small()
    assert ledger.best() == (1, 1)
    assert ledger.best([0]) == (0, 0)
    assert ledger.rank(1, 1) == -0.5
    assert ledger.score(1, 1) == pytest.approx(-0.3)
    assert ledger.progress()["best_score"] == ledger.score(1, 1)
    assert ledger.cv_results()["rank_test_score"].tolist() == [1, 2, 2, 4]
    ledger.append(Entry(0, np.array([1]), np.array([[-0.9, -0.9]]), 0.1, None, {}, np.array([-0.4])))
    assert ledger.best() == (0, 1)


def test_a_file_keeps_the_ranks(tmp_path: Path) -> None:
    ledger = small()
    ledger.append(Entry(1, np.array([0]), np.array([[-0.8, -0.8]]), 0.1, None, {}))
    ledger.write(tmp_path / "search.jsonl")
    again = Ledger.read(tmp_path / "search.jsonl", "this one")
    for one, two in zip(ledger.entries[:2], again.entries):
        assert_array_equal(one.ranks, two.ranks)
    assert again.entries[2].ranks is None
    assert again.rank(1, 0) == again.score(1, 0) == -0.8
    assert again.best() == ledger.best() == (1, 1)


@pytest.mark.parametrize("after", [b"[-0.6]", b'[-0.6, "x"]', b"[[-0.6, -0.5]]", b"-0.6", b"{}"])
def test_damaged_ranks_are_refused(after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    small().write(path)
    content = path.read_bytes()
    assert b'"ranks": [-0.6, -0.5]' in content
    path.write_bytes(content.replace(b"[-0.6, -0.5]", after, 1))
    with pytest.raises(ValueError, match=r"^line 3 of .*search.jsonl is damaged \(\w+\); delete it"):
        Ledger.read(path)


@pytest.mark.parametrize("kernel", ["auto", ["linear", "rbf"]], ids=str)
def test_a_search_among_kernels_replayed(kernel, tmp_path: Path) -> None:
    """Classifiers are ranked by squared errors: the file gives the same choice and the same table."""
    model = LSSVCCV(kernel, gammas=[0.3, 1.0], alphas=[0.1, 1.0], cv=4)
    ledger = model._search(model.set_up(X, LABELS)).found.ledger
    assert all(entry.ranks is not None for entry in ledger.entries)
    ledger.write(tmp_path / "search.jsonl")
    again = Ledger.read(tmp_path / "search.jsonl")
    assert again.best() == ledger.best()
    one, two = ledger.cv_results(), again.cv_results()
    assert one.keys() == two.keys()
    assert one["params"] == two["params"]
    assert_array_equal(one["mean_test_score"], two["mean_test_score"])
    assert_array_equal(np.ma.getmaskarray(one["param_gamma"]), np.ma.getmaskarray(two["param_gamma"]))
    assert np.ma.getmaskarray(two["param_gamma"]).any() == (kernel != "auto")
