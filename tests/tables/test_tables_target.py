"""The target column: which task it calls for, and what is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from onefold.tables import TableError, TableRows, learn_target
from onefold.tables.target import read_target


def target(values, task=None):
    return learn_target(TableRows(pa.table({"y": values})), "y", task)


@pytest.mark.parametrize(
    ("values", "task", "reason"),
    [
        (["a", "b"] * 3, "classification", "text"),
        ([True, False], "classification", "boolean"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "classification", "text"),
        ([0.5, 1.0, 2.0], "regression", "fractions"),
        ([0, 1] * 10, "classification", "2 different whole numbers"),
        ([-1.0, 1.0] * 10, "classification", "2 different whole numbers"),
        ([0, 1] * 9, "regression", "for 18 rows"),
        (list(range(20)) * 10, "classification", "20 different"),
        (list(range(21)) * 10, "regression", "more than 20"),
        (list(range(100)), "regression", "more than 20"),
    ],
)
def test_inference(values, task, reason):
    found = target(values)
    assert found.task == task
    assert reason in found.reason


def test_values_have_the_form_estimators_want():
    assert target(["b", "a"]).values.dtype.kind == "U"
    assert target([True, False]).values.dtype == bool
    assert target([-1.0, 1.0] * 10).values.dtype == np.float64  # labels keep their type
    assert target(pa.array([-1, 1] * 10, pa.int8())).values.dtype == np.int8
    assert target([1, 2, 3]).values.dtype == np.float64
    assert target([0, 1] * 10, "regression").values.dtype == np.float64
    assert target(range(5), "classification").values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([1.0, None], None, r"missing values in 'y' \(1 of 2 rows\)"),
        ([1.0, float("nan")], None, "missing values"),
        (["a", None], None, "missing values"),
        (["a", ""], None, "missing values"),
        ([True, None], None, "missing values"),
        ([None, None], None, "missing values"),
        ([1.5, float("inf")], None, "infinite values in the target 'y'"),
        (["a", "a"], None, "only one class"),
        ([1] * 20, None, "only one class"),
        ([1.5, 1.5], None, "same in every row"),
        (["a", "b"], "regression", "'y' should hold numbers but has 'a' in data row 1"),
        ([0.5, 1.0], "classification", "can't be classes"),
        ([datetime.date(2020, 1, 1)] * 2, None, "has type date32"),
        ([f"id{i}" for i in range(30)], None, "30 classes in 30 rows"),
        ([*map(str, range(30)), "?"], None, r"'\?' in data row 31"),
        (pa.array([], pa.float64()), None, "no rows"),
    ],
)
def test_refused(values, task, message):
    with pytest.raises(TableError, match=message):
        target(values, task)


def test_unknown_column_suggests_the_nearest():
    rows = TableRows(pa.table({"Species": ["a", "b"], "width": [1, 2]}))
    with pytest.raises(TableError, match=r"no target column 'species'; did you mean 'Species'\?"):
        learn_target(rows, "species")


def test_further_rows_are_read_in_the_form_of_the_classes():
    def read(values, task, like):
        return read_target(TableRows(pa.table({"y": values})), "y", task, like).tolist()

    assert read(["1", "0"], "classification", np.array([0, 1])) == [1, 0]
    assert read(["true", "False"], "classification", np.array([False, True])) == [True, False]
    assert read(["a", "b"], "classification", np.array(["a", "b"])) == ["a", "b"]
    assert read(["1.5", "2"], "regression", None) == [1.5, 2.0]
