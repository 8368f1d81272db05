"""edwards2013: a short version of its tables and figures, and what the study of Table II varies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import DATA
from papers import edwards2013_errors as errors
from papers import edwards2013_times as times
from papers.edwards2013 import PAPER
from papers.ida import Split

needs_data = pytest.mark.skipif(
    not all((DATA / f"{name}.npz").exists() for name in ("ida_thyroid", "energydata_appliances")),
    reason="ida_thyroid and energydata_appliances are not in ONEFOLD_DATA",
)
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((24, 3))
SPLIT = Split(ROWS, np.where(ROWS[:, 0] > 0.3, 1, -1), ROWS[:5], np.ones(5))


@needs_data
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "edwards2013.md").read_text("utf-8")
    assert text.count("eproduced:**") == len(PAPER.parts) + 1  # Table I and Figure 1 are one part
    assert {path.stem for path in tmp_path.glob("images/*")} == {
        f"edwards2013-figure{i}" for i in (1, 2)
    }


@pytest.mark.parametrize("order", errors.ORDERS)
def test_an_order_has_every_row_once(order: str) -> None:
    found = errors.Setting(order=order).order_of(SPLIT)
    assert np.array_equal(np.sort(found), np.arange(24))


def test_interleaved_classes_are_spread_evenly() -> None:
    labels = SPLIT.y[errors.Setting(order="classes interleaved").order_of(SPLIT)]
    share = np.mean(labels == 1)
    assert np.all(np.abs(np.cumsum(labels == 1) - share * np.arange(1, 25)) <= 1)


@pytest.mark.parametrize("shape", errors.SHAPES)
def test_levels_multiply_to_the_number_of_rows(shape: str) -> None:
    assert np.prod(errors.Setting(shape=shape).shape_of(24)) == 24


def test_growth_is_that_of_the_largest_sizes_where_a_fixed_cost_hides_it() -> None:
    seconds = {str(power): 1.0 + 1e-5 * 2.0**power for power in range(8, 21)}
    overall, large = times.growth(seconds)
    assert overall < 0.6 < 0.8 < large < 1.0
