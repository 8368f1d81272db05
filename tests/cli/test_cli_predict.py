"""``onefold predict``: streamed, in order, complete files or none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import MODEL, NUMBERS, SMALL, TUNE, files

from onefold.cli import main
from onefold.tables import load_table_model


def predicted(frame: pd.DataFrame) -> list[str]:
    return load_table_model(MODEL).predict(frame).tolist()


@pytest.mark.parametrize("batch_rows", [[], ["--batch-rows", "7"]])
def test_stdout_files_and_json(tuned, capsys, batch_rows):
    expected = {"who": tuned.who.tolist(), "prediction": predicted(tuned)}
    assert main(["predict", "t-onefold", "t.csv", *batch_rows]) == 0  # the directory of a model
    out, err = capsys.readouterr()
    lines = [f"{who},{label}" for who, label in zip(*expected.values())]
    assert (out.splitlines(), err) == (["who,prediction", *lines], "")
    for file, read in (("p.csv", pd.read_csv), ("p.parquet", pd.read_parquet)):
        assert main(["predict", MODEL, "t.csv", "--out", file, *batch_rows]) == 0
        assert capsys.readouterr() == ("", f"onefold: wrote 60 predictions to {file}\n")
        assert read(file).to_dict("list") == expected
    assert files() == ["p.csv", "p.parquet", "t-onefold", "t.csv"]
    assert main(["predict", MODEL, "t.csv", "--json", "--score", *batch_rows]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["file"], found["predictions"]) == (60, None, expected)
    assert found["score"]["accuracy"] == np.mean(np.array(expected["prediction"]) == tuned.kind)
    assert main(["predict", MODEL, "t.csv", "--json", "--out", "p.csv", "--force"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"rows": 60, "file": "p.csv", "score": None, "predictions": None}


@pytest.mark.parametrize("classes", [2, 3])
def test_decision_values_and_probabilities(table, capsys, refused, classes):
    if classes == 3:
        table["kind"] = np.where(table.length > 0.5, "far", table.kind)
    table.to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert main(["predict", MODEL, "t.csv", "--decision", "--proba", "--out", "p.parquet"]) == 0
    frame = pd.read_parquet("p.parquet")
    model = load_table_model(MODEL)
    labels = model.classes_.tolist()
    names = ["decision"] if classes == 2 else [f"decision_{label}" for label in labels]
    values = model.decision_function(table).reshape(60, -1)
    np.testing.assert_allclose(frame[names], values, rtol=1e-12)
    shares = frame[[f"probability_{label}" for label in labels]]
    np.testing.assert_allclose(shares, model.predict_proba(table), rtol=1e-12)
    capsys.readouterr()
    line = refused("predict", MODEL, "t.csv", "--interval", "0.9")
    assert "--interval needs a regression model tuned with intervals, which this model is not" in line
    line = refused("predict", MODEL, "t.csv", "--interval", "1.5")
    assert "'1.5' is not a fraction between 0 and 1, such as 0.9" in line


def test_bounds_and_what_is_for_classifiers(table, capsys, refused):
    assert main([*NUMBERS, *SMALL, "--quiet"]) == 0
    assert main(["predict", MODEL, "t.csv", "--interval", "0.8", "--out", "b.csv"]) == 0
    found = pd.read_csv("b.csv")
    np.testing.assert_allclose(
        found[["lower", "upper"]], load_table_model(MODEL).predict_interval(table, coverage=0.8)
    )
    capsys.readouterr()
    for option in ("--proba", "--decision"):
        assert f"{option} needs a classification model" in refused("predict", MODEL, "t.csv", option)
    for option, name in (("--calibration", "classes"), ("--intervals", "numbers")):
        command = TUNE if name == "classes" else NUMBERS
        assert main([*command, *SMALL, option, "none", "--quiet", "--force"]) == 0
        capsys.readouterr()
        asked = ["--proba"] if name == "classes" else ["--interval", "0.9"]
        needed = "tuned with a calibration" if name == "classes" else "tuned with intervals"
        assert f"{needed}, which this model is not" in refused("predict", MODEL, "t.csv", *asked)


@pytest.mark.parametrize("command", [TUNE, NUMBERS], ids=["classes", "numbers"])
def test_scores_of_all_blocks(table, capsys, refused, command):
    """Of the rows that have a target; which of them equal a training row is known by hashes."""
    for more in ([], ["--approximation", "nystroem"]):  # whose centres are no rows
        assert main([*command, *SMALL, *more, "--quiet", "--force"]) == 0
        model = load_table_model(MODEL)
        target = command[3]
        table.assign(length=table.length + 0.01).to_csv("new.csv", index=False)
        table.assign(**{target: table[target].where(table.index % 5 > 0)}).to_csv(
            "some.csv", index=False
        )
        for path, known in {"t.csv": 60, "new.csv": 0, "some.csv": 48}.items():
            rows = pd.read_csv(path).dropna()
            y = rows[target]
            f = model.predict(rows)
            capsys.readouterr()
            assert main(["predict", MODEL, path, "--score", "--batch-rows", "7"]) == 0
            err = capsys.readouterr().err
            others = " (not counting 12 without a target)" if path == "some.csv" else ""
            equal = f"{known} of them have an equal row in the training data (same features and target)"
            fitted = f"; {equal}: if those are the same rows, the score is optimistic"
            assert err.endswith(f"on {len(y)} rows{others}{fitted if known else ''}\n")
            if command is TUNE:
                assert f"accuracy {np.mean(f == y):.2%} " in err
            else:
                mse = np.mean((f - y) ** 2)
                assert f"R² {1 - mse / y.var(ddof=0):.3f}, RMSE {np.sqrt(mse):.4g} " in err
    assert main(["predict", MODEL, "some.csv", "--score", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)["score"]
    assert (score["rows"], score["rows_without_target"], score["rows_equal_to_training"]) == (48, 12, 48)
    assert not score["rows_equal_estimated"]
    table.assign(**{target: None}).to_csv("none.csv", index=False)
    assert main(["predict", MODEL, "none.csv", "--score", "--out", "p.csv"]) == 2
    assert f"--score needs targets, but every value of '{target}' is missing" in capsys.readouterr().err


def test_ids(tuned, capsys, refused):
    names = [f"{i:03}" for i in range(56)] + ["NA", "", " 7 ", "1.50"]
    tuned.drop(columns="kind").assign(who=names).to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == names  # as written
    assert main(["predict", MODEL, "t.csv", "--id", "site"]) == 0
    assert capsys.readouterr().out.startswith("site,prediction\n0,")
    tuned.drop(columns="who").to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("prediction\n")
    assert "new.csv has no ID column 'who'; predictions are written without it" in err
    days = pd.date_range("2024-01-01", periods=60).date
    for ids, first in (([None, True, False] * 20, ["", "true", "false"]), (days, ["2024-01-01"])):
        tuned.assign(who=ids).to_parquet("new.parquet")
        assert main(["predict", MODEL, "new.parquet"]) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        assert [line.split(",")[0] for line in lines[: len(first)]] == first
        assert main(["predict", MODEL, "new.parquet", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["predictions"]["who"]
        assert found[: len(first)] == [name or None for name in first]


@pytest.mark.parametrize(
    ("name", "option"),
    [("prediction", []), ("probability_inner", ["--proba"]), ("decision", ["--decision"])],
)
def test_ids_named_as_columns_of_predictions_are_refused_at_once(tuned, refused, name, option):
    tuned.assign(**{name: range(60)}).to_csv("new.csv", index=False)
    for command in (
        ["predict", MODEL, "new.csv", "--id", name, *option],
        ["tune", "new.csv", *TUNE[2:-1], name],
        ["plan", "new.csv", *TUNE[2:-1], name],
    ):
        words = f"the ID column '{name}' clashes with an output column; rename it"
        assert words in refused(*command)


@pytest.mark.parametrize("name", ["decision_id", "probability_of_rain", "lower", "decision_inner"])
def test_ids_that_no_column_of_predictions_is_named_as_are_taken(table, capsys, name):
    """`--id decision_id` was refused for its beginning; two classes have one decision, no bounds."""
    table.assign(**{name: range(60)}).to_csv("t.csv", index=False)
    assert main(["tune", "t.csv", *TUNE[2:-2], "who", "--id", name, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", MODEL, "t.csv", "--decision", "--proba"]) == 0
    header = capsys.readouterr().out.splitlines()[0]
    assert header == f"{name},prediction,decision,probability_inner,probability_outer"


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"\xff", pd.Timedelta("1h")], ids=repr)
def test_ids_that_no_text_is_written_of_are_refused_by_name(tuned, refused, value):
    tuned.assign(who=[value] * 60).to_parquet("new.parquet")
    for command in (["predict", MODEL, "new.parquet"], ["tune", "new.parquet", *TUNE[2:]]):
        assert "the ID column 'who' must hold text, numbers or dates; got " in refused(*command)


def test_a_failure_in_a_late_block_leaves_no_file(tuned, capsys, refused):
    broken = tuned.astype({"length": object})
    broken.loc[55, "length"] = "oops"
    broken.to_csv("new.csv", index=False)
    line = refused("predict", MODEL, "new.csv", "--out", "p.csv", "--batch-rows", "7")
    assert "column 'length' should hold numbers but has 'oops' in data row 56" in line
    assert files() == ["new.csv", "t-onefold", "t.csv"]
    Path("p.csv").write_text("old")
    refused("predict", MODEL, "new.csv", "--out", "p.csv", "--force", "--batch-rows", "7")
    assert Path("p.csv").read_text() == "old"


def test_refused(tuned, refused):
    Path("p.csv").write_text("old")
    assert "p.csv exists; use --force" in refused("predict", MODEL, "t.csv", "--out", "p.csv")
    assert "--out must be a .csv or .parquet file" in refused(
        "predict", MODEL, "t.csv", "--out", "p.txt"
    )
    assert "directory no does not exist" in refused("predict", MODEL, "t.csv", "--out", "no/p.csv")
    assert "did you mean 'site'?" in refused("predict", MODEL, "t.csv", "--id", "sight")
    # A variable of the shell that is not set; it was taken for the ID column of tune.
    assert "t.csv has no column ''" in refused("predict", MODEL, "t.csv", "--id", "")
    tuned.drop(columns="kind").to_csv("new.csv", index=False)
    assert "no column 'kind'" in refused("predict", MODEL, "new.csv", "--score")
    tuned.head(0).to_csv("new.csv", index=False)
    assert "new.csv has no rows" in refused("predict", MODEL, "new.csv")
    tuned.rename(columns={"length": "lenght"}).to_csv("new.csv", index=False)
    line = refused("predict", MODEL, "new.csv")
    assert "no column 'length', which the model needs; did you mean 'lenght'?" in line
    tuned.rename(columns=str.upper).to_csv("new.csv", index=False)
    assert refused("predict", MODEL, "new.csv").endswith(
        "the names differ only in upper and lower case; rename them"
    )
