"""``onefold predict``: streamed, in order, complete files or none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import MODEL, NUMBERS, SMALL, TUNE, files

import onefold
from onefold.cli import main
from onefold.tables import load_table_model


@pytest.fixture
def tuned(table, capsys) -> pd.DataFrame:
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    return table


def predicted(frame: pd.DataFrame) -> list[str]:
    return load_table_model(MODEL).predict(frame).tolist()


def test_csv_on_stdout_in_row_order(tuned, capsys):
    for model in (MODEL, "t-onefold"):  # the directory stands for its model
        assert main(["predict", model, "t.csv"]) == 0
        out, err = capsys.readouterr()
        expected = [f"{who},{label}" for who, label in zip(tuned.who, predicted(tuned))]
        assert (out.splitlines(), err) == (["who,prediction", *expected], "")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("batch_rows", [[], ["--batch-rows", "7"]])
def test_files(tuned, capsys, suffix, batch_rows):
    out = f"p.{suffix}"
    assert main(["predict", MODEL, "t.csv", "--out", out, *batch_rows]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"wrote 60 predictions to {out}" in captured.err
    frame = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert frame.prediction.tolist() == predicted(tuned)
    assert frame.who.tolist() == tuned.who.tolist()
    assert files() == sorted([out, "t-onefold", "t.csv"])


def test_json(tuned, capsys):
    assert main(["predict", MODEL, "t.csv", "--json", "--score", "--batch-rows", "7"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predictions"] == {"who": tuned.who.tolist(), "prediction": predicted(tuned)}
    assert (found["rows"], found["file"]) == (60, None)
    assert found["score"]["accuracy"] == np.mean(np.array(predicted(tuned)) == tuned.kind)
    assert main(["predict", MODEL, "t.csv", "--json", "--out", "p.csv"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"rows": 60, "file": "p.csv", "score": None, "predictions": None}
    assert err == ""


@pytest.mark.parametrize("classes", [2, 3])
def test_decision_values_and_probabilities(table, capsys, refused, classes):
    if classes == 3:
        table["kind"] = np.where(table.length > 0.5, "far", table.kind)
    table.to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert main(["predict", MODEL, "t.csv", "--decision", "--proba", "--out", "p.parquet"]) == 0
    frame, model = pd.read_parquet("p.parquet"), load_table_model(MODEL)
    labels = model.classes_.tolist()
    names = ["decision"] if classes == 2 else [f"decision_{label}" for label in labels]
    values = model.decision_function(table).reshape(60, -1)
    np.testing.assert_allclose(frame[names], values, rtol=1e-12)
    shares = frame[[f"probability_{label}" for label in labels]]
    np.testing.assert_allclose(shares, model.predict_proba(table), rtol=1e-12)
    capsys.readouterr()
    line = refused("predict", MODEL, "t.csv", "--interval", "0.9")
    assert "--interval is for regression with intervals, and this model predicts classes: use" in line


def test_bounds_and_what_is_for_classifiers(table, capsys, refused):
    assert main([*NUMBERS, *SMALL, "--quiet"]) == 0
    assert main(["predict", MODEL, "t.csv", "--interval", "0.8", "--out", "b.csv"]) == 0
    found = pd.read_csv("b.csv")
    np.testing.assert_allclose(
        found[["lower", "upper"]], load_table_model(MODEL).predict_interval(table, coverage=0.8)
    )
    capsys.readouterr()
    for option in ("--proba", "--decision"):
        assert f"{option} is for classification" in refused("predict", MODEL, "t.csv", option)
    onefold.LSSVR().fit(table[["length"]].to_numpy(), table.amount).save("bare.onefold")
    assert "not tuned on a table" in refused("predict", "bare.onefold", "t.csv")


@pytest.mark.parametrize("command", [TUNE, NUMBERS], ids=["classes", "numbers"])
def test_scores_of_all_blocks(table, capsys, command):
    assert main([*command, *SMALL, "--quiet"]) == 0
    y, model = table[command[3]], load_table_model(MODEL)
    table.assign(length=table.length + 0.01).to_csv("new.csv", index=False)
    for path in ("t.csv", "new.csv"):
        capsys.readouterr()
        assert main(["predict", MODEL, path, "--score", "--batch-rows", "7"]) == 0
        err, f = capsys.readouterr().err, model.predict(path)
        if command is TUNE:
            assert f"accuracy {np.mean(f == y):.2%} on 60 rows" in err
        else:
            mse = np.mean((f - y) ** 2)
            assert f"{1 - mse / y.var(ddof=0):.3f}" in err
            assert f"RMSE {np.sqrt(mse):.4g} on 60 rows" in err
        assert ("flatters the score" in err) == (path == "t.csv")


def test_ids(tuned, capsys, refused):
    tuned.drop(columns="kind").assign(who=[f"{i:05d}" for i in range(60)]).to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("00000,")  # as written
    assert main(["predict", MODEL, "t.csv", "--id", "site"]) == 0
    assert capsys.readouterr().out.startswith("site,prediction\n")
    tuned.drop(columns="who").to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("prediction\n")
    assert "new.csv has no ID column 'who'; predictions come without it" in err
    tuned.assign(who=[None, True, False] * 20).to_parquet("new.parquet")
    assert main(["predict", MODEL, "new.parquet"]) == 0
    ids = {line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert ids == {"", "true", "false"}
    for name in ("prediction", "lower", "upper", "decision", "probability_inner"):
        tuned.assign(**{name: range(60)}).to_csv("new.csv", index=False)
        line = refused("predict", MODEL, "new.csv", "--id", name)
        assert f"the ID column is named '{name}', as an output column is; rename it" in line


def test_unknown_categories_warn_once(tuned, capsys):
    tuned.assign(colour="mauve").to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv", "--batch-rows", "7"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("onefold: warning: ")
    assert err.endswith(": 60 in 'colour'\n")
    assert err.count("\n") == 1


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
    assert "written as .csv or .parquet" in refused("predict", MODEL, "t.csv", "--out", "p.txt")
    assert "no directory no" in refused("predict", MODEL, "t.csv", "--out", "no/p.csv")
    assert "model" in refused("predict", "t.csv", "t.csv")
    assert "did you mean 'site'?" in refused("predict", MODEL, "t.csv", "--id", "sight")
    tuned.drop(columns="kind").to_csv("new.csv", index=False)
    assert "no column 'kind'" in refused("predict", MODEL, "new.csv", "--score")
    tuned.assign(kind=[None, *tuned.kind[1:]]).to_csv("new.csv", index=False)
    assert "missing values in 'kind'" in refused("predict", MODEL, "new.csv", "--score")
    tuned.head(0).to_csv("new.csv", index=False)
    assert "new.csv has no rows" in refused("predict", MODEL, "new.csv")
    tuned.rename(columns={"length": "lenght"}).to_csv("new.csv", index=False)
    line = refused("predict", MODEL, "new.csv")
    assert "no column 'length', which the model needs; did you mean 'lenght'?" in line
