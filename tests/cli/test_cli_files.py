"""What is written: complete or not at all, never over the input; ``inspect`` and ``demo``."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from cli_arguments import FILES, MODEL, SMALL, TUNE, files

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV
from onefold.cli import main, report
from onefold.saving.file import FORMAT_VERSION
from onefold.tables import load_table_model

KEPT_MODELS = Path(__file__).parents[1] / "saving" / "data"


def content(path: str | Path = "t.csv") -> bytes:
    return Path(path).read_bytes()


def test_pictures_on_the_page_and_none_without_matplotlib(table, pictures, capsys, monkeypatch):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert content("t-onefold/report.html").count(b"data:image/png;base64,") == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    capsys.readouterr()
    assert main([*TUNE, *SMALL, "--json", "--force"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert sorted(json.loads(out)["files"]) == [f"t-onefold/{name}" for name in FILES]
    assert "pip install matplotlib" in content("t-onefold/report.html").decode()


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space"), 0), (ValueError("no\nrows"), 0), (KeyboardInterrupt, 130)],
)
def test_a_page_that_fails_leaves_the_model(table, capsys, monkeypatch, error, code):
    def fail(*args, **kwargs):
        # By then everything else is in its place.
        assert load_table_model(MODEL).target_ == "kind"
        raise error

    monkeypatch.setattr(report, "write_report", fail)
    assert main([*TUNE, *SMALL, "--json"]) == code
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert files("t-onefold") == ["model.onefold", "search.csv"]
    if code == 0:
        assert err.startswith("onefold: no report.html: ")
        assert json.loads(out)["files"] == [MODEL, "t-onefold/search.csv"]
    else:
        assert "no file is left half-written" in err


def test_existing_files_and_directories_in_the_way(table, capsys, refused):
    Path("t-onefold").mkdir()
    Path("t-onefold/search.csv").write_text("precious")
    assert "t-onefold/search.csv exists; use --force" in refused(*TUNE, *SMALL)
    assert (content("t-onefold/search.csv"), files("t-onefold")) == (b"precious", ["search.csv"])
    assert main([*TUNE, *SMALL, "--force"]) == 0
    assert content("t-onefold/search.csv") != b"precious"
    capsys.readouterr()
    assert "is a file, not a directory" in refused(*TUNE, *SMALL, "--out", "t.csv")
    assert "cannot use t.csv/below" in refused(*TUNE, *SMALL, "--out", "t.csv/below")
    for name in ("model.onefold", "search.csv"):
        Path(f"in-{name}", name).mkdir(parents=True)
        assert f"{name} is a directory" in refused(*TUNE, *SMALL, "--out", f"in-{name}", "--force")
        assert files(f"in-{name}") == [name]
    before = files()
    refused(*TUNE, *SMALL, "--out", "deep/er/still", "--cv", "61")
    assert files() == before


def test_what_a_command_reads_is_never_replaced(tuned, capsys, refused):
    os.symlink("t.csv", "soft.csv")
    os.link("t.csv", "hard.csv")
    shutil.copy(MODEL, "model.csv")
    before = content()
    absolute = str(Path("t.csv").resolve())
    pairs = [("t.csv", name) for name in ("t.csv", absolute, "soft.csv", "hard.csv", "model.csv")]
    for given, out in (*pairs, ("soft.csv", "t.csv"), ("hard.csv", "t.csv")):
        line = refused("predict", "model.csv", given, "--out", out, "--force")
        assert "an input of this command; use another --out" in line
        assert content() == before == content(given)
    assert content("model.csv") == content(MODEL)
    Path("dir.csv").mkdir()
    assert "is a directory" in refused("predict", "model.csv", "t.csv", "--out", "dir.csv", "--force")
    Path("old.csv").write_text("old")  # the refusal is about the input alone
    assert main(["predict", "model.csv", "t.csv", "--out", "old.csv", "--force"]) == 0
    assert content("old.csv").startswith(b"who,prediction")
    Path("here").mkdir()
    os.symlink("../t.csv", "here/search.csv")
    before = content()
    for given in ("t.csv", "here/search.csv"):
        line = refused("tune", given, *TUNE[2:], *SMALL, "--out", "here", "--force")
        assert "here/search.csv, an input of this command" in line
        assert (content(), files("here")) == (before, ["search.csv"])
    assert main([*TUNE, *SMALL, "--out", "."]) == 0  # the folder of the table is like any other
    assert content() == before


@pytest.mark.parametrize("equals", [False, True])
def test_the_page_repeats_the_command_without_folders(table, capsys, equals):
    """Folders came onto the page with --out=PATH, and with an --out that a later one replaces."""
    out = str(Path("deep/er").resolve())
    options = ["--out", f"{out}/other", *([f"--out={out}"] if equals else ["--out", out])]
    options += ["--na-values", "n/a"]
    assert main(["tune", str(Path("t.csv").resolve()), *TUNE[2:], *SMALL, *options, "--quiet"]) == 0
    page = content("deep/er/report.html").decode()
    assert "onefold tune t.csv --target kind" in page
    assert f"--out other --out{'=' if equals else ' '}er --na-values n/a" in page
    assert str(Path.cwd()) not in page
    assert str(Path.cwd()).encode() not in content("deep/er/model.onefold")


# inspect


def test_inspect_a_tuned_model(tuned, capsys):
    assert main(["inspect", "t-onefold"]) == 0
    text = capsys.readouterr().out
    for words in (
        "LSSVCCV",
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
    assert facts["best_params"] == load_table_model(MODEL).best_params_
    assert (facts["tuning"]["rows"], facts["centres"]) == (60, 60)
    assert facts["seconds"] == facts["tuning"]["seconds"]  # as the result and the report have it
    length = facts["columns"]["length"]
    assert length["mean"] == pytest.approx(tuned.length.mean())
    assert length["scale"] == pytest.approx(tuned.length.std(ddof=0))
    assert (length["kind"], length["missing"]) == ("numbers", False)


def test_inspect_estimators_made_in_python(table, capsys, refused):
    X = table[["length", "width"]].to_numpy()
    kind = table.kind.to_numpy(str)
    grid = {"gammas": [0.01], "alphas": [10.0]}
    for model, words in (
        (LSSVR(alpha=0.5).fit(X, table.amount), "alpha +2\\^-1 = 0.5 \\(given\\)"),
        (LSSVRCV(**grid).fit(X, table.amount), "criterion: RMSE"),
        (LSSVCCV(**grid).fit(X, kind), "criterion: accuracy +{:.2%}"),
        (LSSVCCV(criterion=lambda *given: 0.25, **grid).fit(X, kind), "a custom function +0.25"),
    ):
        model.save("bare.onefold")
        assert main(["inspect", "bare.onefold"]) == 0
        score = getattr(model, "best_score_", 0.0)
        score += "accuracy" in words
        assert re.search(words.format(score), capsys.readouterr().out)
        assert main(["inspect", "bare.onefold", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["centres"] == 60
    for command in ("predict", "report"):
        assert "was not tuned on a table" in refused(command, "bare.onefold", "t.csv")


@pytest.mark.parametrize("path", sorted(KEPT_MODELS.glob("*.onefold")), ids=lambda path: path.stem)
def test_models_of_earlier_releases_are_inspected(path, capsys):
    """Their records of the fit lack what was added later."""
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"onefold {path.stem.rpartition('-')[2]}" in out
    assert re.search(r"^  search  +\w+, \d+ candidates$", out, re.M)


def test_models_that_are_damaged_or_not_there(tuned, capsys, refused):
    model = load_table_model(MODEL)
    model.report_ = {"heldout": 5, "task": "x"}
    model.save("other.onefold")
    assert "its record of the fit is damaged" in refused("inspect", "other.onefold")
    assert main(["predict", "other.onefold", "t.csv"]) == 0
    capsys.readouterr()
    data = content(MODEL)
    Path("cut.onefold").write_bytes(data[: len(data) // 2])
    Path("empty").mkdir()
    for command, *rest in (["inspect"], ["predict", "t.csv"], ["report", "t.csv"]):
        for name, words in {
            "cut.onefold": "cut.onefold cannot be read as a onefold model",
            "t.csv": "t.csv",
            "none.onefold": "none.onefold does not exist; give a model file",
            "empty": "directory empty has no model.onefold",
        }.items():
            assert words in refused(command, name, *rest)


def test_demo(tmp_path, monkeypatch, capsys, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [".venv/bin/onefold", "demo"])
    monkeypatch.setattr("onefold.cli.demo._DIGITS_ROWS", 60)  # for a test, some are enough
    monkeypatch.setattr("onefold.cli.demo._FRIEDMAN_ROWS", 120)
    monkeypatch.setattr("onefold.cli.demo._FRIEDMAN_TEST_ROWS", 200)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    digits, friedman = out.split("Friedman's function")
    # The file has the model of the digits: it was named after the other one.
    assert digits.endswith(": .venv/bin/onefold inspect onefold-demo/model.onefold\n\n")
    assert "Wrote this model: onefold-demo/model.onefold, " in digits
    assert "onefold-demo" not in friedman
    assert files("onefold-demo") == FILES
    right = [float(share) for share in re.findall(r"(\S+)% correct, \d+ wrong, tuned in \S+ s\n", out)]
    errors = [float(rmse) for rmse in re.findall(r"  RMSE (\S+), tuned in", out)]
    assert (len(right), len(errors)) == (2, 2)
    assert min(right) > 50
    assert errors[0] < errors[1]  # the metric finds the five columns
    assert re.search(r"importance +x[1-5] ", out)
    # Its own earlier output may be replaced, other directories need --force.
    shutil.copytree("onefold-demo", "other")
    monkeypatch.setattr("onefold.cli.demo.load_digits", None)
    assert "exists; use --force" in refused("demo", "--out", "other")
    assert main(["demo"]) == 1
    assert "internal error (TypeError)" in capsys.readouterr().err
