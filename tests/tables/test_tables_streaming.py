"""One preparation for memory and disk: blocks of any size learn what the whole table does."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.tables import Learner, Preparation, TableError, TableRows, learn_preparation, open_table
from onefold.tables.matrix import learn_from_disk, written
from onefold.tables.medians import MedianSketch

N = 120
RNG = np.random.default_rng(5)


def mixed() -> pa.Table:
    """Every kind of column, some with gaps, in an order that no block shows wholly."""
    numbers = RNG.normal(3, 2, N)
    begin = datetime.datetime(2019, 3, 1)
    gaps = RNG.random(N) < 0.2
    return pa.table(
        {
            "a": np.where(gaps, np.nan, numbers),
            "count": pa.array([None if i % 9 == 0 else i % 7 for i in range(N)], pa.int64()),
            "late": pa.array([None] * 60 + list(range(60)), pa.int64()),
            "colour": [["red", "green", "blue", None][i % 4] if i < 100 else "grey" for i in range(N)],
            "ok": [["yes", "no", "Yes", None][i % 4] for i in range(N)],
            "truth": [i % 3 == 0 for i in range(N)],
            "when": [begin + datetime.timedelta(hours=151 * i) for i in range(N)],
            "day": [f"{1 + i % 28}/{1 + i % 12}/{2018 + i % 4}" for i in range(N)],
            "clock": [f"{i % 24:02d}:{i % 60:02d}" for i in range(N)],
            "same": ["x"] * N,
            "some": ["x" if i % 5 else None for i in range(N)],
            "y": np.sin(numbers),
        }
    )


TABLE = mixed()


def in_blocks(rows: TableRows, size: int, **options) -> Preparation:
    learner = Learner(["y"], **options)
    for block in rows.slices(size):
        learner.add(block)
    return learner.finish()


def assert_same(one: Preparation, other: Preparation) -> None:
    assert one.feature_names == other.feature_names
    assert (one.constant, one.row_numbers, one.missing) == (
        other.constant, other.row_numbers, other.missing,
    )  # fmt: skip
    for mine, theirs in zip(one.parts, other.parts):
        assert type(mine) is type(theirs)
        for key, value in vars(mine).items():
            if isinstance(value, float):
                np.testing.assert_allclose(value, vars(theirs)[key], rtol=1e-12, atol=1e-12)
            else:
                assert value == vars(theirs)[key]


@pytest.mark.parametrize("size", [1, 7, 64, N])
def test_blocks_learn_what_the_whole_table_does(size):
    rows = TableRows(TABLE)
    whole, parts = learn_preparation(rows, ["y"]), in_blocks(rows, size)
    assert_same(whole, parts)
    np.testing.assert_allclose(parts.transform(rows), whole.transform(rows), rtol=1e-9, atol=1e-9)
    assert "some is missing" in whole.feature_names
    assert whole.constant == ("same",)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("block", [7, 1000])
def test_a_file_in_blocks_gives_the_matrix_of_memory(tmp_path, suffix, block):
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        pyarrow.csv.write_csv(TABLE, path)
    else:
        pyarrow.parquet.write_table(TABLE, path)
    rows = open_table(path).read()
    whole = learn_preparation(rows, ["y"])
    source = open_table(path)
    learner, beside, _ = learn_from_disk(source, ["y"], block=block)
    preparation = learner.finish()
    assert_same(whole, preparation)
    X = written(preparation, source.typed_batches(block), len(beside), tmp_path / "rows.npy")
    np.testing.assert_allclose(X, whole.transform(rows), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(beside.numbers("y"), TABLE["y"], rtol=1e-12)
    text = next(open_table(path).batches(N))  # as prediction reads it
    np.testing.assert_allclose(whole.transform(text), whole.transform(rows), rtol=1e-12)


def test_the_types_of_text_are_those_of_the_whole_table(tmp_path):
    lines = ["1,1,true,1 000,x"] * 20 + ["2.5,3,false,2 000,7", "3,,true,3 000,x"]
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n" + "\n".join(lines) + "\n")
    source = open_table(tmp_path / "t.csv")
    whole = source.read()
    blocks = list(source.typed_batches(3))
    joined = pa.concat_tables([block.columns for block in blocks])
    assert joined.schema == whole.columns.schema
    assert joined.to_pydict() == whole.columns.to_pydict()
    assert blocks[0].notes == whole.notes
    assert blocks[-1].start == 21
    assert blocks[0].reading == whole.reading


def test_gaps_are_told_and_can_be_refused():
    learner = Learner(["y"])
    for block in TableRows(TABLE).slices(50):
        learner.add(block)
    learner.finish()
    (note,) = learner.notes()
    assert "missing values filled in by the median or the most frequent value" in note
    assert "'late' (60 of 120 rows)" in note
    with pytest.raises(TableError, match=r"'late' \(60 of 120 rows\).*missing='impute'"):
        in_blocks(TableRows(TABLE), 50, missing="error")


def test_what_is_wrong_in_a_later_block_names_its_row():
    numbers = pa.table({"a": ["1"] * 40 + ["2"] * 30 + ["?"] + [str(i) for i in range(40)]})
    with pytest.raises(TableError, match=r"first being '\?' in data row 71; .*na_values=\['\?'\]"):
        in_blocks(TableRows(numbers), 7)
    large = pa.table({"a": [1] * 20 + [2**53 + 1]})
    with pytest.raises(TableError, match="9007199254740993 in data row 21"):
        in_blocks(TableRows(large), 7)
    learner = Learner()
    learner.add(TableRows(pa.table({"a": [1.5, 2.0]})))
    with pytest.raises(TableError, match="of another from data row 3 on"):
        learner.add(TableRows(pa.table({"a": ["x", "y"]}), start=2))


def test_medians_of_blocks():
    for count, exact in ((100, True), (50_000, False)):
        values = np.random.default_rng(count).normal(size=count) ** 3
        sketch = MedianSketch(1 << 10)
        for part in np.array_split(values, 40):
            sketch.add(part)
        assert sketch.exact == exact
        rank = np.mean(values < sketch.value())
        assert abs(rank - 0.5) < (1e-9 if exact else 6 / (2 * 1024)) + 1 / count
        ordered = MedianSketch(1 << 10)
        for part in np.array_split(np.sort(values), 40):
            ordered.add(part)
        assert abs(np.mean(values < ordered.value()) - 0.5) < 0.01
    alone = MedianSketch(4)
    alone.add(np.arange(101.0))  # one block is exact, however long
    assert alone.exact
    assert alone.value() == 50.0
    assert np.isnan(MedianSketch().value())


COLUMNS = {
    "numbers": st.none() | st.floats(-1e6, 1e6),
    "whole": st.none() | st.integers(-5, 5),
    "texts": st.none() | st.sampled_from(["a", "b", "", "c d"]),
    "truths": st.none() | st.booleans(),
    "words": st.none() | st.sampled_from(["yes", "no", "ja"]),
    "dates": st.none() | st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1)),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 25), block=st.integers(1, 9))
def test_any_columns(data, n, block):
    """Gaps, duplicates, one row, constant columns: the same in blocks, finite, or refused alike."""
    kinds = {"numbers": pa.float64(), "whole": pa.int64(), "truths": pa.bool_(), "dates": pa.date32()}
    columns = {}
    for name in data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True)):
        values = data.draw(st.lists(COLUMNS[name], min_size=n, max_size=n))
        columns[name] = pa.array(values, kinds.get(name, pa.string()))
    rows = TableRows(pa.table(columns))
    try:
        whole = learn_preparation(rows)
    except TableError:
        with pytest.raises(TableError, match="constant"):
            in_blocks(rows, block)
        return
    parts = in_blocks(rows, block)
    assert_same(whole, parts)
    X = whole.transform(rows)
    assert X.shape == (n, len(whole.feature_names))
    assert np.isfinite(X).all()
    np.testing.assert_allclose(parts.transform(rows), X, rtol=1e-6, atol=1e-6)
    assert np.ptp(X, axis=0).min() > 0  # no feature is constant
