"""Spreadsheets: cells with their types, sheets by name and number, headers that are none refused."""

from __future__ import annotations

import builtins
import datetime
import sys

import numpy as np
import pyarrow as pa
import pytest
from sheets import write_xlsx

from onefold.tables import DateColumn, Reading, TableError, learn_preparation, open_table, table_model
from onefold.tables.target import learn_target

DAYS = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=3 * i, hours=i) for i in range(12)]
HEADER = ["n", "x", "text", "ok", "when", "price", "code"]
ROWS = [
    [i, i / 4, "ab"[i % 2], i % 3 == 0, DAYS[i], f"{i},5", ["007", 8][i % 2]] if i != 5 else
    [None, None, None, None, None, "", 8]
    for i in range(12)
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return write_xlsx(tmp_path / "t.xlsx", {"data": [HEADER, *ROWS], "other": [["a"], [1.5], [2.5]]})


def test_cells_keep_their_types(path):
    source = open_table(path, Reading(decimal=","))
    assert source.names == tuple(HEADER)
    rows = source.read()
    table = rows.columns
    assert table["n"].to_pylist()[:6] == [0, 1, 2, 3, 4, None]
    assert table["x"].type == pa.float64()
    assert table["ok"].type == pa.bool_()
    assert pa.types.is_timestamp(table["when"].type)
    assert abs(table["when"][3].as_py() - DAYS[3]) < datetime.timedelta(seconds=1)
    assert table["price"].to_pylist()[:2] == [0.5, 1.5]  # text, as in a .csv file
    assert table["code"].to_pylist()[:2] == [7, 8]
    assert rows.text("code").to_pylist()[:2] == ["007", "8"]
    preparation = learn_preparation(rows)
    assert [part.name for part in preparation.parts if type(part) is DateColumn] == ["when"]
    blocks = list(source.batches(5, ["x", "when"]))
    assert [len(block) for block in blocks] == [5, 5, 2]
    joined = np.concatenate([block.numbers("x") for block in blocks])
    np.testing.assert_array_equal(joined, rows.numbers("x"))


def test_sheets_by_name_and_number(path):
    for sheet in ("other", 2, "2"):
        assert open_table(path, Reading(sheet=sheet)).read().columns.to_pydict() == {"a": [1.5, 2.5]}
    with pytest.raises(TableError, match="no sheet 'othr'; did you mean 'other'"):
        open_table(path, Reading(sheet="othr"))
    with pytest.raises(TableError, match="no sheet '3'; the sheets are 'data', 'other'"):
        open_table(path, Reading(sheet=3))


@pytest.mark.parametrize(
    ("rows", "merged", "message"),
    [
        ([["a", None, "c"], [1, 2, 3]], None, "no name in column 2 of its header"),
        ([["both", None, "c"], [1, 2, 3]], "A1:B1", "merged cells in its header"),
        ([["a", "a"], [1, 2]], None, "more than one column named 'a'"),
        ([["a", "b"]], None, "a header row but no rows"),
        ([], None, "is empty"),
    ],
)
def test_headers_that_are_none(tmp_path, rows, merged, message):
    path = write_xlsx(tmp_path / "t.xlsx", {"s": rows}, merged)
    with pytest.raises(TableError, match=message):
        open_table(path)


def test_files_that_are_no_sheets(tmp_path):
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0nonsense")
    (tmp_path / "t.ods").write_bytes(b"PK\x03\x04nonsense")
    for name in ("t.xls", "t.ods"):
        with pytest.raises(TableError, match="not a readable spreadsheet; it is damaged"):
            open_table(tmp_path / name)


def test_without_the_extra(path, monkeypatch):
    importing = builtins.__import__
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match=r'pip install "onefold\[excel\]"'):
        open_table(path)
    assert builtins.__import__ is importing


def test_a_model_of_a_sheet(path):
    from onefold import LSSVR

    rows = open_table(path).read()
    preparation = learn_preparation(rows, exclude=["price", "n", "code"])
    y = np.nan_to_num(rows.numbers("n"))
    model = table_model(
        LSSVR().fit(preparation.transform(rows), y), preparation, "n", reading=rows.reading
    )
    np.testing.assert_array_equal(model.predict(path), model.predict(rows))
    assert learn_target(open_table(path, Reading(sheet=2)).read(), "a").task == "regression"


def test_years_as_column_names_and_empty_rows(tmp_path):
    rows = [["a", 2024, 0.5], [1, 2, 3], [None, None, None], [4, 5, 6]]
    source = open_table(write_xlsx(tmp_path / "t.xlsx", {"s": rows}))
    assert source.names == ("a", "2024", "0.5")
    assert source.read().columns.to_pydict() == {
        "a": [1, None, 4],
        "2024": [2, None, 5],
        "0.5": [3, None, 6],
    }
