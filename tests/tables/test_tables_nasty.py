"""Tables as they come from other programs: understood, or refused in one sentence with a remedy."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from onefold.tables import (
    BooleanColumn,
    CategoryColumn,
    Reading,
    TableError,
    TableRows,
    learn_preparation,
    open_table,
    rows_on_disk,
)
from onefold.tables.preparation import column_notes

N = 30
X = [f"{0.37 * i - 4:.2f}" for i in range(N)]
Y = [f"{0.1 * i:.1f}" for i in range(N)]


def table(tmp_path, columns: dict[str, list], name: str = "t.csv") -> TableRows:
    names = list(columns)
    lines = [",".join(f'"{n}"' for n in names)]
    lines += [",".join(f'"{columns[n][i]}"' for n in names) for i in range(len(columns[names[0]]))]
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return open_table(tmp_path / name).read()


def notes(rows: TableRows, preparation) -> str:
    return "\n".join(column_notes(rows, preparation.columns, (), ()))


def categories(preparation) -> dict[str, tuple[str, ...]]:
    return {part.name: part.categories for part in preparation.parts if type(part) is CategoryColumn}


REFUSED = {
    "a question mark": ([*X[:-1], "?"], r"'\?' in data row 30; .*na_values=\['\?'\]"),
    "a few codes and a dash": ([*["1", "2", "3"] * 9, "4", "5", "-"], "'-' in data row 30"),
    "a spreadsheet's error": ([*X[:-1], "#DIV/0!"], "'#DIV/0!' in data row 30"),
    "a word among numbers": ([*X[:4], "high", *X[5:]], r"'high' in data row 5; .*categorical=\['x'\]"),
    "a unit": ([f"{x} kg" for x in X], "numbers with something around them, such as '-0.30 kg'"),
    "limits": ([f"<{x}" if i % 3 else x for i, x in enumerate(X)], "fix it|around them"),
    "a decimal comma": ([x.replace(".", ",") for x in X], r"decimal=','\), or categorical=\['x'\]"),
    "days or months": (
        [f"{i % 9 + 1}/{i % 12 + 1}/2024" for i in range(N)],
        r"such as '2/2/2024'|such as '(3/3|1/10)/2024' in data row .*day or month first; .*drop=\['x'\]",
    ),
    "mostly dates": (
        [*(f"{i + 1}.1.2024" for i in range(N - 1)), "unknown"],
        "not understood, the first being 'unknown' in data row 30; write them like 2024-12-31",
    ),
    "days of no month": ([f"{i % 31 + 30}.2.2024" for i in range(N)], "not understood"),
    "years of which century": ([f"{i % 12 + 1}.5.{i + 10}" for i in range(N)], "not understood"),
    "infinity": ([*X[:-1], "inf"], "infinite values in 'x'"),
    "a number beyond float64": ([*X[:-1], "1e999"], "infinite values in 'x'"),
    "digits that float64 loses": ([str(2**53 + i) for i in range(N)], r"9007199254740993 in data row 2"),
    "more digits than int64": ([str(2**70 + i) for i in range(N)], "too large .* id_column='x'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_columns(tmp_path, what):
    values, message = REFUSED[what]
    rows = table(tmp_path, {"x": values, "other": list(range(len(values)))})
    with pytest.raises(TableError, match=message):
        learn_preparation(rows)
    learn_preparation(rows, exclude=["x"])  # whoever leaves the column out hears nothing of it


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([*X[:-1], ""], r"missing values in 'x' \(1 of 30 rows\)"),
        ([*X[:-1], " NA "], r"missing values in 'x' \(1 of 30 rows\)"),
        ([""] * N, r"missing values in 'x' \(30 of 30 rows\).*drop=\['x'\].*missing='impute'"),
    ],
)
def test_gaps_are_refused_if_asked_for(tmp_path, values, message):
    rows = table(tmp_path, {"x": values, "other": list(range(len(values)))})
    with pytest.raises(TableError, match=message):
        learn_preparation(rows, missing="error")
    learn_preparation(rows)


@pytest.mark.parametrize("what", ["days or months", "a decimal comma", "digits that float64 loses"])
def test_codes_are_taken_as_they_are(tmp_path, what):
    values = [REFUSED[what][0][i % 3] for i in range(N)]
    rows = table(tmp_path, {"x": values, "other": X})
    preparation = learn_preparation(rows, categorical=["x"])
    assert categories(preparation) == {"x": tuple(sorted(set(values)))}
    indicators = preparation.transform(rows)[:, 1:]
    np.testing.assert_array_equal(indicators.argmax(axis=1), np.unique(values, return_inverse=True)[1])
    (block,) = open_table(tmp_path / "t.csv", rows.reading).batches(100)
    np.testing.assert_array_equal(preparation.transform(block), preparation.transform(rows))


def test_integer_codes_are_categories_in_every_format(tmp_path):
    codes = [i % 3 + 8 for i in range(N)]
    frame = pa.table({"code": codes, "x": [float(x) for x in X]})
    pa.parquet.write_table(frame, tmp_path / "t.parquet")
    gaps = pa.table({"code": [float(c) for c in codes], "x": frame["x"]})
    texts = table(tmp_path, {"code": codes, "x": X})
    expected = learn_preparation(texts, categorical=["code"])
    assert categories(expected) == {"code": ("10", "8", "9")}
    for rows in (open_table(tmp_path / "t.parquet").read(), TableRows(gaps)):
        preparation = learn_preparation(rows, categorical=["code"])
        assert categories(preparation) == categories(expected)
        np.testing.assert_array_equal(preparation.transform(rows), expected.transform(texts))
    with pytest.raises(TableError, match="'x' is used as text or codes and holds numbers with frac"):
        learn_preparation(TableRows(gaps), categorical=["x"])
    zeros = table(tmp_path, {"code": [f"00{c}" for c in codes], "x": X})
    found = learn_preparation(zeros, categorical=["code"])
    assert categories(found) == {"code": ("0010", "008", "009")}


@pytest.mark.parametrize(
    ("name", "values", "noted"),
    [
        ("id", list(range(N)), "different whole number in every row"),
        (
            "PassengerId",
            [7919 * i % 1009 for i in range(N)],
            "drop it, unless it means something",
        ),
        ("customer_id", [i // 2 + i % 2 * (i % 3) for i in range(N)], "many different whole numbers"),
        ("anything", [7919 * i % 1009 for i in range(N)], "different whole number in every row"),
        ("x", X, None),
        ("car", [f"car {i}" for i in range(N)], "has a different text in every row"),
        ("price", [f"${i},000" for i in range(1, N + 1)], None),
        ("count", [i % 5 for i in range(N)], None),
        ("change", [i - 10 for i in range(N)], None),
        ("humid", [i // 2 for i in range(N)], None),
    ],
)
def test_identifiers_are_noticed(tmp_path, name, values, noted):
    rows = table(tmp_path, {name: values, "b": X})
    found = notes(rows, learn_preparation(rows))
    if noted is None:
        assert "identifier" not in found
    else:
        assert noted in found
    (block,) = open_table(tmp_path / "t.csv", rows.reading).batches(100)
    assert ("identifier" in notes(block, learn_preparation(rows))) == (noted is not None)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", " "])
@pytest.mark.parametrize("values", [list(range(N)), [f"car {i}" for i in range(N)], [""] * N])
def test_row_numbers_without_a_name_are_left_out(tmp_path, name, values):
    rows = table(tmp_path, {name: values, "x": X})
    preparation = learn_preparation(rows)
    (left_out,) = preparation.row_numbers
    assert left_out == ("Unnamed: 0" if name.startswith("U") else "unnamed_1")
    assert "without a name" in column_notes(rows, ("x",), (), [left_out])[0]
    assert preparation.columns == learn_preparation(rows, exclude=[left_out]).columns == ("x",)


def test_many_texts_that_begin_with_a_number_are_categories(tmp_path):
    streets = [f"{j} {chr(97 + j % 26)} street" for j in range(30)] * 4
    rows = table(tmp_path, {"street": streets, "x": X * 4})
    assert list(categories(learn_preparation(rows))) == ["street"]


def test_columns_without_a_name_that_say_something_are_refused(tmp_path):
    rows = table(tmp_path, {"": [i % 2 for i in range(N)], "x": X})
    with pytest.raises(TableError, match=r"column 1 has no name .*drop=\['unnamed_1'\]"):
        learn_preparation(rows)


def test_words_for_true_and_false_are_one_feature(tmp_path):
    rows = table(tmp_path, {"a": ["yes", "no"] * 15, "b": ["TRUE", "False"] * 15, "c": ["J", "N"] * 15})
    preparation = learn_preparation(rows)
    assert [part.name for part in preparation.parts if type(part) is BooleanColumn] == ["a", "b", "c"]
    later = table(tmp_path, {"a": ["no"], "b": ["1"], "c": ["Nein"]})
    np.testing.assert_allclose(preparation.transform(later), np.sqrt(0.5) * np.array([[-1, 1, -1]]))
    letters = table(tmp_path, {"a": ["m", "f"] * 15, "b": ["t", "n"] * 15})
    assert list(categories(learn_preparation(letters))) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "a,b", "has a header line but no rows"),
        ("t.csv", "sep=;\na;b\n1;2\n", "'sep=', a hint to spreadsheets; remove it"),
        ("t.csv", 'a,b\n"1,2\n3,4\n', "quote"),
        ("t.csv", "a,b\n1,2\n3\n", "line 3 of t.csv has 1 columns where the header has 2"),
        ("t.csv", "a,a\n1,2\n", "more than one column named 'a'"),
        ("t.svm", "1 1:2\n1 x:2\n", "is not in svmlight format"),
        ("t.svm", "1 99999999999999999999:1\n", "is not in svmlight format"),
    ],
)
def test_files_without_a_table(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(TableError, match=message):
        open_table(tmp_path / name).read()


def test_a_suffix_in_capitals(tmp_path):
    (tmp_path / "T.CSV.GZ").write_bytes(gzip.compress(b"a,b\r1,2\r"))
    assert open_table(tmp_path / "T.CSV.GZ").read().columns.to_pydict() == {"a": [1], "b": [2]}


def test_line_breaks_in_the_header(tmp_path):
    (tmp_path / "t.csv").write_text('"size\n(cm)","a ""b""",y\n1,2,"3\n4"\n5,6,7\n')
    source = open_table(tmp_path / "t.csv")
    assert source.names == ("size (cm)", 'a "b"', "y")
    assert source.read().columns["size (cm)"].to_pylist() == [1, 5]
    assert [b.columns["y"].to_pylist() for b in source.batches(1, ["y"])] == [["3\n4"], ["7"]]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b\n1,5;2,5\n", ";"),
        ("price, USD;size, m2;y\n1;2;3\n4;5;6\n", ";"),
        ("a|b\n1|2\n", "|"),
        ("a\tb,c\n1\t2\n3\t4\n", "\t"),
        ('"a;b",c\n1,2\n', ","),
        ("a,b,c;d;e\n1,2,3\n4,5,6\n", ","),
        ("a\n1\n", ","),
    ],
)
def test_the_delimiter_is_found(tmp_path, text, delimiter):
    (tmp_path / "t.csv").write_text(text)
    assert open_table(tmp_path / "t.csv").delimiter == delimiter


def test_another_delimiter_is_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("a b y\n1 2 3\n")
    with pytest.raises(TableError, match=r"only one column, 'a b y'; .*delimiter='space'"):
        open_table(tmp_path / "t.csv").require("y")
    for name in (" ", "space"):
        assert open_table(tmp_path / "t.csv", Reading(delimiter=name)).names == ("a", "b", "y")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_with_a_mark_are_understood(tmp_path, encoding, packed):
    data = "é,b\n1,ü\n".encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert open_table(path).read().columns.to_pydict() == {"é": [1], "b": ["ü"]}


@pytest.mark.parametrize("text", ["é,b\n1,2\n", "a,b\n1,é\n", "a,b\n" + "1,x\n" * 99999 + "1,é\n"])
def test_windows_text_is_read_with_a_remark(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("cp1252"))
    source = open_table(path)
    assert "read as Windows-1252; if letters look wrong" in source.remarks[0]
    rows = source.read()
    assert "é" in (rows.names[0], str(rows.columns["b"][-1]))
    blocks = list(source.typed_batches(50_000))
    assert blocks[-1].columns.to_pydict() == rows.columns.slice(blocks[-1].start).to_pydict()
    path.write_bytes(b"a,b\n1,\x81\n")
    with pytest.raises(TableError, match="neither UTF-8 nor Windows-1252 text; save it as UTF-8"):
        open_table(path).read()


@pytest.mark.parametrize("text", ["é,b\n1,2\n", "a,b\n1,é\n", "a,b\n" + "1,x\n" * 99999 + "1,é\n"])
def test_latin_text_is_asked_for(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    rows = open_table(path, Reading(encoding="latin-1")).read()
    assert "é" in (rows.names[0], str(rows.columns["b"][-1]))
    with pytest.raises(TableError, match="not ascii text; give another encoding"):
        open_table(path, Reading(encoding="ascii")).read()


def test_marks_that_contradict_the_encoding(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(TableError, match="starts with the mark of utf-16; leave encoding out"):
        open_table(tmp_path / "t.csv", Reading(encoding="latin-1"))
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n".encode("utf-16-le"))
    with pytest.raises(TableError, match="encoding='utf-16-le'"):
        open_table(tmp_path / "t.csv")
    assert open_table(tmp_path / "t.csv", Reading(encoding="utf-16-le")).names == ("a", "b")


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
    ],
)
def test_refused_options(options, message):
    with pytest.raises(TableError, match=message):
        Reading(**options)


def test_what_means_missing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n-999,?\n3, - \n , \n")
    reading = Reading(na_values=("-999", "?", "-"))
    expected = {"a": [1, None, 3, None], "b": ["x", None, None, None]}
    source = open_table(tmp_path / "t.csv", reading)
    assert source.read().columns.to_pydict() == expected
    (block,) = source.batches(10)
    np.testing.assert_array_equal(block.numbers("a"), [1, np.nan, 3, np.nan])
    assert block.columns["b"].to_pylist() == expected["b"]


DISGUISED = {
    "t.csv": (b"PK\x03\x04", "zip archive"),
    "u.csv": (gzip.compress(b"a,b\n1,2\n"), r"compressed with gzip .*name it \.gz"),
    "v.csv": (b"PAR1\x15", r"a Parquet file .*name it \.parquet"),
    "t.parquet": (b"a,b\n1,2\n", "not a readable Parquet file"),
    "t.csv.gz": (b"a,b\n1,2\n", "not a complete gzip file"),
    "w.csv": (b"\x00\x01\x02\x03", "not UTF-8 text"),
}


@pytest.mark.parametrize("name", DISGUISED)
def test_files_that_are_not_what_their_name_says(tmp_path, name):
    data, message = DISGUISED[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TableError, match=message) as caught:
        open_table(tmp_path / name)
    for jargon in ("Errno", "Arrow", "zlib", "magic", "pickle", "Traceback"):
        assert jargon not in str(caught.value)


def test_damaged_files_say_so_in_plain_words(tmp_path):
    """Every cut and every flipped byte of a small file: rows, or one sentence of this package."""
    frame = pa.table({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    pa.parquet.write_table(frame, tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n3,z\n"))
    (tmp_path / "t.svm").write_bytes(b"1 1:2 2:3\n-1 1:4\n")
    rng = np.random.default_rng(0)
    refused: list[str] = []
    for name in ("t.parquet", "t.csv.gz", "t.svm"):
        whole = (tmp_path / name).read_bytes()
        for _ in range(60):
            data = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.3 else whole)
            data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
            (tmp_path / f"bad-{name}").write_bytes(data)
            try:
                open_table(tmp_path / f"bad-{name}").read()
            except TableError as error:
                refused.append(str(error))
    assert len(refused) > 60
    assert not [line for line in refused if "Errno" in line or "\n" in line]


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "open", denied)
    with pytest.raises(TableError, match=r"t\.csv may not be read; change its permissions"):
        open_table(path)


def test_spreads_that_would_over_and_underflow(tmp_path):
    base = np.arange(N) - 11.0
    for power in (1e-200, 1e-308, 1e200, 1e300):
        rows = TableRows(pa.table({"a": base * power, "y": base}))
        preparation = learn_preparation(rows, exclude=["y"])
        expected = (base - base.mean()) / base.std()
        np.testing.assert_allclose(preparation.transform(rows)[:, 0], expected, rtol=1e-12)
        pa.parquet.write_table(rows.columns, tmp_path / "t.parquet")
        found = rows_on_disk(tmp_path / "t.parquet", "y", tmp_path / "rows.npy", block=7)
        np.testing.assert_allclose(found.X[:, 0], expected, rtol=1e-6)


def test_a_full_disk_is_said_in_one_sentence(tmp_path, monkeypatch):
    table(tmp_path, {"x": X, "y": Y})

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "open_memmap", full)
    with pytest.raises(TableError, match=r"can't be written .*\(no space left on device\); make room"):
        rows_on_disk(tmp_path / "t.csv", "y", tmp_path / "rows.npy")
    assert os.listdir(tmp_path) == ["t.csv"]
