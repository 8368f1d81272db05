"""A table in, a model out, as a Python function."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

import onefold
from onefold.cli import main
from onefold.tables import TableError, TableRegressor, load_table_model, open_table, training
from onefold.tuning import tune_table, tuning

GIVEN = [(list(range(40)), list(range(40, 60)))]
SMALL = {"simple": True, "gammas": [0.1, 1.0], "alphas": [0.01, 0.1]}


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    frame["colour"] = rng.choice(["red", "green"], 60)
    frame["y"] = np.sin(2 * frame["a"]) + (frame["colour"] == "red") + 0.1 * rng.normal(size=60)
    frame.to_csv("t.csv", index=False)
    return frame


def test_a_path_a_frame_and_the_command_line_give_the_same_model(frame, capsys):
    events = []
    with tuning("t.csv", "y", **SMALL) as job:
        model = job.run(events.append)
    assert isinstance(model, TableRegressor)
    assert events[-1]["done"] == events[-1]["total"] == 2
    small = ["--simple", "--gammas", "0.1,1", "--alphas", "0.01,0.1"]
    assert main(["tune", "t.csv", "--target", "y", *small, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {key: result[key] for key in model.report_ if key != "seconds"} == {
        key: value for key, value in model.report_.items() if key != "seconds"
    }
    expected = load_table_model("t-onefold/model.onefold").predict(frame)
    for found in (model, tune_table(frame, "y", **SMALL)):
        assert found.predict(frame).tolist() == expected.tolist()


def test_a_table_larger_than_memory_leaves_no_file_behind(frame, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    model = tune_table("t.csv", "y", **SMALL)
    assert model.preparation_.columns == ("a", "b", "colour")
    model.save("m")
    rows = frame.head(7)
    assert load_table_model("m").predict(rows).tolist() == model.predict(rows).tolist()
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "m"])


def test_columns_that_there_are_not(frame):
    with pytest.raises(TableError, match=r"drop: t\.csv has no column 'c'"):
        tune_table("t.csv", "y", drop=["c"])
    with pytest.raises(TableError, match="there is no drop column 'c'"):
        tune_table(frame, "y", drop=["c"])
    with pytest.raises(ValueError, match="a gap needs ordered rows; use ordered=True"):
        tune_table(frame, "y", gap=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": "colour"}, r"use drop=\['colour'\]"),
        ({"categorical": "colour"}, r"use categorical=\['colour'\]"),
        ({"task": "ranking"}, "task must be None or 'classification' or 'regression'; got 'ranking'"),
        ({"missing": "drop"}, "missing must be 'impute' or 'error'"),
        ({"class_weight": "even"}, "class_weight must be None or 'balanced'"),
        ({"cv": "five"}, "number of folds, at least 2, or 'loo'; got 'five'"),
        ({"cv": 1}, "at least 2"),
    ],
)
def test_settings_that_mean_nothing_are_refused_first(frame, options, words):
    with pytest.raises(ValueError, match=words):
        tune_table("not looked for.csv", "y", **options)


def test_a_column_that_is_no_name(frame):
    with pytest.raises(ValueError, match="target='3'"):
        tune_table(frame, 3)
    with pytest.raises(ValueError, match="groups='3'"):
        tune_table(frame, "y", groups=3)


@pytest.mark.parametrize("target", ["y", "colour"])
def test_a_saved_model_can_be_fitted_again_on_its_own_table(frame, target):
    frame["who"] = [f"row {i}" for i in range(60)]
    frame["mass"] = 1.0 + np.arange(60) % 3
    frame.to_csv("t.csv", index=False)
    options = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1], "id_column": "who", "ordered": True}
    model = tune_table("t.csv", target, weight="mass", **options)
    model.save("m.onefold")
    again = clone(onefold.load("m.onefold")).fit("t.csv", target, sample_weight="mass")
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    other = {"seconds": 0, "task_reason": ""}  # the class says which task
    assert again.report_ | other == model.report_ | other


def test_the_estimators_take_paths_and_open_tables(frame, monkeypatch):
    model = TableRegressor(**SMALL).fit(frame, "y")
    for table in ("t.csv", Path("t.csv"), open_table("t.csv")):
        assert TableRegressor(**SMALL).fit(table, "y").predict("t.csv").tolist() == (
            model.predict(frame).tolist()
        )
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    on_disk = TableRegressor(gammas=[0.1, 1.0], alphas=[0.01, 0.1]).fit("t.csv", "y")
    assert "stay on disk" in on_disk.report_["search"]["note"]
    np.testing.assert_allclose(on_disk.predict(frame), model.predict(frame), atol=1e-3)


@pytest.mark.parametrize("options", [{"cv": "loo"}, {"criterion": "gcv"}, {"approximation": "toeplitz"}])
def test_defaults_give_way_in_the_estimators_too(frame, options):
    model = TableRegressor(drop=["colour", "b"], **options).fit(frame.sort_values("a"), "y")
    assert model.report_["search"]["note"]
    assert model.blend_ is None if hasattr(model, "blend_") else True


@pytest.mark.parametrize(
    "cv",
    [
        LeaveOneOut(),
        KFold(4),
        ShuffleSplit(3),
        KFold(4, shuffle=True),
        [([*range(40)], [*range(40, 60)])],
    ],
)
def test_splitters_are_those_of_the_estimator_inside(frame, cv):
    model = TableRegressor(simple=True, gammas=[0.1], alphas=[0.1], cv=cv).fit(frame, "y")
    assert model.estimator_.cv is cv
    held = np.asarray(model.estimator_.heldout_prediction_)
    tested = np.isfinite(held)
    assert model.report_["heldout"]["rows"] == tested.sum()
    if not isinstance(cv, ShuffleSplit):
        error = np.mean((held - frame.y.to_numpy())[tested] ** 2)
        assert model.report_["heldout"]["rmse"] ** 2 == pytest.approx(error)
