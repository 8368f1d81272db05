"""Numbers in text: however a table is written, the same numbers come back, or it is refused."""

from __future__ import annotations

import csv
import gzip
import io
import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onefold.tables import Reading, TableError, open_table
from onefold.tables.dates import is_moment
from onefold.tables.number_evidence import FormatFinder
from onefold.tables.number_formats import NumberFormat, parse


def find_format(
    text: pa.ChunkedArray, name: str, decimal: str | None, cautious: bool, rows: int = 1 << 30
) -> NumberFormat | None:
    """The format found from blocks of so many rows."""
    finder = FormatFinder(name, decimal, cautious)
    for begin in range(0, len(text), rows):
        block = text.slice(begin, rows)
        try:
            plain = len(pa.compute.cast(block, pa.float64())) > 0
        except pa.ArrowInvalid:
            plain = False
        finder.add(block, begin, plain)
    return finder.finish()


def written(value: float, form: NumberFormat, digits: int, before: bool = False) -> str:
    """A number in a format, by Python's own formatting."""
    text = f"{abs(value):,.{digits}f}"
    text = text.replace(",", "§").replace(".", form.decimal).replace("§", form.thousands)
    sign = "-" if value < 0 and any(d in text for d in "123456789") else ""
    if not form.unit:
        return sign + text
    return f"{sign}{form.unit}{text}" if before else f"{sign}{text} {form.unit}"


def column(values: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


FORMATS = [
    NumberFormat(decimal, thousands, unit)
    for decimal in ".,"
    for thousands in ("", " ", "'", "." if decimal == "," else ",")
    for unit in ("", "%", "$", "EUR")
]
NUMBERS = st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FORMATS),
    NUMBERS,
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([None, "stated"]),
    st.booleans(),
)
def test_a_number_is_found_or_refused_but_never_another(form, numbers, digits, before, stated, cautious):
    values = [number / 10**digits for number in numbers]
    texts = [written(value, form, digits, before) for value in values]
    decimal = form.decimal if stated else None
    try:
        found = find_format(column(texts), "x", decimal, cautious)
    except TableError as error:
        refusal = str(error)
    else:
        refusal = None
    if refusal is not None:
        assert not stated
        assert "decimal=" in refusal
        return
    assert found is not None
    read = parse(column(texts), found).to_numpy()
    expected = np.array([float(f"{value:.{digits}f}") for value in values])
    if not stated and form.decimal == ",":
        # Only digits that mean the same with either mark may pass without the mark being stated,
        # or three digits after every comma: by the documented rule, those are thousands.
        plain = all("," not in text and "." not in text for text in texts)
        grouped = any(abs(value) >= 1000 for value in values)
        three = digits == 3 and not cautious and not (form.thousands and grouped)
        points = form.thousands == "." and digits == 0 and form.unit not in {"$", "EUR"}
        assert plain or three or points
        if not plain:
            if three:
                np.testing.assert_array_equal(read, numbers)
            return
    np.testing.assert_array_equal(read, expected)


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(
        st.sampled_from(
            ["1", "2.5", "1,234", "1.234", "1,5", "12 %", "$3", "1 000", "1'000", "1e5", "x", "-7"]
        ),
        min_size=1,
        max_size=8,
    ),
    rows=st.integers(1, 4),
    decimal=st.sampled_from([None, ".", ","]),
    cautious=st.booleans(),
)
def test_blocks_find_the_format_of_the_whole_column(values, rows, decimal, cautious):
    """The same format, or the same refusal."""

    def found(size: int) -> object:
        try:
            return find_format(column(values), "x", decimal, cautious, size)
        except TableError as error:
            return str(error)

    assert found(rows) == found(1 << 30)


@settings(max_examples=60, deadline=None)
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
    assume(not all(_floats(name) for name in names) and delimiter != decimal)
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


def _floats(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("number", [1e-200, 1e200, 5e-324, math.pi * 1e-200, 1.7976931348623157e308])
def test_numbers_of_any_size_are_read_exactly(tmp_path, number):
    (tmp_path / "t.csv").write_text(f"a,y\n1,{number!r}\n2,{-number!r}\n")
    assert open_table(tmp_path / "t.csv").read().numbers("y").tolist() == [number, -number]


FOUND = [
    (["3,033", "12,500"], "thousands", [3033.0, 12500.0]),
    (["1,234,567", "5"], "thousands", [1234567.0, 5.0]),
    (["$1,234.50", "-$5.25", "$-3"], "money", [1234.5, -5.25, -3.0]),
    (["€ 12", "€3.50"], "money", [12.0, 3.5]),
    (["12 €", "3.5€"], "money", [12.0, 3.5]),
    (["USD 5", "USD 1,000"], "money", [5.0, 1000.0]),
    (["12 %", "3%", "-0.5 %"], "percent", [12.0, 3.0, -0.5]),
    (["1 234", "12 345 678"], "blanks", [1234.0, 12345678.0]),
    (["1\u202f234,0", "1\u00a0234,5"], "refused: decimal comma", None),
    (["1'234", "5"], "apostrophes", [1234.0, 5.0]),
    (["−5", "+3.5"], "a minus sign of typography", [-5.0, 3.5]),
    (["3,03", "12,5"], "refused: decimal comma", None),
    (["0,125", "0,250"], "refused: decimal comma", None),
    (["1.234,5", "2,0"], "refused: decimal comma", None),
    (["1.234.567", "1.234"], "refused: points between thousands", None),
    (["1,234", "1.234"], "refused: decimal mark or separate thousands", None),
    (["€ 1.234", "€ 5.678"], "refused: decimal mark or separate thousands", None),
    (["5%", "0.05"], "refused: among values with '%'", None),
    (["5 €", "$5"], "refused: in one unit", None),
    (["1,2", "1,2,3", "4"], "text: several answers", None),
    (["5 kg", "6 kg"], "text", None),
    (["1", "two"], "text", None),
    (["12 34", "5"], "text", None),
    (["$ €5", "5"], "text", None),
    (["127.0.0.1", "10.0.0.1"], "text", None),
]


@pytest.mark.parametrize(("texts", "what", "expected"), FOUND)
def test_what_columns_of_text_mean(tmp_path, texts, what, expected):
    lines = "".join(f'"{text}",1\n' for text in texts)
    (tmp_path / "t.csv").write_text(f"x,y\n{lines}", encoding="utf-8")
    rows = open_table(tmp_path / "t.csv").read()
    if what.startswith("refused: "):
        with pytest.raises(TableError, match=what.removeprefix("refused: ")):
            rows.column("x")
        return
    if expected is None:
        assert rows.column("x").to_pylist() == texts
        return
    assert rows.column("x").to_pylist() == expected
    # Blocks are read in the format that the whole table has, value by value.
    (block,) = open_table(tmp_path / "t.csv", rows.reading).batches(10)
    assert block.numbers("x").tolist() == expected


def test_where_semicolons_separate_columns_a_comma_may_be_a_decimal_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n3,033;1\n4,500;2\n")
    with pytest.raises(TableError, match=r"decimal='\.'\), or Reading\(decimal=','"):
        open_table(path).read().column("x")
    for decimal, expected in ((".", [3033.0, 4500.0]), (",", [3.033, 4.5])):
        assert open_table(path, Reading(decimal=decimal)).read().column("x").to_pylist() == expected
    path.write_text("x;y\n3.033;1\n4.500;2\n")
    rows = open_table(path).read()
    assert rows.column("x").to_pylist() == [3.033, 4.5]
    assert "if the point separates thousands, say that the decimal mark is a comma" in rows.notes["x"]
    path.write_text("x;y\n3,033,000;1\n4,500;2\n")  # two commas can't both be decimal marks
    assert open_table(path).read().column("x").to_pylist() == [3033000.0, 4500.0]


@pytest.mark.parametrize(
    ("tuned", "later", "message"),
    [
        (["$5", "$6"], "7", r"not written like 1234\.5 \$; write it that way"),
        (["5%", "6%"], "0.07", r"not written like 1234\.5 %"),
        (["5", "6"], "3,033", r"or use Reading\(decimal=','\) if that is its decimal mark"),
        (["5", "6"], "$7", r"not written like 1234\.5; write it that way$"),
        (["1,234", "6"], "1,23", r"not written like 1,234\.5"),
        (["5", "6"], "31/12/2024", "convert its dates to numbers, or leave the column out"),
        (["5", "6"], "--", r"na_values=\['--'\]"),
        (["5", "6"], "oops", r"na_values=\['oops'\]"),
    ],
)
def test_later_rows_must_be_written_the_same_way(tmp_path, tuned, later, message):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f'"{text}",1\n' for text in tuned))
    reading = open_table(path).read().reading
    path.write_text(f'x,y\n"{tuned[0]}",1\n"{later}",1\n')
    (block,) = open_table(path, reading).batches(10)
    with pytest.raises(
        TableError, match=f"'x' should hold numbers but has '.*' in data row 2.*{message}"
    ):
        block.numbers("x")


def test_an_empty_line_is_a_missing_value_where_there_is_one_column(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n\n3\n")
    assert open_table(tmp_path / "t.csv").read().columns["x"].to_pylist() == [1, None, 3]
    assert [len(block) for block in open_table(tmp_path / "t.csv").batches(9)] == [3]


@pytest.mark.parametrize(
    "text",
    [
        *("31/12/2024", "12/31/2024", "31.12.2024", "1-2-24", "2024-12-31", "2024/1/5", "Jan 5, 2024"),
        *("5 January 2024", "5-Jan-2024", "Sept. 2024", "2024-01-05T10:11:12Z", "10:11", "10:11:12 PM"),
        *("2024-01-05 10:11:12.5", "31/12/2024 23:59", "Friday, 5 January 2024", "5th March 2024"),
    ],
)
def test_dates(text):
    assert is_moment(text)


@pytest.mark.parametrize(
    "text", ["1.5", "1/2", "127.0.0.1", "May", "12", "2024", "1-2", "10:1", "1.2.3"]
)
def test_no_dates(text):
    assert not is_moment(text)
