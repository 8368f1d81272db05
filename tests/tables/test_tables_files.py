"""Every format: the same rows come back, whole and in blocks; broken files get one sentence."""

from __future__ import annotations

import datetime
import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal
from sheets import Raw, write_xlsx

from onefold import TableRegressor
from onefold.tables import (
    DateColumn,
    Reading,
    TableError,
    TableRows,
    learn_preparation,
    learn_target,
    open_table,
)
from onefold.tuning import tune_table

N = 23
RNG = np.random.default_rng(0)
FRAME = pa.table(
    {
        "size": RNG.normal(size=N),
        "count": RNG.integers(0, 9, N),
        "colour": [["red", 'a, "b";\t|', "line\nbreak"][i % 3] for i in range(N)],
        "y": RNG.normal(size=N),
    }
)


def typed(rows) -> dict:
    return {name: rows.column(name).to_pylist() for name in rows.names}


def as_text(delimiter: str = ",", newline: str = "\n") -> str:
    return FRAME.to_pandas().to_csv(sep=delimiter, lineterminator=newline, index=False)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(gzip.compress(data, mtime=0) if name.lower().endswith(".gz") else data)
    return folder / name


TEXT_FILES = {
    "t.csv": as_text(),
    "T.CSV.GZ": as_text(newline="\r\n").replace("\r\n", "\r"),
    "t.tsv.gz": as_text("\t"),
    "pipe.csv": as_text("|"),
    "windows.csv": as_text(newline="\r\n"),
    "bom.csv": "\ufeff" + as_text(),
    "utf-16.csv": as_text().encode("utf-16"),
    "utf-32.csv.gz": as_text().encode("utf-32"),
    "empty lines.csv": "\n" + as_text() + "\n\n",
    "spaced.csv": as_text().replace("size,count", '" size\n", count ', 1),
}


@pytest.mark.parametrize("name", [*TEXT_FILES, "t.parquet"])
def test_rows_come_back_whole_and_in_blocks(tmp_path, name):
    pa.parquet.write_table(FRAME, tmp_path / "t.parquet", row_group_size=7)
    path = write(tmp_path, name, TEXT_FILES[name]) if name in TEXT_FILES else tmp_path / name
    source = open_table(path)
    assert source.names == tuple(FRAME.column_names)
    assert typed(source.read()) == FRAME.to_pydict()
    blocks = list(source.batches(5))
    assert [(b.start, len(b)) for b in blocks] == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 3)]
    joined = pa.concat_tables([b.columns for b in blocks])
    if name in TEXT_FILES:
        assert set(joined.schema.types) == {pa.string()}  # no inference from a first block
    assert [float(v) for v in joined["size"].to_pylist()] == FRAME["size"].to_pylist()
    assert [typed(b) for b in source.typed_batches(5)] == [typed(b) for b in TableRows(FRAME).slices(5)]
    assert next(source.batches(4, ["y", "colour"])).names == ("y", "colour")


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b\n1,5;2,5\n", ";"),
        ("price, USD;size, m2;y\n1;2;3\n4;5;6\n", ";"),
        ("a\tb,c\n1\t2\n3\t4\n", "\t"),
        ('"a;b",c\n1,2\n', ","),
        ("a,b,c;d;e\n1,2,3\n4,5,6\n", ","),
        ("a b y\n1 2 3\n", ","),
    ],
)
def test_the_delimiter_is_found(tmp_path, text, delimiter):
    source = open_table(write(tmp_path, "t.csv", text))
    assert source.delimiter == delimiter
    if len(source.names) == 1:
        with pytest.raises(TableError, match=r"only one column, 'a b y'; .*delimiter='space'"):
            source.require("y")
        assert open_table(source.path, Reading(delimiter="space")).names == ("a", "b", "y")


def test_text_in_utf_16(tmp_path):
    path = write(tmp_path, "t.csv", "a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(
        TableError, match="starts with the byte order mark of utf-16; leave encoding out"
    ):
        open_table(path, Reading(encoding="latin-1"))
    write(tmp_path, "t.csv", "a,b\n1,2\n".encode("utf-16-le"))
    with pytest.raises(TableError, match="encoding='utf-16-le'"):
        open_table(path)
    assert open_table(path, Reading(encoding="utf-16-le")).names == ("a", "b")


LONG = "a,b\n" + f"1,{40 * 'x'}\n" * 99999 + "1,é\n"  # blocks come before what is not UTF-8


@pytest.mark.parametrize("text", ["é,b\n1,2\n", "a,b\n1,é\n", LONG], ids=["header", "row", "late"])
def test_text_that_is_not_utf_8(tmp_path, text):
    path = write(tmp_path, "t.csv", text.encode("cp1252"))
    source = open_table(path)
    rows = source.read()
    assert "read as Windows-1252; if letters look wrong" in rows.remarks[0]
    assert "é" in (rows.names[0], str(rows.columns["b"][-1]))
    streamed = pa.concat_tables([block.columns for block in open_table(path).batches(30_000)])
    assert streamed["b"].to_pylist() == rows.columns["b"].to_pylist()
    assert open_table(path, Reading(encoding="latin-1")).read().columns.equals(rows.columns)
    with pytest.raises(TableError, match="not ascii text; give another encoding"):
        open_table(path, Reading(encoding="ascii")).read()


# Parquet


TABLE = pd.DataFrame(RNG.standard_normal((90, 3)), columns=list("abc"))
TABLE["y"] = np.sin(TABLE["a"]) + 0.1 * RNG.standard_normal(90)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, rows in enumerate([slice(0, 40), slice(40, 40), slice(40, 90)]):
        TABLE[rows].to_parquet(tmp_path / f"part-{number}.parquet")
    return tmp_path


def test_files_are_joined_in_the_order_of_their_names(folder):
    for pattern in ("*.parquet", "part-[0-9].parquet", ""):
        source = open_table(folder / pattern)
        assert_array_equal(source.read().numbers("y"), TABLE["y"])
        blocks = list(source.batches(7, ["c", "y"]))
        assert_array_equal(np.concatenate([block.numbers("c") for block in blocks]), TABLE["c"])
        assert [block.start for block in blocks] == [*range(0, 90, 7)]
    one, other = (tune_table(table, "y", simple=True, gammas=[0.1, 1.0]) for table in (folder, TABLE))
    assert one.report_["best_score"] == other.report_["best_score"]
    # Columns in another order, and whole numbers among fractions.
    more = TABLE[["y", "c", "b", "a"]].head(3).round().astype("int64")
    more.to_parquet(folder / "part-9.parquet")
    assert_array_equal(open_table(folder).read().numbers("a")[90:], more["a"])


def test_what_cannot_be_one_table(folder):
    TABLE.rename(columns={"a": "other"}).to_parquet(folder / "part-3.parquet")
    with pytest.raises(TableError, match=r"part-3.parquet and part-0.parquet differ in 'a', 'other'"):
        open_table(folder)
    TABLE.astype({"a": str}).to_parquet(folder / "part-3.parquet")
    with pytest.raises(TableError, match=r"has numbers in some files and other values in others"):
        open_table(folder)
    TABLE.to_csv(folder / "part-4.csv")
    with pytest.raises(TableError, match=r"part-4.csv is not a readable Parquet file"):
        open_table(folder / "part-*")
    (folder / "empty").mkdir()
    with pytest.raises(TableError, match=r"there is no Parquet file .*empty/\*.parquet"):
        open_table(folder / "empty")
    repeated = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    pa.parquet.write_table(repeated, folder / "empty" / "t.parquet")
    with pytest.raises(TableError, match="more than one column named 'a'"):
        open_table(folder / "empty")


# Spreadsheets


DAYS = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=3 * i, hours=i) for i in range(12)]
HEADER = ["n", "x", "text", "ok", "when", "price", "code", 2024]
ROWS = [[i, i / 4, "ab"[i % 2], i % 3 == 0, DAYS[i], f"{i},5", ["007", 8][i % 2], 1] for i in range(12)]
ROWS[5] = [None] * 8  # an empty row is a row


@pytest.fixture
def sheet(tmp_path):
    return write_xlsx(tmp_path / "t.xlsx", {"data": [HEADER, *ROWS], "other": [["a"], [1.5], [2.5]]})


def test_cells_keep_their_types(sheet):
    source = open_table(sheet, Reading(decimal=","))
    assert source.names == tuple(map(str, HEADER))
    rows = source.read()
    table = typed(rows)
    assert table["n"][:7] == [0, 1, 2, 3, 4, None, 6]
    assert abs(table["when"][3] - DAYS[3]) < datetime.timedelta(seconds=1)
    assert (table["ok"][0], table["price"][:2]) == (True, [0.5, 1.5])  # text, as in a .csv file
    assert (table["code"][:2], rows.text("code").to_pylist()[:2]) == ([7, 8], ["007", "8"])
    assert learn_target(rows.take([0, 1, 2]), "n", "classification").values.tolist() == [0, 1, 2]
    parts = learn_preparation(rows).parts
    assert [part.name for part in parts if type(part) is DateColumn] == ["when"]
    blocks = list(source.batches(5, ["x", "when"]))
    assert [len(block) for block in blocks] == [5, 5, 2]
    assert_array_equal(np.concatenate([b.numbers("x") for b in blocks]), rows.numbers("x"))


def test_sheets_by_name_and_number(sheet, monkeypatch):
    for which in ("other", 2, "2"):
        assert typed(open_table(sheet, Reading(sheet=which)).read()) == {"a": [1.5, 2.5]}
    with pytest.raises(TableError, match="no sheet 'othr'; did you mean 'other'"):
        open_table(sheet, Reading(sheet="othr"))
    with pytest.raises(TableError, match="no sheet '3'; the sheets are 'data', 'other'"):
        open_table(sheet, Reading(sheet=3))
    with pytest.raises(TableError, match=r"no column 'a'.*Reading\(sheet='other'\) .*'data', 'other'"):
        open_table(sheet).require("a")
    model = TableRegressor(simple=True, cv=3).fit(pa.table({"a": range(12)}), np.arange(12.0))
    with pytest.raises(TableError, match=r"no column 'a'.*Reading\(sheet='other'\) .*'data', 'other'"):
        model.predict(sheet)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match="pip install python-calamine"):
        open_table(sheet)


@pytest.mark.parametrize(
    "cell",
    [
        't="e"><f>1/0</f><v>#DIV/0!</v>',
        "><f>A3+1</f>",
        't="str"><f>A3</f><v></v>',
    ],
    ids=["error", "never computed", "empty text"],
)
def test_cells_without_a_value_are_missing(tmp_path, cell):
    rows = [["a", "b"], [1, 2], [3, Raw(cell)], [5, 6]]
    rows = [[], *([None] * 26 + row for row in rows)]
    path = write_xlsx(tmp_path / "t.xlsx", {"first": [["x"], [1]], "s": rows})
    values = open_table(path, Reading(sheet=2)).read().numbers("b")
    assert_array_equal(values, [2.0, np.nan, 6.0])


def test_computed_formulas_are_numbers(tmp_path):
    path = write_xlsx(tmp_path / "t.xlsx", {"s": [["b"], [1], [Raw("><f>A2+1</f><v>7</v>")]]})
    assert_array_equal(open_table(path).read().numbers("b"), [1.0, 7.0])


# Broken files


BROKEN = [
    ("t.csv", "", "is empty"),
    ("t.csv", "a,b", "has a header line but no rows"),
    ("t.csv", "a,b,a\n1,2,3\n", "more than one column named 'a'"),
    ("t.csv", "5.1,3.5,1.4\n4.9,3.0,1.4\n", "first line of t.csv holds numbers"),
    ("t.csv", "sep=;\na;b\n1;2\n", "'sep=', a hint for spreadsheets; remove it"),
    ("t.csv", 'a,b\n"1,2\n3,4\n', "quote"),
    ("t.csv", "a,b\n1,2\n3\n", "line 3 of t.csv has 1 columns where the header has 2"),
    ("t.csv", b"a\x81,b\n1,2\n", "neither UTF-8 nor Windows-1252"),
    ("t.csv", b"a,b\n1,\x81\n", "neither UTF-8 nor Windows-1252 text; save it as UTF-8"),
    ("t.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), r"compressed with gzip .*rename it to end in \.gz"),
    ("t.csv", b"\x00\x01\x02\x03", "not UTF-8 text"),
    ("t.parquet", b"PAR1 nonsense", "not a readable Parquet file"),
    ("t.xlsx", b"PK", "not a readable spreadsheet"),
    ("t.xlsx", [["a", None, "c"], [1, 2, 3]], "no name in column 2 of its header .are cells merged"),
    ("t.xlsx", [["a", "b"]], "a header row but no rows"),
    ("t.xlsx", [], "is empty"),
    ("t.xls", b"\xd0\xcf\x11\xe0nonsense", "not a readable spreadsheet: it is damaged"),
    ("t.doc", b"PK", r"cannot tell the format of t.doc: .* \.csv, .*\.ods"),
    ("none.csv", None, "there is no file"),
    ("n" * 300 + ".csv", None, "there is no file"),
    ("t.csv", OSError(13, "Permission denied"), r"t\.csv cannot be read \(permission denied\); give an"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_files_get_one_sentence(tmp_path, name, content, message, monkeypatch):
    path = tmp_path / name
    if isinstance(content, list):
        write_xlsx(path, {"s": content})
    elif isinstance(content, OSError):
        write(tmp_path, name, "a,b\n")

        def denied(*args, **kwargs):
            raise content

        monkeypatch.setattr(type(path), "open", denied)
    elif content is not None:
        write(tmp_path, name, content)
    for read in (lambda source: source.read(), lambda source: list(source.batches(10))):
        with pytest.raises(TableError, match=message) as caught:
            read(open_table(path))
        for jargon in ("Errno", "Arrow", "zlib", "magic", "pickle", "Traceback", "\n"):
            assert jargon not in str(caught.value)


def test_damaged_files_say_so_in_plain_words(tmp_path):
    """Every cut and every flipped byte of a small file: rows, or one sentence of this package."""
    pa.parquet.write_table(
        pa.table({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]}), tmp_path / "t.parquet"
    )
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n3,z\n", mtime=0))
    (tmp_path / "t.svm").write_bytes(b"1 1:2 2:3\n-1 1:4\n")
    refused: list[str] = []

    def read(name: str, data: bytes) -> None:
        (tmp_path / name).write_bytes(data)
        try:
            open_table(tmp_path / name).read()
        except TableError as error:
            refused.append(str(error))

    read("bad.csv.gz", b"a,b\n1,2\n")
    read("bad.csv.gz", gzip.compress(as_text().encode())[:40])
    assert all("not a complete gzip file" in line for line in refused)
    rng = np.random.default_rng(0)
    for name in ("t.parquet", "t.csv.gz", "t.svm"):
        whole = (tmp_path / name).read_bytes()
        for _ in range(60):
            data = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.3 else whole)
            data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
            read(f"bad-{name}", data)
    assert len(refused) > 60
    assert not [line for line in refused if "Errno" in line or "\n" in line]


def test_csv_blocks_stay_small(tmp_path):
    """Reading in blocks never holds much more than what pyarrow reads ahead, about 40 MB."""
    line = ",".join(["0.123456789"] * 20) + "\n"
    header = ",".join(f"c{j}" for j in range(20)) + "\n"
    path = write(tmp_path, "big.csv", header + line * 500_000)  # 120 MB
    before = pa.total_allocated_bytes()
    most = 0
    for block in open_table(path).batches(2_000):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(block) == 2_000
        del block
    path.unlink()
    assert most < 64e6
