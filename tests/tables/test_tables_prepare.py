"""Preparation: what is learned from columns, what is refused, and what prediction repeats."""

from __future__ import annotations

import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.tables import (
    Categories,
    Learner,
    Numbers,
    Preparation,
    TableError,
    TableRows,
    learn_preparation,
    rows_of_frame,
)
from onefold.tables.features import HALF


def rows(**columns) -> TableRows:
    return TableRows(pa.table(columns))


def categories(preparation: Preparation) -> dict[str, tuple[str, ...]]:
    return {part.name: part.categories for part in preparation.of_kind(Categories)}


def test_numbers_are_standardised_and_text_becomes_indicators():
    data = rows(
        a=[1.0, 2.0, 3.0, 6.0],
        colour=["red", "blue", "red", "green"],
        b=[0, 10, 20, 30],
        ok=[True, False, True, True],
    )
    preparation = learn_preparation(data)
    assert preparation.feature_names == (
        "a",
        "b",
        "ok",
        "colour=blue",
        "colour=green",
        "colour=red",
    )
    X = preparation.transform(data)
    a = np.array([1.0, 2, 3, 6])
    np.testing.assert_allclose(X[:, 0], (a - a.mean()) / a.std())
    b = np.array([0.0, 10, 20, 30])
    np.testing.assert_allclose(X[:, 1], (b - b.mean()) / b.std())
    # True and false are as far apart as two categories.
    np.testing.assert_allclose(X[:, 2], np.sqrt(0.5) * np.array([1, -1, 1, 1]))
    np.testing.assert_array_equal(X[:, 3:], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 4], pa.int8()),
        pa.array([1, 2, 4], pa.uint64()),
        pa.array([1, 2, 4], pa.float32()),
        pa.array(np.array([1, 2, 4], np.float16)),
        pa.array([decimal.Decimal(v) for v in (1, 2, 4)]),
    ],
)
def test_every_number_type(column):
    X = learn_preparation(rows(a=column)).transform(rows(a=column))
    a = np.array([1.0, 2, 4])
    np.testing.assert_allclose(X[:, 0], (a - a.mean()) / a.std())


def test_dictionaries_are_text():
    numbers = pa.array([1, 2, 1, 3]).dictionary_encode()
    preparation = learn_preparation(rows(a=numbers))
    assert categories(preparation) == {"a": ("1", "2", "3")}
    # Plain whole numbers and text mean the same categories later.
    for later in ([3, 1], ["3", "1"]):
        np.testing.assert_array_equal(preparation.transform(rows(a=later)), [[0, 0, 1], [1, 0, 0]])
    with pytest.raises(TableError, match="'a' is used as text or codes"):
        preparation.transform(rows(a=[1.5]))


def test_frames_of_other_libraries():
    frame = {"a": [1.0, 2.0, None], "c": ["x", None, "y"]}
    learned = [
        learn_preparation(rows_of_frame(table), missing="impute")
        for table in (pa.table(frame), pd.DataFrame(frame), pl.DataFrame(frame))
    ]
    for preparation in learned:
        assert categories(preparation) == {"c": ("x", "y")}
        assert preparation.of_kind(Numbers) == [
            Numbers("a", True, 1.5, pytest.approx(np.std([1, 2, 1.5])), 1.5)
        ]
    categorical = pl.DataFrame(frame).with_columns(pl.col("c").cast(pl.Categorical))
    X = learned[0].transform(rows_of_frame(categorical))
    np.testing.assert_array_equal(X, learned[0].transform(rows_of_frame(pd.DataFrame(frame))))
    with pytest.raises(TableError, match="not list"):
        rows_of_frame([1, 2])
    with pytest.raises(TableError, match="mixed types"):
        rows_of_frame(pd.DataFrame({"a": [1, "x"]}, dtype=object))


def test_constant_columns_are_left_out():
    data = rows(a=[1.0, 2.0], c=[0.1, 0.1], t=["x", "x"])
    preparation = learn_preparation(data)
    assert preparation.constant == ("c", "t")
    assert preparation.transform(data).shape == (2, 1)
    with pytest.raises(TableError, match=r"every column is constant \('c', 't'\)"):
        learn_preparation(data, exclude=["a"])


def test_missing_values_are_refused_with_counts():
    data = rows(a=[1.0, None, float("nan")], c=["x", "y", None], d=[1, 2, 3])
    with pytest.raises(TableError, match=r"'a' \(2 of 3 rows\), 'c' \(1 of 3 rows\).*impute"):
        learn_preparation(data, missing="error")


def test_missing_values_are_filled_with_median_and_most_frequent():
    data = rows(
        a=[1.0, None, 5.0, 6.0], c=["x", "y", "x", None], gone=[None] * 4, one=["z", None, "z", "z"]
    )
    preparation = learn_preparation(data)
    assert preparation.constant == ("gone",)
    assert preparation.feature_names == (
        "a", "a is missing", "c=x", "c=y", "c is missing", "one is missing",
    )  # fmt: skip
    X = preparation.transform(data)
    filled = np.array([1.0, 5, 5, 6])
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std())
    expected = [[0, 1, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(X[:, 1:], expected)
    # A column without gaps in tuning can have them later.
    whole = learn_preparation(rows(a=[1.0, 3.0]), missing="impute")
    np.testing.assert_array_equal(whole.transform(rows(a=[None, 2.0])), [[0.0], [0.0]])


def test_missing_values_at_prediction():
    preparation = learn_preparation(rows(a=[1.0, 2.0], c=["x", "y"]), missing="error")
    with pytest.raises(TableError, match=r"missing values in 'a' \(1 of 2 rows\)"):
        preparation.transform(rows(a=[None, 1.0], c=["x", "y"]))
    with pytest.raises(TableError, match=r"missing values in 'c'"):
        preparation.transform(rows(a=[1.0, 1.0], c=["x", ""]))


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_values_name_the_column(value):
    with pytest.raises(TableError, match="infinite values in 'b'"):
        learn_preparation(rows(a=[1.0, 2.0], b=[1.0, value]))
    preparation = learn_preparation(rows(b=[1.0, 2.0]))
    with pytest.raises(TableError, match="infinite values in 'b'"):
        preparation.transform(rows(b=[value]))


def test_other_types_are_refused():
    with pytest.raises(TableError, match=r"values of type list<item: int64> in 'l'"):
        learn_preparation(rows(a=[1, 2], l=[[1], [2]]))
    with pytest.raises(TableError, match="UTF-8"):
        learn_preparation(rows(a=[1, 2], l=[b"\xe9", b"x"]))


def test_identifiers_are_left_out():
    names = [f"id-{i}" for i in range(60)]
    found = learn_preparation(rows(who=names, a=range(60)))
    assert (found.columns, found.identifiers) == (("a",), ("who",))
    assert learn_preparation(rows(who=names, a=range(60)), categorical=["who"]).columns == ("a", "who")
    with pytest.raises(TableError, match="every column looks like an identifier"):
        learn_preparation(rows(who=names))
    # Fifty categories are fine, and so are many that repeat.
    learn_preparation(rows(who=names[:50], a=range(50)))
    learn_preparation(rows(who=names * 2, a=range(120)))


def test_one_odd_value_does_not_make_a_column_of_numbers_text():
    values = [str(v) for v in range(30)]
    with pytest.raises(TableError, match=r"'hp' holds numbers but.*'\?' in data row 4"):
        learn_preparation(rows(hp=[*values[:3], "?", *values[3:]] * 3))
    with pytest.raises(TableError, match=r"holds numbers as text, .*decimal point"):
        learn_preparation(rows(hp=[f"{v},5" for v in range(30)] * 3))
    # A few codes, some of which look like numbers, are categories.
    assert categories(learn_preparation(rows(n=["0", "1", "2", "3+"] * 9)))["n"][3] == "3+"


def test_unnamed_columns_are_refused():
    with pytest.raises(TableError, match=r"column 1 has no name.*drop=\['unnamed_1'\]"):
        learn_preparation(rows(unnamed_1=[1, 1, 2], a=[1, 2, 2]))
    learn_preparation(rows(unnamed_1=[1, 1, 2], a=[1, 2, 2]), exclude=["unnamed_1"])
    # Row numbers are left out by themselves.
    assert learn_preparation(rows(unnamed_1=[1, 2], a=[1, 2])).row_numbers == ("unnamed_1",)


def test_no_rows_and_no_columns():
    with pytest.raises(TableError, match="no rows"):
        learn_preparation(rows(a=pa.array([], pa.float64())))
    with pytest.raises(TableError, match="no column left"):
        learn_preparation(rows(y=[1, 2]), exclude=["y"])


def test_lacking_columns_are_named_with_the_nearest():
    preparation = learn_preparation(rows(length=[1, 2], width=[1, 2], depth=[3, 4]))
    with pytest.raises(TableError, match=r"no column 'length'.*did you mean 'lenght'\?"):
        preparation.transform(rows(lenght=[1], width=[1], depth=[2]))
    with pytest.raises(TableError, match=r"no columns 'length', 'depth'.*the columns are 'width'"):
        preparation.transform(rows(width=[1]))


def test_extra_columns_are_ignored():
    preparation = learn_preparation(rows(a=[1.0, 3.0]))
    extra = rows(z=[[1], [2]], a=[2.0, 3.0])
    np.testing.assert_array_equal(preparation.transform(extra), [[0.0], [1.0]])


def test_text_where_numbers_belong():
    preparation = learn_preparation(rows(a=[1.0, 3.0]))
    parsed = preparation.transform(rows(a=[" 2", "3.0 "]))
    np.testing.assert_array_equal(parsed, [[0.0], [1.0]])
    later = TableRows(pa.table({"a": ["1", "two", "x"]}), start=100)
    with pytest.raises(TableError, match="'a' should hold numbers but has 'two' in data row 102"):
        preparation.transform(later)


def test_unknown_categories_are_zeros_with_one_warning():
    preparation = learn_preparation(rows(c=["x", "y"], d=["u", "v"]))
    later = rows(c=["x", "q", "r"], d=["u", "u", "w"])
    with pytest.warns(UserWarning, match="2 in 'c', 1 in 'd'") as caught:
        X = preparation.transform(later)
    assert len(caught) == 1
    np.testing.assert_array_equal(X, [[1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("texts", [["True", "FALSE"], ["1", "0"], ["true", "false"]])
def test_booleans_may_be_written_in_several_ways(texts):
    preparation = learn_preparation(rows(ok=[True, False, True]))
    np.testing.assert_allclose(preparation.transform(rows(ok=texts)), [[HALF], [-HALF]])


@settings(max_examples=50, deadline=None)
@given(
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    block=st.integers(1, 7),
    data=st.data(),
)
def test_blocks_give_the_same_matrix(numbers, block, data):
    texts = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(numbers), max_size=len(numbers)))
    table = rows(a=numbers, i=range(len(numbers)), c=texts)
    preparation = learn_preparation(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = [preparation.transform(part) for part in table.slices(block)]
    np.testing.assert_array_equal(np.vstack(parts), preparation.transform(table))


def test_columns_of_many_texts_take_little_memory():
    """Blocks of an identifier: no more texts are kept than may be categories."""
    learner = Learner()
    for block in range(4):
        texts = [f"row {block} {i}" for i in range(5000)]
        learner.add(rows(who=texts, a=range(5000)))
    assert len(learner._columns["who"]._learned._counts) == 2001
    assert learner.finish().identifiers == ("who",)
    few = Learner()
    for _ in range(9):
        few.add(rows(who=[f"shop {i}" for i in range(3000)], a=range(3000)))
    with pytest.raises(TableError, match="more than 2000 different texts, too many for a feature each"):
        few.finish()
