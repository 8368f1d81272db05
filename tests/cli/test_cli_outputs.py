"""What is written: the model before anything else, never over the input, complete files or none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from cli_arguments import FILES, MODEL, NUMBERS, SMALL, TUNE, files

from onefold.cli import main, output
from onefold.tables import load_table_model


def content(path: str | Path = "t.csv") -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize(
    "name", ["$_per_$", r"\frac{1}{", "a$b$c^_{", "数量 和", "x" * 300, "100% {done}"]
)
def test_any_name_of_a_target(table, capsys, name):
    table.rename(columns={"amount": name}).to_csv("t.csv", index=False)
    assert main(["tune", "t.csv", "--target", name, *NUMBERS[4:], *SMALL, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert load_table_model(MODEL).target_ == name


def test_pictures_on_the_page(table, pictures, capsys):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert content("t-onefold/report.html").count(b"data:image/png;base64,") == 2


def test_without_matplotlib_everything_else_is_written(table, pictures, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*TUNE, *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert sorted(json.loads(out)["files"]) == [f"t-onefold/{name}" for name in FILES]
    assert "onefold[plot]" in Path("t-onefold/report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space"), 0), (ValueError("no rows"), 0), (KeyboardInterrupt, 130)],
)
def test_a_page_that_fails_leaves_the_model(table, capsys, monkeypatch, error, code):
    def fail(*args, **kwargs):
        # By then everything else is in its place.
        assert load_table_model(MODEL).target_ == "kind"
        raise error

    monkeypatch.setattr(output, "gather", fail)
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
    Path("file").touch()
    assert "can't write to" in refused(*TUNE, *SMALL, "--out", "file/below")
    for name in ("model.onefold", "search.csv"):
        Path(f"in-{name}", name).mkdir(parents=True)
        assert f"{name} is a directory" in refused(*TUNE, *SMALL, "--out", f"in-{name}", "--force")
        assert files(f"in-{name}") == [name]


def test_failures_leave_no_files(table, refused):
    refused(*TUNE, *SMALL, "--criterion", "nonsense")
    refused(*TUNE, *SMALL, "--out", "deep/er/still", "--cv", "61")
    assert files() == ["t.csv"]


@pytest.mark.parametrize("kind", ["itself", "relative", "absolute", "symbolic link", "hard link"])
def test_predictions_never_replace_what_they_are_made_from(table, capsys, refused, kind):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    os.symlink("t.csv", "soft.csv")
    os.link("t.csv", "hard.csv")
    Path("sub").mkdir()
    name = {
        "itself": "t.csv",
        "relative": f"sub/../../{Path.cwd().name}/t.csv",
        "absolute": str(Path("t.csv").resolve()),
        "symbolic link": "soft.csv",
        "hard link": "hard.csv",
    }[kind]
    capsys.readouterr()
    before = content()
    for given, out in (("t.csv", name), (name, "t.csv")):
        line = refused("predict", "t-onefold", given, "--out", out, "--force")
        assert "which this command reads; use another --out" in line
        assert content() == before == content(name)
    # The refusal is about the input alone.
    Path("old.csv").write_text("old")
    assert main(["predict", "t-onefold", name, "--out", "old.csv", "--force"]) == 0
    assert content("old.csv").startswith(b"who,prediction")


def test_nor_do_they_replace_the_model(table, capsys, refused):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    os.rename(MODEL, "model.csv")
    before = content("model.csv")
    assert "reads" in refused("predict", "model.csv", "t.csv", "--out", "model.csv", "--force")
    assert content("model.csv") == before
    Path("dir.csv").mkdir()
    assert "is a directory" in refused("predict", "model.csv", "t.csv", "--out", "dir.csv", "--force")


def test_tuning_never_replaces_its_table(table, refused):
    Path("here").mkdir()
    os.symlink("../t.csv", "here/search.csv")
    before = content()
    for given in ("t.csv", "here/search.csv"):
        line = refused("tune", given, *TUNE[2:], *SMALL, "--out", "here", "--force")
        assert "here/search.csv, which this command reads" in line
        assert (content(), files("here")) == (before, ["search.csv"])
    assert main([*TUNE, *SMALL, "--out", "."]) == 0  # the folder of the table is like any other
    assert content() == before


def test_models_that_are_not_there(table, refused):
    Path("empty").mkdir()
    for command, *rest in (["inspect"], ["predict", "t.csv"]):
        assert "there is no model file none.onefold" in refused(command, "none.onefold", *rest)
        assert "the directory empty holds no model.onefold" in refused(command, "empty", *rest)


def test_the_page_repeats_the_command_without_folders(table, capsys):
    options = ["--out", str(Path("deep/er").resolve()), "--na-values", "n/a"]
    assert main(["tune", str(Path("t.csv").resolve()), *TUNE[2:], *SMALL, *options, "--quiet"]) == 0
    page = content("deep/er/report.html").decode()
    assert "onefold tune t.csv --target kind" in page
    assert "--out er --na-values n/a" in page
    assert str(Path.cwd()) not in page
    assert str(Path.cwd()).encode() not in content("deep/er/model.onefold")
