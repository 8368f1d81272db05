"""``onefold compress``: files, what is printed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_arguments import MODEL, NUMBERS, SMALL, files

import onefold
from onefold import LSSVR, TablePreparation
from onefold.cli import main

SMALLER = "t-onefold/model-compressed.onefold"


def test_a_smaller_file_that_predicts(tuned, capsys):
    assert main(["compress", "t-onefold", "--centres", "20"]) == 0
    out = capsys.readouterr().out
    assert "20 of 60 centres are left" in out
    assert "of the labels of the other centres change" in out
    assert f"predict {SMALLER} NEW_TABLE" in out
    assert Path(SMALLER).stat().st_size < Path(MODEL).stat().st_size
    small = onefold.load(SMALLER)
    assert small.estimator_.expansion_.n_centres == 20
    assert main(["predict", SMALLER, "t.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 60
    assert main(["inspect", SMALLER]) == 0
    assert "20 of 60 centres are left" in capsys.readouterr().out


def test_json_rows_and_tolerance(table, capsys):
    table.iloc[40:].to_csv("new.csv", index=False, sep=";")
    assert main([*NUMBERS, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    command = ["compress", MODEL, "--tolerance", "0.2", "--rows", "new.csv", "--out", "s.onefold"]
    assert main([*command, "--json", "--delimiter", ";"]) == 0
    facts = json.loads(capsys.readouterr().out)
    model = onefold.load(MODEL)
    small = onefold.load("s.onefold")
    new = table.iloc[40:]
    before = np.sqrt(np.mean((model.predict(new) - new.amount) ** 2))
    assert facts["file"] == "s.onefold"
    assert facts["bytes"] == Path("s.onefold").stat().st_size < facts["bytes_before"]
    record = facts["compressed"]
    assert (record["rows"], record["rows_from"], record["tolerance"]) == (20, "X", 0.2)
    assert record["error_before"] == pytest.approx(before)
    change = np.sqrt(np.mean((model.predict(new) - small.predict(new)) ** 2))
    assert record["rms_change"] == pytest.approx(change)
    assert change <= 0.2 * before
    assert main([*command, "--delimiter", ";", "--force"]) == 0
    assert "its RMSE" in capsys.readouterr().out
    assert main(["inspect", "s.onefold", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compressed"] == record
    # Without the target column, the share is one of the error that tuning has found.
    new.drop(columns="amount").to_csv("unlabelled.csv", index=False)
    command = ["compress", MODEL, "--tolerance", "0.2", "--rows", "unlabelled.csv", "--out", "u.onefold"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compressed"]["error_after"] is None


def test_models_made_in_python(table, capsys, refused):
    X = table[["length", "width"]].to_numpy()
    LSSVR(gamma=0.5, alpha=0.1).fit(X, table.amount).save("m.onefold")
    assert main(["compress", "m.onefold", "--centres", "9"]) == 0
    assert "Predict with" not in capsys.readouterr().out
    assert onefold.load("m-compressed.onefold").expansion_.n_centres == 9
    line = refused("compress", "m.onefold", "--centres", "9", "--rows", "t.csv", "--out", "x.onefold")
    assert "--rows needs a model that was tuned on a table" in line
    TablePreparation().fit(table).save("p.onefold")
    assert "has no centres" in refused("compress", "p.onefold", "--centres", "9")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either --centres or --tolerance"),
        (["--centres", "9", "--tolerance", "1"], "either --centres or --tolerance"),
        (["--centres", "0"], "not a positive whole number"),
        (["--tolerance", "-1"], "not a positive number"),
        (["--centres", "61"], "60 different centres"),
        (["--centres", "9", "--decimal", ","], "--decimal applies only to the table of --rows"),
        (["--centres", "9", "--rows", "no.csv"], "no.csv"),
        (["--centres", "9", "--out", "t-onefold"], "is a directory"),
        (["--centres", "9", "--out", MODEL, "--force"], "an input of this command"),
        (["--centres", "9", "--out", "no/m.onefold"], "directory no does not exist"),
    ],
)
def test_refused(tuned, refused, options, words):
    before = files("t-onefold")
    assert words in refused("compress", "t-onefold", *options)
    assert files("t-onefold") == before


def test_existing_files_stay_without_force(tuned, capsys, refused):
    assert main(["compress", "t-onefold", "--centres", "20"]) == 0
    capsys.readouterr()
    content = Path(SMALLER).read_bytes()
    assert "use --force" in refused("compress", "t-onefold", "--centres", "10")
    assert Path(SMALLER).read_bytes() == content
    assert main(["compress", "t-onefold", "--centres", "10", "--force"]) == 0
    assert len(Path(SMALLER).read_bytes()) < len(content)
