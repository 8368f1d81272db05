"""Estimators of whole tables through a file: everything comes back, and nothing else is let in."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest
from saving_standins import forge
from sklearn.model_selection import KFold

import onefold
from onefold import TableClassifier, TableRegressor
from onefold.saving import ModelFileError, container
from onefold.tables import NumberFormat, Reading, table_model

N = 40
BEGIN = datetime.datetime(2020, 1, 1)
TABLE = pa.table(
    {
        "size": [None if i % 7 == 0 else i / 3 for i in range(N)],
        "colour": [["red", "green", None][i % 3] for i in range(N)],
        "ok": [["yes", "no"][i % 2] for i in range(N)],
        "when": [BEGIN + datetime.timedelta(days=30.5 * i) for i in range(N)],
        "at": [f"{i % 24}:30" for i in range(N)],
        "some": ["x" if i % 4 else None for i in range(N)],
        "same": [1] * N,
    }
)
SMALL = {"simple": True, "cv": 3}


@pytest.fixture(scope="module")
def classifier() -> TableClassifier:
    return TableClassifier(**SMALL, drop=["same"]).fit(TABLE, ["a", "b"] * (N // 2))


def changed(tmp_path, model, change):
    onefold.save(model, tmp_path / "m")
    with container.opened(tmp_path / "m") as opened:
        metadata, arrays = json.loads(opened.text()), opened.arrays()
    change(metadata["model"])
    return onefold.load(forge(tmp_path / "changed", metadata, arrays))


def test_everything_comes_back(classifier, tmp_path):
    classifier.save(tmp_path / "m")
    again = onefold.load(tmp_path / "m")
    assert again.preparation_ == classifier.preparation_
    assert {type(part).__name__ for part in again.preparation_.parts} == {
        "Part", "Numbers", "Times", "Truths", "Categories",
    }  # fmt: skip
    np.testing.assert_array_equal(again.decision_function(TABLE), classifier.decision_function(TABLE))
    assert again.get_params() == classifier.get_params()
    assert onefold.saving.peek(tmp_path / "m")["estimator"] == "TableClassifier"


def test_how_text_is_read_and_what_tuning_found_come_back(tmp_path):
    fitted = TableRegressor(**SMALL | {"cv": KFold(3)}).fit(TABLE, np.arange(N) / 7)
    reading = Reading(
        decimal=",", na_values=("?",), sheet=2, formats={"$x": NumberFormat(",", ".", "€")}
    )
    model = table_model(
        fitted.estimator_, fitted.preparation_, "y", columns=TABLE.column_names, id_column="at",
        report={"test": None, "rows": N}, reading=reading, notes=["a note"], cv=KFold(3),
    )  # fmt: skip
    model.save(tmp_path / "m")
    again = onefold.load(tmp_path / "m")
    assert again.reading_ == reading
    assert (again.report_, again.notes_, again.id_column_) == (
        {"test": None, "rows": N},
        ["a note"],
        "at",
    )
    assert again.dropped_params_["cv"].startswith("KFold(")


def parts(model: dict) -> list:
    return model["fitted"]["preparation_"]["fields"]["parts"]["$tuple"]


def part(model: dict, kind: str) -> dict:
    return next(one["fields"] for one in parts(model) if one["$object"] == kind)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["fitted"].pop("preparation_"),
        lambda m: m["fitted"].update(reading_=None),
        lambda m: m["fitted"].update(report_=[]),
        lambda m: m["fitted"].update(target_=3),
        lambda m: m["fitted"].update(notes_="x"),
        lambda m: m["params"].update(missing="maybe"),
        lambda m: m["params"].update(drop=3),
        lambda m: m["params"].update(simple="yes"),
        lambda m: parts(m).pop(),
        lambda m: parts(m).append(parts(m)[0]),
        lambda m: parts(m).reverse(),
        lambda m: part(m, "Numbers").update(scale=0.0),
        lambda m: part(m, "Numbers").update(mean="x"),
        lambda m: part(m, "Numbers").update(gaps=False),
        lambda m: part(m, "Times").update(order="ydm"),
        lambda m: part(m, "Times").update(cycles={"$tuple": ["moon"]}),
        lambda m: part(m, "Categories").update(categories={"$tuple": []}),
        lambda m: part(m, "Categories").update(most_frequent=3),
        lambda m: part(m, "Truths").update(name=3),
        lambda m: m.update({"$object": "TableRegressor"}),
    ],
)
def test_nonsense_is_refused_on_loading(classifier, tmp_path, change):
    with pytest.raises(ModelFileError):
        changed(tmp_path, classifier, change)
