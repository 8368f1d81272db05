"""Class labels come back from a model as they were written, or of the type they were stored as."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold import LSSVC, TableClassifier
from onefold.tables import (
    TableError,
    TableRows,
    learn_preparation,
    learn_target,
    load_table_model,
    open_table,
    rows_on_disk,
    table_model,
)
from onefold.tables.labels import as_written, known_labels
from onefold.tables.model import TableModel
from onefold.tables.target import read_target
from onefold.tuning import tune_table

SIDES = [-1.0, 1.0] * 15


def text_table(tmp_path, labels) -> TableRows:
    lines = [f'{side * (1 + i / 40)},"{labels[side > 0]}"' for i, side in enumerate(SIDES)]
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return open_table(tmp_path / "t.csv").read()


def model_of(rows: TableRows) -> TableModel:
    target = learn_target(rows, "y", "classification")
    preparation = learn_preparation(rows, exclude=["y"])
    estimator = LSSVC().fit(preparation.transform(rows), target.values)
    return table_model(estimator, preparation, "y", reading=rows.reading)


@pytest.mark.parametrize(
    "labels",
    [
        ("007", "008"),
        ("True", "False"),
        ("true", "false"),
        ("1.0", "2.0"),
        (" 1", " 2"),
        ("+1", "-1"),
        ("1e3", "2e3"),
        ("0", "1"),
        ("10", "9"),
        ("2024-01-01", "2024-02-01"),
        ("31/12/2024", "1/1/2025"),
        ("10 %", "20 %"),
        ("1,000", "2,000"),
        ("$5", "$6"),
        ("yes", "no "),
        (str(2**60), str(2**60 + 1)),
        (str(2**70), str(2**70 + 1)),
        ("9" * 50, "8" * 50),
        ("-0", "1"),
        ("é", "ü"),
        ("inner", "outer"),
    ],
)
def test_labels_keep_their_spelling(tmp_path, labels):
    model = model_of(text_table(tmp_path, labels))
    model.save(tmp_path / "m.onefold")
    again = load_table_model(tmp_path / "m.onefold")
    predicted = [str(label) for label in again.predict(tmp_path / "t.csv")]
    assert predicted == [labels[side > 0] for side in SIDES]
    (block,) = open_table(tmp_path / "t.csv", again.reading_).batches(100)
    labels_again = read_target(block, "y", "classification", again.estimator_.classes_)
    assert (labels_again == again.predict(tmp_path / "t.csv")).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", " 1"),
        ("1", "01"),
        ("1e1", "10"),
        ("True", "true"),
        ("a", "a "),
        ("1,000", "1000"),
    ],
)
def test_two_spellings_of_a_class_are_refused(tmp_path, one, other):
    (tmp_path / "t.csv").write_text(f'x,y\n1,"{one}"\n2,zero\n3,"{other}"\n'.replace("zero", "0"))
    rows = open_table(tmp_path / "t.csv").read()
    with pytest.raises(
        TableError, match=f"same class as '{one}' and as '{other}' .data row 3.; write it"
    ):
        learn_target(rows, "y", "classification")


@pytest.mark.parametrize("kind", ["int8", "uint64", "int64", "float32", "float64", "bool", "str"])
def test_labels_keep_their_type(tmp_path, kind):
    labels = np.array([0, 1] * 15).astype(kind)
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"x": SIDES, "y": pa.array(labels)}), path)
    model_of(open_table(path).read()).save(tmp_path / "m.onefold")
    predicted = load_table_model(tmp_path / "m.onefold").predict(path)
    assert predicted.dtype.kind == labels.dtype.kind
    if kind != "str":
        assert predicted.dtype == labels.dtype
    assert predicted.tolist() == labels.tolist()


@pytest.mark.parametrize(
    "labels", [("007", "008"), ("1.0", "2.0"), ("0", "1"), (" 1", " 2"), ("a", "b")]
)
def test_labels_of_tables_larger_than_memory(tmp_path, labels):
    text_table(tmp_path, labels)
    found = rows_on_disk(tmp_path / "t.csv", "y", tmp_path / "rows.npy", block=7)
    assert [str(label) for label in found.y] == [labels[side > 0] for side in SIDES]


def test_types_of_tables_larger_than_memory(tmp_path):
    for labels in (
        pa.array([0, 1] * 15, pa.int8()),
        pa.array([0.0, 1.0] * 15),
        pa.array([True, False] * 15),
    ):
        pa.parquet.write_table(pa.table({"x": SIDES, "y": labels}), tmp_path / "t.parquet")
        found = rows_on_disk(tmp_path / "t.parquet", "y", tmp_path / "rows.npy", block=7)
        assert found.y.tolist() == labels.to_pylist()
        assert found.y.dtype == labels.to_numpy(zero_copy_only=False).dtype


def test_further_labels_are_matched_however_they_are_spelled():
    assert known_labels(["1", "2.0", "3"], np.array(["1.0", "2.0"])).tolist() == ["1.0", "2.0", "3"]
    assert known_labels(["7", "007"], np.array(["007", "8"])).tolist() == ["007", "007"]
    assert known_labels(["1", "0"], np.array([False, True])).tolist() == [True, False]
    unknown = known_labels(["1.7", "1"], np.array([0, 1]))
    assert unknown.tolist() == ["1.7", 1]  # and not cut down to 1
    big = np.array([2**60, 2**60 + 1])
    assert known_labels([str(2**60 + 1)], big).tolist() == [2**60 + 1]
    with pytest.warns(UserWarning, match="does not know count as wrong"):
        read_target(TableRows(pa.table({"y": ["1.7"]})), "y", "classification", np.array([0, 1]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 9), min_size=1, max_size=9))
def test_whole_numbers_stay_numbers_and_exact(numbers):
    found = as_written([str(number) for number in numbers], "y")
    if max(map(abs, numbers)) < 10**18:
        assert found.dtype == np.int64
    assert [str(label) for label in found] == [str(number) for number in numbers]


def test_targets_of_any_size_call_for_regression(tmp_path):
    for power in ("e-200", "e200"):
        lines = [f"{i},{i % 7}{power}" for i in range(200)]
        (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
        target = learn_target(open_table(tmp_path / "t.csv").read(), "y")
        assert target.task == "regression"
        assert target.values.tolist() == [float(f"{i % 7}{power}") for i in range(200)]


@pytest.mark.parametrize("pair", [("007", "7"), ("a ", "a"), ("1.0", "1"), ("x", "X")])
def test_labels_that_a_fit_keeps_apart_are_kept_apart_everywhere(pair, tmp_path):
    rng = np.random.default_rng(0)
    first = rng.random(80) < 0.5
    frame = pd.DataFrame({"a": rng.normal(size=80) + 6 * first, "y": np.where(first, *pair)})
    model = TableClassifier(simple=True).fit(frame, "y")
    assert sorted(model.classes_) == sorted(pair)
    assert model.score(frame, "y") == np.mean(model.predict(frame) == frame.y) > 0.9
    frame.to_parquet(tmp_path / "t.parquet")
    assert model.score(tmp_path / "t.parquet", "y") == model.score(frame, "y")
    test = tune_table(frame, "y", simple=True, holdout=0.25).report_["test"]
    assert sorted(test["recall"]) == sorted(pair)
    assert test["accuracy"] > 0.8
