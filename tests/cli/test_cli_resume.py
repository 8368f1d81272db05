"""``onefold tune --resume``: killed searches end with the same answer; why a journal is refused."""

from __future__ import annotations

import csv
import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli_arguments import FILES, SMALL, TUNE, begun, files, wait_for_lines, write_table

from onefold.cli import main
from onefold.cli.output import _STAGE, journal_of, staged_directory
from onefold.machine.journal import Journal

JOURNAL = Path("t-onefold.journal")


def answer(folder: Path, out: str) -> dict:
    """All that a result says but times, and the command, which has --resume in it or not."""
    found = json.loads(out)
    with (folder / "t-onefold" / "search.csv").open() as file:
        table = [{k: v for k, v in row.items() if "time" not in k} for row in csv.DictReader(file)]
    return {**found, "seconds": None, "command": None, "table": table}


@pytest.mark.parametrize(
    ("rows", "options", "most"),
    [(300, ["--simple"], 2), (150, ["--kernel", "rbf,laplacian"], 3)],
    ids=["plain", "metrics and blend"],
)
def test_a_killed_search_goes_on_to_the_same_answer(tmp_path, monkeypatch, capsys, rows, options, most):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.parquet", rows)
    command = ["t.parquet", "--target", "y", *options, "--json"]
    assert main(["tune", *command]) == 0
    expected = answer(tmp_path, capsys.readouterr().out)
    shutil.rmtree(tmp_path / "t-onefold")
    journal, lines, kills = tmp_path / JOURNAL, 1, 0
    while kills < most:
        process = begun(tmp_path, *command, "--resume")
        wait_for_lines(journal, lines := lines + random.randrange(1, 7), process)
        process.kill()
        process.communicate()
        if process.returncode == 0:
            break
        kills += 1
        assert journal.exists()
        assert not (tmp_path / "t-onefold" / "model.onefold").exists()
    process = begun(tmp_path, *command, "--resume")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert answer(tmp_path, out) == expected
    assert files(tmp_path) == ["t-onefold", "t.parquet"]
    assert files(tmp_path / "t-onefold") == FILES


def test_what_is_known_is_not_evaluated_again(table, capsys, monkeypatch):
    assert main([*TUNE, *SMALL, "--resume", "--time-budget", "1e-6", "--jobs", "1", "--quiet"]) == 0
    assert JOURNAL.exists()
    evaluated = []
    monkeypatch.setattr("onefold.cli.progress.Progress.__call__", lambda self, e: evaluated.append(e))
    assert main([*TUNE, *SMALL, "--resume", "--force", "--json"]) == 0
    assert [one["done"] for one in evaluated] == [2, 3]
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["search"]["stopped"] is None
    assert not JOURNAL.exists()


# Refusals


@pytest.fixture
def stopped(table):
    """The journal of a search that was stopped, and the table it was made from."""
    assert main([*TUNE, *SMALL, "--resume", "--time-budget", "1e-6", "--quiet"]) == 0
    return table


def again(*more: str) -> list[str]:
    return [*TUNE, *SMALL, "--resume", "--force", *more]


def test_other_data_are_refused(stopped, refused):
    stopped.assign(width=stopped.width + 1e-9 * np.arange(len(stopped))).to_csv("t.csv", index=False)
    line = refused(*again())
    assert "t-onefold.journal is the journal of another search, which differs in rows; delete it" in line


def test_other_options_are_refused(stopped, refused):
    assert "which differs in random_state, splits" in refused(*again("--seed", "1"))
    assert "which differs in criterion" in refused(*again("--criterion", "press"))
    assert JOURNAL.exists()


def test_a_wider_grid_goes_on(stopped, capsys):
    assert main([*again("--gammas", "2^-3:2^3:4"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["candidates"], found["search"]["stopped"]) == (12, None)


def test_a_journal_in_use_is_refused(stopped, refused):
    with Journal(JOURNAL):
        assert "t-onefold.journal is in use by another search" in refused(*again())
    assert JOURNAL.exists()


def test_a_damaged_journal_is_refused(stopped, refused):
    content = JOURNAL.read_bytes()
    first = content.index(b"\n") + 1
    JOURNAL.write_bytes(content[: first + 20] + b"?" + content[first + 21 :])
    assert "line 2 of t-onefold.journal is damaged; delete it" in refused(*again())
    JOURNAL.write_bytes(b"something else\n")
    assert "t-onefold.journal is no journal of a search" in refused(*again())
    assert JOURNAL.read_bytes() == b"something else\n"


def test_a_refused_search_leaves_no_empty_journal(table, refused, monkeypatch):
    assert "kernel has no width" in refused(*TUNE, "--kernel", "linear", "--gammas", "1", "--resume")

    def refuse(*args, **kwargs):
        assert JOURNAL.exists()
        raise ValueError("not like this")

    monkeypatch.setattr("onefold.estimators.cv.set_up", refuse)
    assert "not like this" in refused(*TUNE, *SMALL, "--resume")
    assert not JOURNAL.exists()


def test_where_the_journal_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert journal_of(Path("out")) == Path("out.journal")
    assert journal_of(Path("a/b")) == Path("a/b.journal")
    assert journal_of(Path("v1.2")) == Path("v1.2.journal")
    assert journal_of(Path(".")) == tmp_path.with_name(f"{tmp_path.name}.journal")
    with pytest.raises(ValueError, match="no place"):
        journal_of(Path("/"))


def test_the_folder_of_the_results_may_be_made_for_them(table):
    assert main([*TUNE, *SMALL, "--resume", "--out", "new/results", "--quiet"]) == 0
    assert files("new") == ["results"]


def test_stages_of_the_killed_are_tidied_up(tmp_path):
    done = subprocess.Popen(["true"])
    done.wait()
    for name in (f"{_STAGE}{done.pid}", f"{_STAGE}1", f"{_STAGE}x", ".onefold-elsewhere-7"):
        (tmp_path / name).mkdir()
    with staged_directory(tmp_path, []):
        pass
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {f"{_STAGE}1", f"{_STAGE}x", ".onefold-elsewhere-7"}
