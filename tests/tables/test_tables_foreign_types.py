"""Frames with types of pandas' own, odd targets, and sentences in the words of the estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from onefold import TableClassifier, TableRegressor
from onefold.tables import TableError, TableRows, learn_preparation
from onefold.tables.errors import Remedy

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
QUICK = {"simple": True, "cv": 3}


def frame(**columns):
    return pd.DataFrame({"x": X} | columns)


def fitted(table, y=X, **options):
    return TableRegressor(**QUICK, **options).fit(table, y)


def test_bins_are_categories():
    table = frame(bin=pd.cut(X, 3))
    names = fitted(table).preparation_.feature_names
    assert names == ("x", *(f"bin={one}" for one in sorted(map(str, table["bin"].cat.categories))))


def test_intervals_and_their_gaps_are_categories():
    bins = pd.arrays.IntervalArray.from_arrays(np.arange(N) % 2 + 0.0, np.arange(N) % 2 + 1.0)
    names = fitted(frame(bin=pd.Series(bins).where(np.arange(N) > 3))).preparation_.feature_names
    assert len(names) == 4
    assert names[-1] == "bin is missing"
    assert [name[:5] for name in names[1:3]] == ["bin=(", "bin=("]


def test_sparse_columns_are_numbers_and_periods_their_beginnings():
    dense = np.where(np.arange(N) % 3 == 0, X, 0.0)
    months = pd.period_range("2015-01", periods=N, freq="M")
    odd = frame(s=pd.arrays.SparseArray(dense), when=months)
    plain = frame(s=dense, when=months.to_timestamp())
    np.testing.assert_array_equal(fitted(odd).predict(odd), fitted(plain).predict(plain))


def test_a_series_is_no_table():
    model = fitted(frame())
    with pytest.raises(ValueError, match="2-dimensional"):
        model.predict(pd.Series(X))


def test_a_model_of_an_array_takes_the_columns_of_a_frame_in_their_order():
    array = np.column_stack([X, X**2])
    model = fitted(array)
    with pytest.warns(UserWarning, match="columns are taken in their order"):
        found = model.predict(pd.DataFrame(array, columns=["b", "a"]))
    np.testing.assert_array_equal(found, model.predict(array))


def test_categories_as_a_target_keep_the_type_of_their_values():
    table = frame(y=pd.Categorical((X > 0).astype(int)))
    model = TableClassifier(**QUICK).fit(table, "y")
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype.kind == "i"
    assert model.score(table, "y") == model.score(table, (X > 0).astype(int))


def test_durations_are_seconds():
    waits = pd.Series(pd.to_timedelta(np.round(X, 3), unit="s").round("ms"))
    named = fitted(frame(wait=waits), "wait").predict(frame())
    np.testing.assert_allclose(fitted(frame(), waits).predict(frame()), named)


def test_columns_that_are_left_out_are_told_and_not_said_to_be_filled_in():
    notes = fitted(frame(none=np.nan, same=1)).notes_
    assert notes == ["dropped constant columns: 'none', 'same'"]


def test_measurements_without_a_name_are_no_row_numbers():
    with pytest.raises(TableError, match="column 2 has no name in the header"):
        learn_preparation(TableRows(pa.table({"x": X, "unnamed_2": X**2})))
    numbers = learn_preparation(TableRows(pa.table({"x": X, "unnamed_2": np.arange(N, dtype=float)})))
    assert numbers.row_numbers == ("unnamed_2",)


def test_words_are_no_target_of_regression():
    table = frame(y=["a", "b"] * (N // 2))
    with pytest.raises(TableError, match="has 'a' in data row 1; correct it, or use TableClassifier"):
        TableRegressor(**QUICK).fit(table, "y")


def test_remedies_are_spelled_for_python_and_by_whoever_shows_them():
    remedies = [
        "fix it",
        Remedy("na_values", ["it's"], "if it is missing"),
        Remedy("drop", ["kg weight=5"]),
    ]
    error = pickle.loads(pickle.dumps(TableError("'kg weight=5' is odd", remedies)))
    assert str(error) == (
        "'kg weight=5' is odd; fix it, use Reading(na_values=[\"it's\"]) if it is missing, "
        "or drop=['kg weight=5']"
    )
    assert error.spelled(lambda remedy: None) == "'kg weight=5' is odd; fix it"
    assert TableError("odd", [Remedy("drop", ["a"])]).spelled(lambda remedy: None) == "odd"
    assert str(TableError("odd").with_remedy(Remedy("task", "regression"))) == "odd; use TableRegressor"
