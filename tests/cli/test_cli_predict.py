"""``onefold predict``: streamed, in order, complete files or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL, TUNE

import onefold
from onefold.cli import main
from onefold.tables import load_table_model

MODEL = "t-onefold/model.onefold"


@pytest.fixture
def tuned(table, capsys) -> pd.DataFrame:
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    return table


def predicted(frame: pd.DataFrame) -> list[str]:
    return load_table_model(MODEL).predict(frame).tolist()


def test_csv_on_stdout_in_row_order(tuned, capsys):
    assert main(["predict", MODEL, "t.csv"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "who,prediction"
    expected = [f"{who},{label}" for who, label in zip(tuned.who, predicted(tuned))]
    assert lines[1:] == expected
    assert err == ""


def test_the_directory_stands_for_its_model(tuned, capsys):
    assert main(["predict", "t-onefold", "t.csv"]) == 0
    assert capsys.readouterr().out.startswith("who,prediction\n")


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
    assert sorted(p.name for p in Path().iterdir()) == sorted([out, "t-onefold", "t.csv"])


def test_decision_values(tuned, capsys):
    assert main(["predict", MODEL, "t.csv", "--decision", "--out", "p.csv"]) == 0
    model = load_table_model(MODEL)
    frame = pd.read_csv("p.csv")
    (_, X), *_ = model.matrix_blocks(tuned)
    np.testing.assert_allclose(frame.decision, model.estimator_.decision_function(X), rtol=1e-12)


def test_decision_values_of_several_classes(table, capsys):
    table["kind"] = np.where(table.length > 0.5, "far", table.kind)
    table.to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert main(["predict", MODEL, "t.csv", "--decision", "--out", "p.parquet"]) == 0
    frame = pd.read_parquet("p.parquet")
    decisions = frame[["decision_far", "decision_inner", "decision_outer"]].to_numpy()
    labels = np.array(["far", "inner", "outer"])
    assert frame.prediction.tolist() == labels[decisions.argmax(axis=1)].tolist()


def test_score_is_the_accuracy_over_all_blocks(tuned, capsys):
    assert main(["predict", MODEL, "t.csv", "--score", "--batch-rows", "7"]) == 0
    share = np.mean(np.array(predicted(tuned)) == tuned.kind)
    assert f"accuracy {share:.2%} on 60 rows" in capsys.readouterr().err


def test_score_of_a_regression(table, capsys):
    base = ["tune", "t.csv", "--target", "amount", "--drop", "who", *SMALL, "--quiet"]
    assert main(base) == 0
    capsys.readouterr()
    assert main(["predict", MODEL, "t.csv", "--score", "--batch-rows", "7"]) == 0
    out, err = capsys.readouterr()
    f, y = np.array([float(v) for v in out.split()[1:]]), table.amount.to_numpy()
    mse = np.mean((f - y) ** 2)
    assert f"R2 {1 - mse / y.var():.4f}, RMSE {np.sqrt(mse):.4g} on 60 rows" in err


def test_the_target_column_is_not_needed(tuned, capsys):
    tuned.drop(columns=["kind", "site"]).to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv").prediction.tolist() == predicted(tuned)


def test_identifiers_keep_their_spelling(tuned, capsys):
    tuned.assign(who=[f"{i:05d}" for i in range(60)]).to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("00000,")


def test_another_id_column_or_none(tuned, capsys):
    assert main(["predict", MODEL, "t.csv", "--id", "site"]) == 0
    assert capsys.readouterr().out.startswith("site,prediction\n")
    tuned.drop(columns="who").to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("prediction\n")
    assert "new.csv has no ID column 'who'; predictions come without it" in err


def test_booleans_come_back_as_they_were_written(table, capsys):
    table["kind"] = table.kind == "inner"
    table.to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", MODEL, "t.csv", "--score"]) == 0
    out, err = capsys.readouterr()
    assert {line.split(",")[1] for line in out.splitlines()[1:]} == {"True", "False"}
    assert float(err.split("accuracy ")[1].split("%")[0]) > 60


def test_unknown_categories_warn_once(tuned, capsys):
    tuned.assign(colour="mauve").to_csv("new.csv", index=False)
    assert main(["predict", MODEL, "new.csv", "--batch-rows", "7"]) == 0
    err = capsys.readouterr().err
    assert err == ("onefold: warning: values that tuning had never seen were ignored: 60 in 'colour'\n")


def test_a_failure_in_a_late_block_leaves_no_file(tuned, capsys, refused):
    broken = tuned.astype({"length": object})
    broken.loc[55, "length"] = "oops"
    broken.to_csv("new.csv", index=False)
    line = refused("predict", MODEL, "new.csv", "--out", "p.csv", "--batch-rows", "7")
    assert "column 'length' should hold numbers but has 'oops' in data row 56" in line
    assert sorted(p.name for p in Path().iterdir()) == ["new.csv", "t-onefold", "t.csv"]
    Path("p.csv").write_text("old")
    refused("predict", MODEL, "new.csv", "--out", "p.csv", "--force", "--batch-rows", "7")
    assert Path("p.csv").read_text() == "old"


def test_refused(tuned, refused, tmp_path):
    Path("p.csv").write_text("old")
    assert "p.csv exists; use --force" in refused("predict", MODEL, "t.csv", "--out", "p.csv")
    assert "written as .csv or .parquet" in refused("predict", MODEL, "t.csv", "--out", "p.txt")
    assert "no directory no" in refused("predict", MODEL, "t.csv", "--out", "no/p.csv")
    assert "none.onefold" in refused("predict", "none.onefold", "t.csv")
    assert "model" in refused("predict", "t.csv", "t.csv")
    assert "did you mean 'site'?" in refused("predict", MODEL, "t.csv", "--id", "sight")
    tuned.drop(columns="kind").to_csv("new.csv", index=False)
    assert "no column 'kind'" in refused("predict", MODEL, "new.csv", "--score")
    tuned.head(0).to_csv("new.csv", index=False)
    assert "new.csv has no rows to predict" in refused("predict", MODEL, "new.csv")
    tuned.rename(columns={"length": "lenght"}).to_csv("new.csv", index=False)
    assert "no column 'length', which the model needs; did you mean 'lenght'?" in refused(
        "predict", MODEL, "new.csv"
    )


def test_decisions_are_for_classifiers_and_tables_need_a_preparation(table, capsys, refused):
    base = ["tune", "t.csv", "--target", "amount", "--drop", "who", *SMALL, "--quiet"]
    assert main(base) == 0
    capsys.readouterr()
    assert "--decision is for classification" in refused("predict", MODEL, "t.csv", "--decision")
    onefold.LSSVR().fit(table[["length"]].to_numpy(), table.amount).save("bare.onefold")
    assert "not tuned on a table" in refused("predict", "bare.onefold", "t.csv")


@pytest.mark.parametrize("name", ["prediction", "lower", "upper", "decision", "probability_inner"])
def test_ids_named_like_an_output_column_are_refused(tuned, refused, name):
    tuned.assign(**{name: range(60)}).to_csv("new.csv", index=False)
    line = refused("predict", MODEL, "new.csv", "--id", name)
    assert f"the ID column is named '{name}', as an output column is; rename it" in line


def test_ids_that_are_missing_or_booleans(tuned, capsys):
    tuned.assign(who=[None, True, False] * 20).to_parquet("new.parquet")
    assert main(["predict", MODEL, "new.parquet"]) == 0
    assert {line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]} == {
        "", "true", "false",
    }  # fmt: skip
