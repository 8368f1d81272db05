"""``onefold report``, and the page that ``onefold tune`` leaves beside its model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from page_checks import check_page

from onefold import load
from onefold.cli import main

SMALL = ["--simple", "--gammas", "0.1,1", "--alphas", "0.01,1", "--quiet"]


@pytest.fixture
def frame(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": [f"p{i}" for i in range(90)], "a": rng.normal(size=90)})
    frame["colour"] = rng.choice(["red", "<b>blue</b>"], 90)
    frame["site"], frame["mass"] = np.arange(90) // 9, rng.random(90) + 0.5
    frame["amount"] = np.sin(frame.a) + (frame.colour == "red") + 0.1 * rng.normal(size=90)
    frame.to_csv("t.csv", index=False)
    return frame


def tune(*more: str) -> int:
    return main(["tune", "t.csv", "--target", "amount", "--id", "who", *SMALL, *more])


def report(capsys, *argv: str) -> dict:
    assert main(["report", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *argv: str) -> str:
    assert main(["report", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("onefold: error: ")
    return err


def test_tune_leaves_a_page(frame, capsys):
    assert tune("--groups", "site", "--weight", "mass") == 0
    assert "report.html" in capsys.readouterr().out
    page = check_page(Path("t-onefold/report.html").read_text("utf-8"))
    text = page.text()
    assert "Predict amount" in text
    assert "onefold tune t.csv --target amount --id who" in text
    assert "the same 5 splits as the model" in text


def test_a_page_that_fails_only_warns(frame, capsys, monkeypatch):
    def fail(*args, **more):
        raise ValueError("no way;\nnone")

    monkeypatch.setattr("onefold.cli.output.gather", fail)
    assert tune() == 0
    assert "no report.html: no way; none" in capsys.readouterr().err
    assert sorted(p.name for p in Path("t-onefold").iterdir()) == [
        "model.onefold", "search.csv",
    ]  # fmt: skip


def test_the_command_on_the_rows_of_the_fit(frame, capsys):
    tune()
    capsys.readouterr()
    assert main(["report", "t-onefold", "t.csv"]) == 0
    out, err = capsys.readouterr()
    assert "The rows are the 90 rows it was fitted on" in out
    assert "p" in out.split("largest errors: rows ")[1]
    assert err == "onefold: wrote t-onefold/report.html\n"  # which tune has written before
    check_page(Path("t-onefold/report.html").read_text("utf-8"))
    command = ["report", "t-onefold", "t.csv", "--out", "other.html"]
    assert main(command) == 0
    capsys.readouterr()
    assert "other.html exists; use --force" in refused(capsys, *command[1:])
    assert main([*command, "--force"]) == 0
    capsys.readouterr()
    found = report(capsys, "t-onefold", "t.csv")
    told = load("t-onefold/model.onefold").report_["heldout"]["rmse"]
    assert found["scores"]["model"]["measures"]["rmse"]["value"] == pytest.approx(told)


def test_the_command_on_other_rows(frame, capsys):
    tune()
    capsys.readouterr()
    new = frame.assign(a=frame.a + 0.3)[:50]
    new.to_csv("new.csv", index=False)
    found = report(capsys, "t-onefold/model.onefold", "new.csv")
    assert found["scores"]["new_rows"]
    assert found["question"]["assumed"] == "50 rows that are new to the model"
    frame[:50].to_csv("some.csv", index=False)
    assert "50 of them equal rows" in report(capsys, "t-onefold", "some.csv")["question"]["assumed"]
    frame[::-1].to_csv("back.csv", index=False)
    assert "in another order" in refused(capsys, "t-onefold", "back.csv")


def test_what_the_command_refuses(frame, capsys):
    tune()
    capsys.readouterr()
    assert "no column 'amount'" in _without_target(frame, capsys)
    assert "there is no directory" in refused(capsys, "t-onefold", "t.csv", "--out", "no/r.html")
    assert "which this command reads" in refused(
        capsys, "t-onefold", "t.csv", "--out", "t.csv", "--force"
    )
    assert not Path("report.html").exists()


def _without_target(frame, capsys) -> str:
    frame.drop(columns="amount").to_csv("bare.csv", index=False)
    return refused(capsys, "t-onefold", "bare.csv")
