"""``onefold inspect`` and ``onefold demo``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_arguments import FILES, MODEL, SMALL, TUNE, files
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, train_test_split

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV
from onefold.cli import main
from onefold.saving.file import FORMAT_VERSION
from onefold.tables import load_table_model


def test_inspect_a_tuned_model(table, capsys):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["inspect", "t-onefold"]) == 0
    text = capsys.readouterr().out
    estimator = load_table_model(MODEL).estimator_
    for words in (
        "LSSVCCV",
        f"RBF(gamma={estimator.gamma_})",
        "'inner', 'outer'",
        "'length', 'width'",
        "'blue', 'red'",
        "'kind' (classification)",
        "'who'",
        f"onefold {onefold.__version__}, file format {FORMAT_VERSION}",
    ):
        assert words in text
    assert main(["inspect", MODEL, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["best_params"] == {"alpha": estimator.alpha_, "gamma": estimator.gamma_}
    assert facts["tuning"]["rows"] == 60
    assert facts["centres"] == 60
    length = facts["preparation"]["columns"]["length"]
    assert length["mean"] == pytest.approx(table.length.mean())
    assert length["scale"] == pytest.approx(table.length.std(ddof=0))
    assert (length["kind"], length["missing"]) == ("numbers", False)


def test_inspect_an_estimator_made_in_python(table, capsys, refused):
    X, y = table[["length", "width"]].to_numpy(), table.amount.to_numpy()
    onefold.save(LSSVR(alpha=0.5).fit(X, y), "bare.onefold")
    chosen = LSSVRCV(gammas=[0.1, 1], alphas=[0.5, 1]).fit(X, y)
    chosen.save("chosen.onefold")
    for name, words in (("bare.onefold", "LSSVR with RBF(gamma=1.0)"), ("chosen.onefold", "LSSVRCV")):
        assert main(["inspect", name]) == 0
        assert words in capsys.readouterr().out
        assert main(["inspect", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["centres"] == 60
    assert "holds a LSSVR that was not tuned on a table" in refused("predict", "bare.onefold", "t.csv")
    chosen.approximation_ = {"fitted_with": {}, "selected_with": {}, "trust": {}}
    chosen.save("chosen.onefold")
    assert "notes on the fit are damaged" in refused("inspect", "chosen.onefold")


def test_scores_of_bare_estimators_read_as_what_they_are(table, capsys):
    X, y = table[["length", "width"]].to_numpy(), table.kind.to_numpy(str)
    grid = {"gammas": [0.01], "alphas": [10.0]}
    for criterion, words in (
        (None, "accuracy    {percent:.2%}"),
        ("f1_macro", "f1 macro    {score:.4g}"),
        (lambda estimator, X, y: 0.25, "score       0.25"),
    ):
        fitted = LSSVCCV(criterion=criterion, **grid).fit(X, y)
        fitted.save("bare.onefold")
        assert main(["inspect", "bare.onefold"]) == 0
        score = fitted.best_score_
        assert words.format(percent=1 + score, score=score) in capsys.readouterr().out


@pytest.mark.parametrize(
    "report", [{"rows": 3}, {"heldout": {"accuracy": 1.0}}, {"heldout": 5, "task": "x"}]
)
def test_inspect_refuses_reports_of_other_versions(table, capsys, refused, report):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    model = load_table_model(MODEL)
    model.report_ = report
    model.save("other.onefold")
    capsys.readouterr()
    assert "its notes on the fit are damaged" in refused("inspect", "other.onefold")
    assert main(["predict", "other.onefold", "t.csv"]) == 0


def test_inspect_refuses_damaged_files(table, capsys, refused):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    data = Path(MODEL).read_bytes()
    Path("cut.onefold").write_bytes(data[: len(data) // 2])
    assert "cut.onefold cannot be read as a onefold model" in refused("inspect", "cut.onefold")
    assert "no.onefold" in refused("inspect", "no.onefold")
    assert "t.csv" in refused("inspect", "t.csv")


def test_demo(tmp_path, monkeypatch, capsys, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [".venv/bin/onefold", "demo"])
    monkeypatch.setattr("onefold.cli.demo._ROWS", 60)  # for a test, some are enough
    monkeypatch.setattr("onefold.cli.demo._FRIEDMAN", (120, 200))
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(": .venv/bin/onefold inspect onefold-demo/model.onefold\n")
    assert files("onefold-demo") == FILES
    # The test rows: the same split, made again by hand.
    data = load_digits()
    split = train_test_split(np.arange(1797), train_size=60, stratify=data.target, random_state=0)
    train, test = map(np.sort, split)
    model = load_table_model("onefold-demo/model.onefold")
    mean, scale = data.data[train].mean(axis=0), data.data[train].std(axis=0)
    varies = scale > 0
    X = (data.data - mean)[:, varies] / scale[varies]
    right = model.estimator_.predict(X[test]) == data.target[test].astype(str)
    own = re.search(r"onefold, kernels, metrics and blend +(\S+%), (\d+) wrong, tuned in \S+ s\n", out)
    assert own.groups() == (f"{right.mean():.2%}", str((~right).sum()))
    plain = LSSVCCV(cv=StratifiedKFold(5, shuffle=True, random_state=0))
    wrong = (plain.fit(X[train], data.target[train]).predict(X[test]) != data.target[test]).sum()
    assert re.search(rf"onefold, plain search \(--simple\) +\S+%, {wrong} wrong, tuned in", out)
    errors = [float(rmse) for rmse in re.findall(r"  RMSE (\S+), tuned in", out)]
    assert len(errors) == 2
    assert errors[0] < errors[1]  # the metric finds the five columns
    assert re.search(r"importance of the columns +x[1-5] ", out)
    assert "baseline: the most frequent class" in out
    assert "onefold-demo/report.html" in out
    # Its own earlier output may be replaced, other directories need --force.
    assert main(["demo"]) == 0
    shutil.copytree("onefold-demo", "other")
    capsys.readouterr()
    assert "exists; use --force" in refused("demo", "--out", "other")
