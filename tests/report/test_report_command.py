"""``onefold report``, and the page that ``onefold tune`` leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onefold.cli import main

SMALL = ["--simple", "--gammas", "0.1,1", "--alphas", "0.01,1", "--quiet"]


@pytest.fixture
def frame(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": [f"p{i}" for i in range(90)], "a": rng.normal(size=90)})
    frame["colour"] = rng.choice(["red", "<b>blue</b>"], 90)
    frame["site"] = np.arange(90) // 9
    frame["mass"] = rng.random(90) + 0.5
    frame["amount"] = np.sin(frame.a) + (frame.colour == "red") + 0.1 * rng.normal(size=90)
    frame.to_csv("t.csv", index=False)
    return frame


def tune(capsys, *more: str) -> str:
    assert main(["tune", "t.csv", "--target", "amount", "--id", "who", *SMALL, *more]) == 0
    return "".join(capsys.readouterr())


def report(capsys, *argv: str) -> dict:
    assert main(["report", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_tune_leaves_a_page(frame, capsys):
    assert "report.html" in tune(capsys, "--groups", "site", "--weight", "mass")
    text = Path("t-onefold/report.html").read_text("utf-8")
    assert "Predict <strong><bdi>amount</bdi>" in text
    assert "onefold tune t.csv --target amount --id who" in text
    assert "the same 5 splits as the model" in text


def test_the_command_on_rows_of_the_fit_and_on_others(frame, capsys):
    tune(capsys)
    assert main(["report", "t-onefold", "t.csv"]) == 0
    out, err = capsys.readouterr()
    assert "Rows: the 90 rows that the model was fitted on" in out
    assert "p" in out.split("largest errors: rows ")[1]
    assert err == "onefold: wrote t-onefold/report.html\n"  # which tune has written before
    command = ["report", "t-onefold", "t.csv", "--out", "other.html"]
    assert [main(command), main(command), main([*command, "--force"])] == [0, 2, 0]
    assert "other.html exists; use --force" in capsys.readouterr().err
    frame.assign(a=frame.a + 0.3)[:50].to_csv("new.csv", index=False)
    found = report(capsys, "t-onefold/model.onefold", "new.csv")
    assert found["scores"]["new_rows"]
    assert found["question"]["assumed"] == "50 rows that are new to the model"


def test_what_the_command_refuses(frame, capsys):
    tune(capsys)
    frame[::-1].to_csv("back.csv", index=False)
    frame.drop(columns="amount").to_csv("bare.csv", index=False)
    for table, options, words in (
        ("back.csv", [], "in another order"),
        ("bare.csv", [], "no column 'amount'"),
        ("t.csv", ["--out", "no/r.html"], "directory no does not exist"),
        ("t.csv", ["--out", "t.csv", "--force"], "an input of this command"),
    ):
        assert main(["report", "t-onefold", table, *options]) == 2
        err = capsys.readouterr().err
        assert err.startswith("onefold: error: ")
        assert words in err


def test_predict_counts_rows_that_equal_a_training_row(frame, capsys):
    """Centres are few of the rows for a Nyström model, and none of them for others."""
    tune(capsys, "--approximation", "nystroem")
    pd.concat([frame[:40], frame[:20].assign(a=9.0)]).to_csv("some.csv", index=False)
    assert main(["predict", "t-onefold", "some.csv", "--score", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["score"]["rows_equal_to_training"] == 40
    many = pd.concat([frame.assign(a=frame.a + k) for k in range(12)])
    many.to_csv("t.csv", index=False)
    tune(capsys, "--force", "--approximation", "nystroem")
    assert main(["predict", "t-onefold", "t.csv", "--score"]) == 0
    err = capsys.readouterr().err
    equal = "1080 rows; 1,080 of them have an equal row in the training data (same features and target)"
    assert f"{equal}: if those are the same rows, " in err
