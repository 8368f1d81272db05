"""``onefold tune`` and ``plan``: the result, the files, and what is refused before the work."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import FILES, MODEL, NUMBERS, SMALL, TUNE, files
from sklearn.base import clone

from onefold.cli import main
from onefold.tables import load_table_model, training


def tuned(capsys, *argv: str) -> dict:
    """The result as JSON: one line, and nothing else is said."""
    assert main([*argv, "--json", "--force"]) == 0
    out, err = capsys.readouterr()
    assert (err, out.count("\n")) == ("", 1)
    return json.loads(out)


def predictions(capsys, table: str, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["predict", MODEL, table, *options]) == 0
    return capsys.readouterr().out.splitlines()[1:]


def test_text_result_and_files(table, capsys):
    table.assign(same=1).to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Best of 9 candidates for 'kind'")
    for words in (
        "onefold: t.csv: 60 rows, 4 features",
        "classification of 'kind', because 'kind' holds text (--task overrides)",
        "dropped constant columns: 'same'",
        "will run: exact method, about ",
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


def test_json_has_the_keys_that_are_documented(table, capsys):
    found = tuned(capsys, *TUNE, *SMALL, "--holdout", "0.25")
    model = load_table_model(MODEL)
    assert model.report_.keys() <= found.keys()
    documented = (Path(__file__).parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
    assert {name for name in found if f"`{name}`" not in documented} == set()
    assert found["best_params"] == model.estimator_.best_params_
    assert sorted(found["files"]) == [f"t-onefold/{name}" for name in FILES]
    assert (found["rows"], found["test"]["rows"], found["target"]) == (45, 15, "kind")
    assert main(["inspect", MODEL]) == 0
    assert "15 test rows" in capsys.readouterr().out


def test_every_format_gives_the_same_model(table, capsys):
    frame = table[["length", "width", "kind"]]
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("t.tsv", sep="\t", index=False)
    frame.to_csv("semi.csv", sep=";", index=False)
    frame.to_csv("z.csv.gz", index=False)
    frame.to_parquet("t.parquet")
    reference = tuned(capsys, "tune", "plain.csv", "--target", "kind", *SMALL)
    for name in ("t.tsv", "semi.csv", "z.csv.gz", "t.parquet"):
        found = tuned(capsys, "tune", name, "--target", "kind", *SMALL)
        assert (found["heldout"], found["best_params"]) == (
            reference["heldout"],
            reference["best_params"],
        )


def test_how_text_is_written_is_remembered_and_can_be_overridden(table, capsys, refused):
    frame = table[["length", "width", "amount"]].round(4)
    frame.loc[3, "length"] = np.nan
    base = ["tune", "t.csv", "--target", "amount", *SMALL, "--force"]
    frame.to_csv("t.csv", sep=";", decimal=",", na_rep="fehlt", index=False, encoding="utf-16")
    options = ["--decimal", ",", "--encoding", "utf-16", "--delimiter", ";", "--na-values", "fehlt,?"]
    assert main([*base, *options]) == 0
    frame.to_parquet("t.parquet")
    expected = predictions(capsys, "t.parquet")
    assert predictions(capsys, "t.csv") == expected
    frame.to_csv("e.csv", index=False, sep=":", na_rep="?")
    plain = ["--decimal", ".", "--delimiter", ":", "--encoding", "utf-8"]
    assert predictions(capsys, "e.csv", *plain) == expected
    clone(load_table_model(MODEL)).fit("t.csv", "amount")  # reads it the same way
    for option in (
        ["--decimal", ","],
        ["--encoding", "latin-1"],
        ["--na-values", "?"],
        ["--sheet", "a"],
    ):
        line = refused("tune", "t.parquet", "--target", "amount", *option)
        assert f"{option[0]} is for " in line


def test_what_could_be_read_in_two_ways_names_the_options(table, capsys, refused):
    base = ["tune", "t.csv", "--target", "amount", *SMALL, "--force"]
    for one, words in (
        ("{:,.0f}", 'use --decimal ",", --thousands ",", or --categorical n if the values are codes'),
        ("{:,.1f}", "use --thousands "),
    ):
        table.assign(n=[one.format(4321 + 1000 * i) for i in range(60)]).to_csv("t.csv", index=False)
        assert words in refused(*base)
    swapped = str.maketrans(",.", ".,")
    numbers = [f"{4321.5 + 1000 * i:,}".translate(swapped) for i in range(60)]
    table.assign(n=numbers).to_csv("t.csv", index=False)
    assert 'use --decimal "," --thousands .' in refused(*base)
    days = [(1 + i % 9, 1 + i % 12) for i in range(60)]
    table.assign(day=[f"{one}/{other}/2024" for one, other in days]).to_csv("t.csv", index=False)
    assert "use --day-first, --month-first, --drop day, or --categorical day" in refused(*base)
    assert main([*base, "--month-first"]) == 0
    expected = predictions(capsys, "t.csv")
    table.assign(day=[f"2024-{one}-{other}" for one, other in days]).to_csv("t.csv", index=False)
    assert predictions(capsys, "t.csv") == expected


def test_ids_come_back_as_they_were_written(table, capsys):
    names = [f"{i:03}" for i in range(56)] + ["NA", "", " 7 ", "1.50"]
    table.assign(name=names).to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL, "--id", "name", "--force"]) == 0
    assert [line.split(",")[0] for line in predictions(capsys, "t.csv")] == names


def test_a_table_larger_than_memory(table, capsys, monkeypatch):
    """The same model as in memory, said, one line of JSON, and it can be gone on with."""
    command = [*NUMBERS, *SMALL, "--approximation", "nystroem"]
    memory = tuned(capsys, *command)
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    assert main([*command, "--force"]) == 0
    assert "rows stay on disk" in capsys.readouterr().err
    disk = tuned(capsys, *command)
    assert disk["best_params"] == memory["best_params"]
    assert disk["best_score"] == pytest.approx(memory["best_score"], rel=1e-3)
    assert disk["column_notes"] == memory["column_notes"]
    assert files("t-onefold") == FILES
    assert (
        tuned(capsys, *command, "--resume", "--time-budget", "1e-6")["search"]["stopped"]
        == "time_budget"
    )
    on = tuned(capsys, *command, "--resume")
    for name in ("best_params", "best_score", "heldout", "approximation"):
        assert on[name] == disk[name]


@pytest.mark.parametrize("free", [2**60, 1000])
def test_labels_come_back_as_they_were_written(table, capsys, monkeypatch, free):
    monkeypatch.setattr(training, "available_memory", lambda: free)
    for labels in (("007", "008"), ("1.0", "2.0"), ("True", "False"), (" 1", " 2")):
        table["kind"] = [labels[int(side)] for side in table.length > 0]
        table.to_csv("t.csv", index=False)
        assert main([*TUNE, *SMALL, "--approximation", "nystroem", "--force"]) == 0
        assert {line.split(",")[1] for line in predictions(capsys, "t.csv")} == set(labels)


def test_plan_takes_what_tune_takes(table, capsys, refused):
    base = ["plan", *TUNE[1:]]
    assert main([*base, *SMALL, "--cv", "loo", "--groups", "site"]) == 2
    capsys.readouterr()
    assert main([*base, *SMALL, "--cv", "loo"]) == 0
    assert "60 rows, 4 features: Exact()" in capsys.readouterr().out
    assert main([*base, "--json", "--categorical", "colour"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["features"], found["search"]["kernels"]) == (60, 4, ["auto"])
    assert "no column 'cod'" in refused(*base, "--categorical", "cod")


REFUSED_TABLES = {
    "": "is empty",
    "x,y\n": "no rows",
    "x,x\n1,2\n": "more than one column named 'x'",
    "x,y\n1,2\n3\n": "line 3 of t.csv has 1 columns where the header has 2",
    "x,y\n" + "1,a\n2,a\n" * 9: "only one class ('a')",
    "x,y\n" + "1,1.5\n2,nan\n" * 9: "missing values in 'y' (9 of 18 rows)",
    "x,y\n" + "inf,1.5\n2,3\n" * 9: "infinite values in 'x'",
    "x,y\n" + "1/2/2020,1.5\n2/1/2020,3\n" * 9: "day or month first; ",
    ",x,y\n" + "0,1,1.5\n1,2,3\n" * 9: "column 1 has no name",
    "x,y\n1,1.5\n2,3\n": "5 folds need at least 5 rows, and the table has 2",
    "x,y\n" + "1,a\n2,b\n3,b\n" * 2: "and the largest has 4; use --cv 4, or --cv loo",
    "y\n" + "1.5\n2\n" * 9: "no column left to predict from",
}


@pytest.mark.parametrize("text", REFUSED_TABLES)
def test_refused_tables(tmp_path, monkeypatch, refused, text):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    assert REFUSED_TABLES[text] in refused("tune", "t.csv", "--target", "y")
    assert files() == ["t.csv"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tune", "none.csv", "--target", "y"], "there is no file none.csv"),
        (["tune", "t.csv"], "name the column to predict, as in --target COL; the columns are 'length'"),
        (["tune", "t.csv", "--target", "knid"], "has no column 'knid'; did you mean 'kind'?"),
        ([*TUNE, "--weight", "mas"], "weight: t.csv has no column 'mas'; did you mean 'mass'?"),
        ([*TUNE, "--drop", "kind"], "drop names the target column 'kind'"),
        ([*TUNE, "--weight", "colour"], "column 'colour' should hold numbers but has"),
        ([*TUNE, "--cv", "61"], "61 folds need at least 61 rows, and the table has 60"),
        ([*TUNE, "--cv", "loo", "--ordered"], "need a number of folds; use --cv 5"),
        ([*TUNE, "--gap", "3"], "a gap needs ordered rows; use --ordered"),
        ([*TUNE, "--test", "none.csv"], "there is no file none.csv"),
        ([*TUNE, "--test", "t.csv", "--holdout", "0.2"], "give one of them"),
        ([*TUNE, "--kernel", "linear", "--gammas", "1"], "kernel has no width"),
        (
            [*TUNE, "--categorical", "colour", "--drop", "colour"],
            "both name column 'colour'; choose one",
        ),
        ([*TUNE, "--task", "regression"], "correct it, or use --task classification"),
        ([*TUNE, "--criterion", "neg_brier_score"], "use neg_log_loss, or error or balanced_accuracy"),
        ([*NUMBERS, "--task", "classification"], "can't be classes; use --task regression"),
        ([*NUMBERS, "--class-weight", "balanced"], "leave it out, or use --task classification"),
        (["tune", "t.csv", "--target", "length", "--groups", "colour"], "there are 2; use --cv 2"),
    ],
)
def test_refused_options(table, refused, argv, message):
    assert message in refused(*argv)
    assert files() == ["t.csv"]


def test_missing_values_can_be_refused(table, refused):
    table.loc[3, "length"] = np.nan
    table.loc[5, "colour"] = None
    table.to_csv("t.csv", index=False)
    line = refused(*TUNE, *SMALL, "--missing", "error")
    assert "missing values in 'length' (1 of 60 rows), 'colour' (1 of 60 rows)" in line
    assert "use --drop length colour, or --missing impute" in line


def test_a_sheet(table, capsys, refused, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tables"))
    from sheets import write_xlsx

    rows = [list(table.columns), *table.astype(object).to_numpy().tolist()]
    write_xlsx(Path("t.xlsx"), {"notes": [["nothing"], ["here"]], "data": rows})
    base = ["t.xlsx", *TUNE[2:], *SMALL, "--out", "s"]
    assert tuned(capsys, "tune", *base, "--sheet", "data")["rows"] == 60
    assert main(["predict", "s", "t.xlsx", "--out", "p.csv"]) == 0
    assert len(pd.read_csv("p.csv")) == 60
    capsys.readouterr()
    assert "t.xlsx has no column 'kind'" in refused("tune", *base, "--force")


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


def test_default_directory_is_named_after_the_table(table, capsys):
    table.to_csv("more.v2.csv.gz", index=False)
    assert main(["tune", "more.v2.csv.gz", *TUNE[2:], *SMALL]) == 0
    assert Path("more.v2-onefold/model.onefold").exists()
