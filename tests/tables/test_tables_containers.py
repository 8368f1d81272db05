"""The same rows in every container: a model fitted on one predicts the others to the last digit.

Where a container cannot hold a column, or says less about it, one sentence says why.
"""

from __future__ import annotations

import datetime
import decimal
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import write_xlsx

from onefold import TableClassifier, TableRegressor
from onefold.tables import Reading, TableError

N = 24
QUICK = {"simple": True, "gammas": [0.1], "alphas": [0.1], "cv": 3}
BEGIN = datetime.datetime(2023, 1, 30)
DAYS = st.integers(0, 700).map(lambda days: BEGIN + datetime.timedelta(days=days))
# Excel keeps times as fractions of days, exact for multiples of 2^-n of a day: quarters of hours.
MOMENTS = st.integers(0, 50_000).map(lambda n: BEGIN + datetime.timedelta(minutes=90 * n))
KINDS = {
    "number": (st.floats(-1e6, 1e6), pa.float64()),
    "integer": (st.integers(-5, 500), pa.int64()),
    "boolean": (st.booleans(), pa.bool_()),
    "category": (st.sampled_from(["red", "green", "dark blue"]), pa.string()),
    "words": (st.sampled_from(["NA", "null", "a", "b"]), pa.string()),
    "date": (DAYS.map(datetime.datetime.date), pa.date32()),
    "moment": (MOMENTS, pa.timestamp("us")),
    "instant": (MOMENTS, pa.timestamp("us", "Europe/Berlin")),
}
CONTAINERS = ("pandas", "polars", "arrow", "csv", "parquet", "excel")


def contained(table: pa.Table, container: str, folder: Path):
    if container == "pandas":
        return table.to_pandas()
    if container == "polars":
        return pl.from_arrow(table)
    if container == "arrow":
        return table
    if container == "parquet":
        table.to_pandas().to_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    if container == "csv":
        table.to_pandas().to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    rows = [[v if v == v else None for v in row] for row in zip(*table.to_pydict().values())]
    moments = (datetime.date, datetime.datetime)
    for row in rows:
        row[:] = [datetime.datetime(*v.timetuple()[:6]) if isinstance(v, moments) else v for v in row]
    return write_xlsx(folder / "t.xlsx", {"s": [table.column_names, *rows]})


@settings(max_examples=60)
@given(data=st.data())
def test_what_one_container_taught_holds_in_another(data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    values, arrow = KINDS[kind]
    missing = kind != "words" and data.draw(st.booleans())
    column = data.draw(st.lists(values | st.none() if missing else values, min_size=N, max_size=N))
    table = pa.table({"x": pa.array(np.arange(N) % 7 + 0.5), "c": pa.array(column, arrow)})
    fit, use = data.draw(st.sampled_from(CONTAINERS)), data.draw(st.sampled_from(CONTAINERS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = TableRegressor(**QUICK).fit(contained(table, fit, folder), np.sin(np.arange(N)))
        expected = model.predict(contained(table, fit, folder))
        if kind == "instant" and (fit == "excel") != (use == "excel"):  # sheets have no zones
            other = contained(table, use, folder)
            if model.preparation_.columns != ("x",):
                with pytest.raises(TableError, match=r"in training and has .* here; convert it"):
                    model.predict(other)
            return
        np.testing.assert_array_equal(model.predict(contained(table, use, folder)), expected)


@pytest.mark.parametrize("use", CONTAINERS)
@pytest.mark.parametrize("fit", ["pandas", "arrow", "parquet"])
def test_a_category_that_elsewhere_means_missing(fit, use, tmp_path):
    words = ["NA", "b", "null", "b"] * 6
    table = pa.table({"x": np.arange(N) % 7, "c": words, "label": words})
    model = TableClassifier(**QUICK).fit(contained(table, fit, tmp_path), "label")
    assert model.classes_.tolist() == ["NA", "b", "null"]
    used = contained(table, use, tmp_path)
    assert model.predict(used).tolist() == words
    assert model.score(used, "label") == 1.0
    (part,) = (part for part in model.preparation_.parts if part.name == "c")
    assert (part.categories, part.missing) == (("NA", "b", "null"), False)


@pytest.mark.parametrize("target", ["c", "label"])
def test_a_folder_of_parquet_files_is_read_as_the_model_says(target, tmp_path):
    words = ["nan", "b", "null", "b"] * 6
    table = pa.table({"x": np.arange(N) % 7, "c": words, "label": words})
    model = TableClassifier(**QUICK).fit(table, target)
    for i in range(2):
        pyarrow.parquet.write_table(table.slice(12 * i, 12), tmp_path / f"{i}.parquet")
    for path in (tmp_path, tmp_path / "*.parquet"):
        assert model.predict(path).tolist() == words
        assert model.score(path, target) == 1.0


CODES = {
    "whole": pd.Series([1.0, 2.0, None, 10.0] * 6),
    "boolean": pd.Series([True, False, False] * 8),
    "days": pd.Series(pd.to_datetime(["2024-01-02", "2024-03-04", "2024-05-06"] * 8)),
    "moments": pd.Series(pd.to_datetime(["2024-01-02 10:30", "2024-03-04 11:45"] * 12)),
}


@pytest.mark.parametrize("fit", CONTAINERS)
@pytest.mark.parametrize("kind", CODES)
def test_codes_are_the_same_in_every_spelling(kind, fit, tmp_path):
    table = pa.Table.from_pandas(pd.DataFrame({"x": np.arange(N) % 7 + 0.5, "c": CODES[kind]}))
    model = TableRegressor(**QUICK, categorical=["c"])
    model.fit(contained(table, fit, tmp_path), np.sin(np.arange(N)))
    expected = model.predict(contained(table, fit, tmp_path))
    for use in CONTAINERS:
        np.testing.assert_array_equal(model.predict(contained(table, use, tmp_path)), expected)


def test_codes_that_training_kept_apart_stay_apart():
    table = pa.table({"x": np.arange(N) % 7 + 0.5, "c": ["1", "1.0", "007"] * 8})
    model = TableRegressor(**QUICK).fit(table, np.sin(np.arange(N)))
    other = pa.table({"x": [1.0] * 5, "c": ["1", "1.0", "007", "1.00", "7"]})
    with pytest.warns(UserWarning, match="'c'"):
        indicators = model.matrix(other)[:, 1:]
    assert indicators.argmax(axis=1).tolist()[:3] == [1, 2, 0]
    assert indicators.sum(axis=1).tolist() == [1, 1, 1, 0, 1]


def test_decimals_are_the_numbers_that_their_digits_say(tmp_path):
    prices = [
        decimal.Decimal(one) / 100 for one in np.random.default_rng(0).integers(0, 10**6, N).tolist()
    ]
    table = pa.table({"x": np.arange(N) % 7, "c": pa.array(prices, pa.decimal128(12, 2))})
    model = TableRegressor(**QUICK).fit(table, np.sin(np.arange(N)))
    np.testing.assert_array_equal(model.predict(contained(table, "csv", tmp_path)), model.predict(table))


def test_words_of_a_file_mean_missing_in_a_frame_too(tmp_path):
    table = pd.DataFrame({"x": np.arange(N) % 7, "c": ["NA", "a", "b", "a"] * 6, "y": np.arange(N) / 3})
    table.to_csv(tmp_path / "t.csv", index=False)
    model = TableRegressor(**QUICK).fit(tmp_path / "t.csv", "y")
    expected = model.predict(tmp_path / "t.csv")
    for container in CONTAINERS:
        used = contained(pa.Table.from_pandas(table), container, tmp_path)
        np.testing.assert_array_equal(model.predict(used), expected)
    np.testing.assert_array_equal(model.predict(table.replace("NA", None)), expected)


def test_the_order_of_day_and_month_can_be_declared_for_any_container(tmp_path):
    days = [f"{1 + i % 9}/{1 + i % 12}/2024" for i in range(N)]
    table = pa.table({"x": np.arange(N) % 7, "day": days, "y": np.arange(N) / 3})
    expected = None
    for container in CONTAINERS:
        used = contained(table, container, tmp_path)
        with pytest.raises(
            TableError, match=r"could have day or month first; use Reading\(dayfirst=True"
        ):
            TableRegressor(**QUICK).fit(used, "y")
        model = TableRegressor(**QUICK, reading=Reading(dayfirst=True)).fit(used, "y")
        expected = model.predict(used) if expected is None else expected
        np.testing.assert_array_equal(model.predict(used), expected)


@pytest.mark.parametrize("name", [None, "nr"])
def test_an_index_that_pandas_wrote_is_no_feature(name, tmp_path):
    table = pd.DataFrame({"x": np.arange(N) % 7 + 0.5, "y": np.sin(np.arange(N))})
    table.index = pd.Index(np.random.default_rng(0).permutation(N), name=name)
    table.to_parquet(tmp_path / "t.parquet")
    model = TableRegressor(**QUICK).fit(tmp_path / "t.parquet", "y")
    assert model.feature_names_in_.tolist() == ["x"]
    assert "as the index of a pandas frame" in model.notes_[0]
    np.testing.assert_array_equal(model.predict(tmp_path / "t.parquet"), model.predict(table))
    with pytest.raises(TableError, match=r"is the index of the pandas frame .* after reset_index"):
        TableRegressor(**QUICK).fit(tmp_path / "t.parquet", name or "__index_level_0__")


def test_names_are_checked_before_rows_are_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr("onefold.tables.text.DelimitedSource.read", None)
    with pytest.raises(TableError, match=r"t.csv has no column 'z'"):
        TableRegressor().fit(tmp_path / "t.csv", "z")
