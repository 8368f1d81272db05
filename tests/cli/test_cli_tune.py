"""``onefold tune`` and ``plan``: the result, the files, and what is refused before the work."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_arguments import FILES, MODEL, NUMBERS, SMALL, TUNE, files
from sklearn.base import clone

from onefold import plan
from onefold.cli import main, options
from onefold.facts.summary import approximation_lines, fit_facts
from onefold.heldout import GapKFold
from onefold.tables import load_table_model, store


def tuned(capsys, *argv: str) -> dict:
    """The result as JSON: one line, and nothing else is said."""
    assert main([*argv, "--json", "--force"]) == 0
    out, err = capsys.readouterr()
    assert (err, out.count("\n")) == ("", 1)
    return json.loads(out)


def test_text_result_and_files(table, capsys):
    table.assign(same=1).to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Best of 9 candidates for 'kind'")
    for words in (
        "onefold: t.csv: 60 rows, 4 columns (4 features)",
        "classification of 'kind', because 'kind' holds text (--task overrides)",
        "dropped constant columns: 'same'",
        "will run: exact method (there are at most 2000 rows)",
    ):
        assert words in err
    assert files("t-onefold") == FILES
    assert all(f"t-onefold/{name}" in out for name in FILES)
    with open("t-onefold/search.csv", newline="") as file:
        candidates = list(csv.DictReader(file))
    best = load_table_model(MODEL).estimator_
    first = [one for one in candidates if one["rank_test_score"] == "1"]
    assert len(candidates) == 9
    assert (best.alpha_, best.gamma_) in [
        (float(c["param_alpha"]), float(c["param_gamma"])) for c in first
    ]
    assert main([*TUNE, *SMALL, "--quiet", "--force"]) == 0
    out, err = capsys.readouterr()
    assert (out.startswith("Best of 9"), err) == (True, "")


def test_json_agrees_with_the_model_and_the_files(table, capsys):
    found = tuned(capsys, *TUNE, *SMALL, "--holdout", "0.25")
    model = load_table_model(MODEL)
    assert model.report_.keys() <= found.keys()
    assert found["best_params"] == model.estimator_.best_params_
    assert sorted(found["files"]) == [f"t-onefold/{name}" for name in FILES]
    assert (found["rows"], found["test"]["rows"], found["target"]) == (45, 15, "kind")
    assert main(["inspect", MODEL]) == 0
    assert "15 test rows" in capsys.readouterr().out


def test_how_text_is_written_is_remembered_and_can_be_overridden(table, capsys, refused):
    frame = table[["length", "width", "amount"]].round(4)
    frame.loc[3, "length"] = np.nan
    frame.to_csv("t.csv", sep=";", decimal=",", na_rep="fehlt", index=False, encoding="utf-16")
    frame.to_csv("e.csv", index=False, sep=":", na_rep="?")
    frame.to_parquet("t.parquet")
    options = ["--decimal", ",", "--encoding", "utf-16", "--delimiter", ";", "--na-values", "fehlt,?"]
    assert main(["tune", "t.csv", "--target", "amount", *SMALL, *options]) == 0
    capsys.readouterr()
    plain = ["--decimal", ".", "--delimiter", ":", "--encoding", "utf-8"]
    found = []
    for given in (["t.parquet"], ["t.csv"], ["e.csv", *plain]):
        assert main(["predict", MODEL, *given]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] == found[2]
    clone(load_table_model(MODEL)).fit("t.csv", "amount")  # reads it the same way
    for option in (["--decimal", ","], ["--na-values", "?"], ["--sheet", "a"]):
        line = refused("tune", "t.parquet", "--target", "amount", *option)
        assert f"{option[0]} applies only to " in line


def test_a_table_larger_than_memory(table, capsys, monkeypatch):
    """The same choice as in memory, said, and it can be gone on with."""
    command = [*NUMBERS, *SMALL, "--approximation", "nystroem"]
    memory = tuned(capsys, *command)
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    assert main([*command, "--force", "--resume", "--time-budget", "1e-6"]) == 0
    assert "rows are kept on disk" in capsys.readouterr().err
    disk = tuned(capsys, *command, "--resume")
    assert (disk["best_params"], disk["search"]["stopped"]) == (memory["best_params"], None)
    assert disk["best_score"] == pytest.approx(memory["best_score"], rel=1e-3)
    assert disk["column_notes"] == memory["column_notes"]
    assert (files(), files("t-onefold")) == (["t-onefold", "t.csv"], FILES)


def test_plan_takes_what_tune_takes(table, capsys, refused):
    base = ["plan", *TUNE[1:]]
    assert main([*base, *SMALL, "--cv", "loo"]) == 0
    assert "60 rows, 4 features\nmethod  exact\n" in capsys.readouterr().out
    assert main([*base, "--json", "--categorical", "colour"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["features"], found["search"]["kernels"]) == (60, 4, ["auto"])
    assert "no column 'cod'" in refused(*base, "--categorical", "cod")
    # Searches by conjugate gradients are possible, but for single rows.
    assert main([*base, "--simple", "--approximation", "cg"]) == 0
    assert "method  cg\n" in capsys.readouterr().out
    line = refused(*TUNE, "--simple", "--approximation", "cg", "--cv", "loo")
    assert "leaves out whole folds, not single rows; use folds" in line


REFUSED_TABLES = {
    "x,y\n": "no rows",
    "x,y\n1,2\n3,4.5\n": "but the table has 2 (n_samples=2); add rows, or use --cv 2",
    "x,y\n1,2\n": "the table has 1 row (n_samples=1); add rows",
    "x,y\n" + "".join(f"{i},{i}.5\n" for i in range(30)) + "1,n.k.\n": (
        "such as 'n.k.' in data row 31; correct it, or use --na-values n.k. --drop-missing-target if it"
    ),
    "x,y\n" + "1,a\n2,a\n" * 9: "only one class ('a')",
    "x,y\n" + "1/2/2020,1.5\n2/1/2020,3\n" * 9: "use --day-first, --month-first, --drop x, or",
    "x,y\n" + '"4,321",1.5\n"5,321",3\n' * 9: 'use --decimal ",", --thousands ",", or --categorical x',
    "x,y\n" + "1,a\n2,b\n3,b\n" * 2: "but the largest class has 4; use --cv 4, or --cv loo",
    "x,z,y\n" + "1,,1.5\n,a,3\n" * 9: "use --drop x z, or --missing impute",
}


@pytest.mark.parametrize("text", REFUSED_TABLES)
def test_refused_tables(tmp_path, monkeypatch, refused, text):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    more = ["--missing", "error"] if "impute" in REFUSED_TABLES[text] else []
    assert REFUSED_TABLES[text] in refused("tune", "t.csv", "--target", "y", *more)
    assert files() == ["t.csv"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tune", "none.csv", "--target", "y"], "there is no file none.csv"),
        (
            ["tune", "t.csv"],
            "--target COL, the column to predict, is required; the columns are 'length'",
        ),
        (
            ["tune", "t.csv", "--target", "knid"],
            "--target: t.csv has no column 'knid'; did you mean 'kind'?",
        ),
        ([*TUNE, "--weight", "mas"], "--weight: t.csv has no column 'mas'; did you mean 'mass'?"),
        ([*TUNE, "--id", "hose"], "error: --id: t.csv has no column 'hose'"),
        (
            [*TUNE, "--drop", "mass", "--categorical", "mass"],
            "--drop and --categorical both name column",
        ),
        ([*TUNE, "--clip", ":"], "':' is not auto, none or a range LOW:HIGH"),
        ([*TUNE, "--categorical", "kind"], "error: --categorical names the target column 'kind'"),
        ([*TUNE, "--cv", "loo", "--ordered"], "need a number of folds; use --cv 5"),
        ([*TUNE, "--simple", "--blend"], "a blend is not available: a simple search uses one kernel"),
        ([*TUNE, "--gap", "3"], "a gap needs ordered rows; use --ordered"),
        ([*TUNE, "--test", "t.csv", "--holdout", "0.2"], "give one of them"),
        ([*TUNE, "--task", "regression"], "correct it, or use --task classification"),
        ([*NUMBERS, "--class-weight", "balanced"], "leave it out, or use --task classification"),
        (["tune", "t.csv", "--target", "length", "--groups", "colour"], "there are only 2; use --cv 2"),
    ],
)
def test_refused_options(table, refused, argv, message):
    assert message in refused(*argv)
    assert files() == ["t.csv"]


def test_files_are_named_after_the_table(table, capsys, monkeypatch, refused):
    table.to_csv("more.v2.csv.gz", index=False)
    assert main(["tune", "more.v2.csv.gz", *TUNE[2:], *SMALL]) == 0
    assert Path("more.v2-onefold/model.onefold").exists()
    Path("parts").mkdir()
    table.to_parquet("parts/a.parquet")
    assert main(["tune", "parts/*.parquet", *TUNE[2:], *SMALL]) == 0
    assert Path("parts-onefold/model.onefold").exists()
    monkeypatch.chdir("parts")
    capsys.readouterr()
    assert "parts has no column 'knid'" in refused("tune", ".", "--target", "knid")


def test_folders_without_a_name_of_their_own(table, capsys, monkeypatch):
    """`tune .` wrote to "-onefold", and the command that it printed was refused for its name."""
    Path("parts/deep").mkdir(parents=True)
    table.to_parquet("parts/a.parquet")
    monkeypatch.chdir("parts/deep")
    assert main(["tune", "..", *TUNE[2:], *SMALL, "--quiet"]) == 0
    assert Path("parts-onefold/model.onefold").exists()
    monkeypatch.chdir("..")
    assert main(["tune", ".", *TUNE[2:], *SMALL, "--quiet"]) == 0
    assert Path("parts-onefold/model.onefold").exists()
    assert "onefold tune . --target kind" in Path("parts-onefold/report.html").read_text("utf-8")
    shutil.copy("a.parquet", "-odd.parquet")
    capsys.readouterr()
    assert main(["tune", "./-odd.parquet", *TUNE[2:], *SMALL, "--quiet"]) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    model = shlex.split(command)[-2]
    assert main(["predict", model, "a.parquet"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        "tune --target kind --id who --drop amount site mass t.csv",
        "tune --drop amount site mass t.csv --target kind --id who",
        "tune --target kind --categorical site --id who --drop amount mass t.csv",
        "tune --target kind --drop=amount t.csv --drop site mass --id who",
        "tune t.csv --target kind --drop amount --drop site --drop mass --id who",
        "tune --target kind --id who --drop amount t.csv --categorical site",
    ],
)
def test_the_table_may_stand_after_any_option(table, capsys, words):
    """--drop took the table for one more column: "the following arguments are required: TABLE"."""
    arguments = options.parsed(words.split())
    assert arguments.table == Path("t.csv")
    assert "t.csv" not in arguments.drop + getattr(arguments, "categorical", [])
    assert main([*words.split(), *SMALL, "--quiet"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "tune --target kind --drop amount mass",
            "--drop takes every name after it, so put the table first",
        ),
        ("tune --target kind --drop t.csv", "--drop takes every name after it, so put the table first"),
        ("tune --target kind", "required: TABLE (see onefold tune --help)"),
        ("tune --target kind --drop amount t.csv --cv few", "'few' is not a number of folds"),
        ("tune t.csv --drop amount t.csv --cv few", "'few' is not a number of folds"),
    ],
)
def test_a_table_that_is_not_named_is_asked_for(table, refused, words, message):
    assert message in refused(*words.split())


def test_the_plan_of_the_notes_has_the_splits_of_the_search(table, monkeypatch, capsys):
    """It was made with the number of folds alone, unlike that of `onefold plan`."""
    splitters = []

    def recorded(estimator, X, y):
        splitters.append(estimator.cv)
        return plan(estimator, X, y)

    monkeypatch.setattr("onefold.tuning.plan", recorded)
    ordered = [*TUNE[1:], *SMALL, "--ordered", "--cv", "3"]
    assert main(["plan", *ordered]) == 0
    assert main(["tune", *ordered]) == 0
    of_plan, of_notes = splitters
    assert (type(of_notes), of_notes.get_n_splits()) == (type(of_plan), 3)
    assert isinstance(of_notes, GapKFold)


def test_what_will_run_names_conjugate_gradients_where_they_may(table, monkeypatch, capsys):
    """The notes promised landmarks, and the result said "cg", which was explained nowhere."""
    monkeypatch.setattr("onefold.cli.tune.METRIC_ROWS", 50)
    few = ["--gammas", "0.3,1", "--alphas", "0.01,0.1", "--kernel", "rbf"]
    words = "or cg (conjugate gradients) where faster"
    assert main([*TUNE, *few]) == 0
    assert words in capsys.readouterr().err
    for settled in (["--metric", "none"], ["--approximation", "exact"]):
        assert main([*TUNE, *few, *settled, "--force"]) == 0
        err = capsys.readouterr().err
        assert "will run: exact method" in err
        assert words not in err
    report = {"name": "cg", "reason": "9000 rows: the true kernel", "chosen": "landmarks fit the budget"}
    assert approximation_lines({"selected_with": report, "fitted_with": report}) == [
        ("method", "cg, conjugate gradients (9000 rows: the true kernel)")
    ]


def test_the_ridge_of_the_mean(table, capsys):
    of_mean = [*TUNE, "--simple", "--gammas", "1", "--alphas", "0.01"]
    assert main([*of_mean, "--loss", "mean"]) == 0
    model = load_table_model(MODEL)
    assert (model.loss, model.estimator_.loss) == ("mean", "mean")
    lines = dict(fit_facts(model.estimator_)["lines"])
    assert lines["loss"] == "the mean squared error, of which alpha is the ridge"
    assert main([*TUNE, "--simple", "--gammas", "1", "--alphas", "0.6", "--force"]) == 0
    of_sum = load_table_model(MODEL)  # of 60 rows
    assert "loss" not in dict(fit_facts(of_sum.estimator_)["lines"])
    ours, theirs = (one.estimator_.expansion_.coef for one in (model, of_sum))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_holdout_of_nearly_all_rows_is_named(table, refused):
    """It said that "the table has 1 row"."""
    line = refused(*TUNE, *SMALL, "--holdout", "0.999")
    assert "--holdout 0.999 leaves 1 of 60 rows to tune on, but 5 folds need 5; hold out fewer" in line
    line = refused(*TUNE, *SMALL, "--holdout", "0.999", "--cv", "loo")
    assert "--holdout 0.999 leaves 1 of 60 rows to tune on, but the search needs 2; hold out" in line
    # The splitter's own words were of n_samples, test_size and train_size.
    by_site = [*TUNE[:5], "amount", "mass", *TUNE[-2:], "--groups", "site"]
    line = refused(*by_site, *SMALL, "--holdout", "0.95")
    assert "--holdout 0.95 leaves none of the 10 groups of 'site' to tune on; hold out fewer" in line
