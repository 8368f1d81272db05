"""Several Parquet files are one table, whole or block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from onefold.tables import TableError, open_table
from onefold.tables.statistics import ColumnMoments
from onefold.tuning import tune_table

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.standard_normal((90, 3)), columns=list("abc"))
TABLE["y"] = np.sin(TABLE["a"]) + 0.1 * RNG.standard_normal(90)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, rows in enumerate([slice(0, 40), slice(40, 40), slice(40, 90)]):
        TABLE[rows].to_parquet(tmp_path / f"part-{number}.parquet")
    return tmp_path


@pytest.mark.parametrize("pattern", ["*.parquet", "part-[0-9].parquet", ""])
def test_files_are_joined_in_the_order_of_their_names(folder: Path, pattern: str) -> None:
    source = open_table(folder / pattern)
    rows = source.read()
    assert len(rows) == 90
    assert_array_equal(rows.numbers("y"), TABLE["y"])
    blocks = list(source.batches(7, ["c", "y"]))
    assert_array_equal(np.concatenate([block.numbers("c") for block in blocks]), TABLE["c"])
    assert [block.start for block in blocks] == [*range(0, 40, 7), *range(40, 90, 7)]


def test_a_model_of_a_folder_is_that_of_the_table(folder: Path) -> None:
    one, other = (tune_table(table, "y", simple=True, gammas=[0.1, 1.0]) for table in (folder, TABLE))
    assert one.report_["best_score"] == other.report_["best_score"]


def test_columns_in_another_order_and_whole_numbers_are_taken(folder: Path) -> None:
    more = TABLE[["y", "c", "b", "a"]].head(3).round().astype("int64")
    more.to_parquet(folder / "part-9.parquet")
    rows = open_table(folder).read()
    assert_array_equal(rows.numbers("a")[90:], more["a"])


def test_what_cannot_be_one_table(folder: Path, tmp_path: Path) -> None:
    TABLE.rename(columns={"a": "other"}).to_parquet(folder / "part-3.parquet")
    with pytest.raises(TableError, match=r"part-3.parquet and part-0.parquet differ in 'a', 'other'"):
        open_table(folder)
    TABLE.astype({"a": str}).to_parquet(folder / "part-3.parquet")
    with pytest.raises(TableError, match=r"has numbers in some files and other values in others"):
        open_table(folder).read()
    TABLE.to_csv(folder / "part-4.csv")
    with pytest.raises(TableError, match=r"files that are no Parquet \('.*part-4.csv'\)"):
        open_table(folder / "part-*")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match=r"there is no Parquet file .*empty/\*.parquet"):
        open_table(tmp_path / "empty")


@given(
    cuts=st.lists(st.integers(0, 30), max_size=4),
    scale=st.sampled_from([1e-200, 1e-12, 1.0, 1e12, 1e200]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_moments_of_blocks_are_those_of_all_rows(cuts: list[int], scale: float, offset: float) -> None:
    values = scale * (np.random.default_rng(1).standard_normal((30, 2)) + np.array([offset, 0.0]))
    total = ColumnMoments.of(np.empty((0, 2)))
    for block in np.split(values, sorted(cuts)):
        total = total.joined(ColumnMoments.of(block))
    mean, deviation = total.mean_and_scale()
    assert total.n == 30
    assert_allclose(mean / scale, (values / scale).mean(axis=0), rtol=1e-12, atol=1e-12)
    assert_allclose(deviation / scale, (values / scale).std(axis=0), rtol=1e-9)
