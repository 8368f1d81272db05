"""cawley2002: short versions of both figures, and conventional pruning, which throws data away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold

from benchmarks.common import DATA
from onefold import LSSVR
from papers.cawley2002 import PAPER, conventional, fewest_flat, improved, prune

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(90)
GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.3]}


@pytest.mark.skipif(
    not all((DATA / f"{name}.npz").exists() for name in ("mcycle", "boston")),
    reason="mcycle and boston are not in ONEFOLD_DATA",
)
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "cawley2002.md").read_text("utf-8")
    assert text.count("eproduced:**") == 2
    assert {path.stem for path in tmp_path.glob("images/*")} == {f"cawley2002-figure{i}" for i in (1, 2)}


def test_a_size_is_the_machine_of_the_strongest_rows_of_the_size_before() -> None:
    first, second = prune(X, Y, [90, 30], **GRID)
    kept = np.sort(np.argsort(-np.abs(first.expansion_.coef[:, 0]))[:30])
    literal = LSSVR(gamma=second.gamma, alpha=second.alpha).fit(X[kept], Y[kept])
    assert np.array_equal(second.expansion_.centres, X[kept])
    assert np.array_equal(second.predict(X), literal.predict(X))


def test_it_is_worse_than_keeping_every_residual() -> None:
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    sizes, own = improved(X, Y, splits, 0.4)
    theirs = conventional(X, Y, [60, *sizes[1:]], splits)
    assert sizes == sorted(sizes, reverse=True)
    assert np.isfinite(own).all()
    assert np.isfinite(theirs).all()
    smaller = [k for k, size in enumerate(sizes) if 5 < size < 30]
    assert smaller
    assert all(theirs[k].mean() > own[k].mean() for k in smaller)


def test_the_fewest_patterns_are_those_before_the_error_first_rises() -> None:
    found = {"sizes": [50, 20, 10, 5], "improved": [1.0, 1.04, 1.2, 1.01]}
    assert fewest_flat(found) == 20
    assert fewest_flat(found | {"improved": [1.0, 0.9, 0.9, 0.9]}) == 5
