"""Numbers and missing values in text: as they were written, or refused with the option that decides."""

from __future__ import annotations

import csv
import gzip
import io
import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onefold import TableRegressor
from onefold.tables import Reading, TableError, TableRows, open_table
from onefold.tables.reading import FORMATS, NumberFormat, is_number
from onefold.tables.text import TypeFinder


def table(folder, texts, reading=None, delimiter=","):
    path = Path(folder) / "t.csv"
    lines = "".join(f'"{text}"{delimiter}{i}\n' for i, text in enumerate(texts))
    path.write_text(f"x{delimiter}y\n{lines}", encoding="utf-8")
    return open_table(path, reading)


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
        source = table(folder, texts, reading)
        rows = source.read()
        if "x" in rows.problems:
            assert form != declared
            assert "decimal=" in str(rows.problems["x"]) or "thousands=" in str(rows.problems["x"])
            return
        assert form.pattern in {one.pattern for one in FORMATS}
        if form == declared or not any(mark in text for text in texts for mark in ".,"):
            assert rows.numbers("x").tolist() == values
        (block,) = open_table(source.path, rows.reading).batches(100)
        if pa.types.is_string(rows.columns["x"].type):  # no format fits all values: text
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
        types = TypeFinder(("x",), reading, cautious, blocks)
        return types.types, types.reading, types.notes, {n: str(e) for n, e in types.problems.items()}

    assert found(rows) == found(1 << 30)


POINT, COMMA = Reading(), Reading(decimal=",")
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
    rows = table(tmp_path, texts, reading).read()
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


def test_commas_in_one_column_and_points_in_another(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b;y\n" + "".join(f"{i},5;{i}.25;{i}\n" for i in range(30)))
    with pytest.raises(TableError, match=r"column 'a' .* use Reading\(decimal=','\)"):
        TableRegressor(simple=True).fit(path, "y")
    model = TableRegressor(simple=True, gammas=[0.1], alphas=[0.1], reading=COMMA).fit(path, "y")
    assert model.reading_.points == ("b",)
    assert "'b' is read with a decimal point ('0.25')" in model.notes_[0]
    frame = pd.DataFrame({"a": np.arange(30) + 0.5, "b": np.arange(30) + 0.25})
    np.testing.assert_array_equal(model.predict(path), model.predict(frame))


def test_where_semicolons_separate_columns_a_point_may_separate_thousands(tmp_path):
    rows = table(tmp_path, ["3.033", "4.500"], delimiter=";").read()
    assert rows.column("x").to_pylist() == [3.033, 4.5]
    assert "if the point separates thousands" in rows.notes["x"]
    assert not table(tmp_path, ["3.033", "4.5"], delimiter=";").read().notes
    assert not table(tmp_path, ["3.033", "4.500"]).read().notes


@pytest.mark.parametrize(
    ("tuned", "later", "message"),
    [
        (["5", "6"], "3,033", r"not written like 1234\.5; .*Reading\(decimal=','\) if that is its dec"),
        (["5", "6"], "$7", r"Reading\(na_values=\['\$7'\]\)"),
        (["5", "6"], "31/12/2024", "convert its dates to numbers, or leave the column out"),
        (["5", "6"], "--", r"na_values=\['--'\]"),
    ],
)
def test_later_rows_must_be_written_the_same_way(tmp_path, tuned, later, message):
    reading = table(tmp_path, tuned).read().reading
    (block,) = table(tmp_path, [tuned[0], later], reading).batches(10)
    with pytest.raises(
        TableError, match=f"'x' should hold numbers but has '.*' in data row 2.*{message}"
    ):
        block.numbers("x")


def test_numbers_in_any_way_of_writing_them():
    for text in ("1", "-1.5", "1,5", "1.234,5", "1 234", "1'234.5", "1e-3", " 7 ", "inf"):
        assert is_number(text)
    for text in ("", "x", "1,2,3", "12 34", "5 kg", "$5", "1-2"):
        assert not is_number(text)


@pytest.mark.parametrize("number", [1e-200, 1e200, 5e-324, math.pi * 1e-200, 1.7976931348623157e308])
def test_numbers_of_any_size_are_read_exactly(tmp_path, number):
    assert table(tmp_path, [number, -number]).read().numbers("x").tolist() == [number, -number]


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
        whole, (block,) = source.read(), source.batches(100)
        for read in (whole, block):
            np.testing.assert_array_equal(read.numbers(names[0]), [number for number, _ in rows])
            assert read.text(names[1]).to_pylist() == [f"x{text}" for _, text in rows]


def test_what_means_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n-999,?\n3, - \n , NA\nnull,y\n")
    source = open_table(path, Reading(na_values=["-999", "?", "-"]))
    expected = {"a": [1, None, 3, None, None], "b": ["x", None, None, None, "y"]}
    rows, (block,) = source.read(), source.batches(10)
    assert rows.columns.to_pydict() == expected
    np.testing.assert_array_equal(block.numbers("a"), [1, np.nan, 3, np.nan, np.nan])
    assert block.columns["b"].to_pylist() == expected["b"]
    for found in (rows, block):  # as it was written, too
        assert found.raw("b").to_pylist() == ["x", "?", " - ", " NA", "y"]
        assert found.text("a").to_pylist() == ["1", None, "3", None, None]


def test_an_empty_line_is_a_missing_value_where_there_is_one_column(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n\n3\n")
    assert open_table(tmp_path / "t.csv").read().columns["x"].to_pylist() == [1, None, 3]
    assert [len(block) for block in open_table(tmp_path / "t.csv").batches(9)] == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "klingon"}, "no text encoding 'klingon'"),
        ({"encoding": "base64"}, "no text encoding"),
        ({"delimiter": "::"}, "not one ASCII character"),
        ({"delimiter": '"'}, "not one ASCII character"),
        ({"delimiter": "§"}, "not one ASCII character"),
        ({"decimal": "x"}, "decimal is '.' or ','"),
        ({"decimal": ",", "delimiter": ","}, "can't be the delimiter and the decimal mark"),
        ({"delimiter": "."}, "can't be the delimiter and the decimal mark"),
        ({"thousands": "_"}, "thousands is ',', '.', ' ' or"),
        ({"thousands": "."}, "can't be the decimal mark and separate thousands"),
        ({"dayfirst": "yes"}, "dayfirst is None, True or False"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(TableError, match=message):
        Reading(**options)
