"""``tune --test``, ``--holdout`` and ``--sheet``; ``predict --proba`` and ``--interval``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL, TUNE

from onefold.cli import main
from onefold.tables import TableError, load_table_model, training
from onefold.tables.errors import Remedy
from onefold.tuning import tune_table

MODEL = "t-onefold/model.onefold"
NUMBERS = ["tune", "t.csv", "--target", "amount", "--drop", "kind", "site", "mass", "who"]


def tuned(capsys, *argv: str) -> dict:
    assert main([*argv, "--json", "--force"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_table_that_tuning_never_saw(table, capsys, refused):
    table.head(40).to_csv("t.csv", index=False)
    table.tail(20).to_csv("new.csv", index=False)
    test = tuned(capsys, *TUNE, *SMALL, "--test", "new.csv")["test"]
    predicted = load_table_model(MODEL).predict("new.csv")
    truth = table.kind.tail(20).to_numpy()
    share = np.mean(predicted == truth)
    assert test["rows"] == 20
    assert test["accuracy"] == pytest.approx(share)
    assert test["standard_error"] == pytest.approx(np.sqrt(share * (1 - share) / 20))
    most = table.kind.head(40).mode()[0]
    assert test["baseline_class"] == most
    assert test["baseline_accuracy"] == pytest.approx(np.mean(truth == most))
    assert main([*TUNE, *SMALL, "--test", "new.csv", "--force"]) == 0
    out = capsys.readouterr().out
    assert "On 20 rows that tuning never saw (the saved model is the one scored here)" in out
    assert main(["inspect", MODEL]) == 0
    assert "20 test rows" in capsys.readouterr().out
    table.drop(columns="kind").to_csv("none.csv", index=False)
    assert "none.csv has no column 'kind'" in refused(*TUNE, "--test", "none.csv", "--force")
    assert "there is no file" in refused(*TUNE, "--test", "gone.csv", "--force")
    line = refused(*TUNE, "--test", "new.csv", "--holdout", "0.2", "--force")
    assert "give one of them" in line
    assert "no share between 0 and 1" in refused(*TUNE, "--holdout", "1.5")


def test_scores_of_numbers(table, capsys):
    table.head(40).to_csv("t.csv", index=False)
    table.tail(20).to_csv("new.csv", index=False)
    test = tuned(capsys, *NUMBERS, *SMALL, "--test", "new.csv")["test"]
    y = table.amount.tail(20).to_numpy()
    losses = (y - load_table_model(MODEL).predict("new.csv")) ** 2
    assert test["rmse"] == pytest.approx(np.sqrt(losses.mean()))
    assert test["standard_error"] == pytest.approx(np.std(losses) / np.sqrt(20) / 2 / test["rmse"])
    constant = np.mean((y - table.amount.head(40).mean()) ** 2)
    assert test["baseline_rmse"] == pytest.approx(np.sqrt(constant))
    assert test["r2"] == pytest.approx(1 - losses.mean() / y.var())  # scikit-learn's r2_score


@pytest.mark.parametrize("free", [2**60, 1000])
def test_a_share_of_the_rows_is_kept_away(table, capsys, monkeypatch, free):
    monkeypatch.setattr(training, "available_memory", lambda: free)
    options = [*SMALL, "--approximation", "nystroem"]
    found = tuned(capsys, *TUNE, *options, "--holdout", "0.25")
    assert found["rows"] == 45
    assert found["test"]["rows"] == 15
    counts = table.kind.value_counts(normalize=True)
    rows = {name: round(15 * counts[name]) for name in ("inner", "outer")}
    assert found["test"]["baseline_accuracy"] == pytest.approx(max(rows.values()) / 15, abs=0.08)
    ordered = tuned(capsys, *NUMBERS, *options, "--holdout", "0.2", "--ordered")
    last = table.tail(12)
    losses = (last.amount - load_table_model(MODEL).predict(last)) ** 2
    assert ordered["test"]["rmse"] == pytest.approx(np.sqrt(losses.mean()), rel=1e-6)
    part = load_table_model(MODEL).preparation_.parts[0]
    assert part.mean == pytest.approx(table.length.head(48).mean())  # nothing was learned of the others
    kinds = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "mass", "who", "--groups", "site"]
    grouped = tuned(capsys, *kinds, *options, "--holdout", "0.3", "--cv", "3")
    assert grouped["test"]["rows"] % 6 == 0
    assert grouped["rows"] + grouped["test"]["rows"] == 60


def test_in_python(table):
    small = {"simple": True, "gammas": [0.5], "alphas": [0.1], "drop": ["who", "amount"]}
    model = tune_table(table.head(40), "kind", test=table.tail(20), **small)
    assert model.report_["test"]["accuracy"] == model.score(table.tail(20), "kind")
    model = tune_table(table, "kind", holdout=0.3, **small)
    assert model.report_["test"]["rows"] == 18
    assert tune_table(table, "kind", **small).report_["test"] is None
    for share in (0, 1, 2.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            tune_table(table, "kind", holdout=share)


def test_what_will_run_is_said_before(table, capsys):
    assert main([*TUNE, *SMALL]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("onefold: will run: exact method, about ") for line in lines)


def test_probabilities_and_bounds(table, capsys, refused):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    model = load_table_model(MODEL)
    capsys.readouterr()
    assert (
        "--interval is for regression with intervals, and this model predicts classes: use"
        in refused("predict", MODEL, "t.csv", "--interval", "0.9")
    )
    if hasattr(model.estimator_, "predict_proba"):
        assert main(["predict", MODEL, "t.csv", "--proba", "--out", "p.csv"]) == 0
        found = pd.read_csv("p.csv")
        np.testing.assert_allclose(found["probability_inner"] + found["probability_outer"], 1.0)
    else:
        assert "--proba is for classification with a calibration" in refused(
            "predict", MODEL, "t.csv", "--proba"
        )
    assert main([*NUMBERS, *SMALL, "--quiet", "--out", "n"]) == 0
    capsys.readouterr()
    assert "and this model predicts numbers" in refused("predict", "n", "t.csv", "--proba")
    if hasattr(load_table_model("n/model.onefold").estimator_, "predict_interval"):
        assert main(["predict", "n", "t.csv", "--interval", "0.8", "--out", "b.csv"]) == 0
        found = pd.read_csv("b.csv")
        assert (found["lower"] <= found["upper"]).all()
    else:
        assert "has none; tune it again" in refused("predict", "n", "t.csv", "--interval", "0.8")


def test_a_sheet(table, capsys, refused, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tables"))
    from sheets import write_xlsx

    rows = [list(table.columns), *table.astype(object).to_numpy().tolist()]
    write_xlsx(Path("t.xlsx"), {"notes": [["nothing"], ["here"]], "data": rows})
    base = ["t.xlsx", *TUNE[2:], *SMALL, "--out", "s"]
    assert tuned(capsys, "tune", *base, "--sheet", "data")["rows"] == 60
    assert main(["predict", "s", "t.xlsx", "--out", "p.csv"]) == 0
    assert len(pd.read_csv("p.csv")) == 60
    assert "t.xlsx has no column 'kind'" in refused("tune", *base, "--force")
    assert "--sheet is for spreadsheets" in refused(*TUNE, "--sheet", "data", "--force")
    assert "--delimiter is for .csv" in refused("tune", *base, "--delimiter", ";", "--force")


@pytest.mark.parametrize(
    ("remedies", "words"),
    [
        ([Remedy("drop", ["a b", "it's"])], 'odd; use --drop "a b" "it\'s"'),
        (
            [Remedy("na_values", ["?"]), Remedy("na_values", ["-"])],
            'odd; use --na-values "?", or --na-values=-',
        ),
        ([Remedy("simple", True), Remedy("blend", False)], "odd; use --simple, or --no-blend"),
        ([Remedy("decimal", ","), Remedy("id_column", "nr")], 'odd; use --decimal ",", or --id nr'),
        ([Remedy("elsewhere", 1)], "odd"),
    ],
)
def test_remedies_are_options_of_the_running_command(table, refused, monkeypatch, remedies, words):
    def refuse(arguments):
        raise TableError("'kg weight=5' is odd", remedies)

    monkeypatch.setattr("onefold.cli.tune.run", refuse)
    assert refused(*TUNE) == f"onefold: error: 'kg weight=5' is {words}"
    monkeypatch.setattr("onefold.cli.inspect.run", refuse)
    assert refused("inspect", "m.onefold") == "onefold: error: 'kg weight=5' is odd"


def test_rows_that_are_held_back_count_with_their_weights(table, capsys):
    table["count"] = np.where(table.kind == table.kind.iloc[0], 9.5, 0.5)
    table.head(40).to_csv("t.csv", index=False, sep=";", decimal=",")
    table.tail(20).to_csv("new.csv", index=False, sep=";", decimal=",")
    options = ["--weight", "count", "--test", "new.csv", "--decimal", ","]
    test = tuned(capsys, *TUNE, *SMALL, *options)["test"]
    right = load_table_model(MODEL).predict("new.csv") == table.kind.tail(20).to_numpy()
    count = table["count"].tail(20).to_numpy()
    assert test["accuracy"] == pytest.approx(np.average(right, weights=count))
    assert test["baseline_class"] == table.kind.iloc[0]
    options = ["--weight", "count", "--test", "new.csv", "--decimal", ","]
    test = tuned(capsys, *NUMBERS, *SMALL, *options)["test"]
    model, head, tail = load_table_model(MODEL), table.head(40), table.tail(20)
    loss = (tail.amount.to_numpy() - model.predict("new.csv")) ** 2
    mean = np.average(head.amount, weights=head["count"])
    assert test["rmse"] == pytest.approx(np.sqrt(np.average(loss, weights=count)))
    baseline = np.average((tail.amount - mean) ** 2, weights=count)
    assert test["baseline_rmse"] == pytest.approx(np.sqrt(baseline))


def test_a_class_of_one_row_can_not_be_told(table, capsys):
    table.loc[0, "kind"] = "rare"
    table.to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL]) == 0
    assert "'rare' has only one row, and no model that has not seen it" in capsys.readouterr().err


def test_the_folder_that_one_is_in_has_a_name(table, monkeypatch, refused):
    Path("parts").mkdir()
    table.to_parquet("parts/a.parquet")
    monkeypatch.chdir("parts")
    assert "parts has no column 'knid'" in refused("tune", ".", "--target", "knid")


def test_brier_scores_of_words_lead_to_the_log_loss(table, refused):
    table.to_csv("t.csv", index=False)
    line = refused(*TUNE, "--criterion", "neg_brier_score")
    assert "use neg_log_loss, or error or balanced_accuracy" in line


def test_a_target_of_words_is_no_regression(table, refused):
    table.to_csv("t.csv", index=False)
    line = refused(*TUNE, "--task", "regression")
    assert "the target 'kind' should hold numbers but has" in line
    assert "use --task classification" in line
