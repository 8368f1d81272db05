"""``onefold tune``: results, files, and everything that is refused before the work."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL, TUNE
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import StratifiedKFold

import onefold
from onefold.cli import main
from onefold.tables import load_table_model, rows_of_frame


def tuned_json(capsys, *argv: str) -> dict:
    assert main([*argv, "--json", "--force"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    return json.loads(out)


def test_text_result_and_files(table, capsys):
    assert main([*TUNE, *SMALL]) == 0
    out, err = capsys.readouterr()
    assert "Best of 9 candidates for 'kind' by 5-fold cross-validation" in out
    assert "always 'outer'" in out or "always 'inner'" in out
    assert "classification of 'kind', because 'kind' holds text (--task overrides)" in err
    assert sorted(p.name for p in Path("t-onefold").iterdir()) == [
        "model.onefold",
        "report.html",
        "search.csv",
    ]
    for name in ("model.onefold", "search.csv"):
        assert f"t-onefold/{name}" in out
    with open("t-onefold/search.csv", newline="") as file:
        candidates = list(csv.DictReader(file))
    assert len(candidates) == 9
    best = load_table_model("t-onefold/model.onefold").estimator_
    ranked_first = [c for c in candidates if c["rank_test_score"] == "1"]
    chosen = {"alpha": best.alpha_, "gamma": best.gamma_}
    assert chosen in [
        {"alpha": float(c["param_alpha"]), "gamma": float(c["param_gamma"])} for c in ranked_first
    ]


def test_circulant_takes_the_spacing_of_the_data(table, capsys):
    assert main([*TUNE, "--approximation", "circulant", "--gammas", "1,4", "--alphas", "1,30"]) == 0
    out, _ = capsys.readouterr()
    assert "Best of 4 candidates" in out
    with open("t-onefold/search.csv", newline="") as file:
        assert "param_spacing_1" not in next(csv.reader(file))


def test_json_agrees_with_the_literal_computation(table, capsys):
    found = tuned_json(capsys, *TUNE, *SMALL)
    model = load_table_model("t-onefold/model.onefold")
    X = np.column_stack(
        [
            (table.length - table.length.mean()) / table.length.std(ddof=0),
            (table.width - table.width.mean()) / table.width.std(ddof=0),
            table.colour == "blue",
            table.colour == "red",
        ]
    ).astype(float)
    y = table.kind.to_numpy(dtype=str)
    literal = onefold.LSSVC(**found["best_params"])
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    right = [literal.fit(X[i], y[i]).predict(X[j]) == y[j] for i, j in folds]
    assert found["heldout"]["accuracy"] == pytest.approx(np.concatenate(right).mean())
    assert found["best_score"] == pytest.approx(np.mean([r.mean() for r in right]) - 1)
    assert found["heldout"]["baseline_accuracy"] == pytest.approx(
        max((y == "outer").mean(), (y == "inner").mean())
    )
    fitted = literal.fit(X, y)
    np.testing.assert_array_equal(model.predict("t.csv"), fitted.predict(X))
    assert found["task"] == "classification"
    assert found["candidates"] == 9
    assert found["files"] == [f"t-onefold/{n}" for n in ("model.onefold", "search.csv", "report.html")]


def test_regression_reports_r2_and_rmse(table, capsys):
    argv = ["tune", "t.csv", "--target", "amount", "--drop", "who", *SMALL]
    found = tuned_json(capsys, *argv)
    model = load_table_model("t-onefold/model.onefold")
    y, f = table.amount.to_numpy(), model.estimator_.heldout_prediction_
    assert found["heldout"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - f) ** 2)))
    assert found["heldout"]["baseline_rmse"] == pytest.approx(y.std())
    assert found["heldout"]["r2"] == pytest.approx(1 - np.mean((y - f) ** 2) / y.var())
    assert main([*argv, "--force"]) == 0
    assert "always the mean" in capsys.readouterr().out


def test_quiet_says_only_the_result(table, capsys):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Best of 9")


def test_every_format_gives_the_same_model(table, capsys):
    frame = table[["length", "width", "kind"]]
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("t.tsv", sep="\t", index=False)
    frame.to_csv("semi.csv", sep=";", index=False)
    frame.to_csv("z.csv.gz", index=False)
    frame.to_parquet("t.parquet")
    reference = tuned_json(capsys, "tune", "plain.csv", "--target", "kind", *SMALL)
    for name in ("t.tsv", "semi.csv", "z.csv.gz", "t.parquet"):
        found = tuned_json(capsys, "tune", name, "--target", "kind", *SMALL)
        assert found["heldout"] == reference["heldout"], name
        assert found["best_params"] == reference["best_params"], name


def test_svmlight(table, capsys):
    X, y = table[["length", "width"]].to_numpy(), (table.kind == "inner").to_numpy() * 2 - 1
    dump_svmlight_file(X, y, "s.libsvm")
    found = tuned_json(capsys, "tune", "s.libsvm", *SMALL)
    assert found["task"] == "classification"
    assert found["features"] == 2
    assert main(["predict", "s-onefold", "s.libsvm", "--score"]) == 0
    out, err = capsys.readouterr()
    assert set(out.split()[1:]) == {"-1", "1"}
    assert "accuracy" in err


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern", "polynomial"])
def test_kernels(table, capsys, kernel):
    found = tuned_json(capsys, *TUNE, *SMALL, "--kernel", kernel)
    assert found["kernel"] == kernel
    assert found["heldout"]["accuracy"] > found["heldout"]["baseline_accuracy"]


def test_linear_kernel_has_no_gamma(table, capsys):
    found = tuned_json(capsys, *TUNE, "--simple", "--kernel", "linear", "--alphas", "0.1,1,10")
    assert set(found["best_params"]) == {"alpha"}
    assert found["candidates"] == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cv", "loo"], "leave-one-out"),
        (["--cv", "3"], "3-fold"),
        (["--cv", "3", "--groups", "site"], "3-fold, groups of 'site' kept together"),
        (["--ordered"], "5 blocks of consecutive rows"),
        (["--ordered", "--gap", "2"], "5 blocks of consecutive rows with 2 rows left out around each"),
    ],
)
def test_folds(table, capsys, options, words):
    base = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "mass", "who", *SMALL]
    assert tuned_json(capsys, *base, *options)["cv"] == words


def test_groups_are_not_features_and_stay_together(table, capsys):
    base = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "mass", "who", *SMALL]
    tuned_json(capsys, *base, "--groups", "site", "--cv", "3")
    grouped = load_table_model("t-onefold/model.onefold")
    assert "site" not in grouped.preparation_.columns


def test_weights_reach_the_fit(table, capsys):
    base = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "site", "who"]
    one = ["--simple", "--gammas", "0.5", "--alphas", "0.1"]
    tuned_json(capsys, *base, *one, "--weight", "mass")
    model = load_table_model("t-onefold/model.onefold")
    X = model.preparation_.transform(rows_of_frame(table))
    literal = onefold.LSSVC(gamma=0.5, alpha=0.1).fit(X, table.kind.to_numpy(str), table.mass)
    np.testing.assert_allclose(
        model.estimator_.decision_function(X), literal.decision_function(X), atol=1e-9
    )


def test_criteria_that_hold_out_nothing(table, capsys):
    argv = ["tune", "t.csv", "--target", "amount", "--drop", "who", *SMALL, "--criterion", "gcv"]
    assert tuned_json(capsys, *argv)["heldout"] is None
    assert main([*argv, "--force"]) == 0
    assert "by the criterion gcv" in capsys.readouterr().out


def test_the_edge_of_the_grid_is_pointed_out(table, capsys):
    argv = [*TUNE, "--simple", "--gammas", "2^-11,2^-10,2^-9", "--alphas", "0.1"]
    assert "wider gammas" in tuned_json(capsys, *argv)["edge"]


def test_missing_values_can_be_filled_in(table, capsys, refused):
    table.loc[3, "length"] = np.nan
    table.loc[5, "colour"] = None
    table.to_csv("t.csv", index=False)
    line = refused(*TUNE, *SMALL, "--missing", "error")
    assert "missing values in 'length' (1 of 60 rows), 'colour' (1 of 60 rows)" in line
    assert "--missing impute" in line
    found = tuned_json(capsys, *TUNE, *SMALL)
    assert found["rows"] == 60
    assert "missing values filled in by the median" in found["column_notes"][0]
    assert main([*TUNE, *SMALL, "--force"]) == 0
    assert "filled in by the median" in capsys.readouterr().err


def test_constant_columns_are_mentioned(table, capsys):
    table.assign(same=1).to_csv("t.csv", index=False)
    assert main([*TUNE, *SMALL]) == 0
    assert "dropped constant columns: 'same'" in capsys.readouterr().err


def test_existing_files_are_refused_without_force(table, capsys, refused):
    Path("t-onefold").mkdir()
    Path("t-onefold/search.csv").write_text("precious")
    assert "t-onefold/search.csv exists; use --force" in refused(*TUNE, *SMALL)
    assert Path("t-onefold/search.csv").read_text() == "precious"
    assert [p.name for p in Path("t-onefold").iterdir()] == ["search.csv"]
    assert main([*TUNE, *SMALL, "--force"]) == 0
    assert Path("t-onefold/search.csv").read_text() != "precious"


def test_out_names_the_directory(table, capsys, refused):
    assert main([*TUNE, *SMALL, "--out", "deep/er"]) == 0
    assert Path("deep/er/model.onefold").exists()
    assert not Path("t-onefold").exists()
    capsys.readouterr()
    assert "is a file, not a directory" in refused(*TUNE, *SMALL, "--out", "t.csv")


def test_without_matplotlib_everything_else_is_written(table, pictures, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*TUNE, *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    names = ("model.onefold", "search.csv", "report.html")
    assert found["files"] == [f"t-onefold/{name}" for name in names]
    assert "onefold[plot]" in Path("t-onefold/report.html").read_text("utf-8")


def test_failures_leave_no_files(table, refused):
    refused(*TUNE, *SMALL, "--criterion", "nonsense")
    assert not Path("t-onefold").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tune", "none.csv", "--target", "y"], "there is no file none.csv"),
        (["tune", "t.csv"], "name the column to predict, as in --target COL; the columns are 'length'"),
        (["tune", "t.csv", "--target", "knid"], "has no column 'knid'; did you mean 'kind'?"),
        ([*TUNE, "--weight", "mas"], "weight: t.csv has no column 'mas'; did you mean 'mass'?"),
        ([*TUNE, "--drop", "kind"], "drop names the target column 'kind'"),
        ([*TUNE, "--weight", "colour"], "column 'colour' should hold numbers but has"),
        ([*TUNE, "--cv", "1"], "'1' is neither 'loo' nor a number of folds"),
        ([*TUNE, "--cv", "61"], "61 folds need at least 61 rows, and the table has 60"),
        ([*TUNE, "--cv", "loo", "--ordered"], "need a number of folds; use --cv 5"),
        ([*TUNE, "--gap", "3"], "a gap needs ordered rows; use --ordered"),
        ([*TUNE, "--gammas", "1,-2"], "'-2' is not a positive number"),
        ([*TUNE, "--gammas", "1:2"], "neither a number nor FIRST:LAST:COUNT"),
        ([*TUNE, "--alphas", "a"], "'a' is not a positive number"),
        ([*TUNE, "--kernel", "linear", "--gammas", "1"], "has no width: leave gammas out"),
        (
            [*TUNE, "--kernel", "cubic"],
            "there is no kernel 'cubic' to choose; use auto",
        ),
        ([*TUNE, "--task", "regression"], "'kind' should hold numbers but has 'outer'"),
        (
            ["tune", "t.csv", "--target", "amount", "--task", "classification"],
            "can't be classes; use --task regression",
        ),
        (["tune"], "the following arguments are required: TABLE"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_refused_options(table, refused, argv, message):
    if message.startswith("'kind' should"):
        message = message.replace("outer", table.kind[0])
    assert message in refused(*argv)
    assert sorted(p.name for p in Path().iterdir()) == ["t.csv"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,y\n", "no rows"),
        ("x,x\n1,2\n", "more than one column named 'x'"),
        ("x,y\n1,2\n3\n", "line 3 of t.csv has 1 columns where the header has 2"),
        ("x,y\n" + "1,a\n2,a\n" * 9, "only one class ('a')"),
        ("x,y\n" + "1,1.5\n2,nan\n" * 9, "missing values in 'y' (9 of 18 rows)"),
        ("x,y\n" + "inf,1.5\n2,3\n" * 9, "infinite values in 'x'"),
        ("x,y\n" + "1/2/2020,1.5\n2/1/2020,3\n" * 9, "day or month first; write them like 2024-12-31"),
        (",x,y\n" + "0,1,1.5\n1,2,3\n" * 9, "column 1 has no name"),
        ("x,y\n1,1.5\n2,3\n", "5 folds need at least 5 rows, and the table has 2"),
        (
            "x,y\n" + "1,a\n2,b\n3,b\n" * 2,
            "a class with at least 5 rows, and the largest has 4; use --cv 4, or --cv loo",
        ),
        ("y\n" + "1.5\n2\n" * 9, "no column left to predict from"),
    ],
)
def test_refused_tables(tmp_path, monkeypatch, refused, text, message):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    assert message in refused("tune", "t.csv", "--target", "y")
    assert [p.name for p in Path().iterdir()] == ["t.csv"]


def test_too_few_groups(table, refused):
    line = refused("tune", "t.csv", "--target", "kind", "--drop", "who", "--groups", "colour")
    assert "5 folds need at least 5 groups, and there are 2; use --cv 2" in line


def test_weights_must_not_be_negative(table, refused):
    table.loc[4, "mass"] = -1.0
    table.to_csv("t.csv", index=False)
    command = [
        "tune",
        "t.csv",
        "--target",
        "kind",
        "--drop",
        "who",
        "amount",
        "--weight",
        "mass",
        *SMALL,
    ]
    assert "'mass' has -1 in data row 5; weights are numbers that are not" in refused(*command)
    table.loc[4, "mass"] = 0.0
    table.to_csv("t.csv", index=False)
    assert main(command) == 0


def test_default_directory_is_named_after_the_table(table, capsys):
    pd.read_csv("t.csv").to_csv("more.v2.csv.gz", index=False)
    assert main(["tune", "more.v2.csv.gz", *TUNE[2:], *SMALL]) == 0
    assert Path("more.v2-onefold/model.onefold").exists()
