"""What is written: the model before anything else, never over the input, pictures as a bonus."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_arguments import SMALL, TUNE

from onefold.cli import main, output
from onefold.tables import load_table_model

AMOUNT = ["--drop", "kind", "who", *SMALL]
NAMES = ["$_per_$", "$", r"\frac{1}{", r"\$x$", "a$b$c^_{", "数量 和", "x" * 300, "100% {done}"]


def content(path: str | Path = "t.csv") -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_target(table, capsys, name):
    table.rename(columns={"amount": name}).to_csv("t.csv", index=False)
    assert main(["tune", "t.csv", "--target", name, *AMOUNT, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert load_table_model("t-onefold/model.onefold").target_ == name


def test_pictures_on_the_page(table, pictures, capsys):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    assert content("t-onefold/report.html").count(b"data:image/png;base64,") == 2


@pytest.mark.parametrize("error", [OSError(28, "No space"), ValueError("no such rows")])
def test_a_page_that_fails_only_warns(table, capsys, monkeypatch, error):
    def fail(*args, **kwargs):
        # By then everything else is in its place.
        assert load_table_model("t-onefold/model.onefold").target_ == "kind"
        assert Path("t-onefold/search.csv").exists()
        raise error

    monkeypatch.setattr(output, "gather", fail)
    assert main([*TUNE, *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("onefold: no report.html: ")
    assert err.count("\n") == 1
    names = ["model.onefold", "search.csv"]
    assert json.loads(out)["files"] == [f"t-onefold/{name}" for name in names]
    assert sorted(p.name for p in Path("t-onefold").iterdir()) == sorted(names)


def test_an_interrupted_page_leaves_the_model(table, capsys, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "gather", interrupt)
    assert main([*TUNE, *SMALL]) == 130
    assert "no file is left half-written" in capsys.readouterr().err
    assert load_table_model("t-onefold/model.onefold").target_ == "kind"


@pytest.mark.parametrize("name", ["model.onefold", "search.csv"])
def test_a_directory_in_the_way_of_a_result_is_refused_before_the_work(table, refused, name):
    Path("t-onefold", name).mkdir(parents=True)
    assert f"{name} is a directory" in refused(*TUNE, *SMALL, "--force")
    assert [p.name for p in Path("t-onefold").iterdir()] == [name]


def test_directories_made_for_nothing_go_again(table, refused):
    refused(*TUNE, *SMALL, "--out", "deep/er/still", "--missing", "error", "--cv", "61")
    assert [p.name for p in Path().iterdir()] == ["t.csv"]
    Path("file").touch()
    assert "can't write to" in refused(*TUNE, *SMALL, "--out", "file/below")


def aliases() -> dict[str, str]:
    """The table under other names."""
    os.symlink("t.csv", "soft.csv")
    os.link("t.csv", "hard.csv")
    Path("sub").mkdir()
    here = Path.cwd().name
    return {
        "itself": "t.csv",
        "relative": f"sub/../../{here}/t.csv",
        "absolute": str(Path("t.csv").resolve()),
        "symbolic link": "soft.csv",
        "hard link": "hard.csv",
    }


@pytest.mark.parametrize("kind", ["itself", "relative", "absolute", "symbolic link", "hard link"])
def test_predictions_never_replace_what_they_are_made_from(table, capsys, refused, kind):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    name, before = aliases()[kind], content()
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
    os.rename("t-onefold/model.onefold", "model.csv")
    before = content("model.csv")
    assert "reads" in refused("predict", "model.csv", "t.csv", "--out", "model.csv", "--force")
    assert content("model.csv") == before
    Path("dir.csv").mkdir()
    assert "is a directory" in refused("predict", "model.csv", "t.csv", "--out", "dir.csv", "--force")


@pytest.mark.parametrize("link", [False, True])
def test_tuning_never_replaces_its_table(table, refused, link):
    Path("here").mkdir()
    if link:
        os.symlink("../t.csv", "here/search.csv")
        given = "t.csv"
    else:
        os.rename("t.csv", "here/search.csv")
        given = "here/search.csv"
    before = content(given)
    line = refused("tune", given, *TUNE[2:], *SMALL, "--out", "here", "--force")
    assert "here/search.csv, which this command reads" in line
    assert content(given) == before
    assert [p.name for p in Path("here").iterdir()] == ["search.csv"]


def test_the_folder_of_the_table_is_a_place_like_any_other(table):
    before = content()
    assert main([*TUNE, *SMALL, "--out", "."]) == 0
    assert content() == before
    assert Path("model.onefold").exists()


def test_models_that_are_not_there(table, refused):
    Path("empty").mkdir()
    for command in (["inspect"], ["predict"]):
        rest = ["t.csv"] if command == ["predict"] else []
        assert "there is no model file none.onefold" in refused(*command, "none.onefold", *rest)
        assert "the directory empty holds no model.onefold" in refused(*command, "empty", *rest)


def test_the_page_repeats_the_command_without_folders(table, capsys):
    options = ["--out", str(Path("deep/er").resolve()), "--na-values", "n/a"]
    assert main(["tune", str(Path("t.csv").resolve()), *TUNE[2:], *SMALL, *options, "--quiet"]) == 0
    page = content("deep/er/report.html").decode()
    assert "onefold tune t.csv --target kind" in page
    assert "--out er --na-values n/a" in page
    assert str(Path.cwd()) not in page
    assert str(Path.cwd()).encode() not in content("deep/er/model.onefold")
