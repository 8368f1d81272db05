"""Tables as they come from other programs: understood, or refused in one sentence with a remedy."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from onefold.tables import (
    CategoryColumn,
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
    "a currency": ([f"${i},000" for i in range(1, N + 1)], "something around them, such as '.1,000'"),
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
    frame_rows = TableRows(gaps)
    for rows in (open_table(tmp_path / "t.parquet").read(), TableRows(gaps)):
        preparation = learn_preparation(rows, categorical=["code"])
        assert categories(preparation) == categories(expected)
        np.testing.assert_array_equal(preparation.transform(rows), expected.transform(texts))
    fractions = (
        learn_preparation(texts, categorical=["x"]),
        learn_preparation(frame_rows, categorical=["x"]),
    )
    zeros = table(tmp_path, {"code": [f"00{c}" for c in codes], "x": X})
    found = learn_preparation(zeros, categorical=["code"])
    assert categories(found) == {"code": ("0010", "008", "009")}


@pytest.mark.parametrize(
    ("name", "values", "noted"),
    [
        ("id", list(range(N)), "different whole number in every row"),
        ("PassengerId", [7919 * i % 1009 for i in range(N)], "drop it, unless it means something"),
        ("customer_id", [i // 2 + i % 2 * (i % 3) for i in range(N)], "many different whole numbers"),
        ("anything", [7919 * i % 1009 for i in range(N)], "different whole number in every row"),
        ("x", X, None),
        ("car", [f"car {i}" for i in range(N)], "has a different text in every row"),
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
