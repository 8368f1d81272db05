"""Every format: the same rows come back, whole and in blocks; broken files get one sentence."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file

from onefold.tables import TableError, open_table

N = 23
RNG = np.random.default_rng(0)
FRAME = pa.table(
    {
        "size": RNG.normal(size=N),
        "count": RNG.integers(0, 9, N),
        "colour": [["red", "green", "blue"][i % 3] for i in range(N)],
        "ok": [i % 2 == 0 for i in range(N)],
        "y": RNG.normal(size=N),
    }
)


def as_text(delimiter: str = ",", newline: str = "\n") -> str:
    lines = [delimiter.join(FRAME.column_names)]
    lines += [
        delimiter.join(str(v).lower() if isinstance(v, bool) else str(v) for v in row.values())
        for row in FRAME.to_pylist()
    ]
    return newline.join(lines) + newline


def write(tmp_path, name, content):
    path = tmp_path / name
    data = content.encode() if isinstance(content, str) else content
    if name.endswith(".gz"):
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


TEXT_FILES = {
    "t.csv": as_text(),
    "t.csv.gz": as_text(),
    "t.tsv": as_text("\t"),
    "t.tsv.gz": as_text("\t"),
    "semicolon.csv": as_text(";"),
    "pipe.csv": as_text("|"),
    "windows.csv": as_text(newline="\r\n"),
    "bom.csv": "\ufeff" + as_text(),
    "trailing.csv": as_text() + "\n\n",
    "leading.csv": "\n" + as_text(),
    "spaced.csv": as_text().replace("size,count", "size , count", 1),
}


@pytest.mark.parametrize("name", TEXT_FILES)
def test_delimited_text_round_trip(tmp_path, name):
    source = open_table(write(tmp_path, name, TEXT_FILES[name]))
    assert source.names == tuple(FRAME.column_names)
    rows = source.read()
    assert rows.columns.to_pydict() == FRAME.to_pydict()
    blocks = list(source.batches(5))
    assert [len(b) for b in blocks] == [5, 5, 5, 5, 3]
    assert [b.start for b in blocks] == [0, 5, 10, 15, 20]
    joined = pa.concat_tables([b.columns for b in blocks])
    assert set(joined.schema.types) == {pa.string()}  # no inference from a first block
    assert [float(v) for v in joined["size"].to_pylist()] == FRAME["size"].to_pylist()
    assert joined["colour"].to_pylist() == FRAME["colour"].to_pylist()


def test_blocks_hold_only_the_columns_asked_for(tmp_path):
    for path in (write(tmp_path, "t.csv", as_text()), tmp_path / "t.parquet"):
        if path.suffix == ".parquet":
            pa.parquet.write_table(FRAME, path)
        block = next(open_table(path).batches(4, ["y", "colour"]))
        assert block.names == ("y", "colour")


def test_quoted_delimiters_and_newlines(tmp_path):
    text = 'name,"a,b",y\n"x, y",1,2\n"line\nbreak",3,4\n"say ""hi""",5,6\n'
    source = open_table(write(tmp_path, "q.csv", text))
    assert source.names == ("name", "a,b", "y")
    expected = ["x, y", "line\nbreak", 'say "hi"']
    assert source.read().columns["name"].to_pylist() == expected
    assert next(source.batches(9)).columns["name"].to_pylist() == expected


def test_types_are_promoted_over_the_whole_file(tmp_path):
    # The first megabytes look like whole numbers, then a fraction, then text.
    rows = ["1,1"] * 400_000 + ["2.5,1", "3,x"]
    source = open_table(write(tmp_path, "p.csv", "a,b\n" + "\n".join(rows) + "\n"))
    table = source.read().columns
    assert table.schema.types == [pa.float64(), pa.string()]
    assert table["a"][400_000].as_py() == 2.5
    assert sum(len(b) for b in source.batches(50_000)) == 400_002


def test_missing_values_in_text_files(tmp_path):
    source = open_table(write(tmp_path, "m.csv", "a,b\n1,x\nNA,\n,NaN\nnull,y\n"))
    assert source.read().columns.to_pydict() == {
        "a": [1, None, None, None],
        "b": ["x", None, None, "y"],
    }


def test_parquet_round_trip(tmp_path):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(FRAME, path, row_group_size=7)
    source = open_table(path)
    assert source.read().columns.equals(FRAME)
    blocks = list(source.batches(5))
    assert [len(b) for b in blocks] == [5, 5, 5, 5, 3]
    assert pa.concat_tables([b.columns for b in blocks]).to_pydict() == FRAME.to_pydict()


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("suffix", ["libsvm", "svm", "txt"])
def test_svmlight_round_trip(tmp_path, suffix, zero_based):
    X = RNG.normal(size=(9, 4)) * (RNG.random((9, 4)) < 0.6)
    y = np.arange(9) % 2 * 2.0 - 1
    path = tmp_path / f"t.{suffix}"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    source = open_table(path)
    rows = source.read()
    np.testing.assert_array_equal(rows.columns["target"].to_numpy(), y)
    first = 0 if zero_based else 1
    assert source.names == ("target", *(f"x{j + first}" for j in range(4)))
    read = np.column_stack([rows.columns[name].to_numpy() for name in source.names[1:]])
    np.testing.assert_allclose(read, X)
    blocks = list(source.batches(4, ["x2", "x99"]))
    assert blocks[0].columns["x99"].to_pylist() == [0.0] * 4  # what a file leaves out is 0
    assert [len(b) for b in blocks] == [4, 4, 1]
    assert [b.start for b in blocks] == [0, 4, 8]


def test_svmlight_query_numbers_are_a_column(tmp_path):
    source = open_table(write(tmp_path, "q.svm", "# comment\n1 qid:3 1:2\n0 qid:4 2:1\n"))
    assert source.names == ("target", "qid", "x1", "x2")
    assert source.read().columns["qid"].to_pylist() == [3, 4]


def test_svmlight_files_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    path = write(tmp_path, "wide.svm", "1 1:2\n0 2000000:1\n")
    assert open_table(path).names == ("target", "x1", "x2000000")
    monkeypatch.setattr("onefold.tables.svmlight.available_memory", lambda: 100)
    with pytest.raises(TableError, match="load_svmlight_file and fit LSSVCCV"):
        open_table(path)


BROKEN = {
    "empty.csv": ("", "is empty"),
    "blank.csv": ("\n\n", "is empty"),
    "twice.csv": ("a,b,a\n1,2,3\n", "more than one column named 'a'"),
    "numbers.csv": ("5.1,3.5,1.4\n4.9,3.0,1.4\n", "first line of numbers.csv holds numbers"),
    "other.csv": (b"a\x81,b\n1,2\n", "neither UTF-8 nor Windows-1252"),
    "cut.csv.gz": None,
    "bad.parquet": (b"PAR1 nonsense", "not a readable Parquet file"),
    "empty.svm": ("", "is empty"),
    "table.txt": ("a,b\n1,2\n", "not in svmlight format"),
    "t.xlsx": (b"PK", "not a readable spreadsheet"),
    "t.doc": (b"PK", "can't tell the format of t.doc"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_when_opened(tmp_path, name):
    if name == "cut.csv.gz":
        path = tmp_path / name
        path.write_bytes(gzip.compress(as_text().encode())[:40])
        message = "not a complete gzip file"
    else:
        content, message = BROKEN[name]
        path = write(tmp_path, name, content)
    with pytest.raises(TableError, match=message):
        open_table(path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(TableError, match="there is no file"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="there is no file"):
        open_table(tmp_path / ("n" * 300 + ".csv"))
    with pytest.raises(TableError, match="there is no Parquet file"):
        open_table(tmp_path)


@pytest.mark.parametrize(("bad", "got"), [("3", 1), ("3,4,5", 3)])
def test_ragged_rows_name_the_line(tmp_path, bad, got):
    source = open_table(write(tmp_path, "r.csv", f"a,b\n1,2\n{bad}\n5,6\n"))
    message = f"line 3 of r.csv has {got} columns where the header has 2"
    with pytest.raises(TableError, match=message):
        source.read()
    with pytest.raises(TableError, match=message):
        list(source.batches(10))


def test_parquet_with_repeated_names(tmp_path):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), path)
    with pytest.raises(TableError, match="more than one column named 'a'"):
        open_table(path)


def test_csv_blocks_stay_small(tmp_path):
    """Reading in blocks never holds much more than what pyarrow reads ahead, about 40 MB."""
    line = ",".join(["0.123456789"] * 20) + "\n"
    header = ",".join(f"c{j}" for j in range(20)) + "\n"
    path = write(tmp_path, "big.csv", header + line * 500_000)  # 120 MB
    source = open_table(path)
    before = pa.total_allocated_bytes()
    most = 0
    for block in source.batches(2_000):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(block) == 2_000
        del block
    path.unlink()
    assert most < 64e6
