"""Text as it comes from other programs: understood, or refused with the option that decides."""

from __future__ import annotations

import csv
import gzip
import io
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onefold.tables import (
    CategoryColumn,
    Learner,
    Reading,
    TableError,
    TableRows,
    learn_preparation,
    open_table,
)
from onefold.tables.errors import Remedy
from onefold.tables.findings import column_notes
from onefold.tables.reading import FORMATS, NumberFormat, is_number
from onefold.tables.store import write_matrix
from onefold.tables.text import TextTypes

QUICK = {"simple": True, "gammas": [0.1], "alphas": [0.1], "cv": 3}
POINT = Reading()
COMMA = Reading(decimal=",")


def table(folder, columns: dict[str, list], reading=None, delimiter=","):
    path = Path(folder) / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerows([columns, *zip(*columns.values())])
    return open_table(path, reading)


def numbered(folder, texts, *options):
    return table(folder, {"x": texts, "y": range(len(texts))}, *options)


# Numbers


def written(value: float, form: NumberFormat, digits: int) -> str:
    """A number in a format, by Python's own formatting."""
    text = f"{value:,.{digits}f}"
    return text.replace(",", "§").replace(".", form.decimal).replace("§", form.thousands)


@settings(max_examples=150)
@given(
    form=st.sampled_from(FORMATS),
    numbers=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=8),
    digits=st.integers(0, 4),
    declared=st.sampled_from(FORMATS),
)
def test_a_number_is_read_or_refused_but_never_another(form, numbers, digits, declared):
    values = [float(f"{number / 10**digits:.{digits}f}") for number in numbers]
    texts = [written(value, form, digits) for value in values]
    reading = Reading(decimal=declared.decimal, thousands=declared.thousands or None)
    with tempfile.TemporaryDirectory() as folder:
        source = numbered(folder, texts, reading)
        rows = source.read()
        if "x" in rows.types.problems:
            assert form != declared
            assert any(it in str(rows.types.problems["x"]) for it in ("decimal=", "thousands="))
            return
        if form == declared or not any(mark in text for text in texts for mark in ".,"):
            assert rows.numbers("x").tolist() == values
        (block,) = open_table(source.path, rows.reading).batches(100)
        if pa.types.is_string(rows.column("x").type):  # no format fits all values: text
            return
        assert block.numbers("x").tolist() == rows.numbers("x").tolist()


VALUES = ["1", "2.5", "1,234", "1.234", "1,5", "12 %", "1 000", "1'000", "1e5", "x", "-7", "true", "007"]


@settings(max_examples=150)
@given(
    values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=8),
    rows=st.integers(1, 4),
    declared=st.sampled_from(FORMATS),
    cautious=st.booleans(),
)
def test_blocks_find_the_type_of_the_whole_column(values, rows, declared, cautious):
    reading = Reading(decimal=declared.decimal, thousands=declared.thousands or None)

    def found(size):
        blocks = TableRows(pa.table({"x": values})).slices(size)
        types = TextTypes(("x",), reading, cautious, blocks)
        return types._types, types.reading, types.notes, {n: str(e) for n, e in types.problems.items()}

    assert found(rows) == found(1 << 30)


READ = [
    (["3.5", "-12", "1e3"], POINT, [3.5, -12.0, 1000.0]),
    (["−5", "+3.5"], POINT, [-5.0, 3.5]),
    (["3,03", "12,5", "7"], COMMA, [3.03, 12.5, 7.0]),
    (["1,234.5", "12,500"], Reading(thousands=","), [1234.5, 12500.0]),
    (["1.234,5", "2,0"], Reading(decimal=",", thousands="."), [1234.5, 2.0]),
    (["1\u202f234,0", "1\u00a0234,5"], Reading(decimal=",", thousands=" "), [1234.0, 1234.5]),
    (["1'234", "5"], Reading(thousands="'"), [1234.0, 5.0]),
    (["1.5", "2.25"], COMMA, [1.5, 2.25]),  # points throughout, in a table with decimal commas
    (["3,03", "12"], POINT, r"like '3,03' \(data row 1\), not like 1234.5; use Reading\(decimal=','\)"),
    (["5", "0,125"], POINT, r"'0,125' \(data row 2\).*Reading\(decimal=','\)"),
    (["3,033", "12,500"], POINT, r"Reading\(decimal=','\), or Reading\(thousands=','\)"),
    (["1.234,5", "2,0"], POINT, r"Reading\(decimal=',', thousands='\.'\)"),
    (["1.234.567", "1.234"], POINT, r"Reading\(decimal=',', thousands='\.'\)"),
    (["1 234", "12 345 678"], POINT, r"use Reading\(thousands=' '\)"),
    (["1.234,5", "2,0"], COMMA, r"not like 1234,5; use Reading\(thousands='\.'\)"),
    (["1,5", "1.5"], COMMA, None),
    (["1,2", "1,2,3", "4"], POINT, None),
    (["5 kg", "6 kg"], POINT, None),
    (["$5", "12 %"], POINT, None),
    (["12 34", "5"], POINT, None),
    (["127.0.0.1", "10.0.0.1"], POINT, None),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "reading", "expected"), READ)
def test_what_columns_of_text_mean(tmp_path, texts, reading, expected):
    rows = numbered(tmp_path, texts, reading).read()
    if isinstance(expected, str):
        with pytest.raises(TableError, match=expected):
            rows.column("x")
    elif expected is None:
        assert rows.column("x").to_pylist() == texts
    else:
        assert rows.column("x").to_pylist() == expected
        # Blocks are read in the format that the whole table has, value by value.
        (block,) = open_table(tmp_path / "t.csv", rows.reading).batches(10)
        assert block.numbers("x").tolist() == expected


def test_where_semicolons_separate_columns_a_point_may_separate_thousands(tmp_path):
    rows = numbered(tmp_path, ["3.033", "4.500"], None, ";").read()
    assert rows.column("x").to_pylist() == [3.033, 4.5]
    assert "if the point separates thousands" in rows.types.notes["x"]
    assert not numbered(tmp_path, ["3.033", "4.5"], None, ";").read().types.notes
    assert not numbered(tmp_path, ["3.033", "4.500"]).read().types.notes


def test_later_rows_must_be_written_the_same_way(tmp_path):
    reading = numbered(tmp_path, ["5", "6"]).read().reading
    for later, message in (("3,033", r"not written like 1234\.5; .*decimal="), ("$7", "na_values=")):
        (block,) = numbered(tmp_path, ["5", later], reading).batches(10)
        with pytest.raises(TableError, match=f"'x' should hold numbers .* in data row 2.*{message}"):
            block.numbers("x")


@settings(max_examples=60)
@given(
    names=st.lists(
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc", "Zs"]), min_size=1, max_size=6),
        min_size=2,
        max_size=4,
        unique=True,
    ),
    rows=st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from('abc,;"\n|\t')),
        min_size=1,
        max_size=6,
    ),
    delimiter=st.sampled_from(",;\t|:"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    newline=st.sampled_from(["\n", "\r\n"]),
    packed=st.booleans(),
)
def test_round_trip(names, rows, delimiter, decimal, encoding, quoting, newline, packed):
    """Any delimiter, decimal mark, encoding, quoting: every float64 comes back to the last bit."""
    names = [name.strip() + str(j) for j, name in enumerate(names)]
    assume(not all(is_number(name) for name in names) and delimiter != decimal)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator=newline)
    writer.writerow(names)
    for number, text in rows:
        spelled = repr(number).replace(".", decimal)
        writer.writerow([spelled, f"x{text}", *(["1"] * (len(names) - 2))])
    data = stream.getvalue().encode(encoding)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("t.csv.gz" if packed else "t.csv")
        path.write_bytes(gzip.compress(data) if packed else data)
        stated = {"encoding": "latin-1"} if encoding == "latin-1" else {}
        source = open_table(path, Reading(delimiter=delimiter, decimal=decimal, **stated))
        assert source.names == tuple(names)
        whole = source.read()
        (block,) = source.batches(100)
        for read in (whole, block):
            np.testing.assert_array_equal(read.numbers(names[0]), [number for number, _ in rows])
            assert read.text(names[1]).to_pylist() == [f"x{text}" for _, text in rows]


def test_what_means_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n-999,?\n3, - \n , NA\nnull,y\n")
    source = open_table(path, Reading(na_values=["-999", "?", "-"]))
    expected = {"a": [1, None, 3, None, None], "b": ["x", None, None, None, "y"]}
    rows = source.read()
    (block,) = source.batches(10)
    assert {name: rows.column(name).to_pylist() for name in "ab"} == expected
    np.testing.assert_array_equal(block.numbers("a"), [1, np.nan, 3, np.nan, np.nan])
    assert block.column("b").to_pylist() == expected["b"]
    for found in (rows, block):  # as it was written, too
        assert found.columns["b"].to_pylist() == ["x", "?", " - ", " NA", "y"]
        assert found.text("a").to_pylist() == ["1", None, "3", None, None]
    path.write_text("x\n1\n\n3\n")  # of one column, an empty line is a missing value
    assert open_table(path).read().column("x").to_pylist() == [1, None, 3]
    assert [len(block) for block in open_table(path).batches(9)] == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "klingon"}, "unknown text encoding 'klingon'"),
        ({"delimiter": "::"}, "must be a single ASCII character"),
        ({"decimal": "x"}, "decimal must be '.' or ','"),
        ({"decimal": ",", "delimiter": ","}, "cannot be both the delimiter and the decimal mark"),
        ({"thousands": "_"}, "thousands must be ',', '.', ' ' or"),
        ({"thousands": "."}, "cannot be both the decimal mark and the thousands separator"),
        ({"dayfirst": "yes"}, "dayfirst must be None, True or False"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(TableError, match=message):
        Reading(**options)


# Columns as they come from other programs


N = 30
X = [f"{0.37 * i - 4:.2f}" for i in range(N)]
REFUSED = {
    "a question mark": ([*X[:-1], "?"], r"'\?' in data row 30; .*na_values=\['\?'\]"),
    "a word among numbers": ([*X[:4], "high", *X[5:]], r"'high' in data row 5; .*categorical=\['x'\]"),
    "a currency": ([f"${i},000" for i in range(1, N + 1)], "units or symbols, such as '.1,000'"),
    "a unit": ([f"{x} kg" for x in X], "numbers with units or symbols, such as '-0.30 kg'"),
    "limits": ([f"<{x}" if i % 3 else x for i, x in enumerate(X)], "correct it|units or symbols"),
    "a decimal comma": ([x.replace(".", ",") for x in X], r"decimal=','\), or categorical=\['x'\]"),
    "days or months": (
        [f"{i % 9 + 1}/{i % 12 + 1}/2024" for i in range(N)],
        r"such as '2/2/2024'|such as '(3/3|1/10)/2024' in data row .*day or month first; .*drop=\['x'\]",
    ),
    "infinity": ([*X[:-1], "inf"], "infinite values in 'x'"),
    "digits that float64 loses": ([str(2**53 + i) for i in range(N)], r"9007199254740993 in data row 2"),
    "more digits than int64": (
        [str(2**70 + i) for i in range(N)],
        "not exact in float64 .* id_column='x'",
    ),
}


def categories(preparation) -> dict[str, tuple[str, ...]]:
    return {part.name: part.categories for part in preparation.parts if type(part) is CategoryColumn}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_columns(tmp_path, what):
    values, message = REFUSED[what]
    rows = numbered(tmp_path, values).read()
    with pytest.raises(TableError, match=message):
        learn_preparation(rows)
    learn_preparation(rows, exclude=["x"])  # whoever leaves the column out hears nothing of it


@pytest.mark.parametrize("what", ["days or months", "a decimal comma", "digits that float64 loses"])
def test_codes_are_taken_as_they_are(tmp_path, what):
    values = [REFUSED[what][0][i % 3] for i in range(N)]
    rows = table(tmp_path, {"x": values, "other": X}).read()
    preparation = learn_preparation(rows, categorical=["x"])
    assert categories(preparation) == {"x": tuple(sorted(set(values)))}
    indicators = preparation.transform(rows)[:, 1:]
    np.testing.assert_array_equal(indicators.argmax(axis=1), np.unique(values, return_inverse=True)[1])
    (block,) = open_table(tmp_path / "t.csv", rows.reading).batches(100)
    np.testing.assert_array_equal(preparation.transform(block), preparation.transform(rows))


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        (range(N), True),
        ([7919 * i % 1009 for i in range(N)], True),
        ([f"car {i}" for i in range(N)], True),
        ([i - 10 for i in range(N)], False),
        ([i // 2 for i in range(N)], False),
        ([float(x) for x in X], False),
        ([*range(N - 1), None], False),
    ],
)
@pytest.mark.parametrize("size", [N, 7])
def test_identifiers_are_noticed(values, noted, size):
    rows = TableRows(pa.table({"who": values, "b": [float(x) for x in X]}))
    learner = Learner()
    for block in rows.slices(size):
        learner.add(block)
    preparation = learner.finish()
    names = learner.row_names(preparation.columns)
    assert names == (("who",) if noted else ())
    notes = column_notes(rows, preparation, (), names)
    assert ["'who' has a different value in every row" in note for note in notes] == [True] * noted


@pytest.mark.parametrize("values", [range(N), [f"car {i}" for i in range(N)], [""] * N])
def test_row_numbers_without_a_name_are_left_out(tmp_path, values):
    for name, called in (("Unnamed: 0", "Unnamed: 0"), (" ", "unnamed_1")):
        rows = table(tmp_path, {name: values, "x": X}).read()
        preparation = learn_preparation(rows)
        assert preparation.row_numbers == (called,)
        assert "unnamed columns" in column_notes(rows, preparation, (), ())[0]
        assert preparation.columns == learn_preparation(rows, exclude=[called]).columns == ("x",)


def test_a_full_disk_is_said_in_one_sentence(tmp_path, monkeypatch):
    numbered(tmp_path, X)
    rows = open_table(tmp_path / "t.csv").read()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(TableError, match=r"cannot be written .*\(no space left on device\); free some"):
        write_matrix(learn_preparation(rows), [rows], N, tmp_path / "rows.npy")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_remedies_are_spelled_for_python_and_by_whoever_shows_them():
    missing = Remedy("na_values", ["it's"], "if it is missing")
    drop = Remedy("drop", ["kg weight=5"])
    error = TableError("'kg weight=5' is odd", ["fix it", missing, drop])
    error = pickle.loads(pickle.dumps(error))
    assert str(error) == (
        "'kg weight=5' is odd; fix it, use Reading(na_values=[\"it's\"]) if it is missing, "
        "or drop=['kg weight=5']"
    )
    assert error.spelled(lambda remedy: None, str) == "'kg weight=5' is odd; fix it"
    assert TableError("odd", [drop]).spelled(lambda remedy: None, str) == "odd"
    assert str(TableError("odd").with_remedy(Remedy("task", "regression"))) == "odd; use TableRegressor"
