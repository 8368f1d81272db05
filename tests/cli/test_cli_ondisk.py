"""``onefold tune`` on a table larger than memory: the same model, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onefold.cli import main
from onefold.tables import load_table_model, open_table, training

SMALL = ["--simple", "--gammas", "2^-3:2^1:3", "--alphas", "2^-5:2^1:3"]
SMALL += ["--approximation", "nystroem"]


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2, 400), rng.normal(-1, 0.1, 400)
    frame = pd.DataFrame(
        {"id": np.arange(400), "a": a, "b": b, "same": 7.0, "label": (a > 5).astype(int)}
    )
    frame["y"] = np.sin(a) + 10 * b
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    return frame


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(training, "available_memory", lambda: 1000)


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("target", ["y", "label"])
def test_the_same_model_as_in_memory(frame, monkeypatch, capsys, table, target):
    drop = ["--drop", "label" if target == "y" else "y", "--id", "id"]
    found = []
    for free in (2**60, 1000):
        monkeypatch.setattr(training, "available_memory", lambda free=free: free)
        out = f"out{free}"
        assert main(["tune", table, "--target", target, *drop, *SMALL, "--out", out]) == 0
        told = "rows stay on disk" in capsys.readouterr().err
        assert told == (free == 1000)
        assert sorted(p.name for p in Path(out).iterdir()) == [
            "model.onefold", "report.html", "search.csv",
        ]  # fmt: skip
        found.append(load_table_model(Path(out) / "model.onefold"))
    memory, disk = found
    assert disk.preparation_.columns == memory.preparation_.columns == ("a", "b")
    assert disk.preparation_.constant == memory.preparation_.constant == ("same",)
    assert disk.estimator_.best_params_ == memory.estimator_.best_params_
    assert disk.estimator_.best_score_ == pytest.approx(memory.estimator_.best_score_, rel=1e-3)
    rows = open_table(table)
    one, other = (np.asarray([*model.predict(rows)]) for model in found)
    if target == "y":
        np.testing.assert_allclose(one, other, atol=1e-2)
    else:
        assert np.mean(one == other) > 0.99


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "y", "--weight", "b"], "the weight column 'b' has -"),
        (["--target", "y", "--task", "classification"], "numbers with fractions"),
        (["--target", "same"], "the same in every row|only one class"),
    ],
)
def test_refused(frame, little_memory, capsys, options, words):
    import re

    assert main(["tune", "t.csv", *options, *SMALL]) != 0
    assert re.search(words, capsys.readouterr().err)
    assert not Path("t-onefold").exists()


def test_text_gaps_weights_groups_and_dates_work_as_in_memory(frame, monkeypatch, capsys):
    rng = np.random.default_rng(1)
    frame["colour"] = rng.choice(["red", "green", None], 400)
    frame["when"] = pd.date_range("2020-01-01", periods=400, freq="29h").astype(str)
    frame["mass"], frame["site"] = (
        rng.uniform(0.5, 2, 400),
        rng.choice(["a", "b", "c", "d", "e", "f"], 400),
    )
    frame.loc[frame.index[::5], "a"] = np.nan
    frame["kind"] = np.where(frame["y"] > -9, "high", "low")
    for target, drop in (("y", "kind"), ("kind", "y")):
        frame.drop(columns=["id", "same", "label", drop]).to_csv("mixed.csv", index=False)
        found = []
        for free in (2**60, 1000):
            monkeypatch.setattr(training, "available_memory", lambda free=free: free)
            command = ["tune", "mixed.csv", "--target", target, "--weight", "mass", "--groups", "site"]
            assert main([*command, *SMALL, "--out", f"{target}{free}", "--json"]) == 0
            result = json.loads(capsys.readouterr().out)
            found.append((load_table_model(f"{target}{free}/model.onefold"), result))
        (memory, one), (disk, other) = found
        assert memory.preparation_.feature_names == disk.preparation_.feature_names
        assert one["column_notes"] == other["column_notes"]
        assert one["best_params"] == other["best_params"]
        assert one["cv"] == other["cv"] == "5-fold, groups of 'site' kept together"
        assert one["best_score"] == pytest.approx(other["best_score"], rel=1e-3)
        if target == "y":
            np.testing.assert_allclose(memory.predict("mixed.csv"), disk.predict("mixed.csv"), atol=1e-2)


def test_what_is_wrong_is_refused_with_its_row(frame, little_memory, capsys):
    frame["a"] = frame["a"].astype(object)
    frame.loc[3, "a"] = "high"
    frame.to_csv("text.csv", index=False)
    assert main(["tune", "text.csv", "--target", "y", *SMALL]) != 0
    assert "'high' in data row 4" in capsys.readouterr().err
    assert sorted(p.name for p in Path().iterdir()) == ["t.csv", "t.parquet", "text.csv"]


def test_json_stays_one_line(frame, little_memory, capsys):
    assert main(["tune", "t.csv", "--target", "y", *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)


def test_rows_on_disk_can_be_gone_on_with(frame, little_memory, capsys):
    command = ["tune", "t.csv", "--target", "y", "--drop", "label", "--id", "id", *SMALL, "--json"]
    assert main([*command, "--resume", "--time-budget", "1e-6"]) == 0
    assert json.loads(capsys.readouterr().out)["search"]["stopped"] == "time_budget"
    assert Path("t-onefold.journal").exists()
    assert main([*command, "--resume", "--force"]) == 0
    on = json.loads(capsys.readouterr().out)
    assert main([*command, "--force"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert on["search"]["stopped"] is None
    for name in ("best_params", "best_score", "heldout", "approximation"):
        assert on[name] == whole[name]
