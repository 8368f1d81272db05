"""The same rows in every container: what a model learned from one holds in the others to the last digit.

Where a container cannot hold a column, or says less about it, one sentence says why.
"""

from __future__ import annotations

import datetime
import decimal
import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import write_xlsx

import onefold
from onefold import TableClassifier, TableRegressor
from onefold.tables import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    NumberColumn,
    Reading,
    TableError,
    open_table,
)
from onefold.tables.estimators import on_matrix
from onefold.tables.preparation import matrix_blocks
from onefold.tables.rows import concatenated
from onefold.tables.source import opened

# What training rows had is neither missing nor unknown when the same rows are used.
pytestmark = pytest.mark.filterwarnings(
    "ignore::onefold.search.GridEdgeWarning", "error:missing values where", "error:unknown categories"
)

N = 24
QUICK = {"simple": True, "gammas": [0.1], "alphas": [0.1], "cv": 3}
RNG = np.random.default_rng(0)
BEGIN = datetime.datetime(2023, 1, 30)
CONTAINERS = ("pandas", "polars", "arrow", "csv", "csv of polars", "csv of arrow", "parquet", "excel")


def contained(table: pa.Table, container: str, folder: Path):
    frame = table.to_pandas()
    path = folder / f"t.{container[:3] if ' ' in container else container}"
    if container == "pandas":
        return frame
    if container == "polars":
        return pl.from_arrow(table)
    if container == "arrow":
        return table
    if container == "parquet":
        frame.to_parquet(path)
    elif container == "csv":
        frame.to_csv(path, index=False)
    elif container == "csv of polars":
        pl.from_arrow(table).write_csv(path)
    elif container == "csv of arrow":
        kinds = [getattr(kind, "value_type", kind) for kind in table.schema.types]
        plain = table.cast(pa.schema(list(zip(table.column_names, kinds))))
        pa.csv.write_csv(plain, path)
    else:
        rows = zip(*table.to_pydict().values())
        cells = [[value if value == value else None for value in row] for row in rows]
        path = write_xlsx(folder / "t.xlsx", {"s": [table.column_names, *cells]})
    return path


def every(step: datetime.timedelta) -> list[datetime.datetime]:
    return [BEGIN + i * step for i in range(N)]


def cycled(*values):
    return [values[i % len(values)] for i in range(N)]


HOURS = every(datetime.timedelta(hours=41, minutes=30, milliseconds=125))
ZONED = pa.timestamp("us", "Europe/Berlin")
COLUMNS = {
    "numbers": (NumberColumn, RNG.normal(size=N).tolist(), pa.float64()),
    "gaps": (NumberColumn, cycled(*RNG.normal(size=17), None), pa.float64()),
    "whole numbers": (NumberColumn, cycled(3, None, 500, -7), pa.int64()),
    "unsigned": (NumberColumn, cycled(3, 2**40, 9), pa.uint64()),
    # By their digits, which Arrow's own cast to float64 loses.
    "decimals": (NumberColumn, [decimal.Decimal(37 * i * i + 12345) / 100 for i in range(N)], None),
    "booleans": (BooleanColumn, cycled(True, False, None, True, True), pa.bool_()),
    "words": (BooleanColumn, cycled("yes", "No", "no"), pa.string()),
    "categories": (CategoryColumn, cycled("red", "dark blue", None, "é\n,;"), pa.string()),
    "missing elsewhere": (CategoryColumn, cycled("NA ", "null", "a"), pa.string()),
    "blanks": (CategoryColumn, cycled("a", " a", "a ", "  "), pa.string()),
    "spellings": (CategoryColumn, cycled("007", "7", "1.0"), pa.string()),
    "encoded": (CategoryColumn, cycled("red", None, "blue"), pa.dictionary(pa.int8(), pa.string())),
    "encoded numbers": (CategoryColumn, cycled(0.5, 1.25, 1e20), pa.dictionary(pa.int8(), pa.float64())),
    "dates": (DateColumn, [day.date() for day in every(datetime.timedelta(days=17))], pa.date32()),
    "moments": (DateColumn, [*HOURS[:-2], None, None], pa.timestamp("ns")),
    "seconds": (DateColumn, every(datetime.timedelta(hours=7)), pa.timestamp("s")),
    "instants": (DateColumn, HOURS, ZONED),
    "times of day": (DateColumn, [datetime.time(i, 30, 15) for i in range(N)], pa.time64("us")),
}  # fmt: skip
CODES = {
    "whole": (cycled(1, 2, None, 10), pa.int64()),
    "with gaps": (cycled(1.0, 2.0, float("nan"), 10.0), pa.float64()),
    "fractions": (cycled(0.5, 1.0, 2.25), pa.float64()),
    "boolean": (cycled(True, False, False), pa.bool_()),
    "days": ([day.date() for day in cycled(*HOURS[:3])], pa.date32()),
    "moments": (cycled(*HOURS[:3]), pa.timestamp("ms")),
    "midnights": (cycled(*every(datetime.timedelta(days=9))[:3]), pa.timestamp("ns")),
    "instants": (cycled(*HOURS[:3]), ZONED),
    "times of day": ([moment.time() for moment in cycled(*HOURS[1:4])], pa.time64("us")),
}


def with_x(values, kind=None, **others) -> pa.Table:
    return pa.table({"x": np.arange(len(values)) % 7 + 0.5, "c": pa.array(values, kind), **others})


def in_onnx(model: TableRegressor, table: pa.Table) -> np.ndarray:
    """Columns as the graph wants them: numbers, or text with "" where there is none."""
    running = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    names = json.loads(running.get_modelmeta().custom_metadata_map["columns"])
    feed = {}
    for name, one in zip(names, running.get_inputs(), strict=True):
        kind = np.float64
        values = table[name].to_pylist()
        if one.type == "tensor(string)":
            texts = ["" if v is None else f"{v:g}" if type(v) is float else str(v) for v in values]
            kind = object
            values = [text if text.strip() else "" for text in texts]
        feed[one.name] = np.array(values, dtype=kind)[:, None]
    return running.run(None, feed)[0][:, 0]


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_in_every_container_in_blocks_saved_and_exported(name, tmp_path):
    kind, values, arrow = COLUMNS[name]
    table = with_x(values, arrow)
    machine = TableRegressor(**QUICK)
    used = {container: contained(table, container, tmp_path) for container in CONTAINERS}
    for fit in CONTAINERS:
        model = machine.fit(used[fit], np.sin(np.arange(N)))
        expected = model.predict(used[fit])
        (part,) = (part for part in model.preparation_.parts if part.name == "c")
        if fit in ("pandas", "arrow"):
            assert type(part) is kind
        for use in CONTAINERS:
            if name == "instants" and (fit == "excel") != (use == "excel"):  # sheets have no zones
                with pytest.raises(TableError, match=r"in training but has .* here; convert it"):
                    model.predict(used[use])
            else:
                np.testing.assert_array_equal(model.predict(used[use]), expected, f"{fit} {use}")
    model = machine.fit(table, np.sin(np.arange(N)))
    expected = model.predict(table)
    model.save(tmp_path / "m")
    model = onefold.load(tmp_path / "m")
    for use in ("csv", "parquet", "arrow"):
        np.testing.assert_array_equal(model.predict(used[use]), expected)
        blocks = [on_matrix(model, "predict", X) for _, X in matrix_blocks(model, used[use], 5)]
        np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-9)
    if kind is not DateColumn:
        np.testing.assert_allclose(in_onnx(model, table), expected, rtol=1e-9)


@pytest.mark.parametrize("name", CODES)
def test_codes_are_the_same_in_every_spelling(name, tmp_path):
    table = with_x(*CODES[name])
    used = {container: contained(table, container, tmp_path) for container in CONTAINERS}
    sheet = used.pop("excel") if name == "instants" else None
    if name == "instants":
        zone = pa.timestamp("us", "Asia/Tokyo")
        used["another zone"] = table.set_column(1, "c", table["c"].cast(zone))
    for fit in used:
        model = TableRegressor(**QUICK, categorical=["c"]).fit(used[fit], np.sin(np.arange(N)))
        expected = model.predict(used[fit])
        codes = {code for code in CODES[name][0] if code is not None and code == code}
        assert len(model.preparation_.parts[-1].categories) == len(codes)
        for use in used:
            np.testing.assert_array_equal(model.predict(used[use]), expected, f"{fit} {use}")
        if sheet is not None:  # sheets have no zones
            with pytest.raises(TableError, match=r"had times in time zone .* without a time zone here"):
                model.predict(sheet)


DECLARED = {
    "a number": ([-999, *range(1, N)], ["-999"], {}),
    "a fraction": ([-99.5, *np.arange(1, N) / 3], ["-99,5"], {}),
    "codes": (cycled(99, 1, 2), ["99.0"], {"categorical": ["c"]}),
    "booleans": (cycled(True, False, False), ["TRUE"], {}),
    "a date": ([datetime.datetime(1901, 1, 1), *HOURS[1:]], ["1901-01-01"], {}),
    "a word": (cycled("?", "a", "b"), ["?"], {}),
    "codes with a decimal comma": (cycled(1.5, 2.25, 3.0), [], {"categorical": ["c"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_means_the_same_in_every_container(name, tmp_path):
    values, words, options = DECLARED[name]
    table = with_x(values, y=np.sin(np.arange(N)))
    reading = Reading(na_values=words, decimal=",")
    kept = (*CONTAINERS[:3], "parquet", "excel")
    used = {container: contained(table, container, tmp_path) for container in kept}
    used["csv"] = tmp_path / "t.csv"
    table.to_pandas().to_csv(used["csv"], index=False, sep=";", decimal=",")
    if name == "a number":
        used["as a fraction"] = tmp_path / "f.csv"
        used["as a fraction"].write_text(used["csv"].read_text().replace("-999", "-999,0"))
    for fit in used:
        model = TableRegressor(**QUICK, **options, reading=reading).fit(used[fit], "y")
        expected = model.predict(used[fit])
        (part,) = (part for part in model.preparation_.parts if part.name == "c")
        assert part.missing == bool(words)
        for use in used:
            np.testing.assert_array_equal(model.predict(used[use]), expected, f"{fit} {use}")


def test_codes_that_training_kept_apart_stay_apart():
    model = TableRegressor(**QUICK).fit(with_x(cycled("1", "1.0", "007")), np.sin(np.arange(N)))
    with pytest.warns(UserWarning, match="'c'"):
        indicators = model.matrix(with_x(["1", "1.0", "007", "1.00", "7"]))[:, 1:]
    assert indicators.argmax(axis=1).tolist()[:3] == [1, 2, 0]
    assert indicators.sum(axis=1).tolist() == [1, 1, 1, 0, 1]


@settings(max_examples=40)
@given(data=st.data())
def test_any_values_in_any_two_containers(data):
    moments = st.integers(0, 50_000).map(lambda n: BEGIN + datetime.timedelta(minutes=90 * n))
    kinds = {
        pa.float64(): st.floats(-1e6, 1e6),
        pa.int64(): st.integers(-5, 500),
        pa.bool_(): st.booleans(),
        pa.string(): st.sampled_from(["NA", "null", "a", " b"]),
        pa.date32(): moments.map(datetime.datetime.date),
        pa.timestamp("us"): moments,
    }
    kind = data.draw(st.sampled_from(list(kinds)))
    missing = kind != pa.string() and data.draw(st.booleans())
    values = kinds[kind] | st.none() if missing else kinds[kind]
    table = with_x(data.draw(st.lists(values, min_size=N, max_size=N)), kind)
    with tempfile.TemporaryDirectory() as name:
        fit, use = (contained(table, data.draw(st.sampled_from(CONTAINERS)), Path(name)) for _ in "ab")
        model = TableRegressor(**QUICK).fit(fit, np.sin(np.arange(N)))
        np.testing.assert_array_equal(model.predict(use), model.predict(fit))


@pytest.mark.parametrize("fit", ["pandas", "arrow", "parquet"])
def test_labels_and_categories_that_elsewhere_mean_missing(fit, tmp_path):
    words = cycled("NA", "b", "null", "b")
    table = with_x(words, label=words)
    model = TableClassifier(**QUICK).fit(contained(table, fit, tmp_path), "label")
    assert model.classes_.tolist() == ["NA", "b", "null"]
    (part,) = (part for part in model.preparation_.parts if part.name == "c")
    assert (part.categories, part.missing) == (("NA", "b", "null"), False)
    (tmp_path / "parts").mkdir()
    for i in range(2):
        pa.parquet.write_table(table.slice(12 * i, 12), tmp_path / "parts" / f"{i}.parquet")
    used = [contained(table, use, tmp_path) for use in CONTAINERS]
    used += [open_table(tmp_path / "t.csv", Reading(delimiter=","))]  # with options of its own
    for use in (*used, tmp_path / "parts", tmp_path / "parts" / "*.parquet"):
        assert model.predict(use).tolist() == words
        ((rows, _),) = matrix_blocks(model, use, extra=("label",))
        assert rows.columns["label"].to_pylist() == words  # as IDs come back
        assert model.score(use, "label") == 1.0


def test_words_of_a_file_mean_missing_in_a_frame_too(tmp_path):
    table = with_x(cycled("NA", "a", "b", "a"), y=np.arange(N) / 3)
    model = TableRegressor(**QUICK).fit(contained(table, "csv", tmp_path), "y")
    expected = model.predict(tmp_path / "t.csv")
    for use in CONTAINERS:
        np.testing.assert_array_equal(model.predict(contained(table, use, tmp_path)), expected)
    np.testing.assert_array_equal(model.predict(table.to_pandas().replace("NA", None)), expected)


def test_the_order_of_day_and_month_can_be_declared_for_any_container(tmp_path):
    table = with_x([f"{1 + i % 9}/{1 + i % 12}/2024" for i in range(N)], y=np.arange(N) / 3)
    expected = None
    for container in CONTAINERS:
        used = contained(table, container, tmp_path)
        with pytest.raises(TableError, match=r"day or month first; use Reading\(dayfirst=True"):
            TableRegressor(**QUICK).fit(used, "y")
        model = TableRegressor(**QUICK, reading=Reading(dayfirst=True)).fit(used, "y")
        expected = model.predict(used) if expected is None else expected
        np.testing.assert_array_equal(model.predict(used), expected)


@pytest.mark.parametrize("name", [None, "nr"])
def test_an_index_that_pandas_wrote_is_no_feature(name, tmp_path):
    table = pd.DataFrame({"x": np.arange(N) % 7 + 0.5, "y": np.sin(np.arange(N))})
    table.index = pd.Index(RNG.permutation(N), name=name)
    table.to_parquet(tmp_path / "t.parquet")
    for used in (tmp_path / "t.parquet", pa.Table.from_pandas(table)):
        model = TableRegressor(**QUICK).fit(used, "y")
        assert model.feature_names_in_.tolist() == ["x"]
        assert "dropped the index of a pandas frame" in model.notes_[0]
        np.testing.assert_array_equal(model.predict(used), model.predict(table))


# Types of pandas' own, and what is no table


BINS = pd.arrays.IntervalArray.from_arrays(np.arange(N) % 2 + 0.0, np.arange(N) % 2 + 1.0)
MONTHS = pd.period_range("2015-01", periods=N, freq="M")
SPARSE = np.where(np.arange(N) % 3, 0.0, np.arange(N))
OWN = {
    "sparse": (pd.Series(pd.arrays.SparseArray(SPARSE)), SPARSE),
    "periods": (MONTHS, MONTHS.to_timestamp()),
    "categories": (pd.Categorical(MONTHS[np.arange(N) % 3]), MONTHS[np.arange(N) % 3].astype(str)),
    "bins": (pd.cut(np.arange(N), 3), pd.cut(np.arange(N), 3).astype(str)),
    "intervals": (pd.Series(BINS).where(SPARSE > 0), pd.Series(BINS.astype(str)).where(SPARSE > 0)),
    "days and moments": (pd.Series([BEGIN.date(), *HOURS[1:]], dtype=object), pd.Series(HOURS)),
    "durations": (pd.to_timedelta(np.arange(N) * 1.25, unit="s"), np.arange(N) * 1.25),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_types_of_pandas_are_what_they_say(name):
    found, plain = (pd.DataFrame({"x": np.arange(N) % 7, "c": one}) for one in OWN[name])
    one, other = (TableRegressor(**QUICK).fit(table, np.sin(np.arange(N))) for table in (found, plain))
    assert one.preparation_ == other.preparation_
    np.testing.assert_array_equal(one.predict(found), other.predict(plain))
    np.testing.assert_array_equal(one.predict(plain), other.predict(plain))


def test_whole_numbers_beyond_64_bits_name_their_column():
    large = [2**70 + i for i in range(N)]
    with pytest.raises(TableError, match=r"column 'c' holds whole numbers of more than 64 bits; scale"):
        TableRegressor(**QUICK).fit(pd.DataFrame({"x": range(N), "c": large}), "c")
    with pytest.raises(
        TableError, match=r"column 'c' holds values of mixed types, or of a type that is"
    ):
        TableRegressor(**QUICK).fit(
            pl.DataFrame({"x": range(N), "c": pl.Series(large, dtype=pl.Int128)}), "x"
        )


def test_arrays_and_series_have_no_names():
    array = np.column_stack([np.arange(N), np.arange(N) ** 2 % 7]).astype(float)
    model = TableRegressor(**QUICK).fit(array, np.sin(np.arange(N)))
    with pytest.warns(UserWarning, match="columns are taken in their order"):
        found = model.predict(pd.DataFrame(array, columns=["b", "a"]))
    np.testing.assert_array_equal(found, model.predict(array))
    for same in (
        array.astype(np.longdouble),
        array.astype(">f8"),
        array.astype("S8"),
        array.astype(object),
    ):
        np.testing.assert_array_equal(model.predict(same), model.predict(array))
    with pytest.raises(ValueError, match="2-dimensional"):
        model.predict(pd.Series(array[:, 0]))


def test_names_are_checked_before_rows_are_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr("onefold.tables.text.DelimitedSource.read", None)
    with pytest.raises(TableError, match=r"t.csv has no column 'z'"):
        TableRegressor().fit(tmp_path / "t.csv", "z")


@pytest.mark.parametrize("suffix", ["frame", "csv", "parquet"])
def test_every_table_has_the_same_interface(tmp_path, suffix):
    """A frame is a table with one block: callers had to tell the two apart."""
    frame = pd.DataFrame({"n": np.arange(20.0) / 4, "c": list("abcde") * 4})
    path = tmp_path / f"t.{suffix}"
    if suffix != "frame":
        getattr(frame, f"to_{suffix}")(path, index=False)
    table = opened(frame if suffix == "frame" else path)
    even = np.arange(20) % 2 == 0
    fourth = np.arange(10) % 2 == 0
    for part, expected in (
        (table, frame),
        (table.where(even), frame[even]),
        (table.where(even).where(fourth), frame[::4]),
        (table.where(even).with_reading(Reading(na_values=("x",))), frame[even]),
    ):
        assert part.names == ("n", "c")
        part.require("n")
        with pytest.raises(TableError, match=r"no .*column 'z'"):
            part.require("z", "target")
        for blocks in (list(part.typed_batches(6)), list(part.batches(6)), [part.read()]):
            read = concatenated(blocks)
            np.testing.assert_array_equal(read.numbers("n"), expected.n)
            assert read.column("c").to_pylist() == expected.c.tolist()
        np.testing.assert_array_equal(part.read_columns(["n"], 6).numbers("n"), expected.n)
        assert {block.names for block in part.batches(6, ["c"])} == {("c",)}
        assert part.in_memory == (suffix == "frame")
        assert len(list(table.typed_batches(6))) == (1 if suffix == "frame" else 4)
