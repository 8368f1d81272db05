"""Ctrl-C, SIGTERM, kills, time budgets and --resume: what is kept, and that nothing is half-written."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_arguments import FILES, IN_UTF8, ONEFOLD, SMALL, TUNE, files

from onefold import load
from onefold.cli import entry, main
from onefold.cli.output import _STAGE, journal_of, staged_results
from onefold.machine.journal import Journal

TABLE = ["t.parquet", "--target", "y"]
SLOW = [
    *TABLE,
    "--simple",
    "--approximation",
    "exact",
    "--gammas",
    "2^-9:2^3:500",
    "--jobs",
    "1",
    "--search",
    "grid",
]
FINISHING = "onefold: finishing the fit of the best so far; Ctrl-C again to stop\n"
JOURNAL = Path("t-onefold.journal")
GOES_ON = f"onefold: kept {JOURNAL}; repeat the command to resume\n"
STOPPED = f"onefold: stopping …\n{GOES_ON}onefold: interrupted; no file is left half-written\n"


def write_table(folder: Path, rows: int) -> None:
    """Three columns and what two of them make together, as Parquet."""
    X = np.random.default_rng(0).normal(size=(rows, 3))
    columns = {"y": X[:, 0] * X[:, 1]} | {f"x{j}": X[:, j] for j in range(3)}
    pq.write_table(pa.table(columns), folder / "t.parquet")


def begun(folder: Path, *command: str) -> subprocess.Popen[str]:
    """A process in a folder, deaf to the signals of this one's terminal."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes, **IN_UTF8)


def tuning(folder: Path, lines: int, *argv: str) -> subprocess.Popen[str]:
    """``onefold tune --resume``, once its journal has so many lines, or when it has ended."""
    process = begun(folder, *ONEFOLD, "tune", *argv, "--resume")
    journal = folder / JOURNAL
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b"\n") >= lines:
            break
        time.sleep(0.005)
    return process


@pytest.mark.parametrize(
    ("number", "code", "last", "jobs"),
    [(signal.SIGINT, 130, STOPPED, "2"), (signal.SIGTERM, 143, GOES_ON, "1")],
)
def test_before_the_first_evaluation_nothing_is_left_behind(tmp_path, number, code, last, jobs):
    write_table(tmp_path, 2500)
    process = tuning(tmp_path, 2, *SLOW, "--jobs", jobs)  # the search has begun
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (code, "")
    assert err.endswith(last)
    assert "Traceback" not in err
    # What the journal was begun with is of use to the next run with --resume.
    assert files(tmp_path) == ["t-onefold.journal", "t.parquet"]


def test_the_first_ctrl_c_keeps_the_best_so_far(tmp_path):
    write_table(tmp_path, 400)
    process = tuning(tmp_path, 8, *SLOW, "--jobs", "2", "--json")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, FINISHING)
    found = json.loads(out)
    assert (found["search"]["method"], found["search"]["stopped"]) == ("grid", "interrupted")
    tried = found["candidates"] // 11
    assert 5 <= tried < 500
    assert len(found["search"]["untried"]) == 500 - tried
    note = f"the search was interrupted, and {500 - tried} candidates were not tried"
    assert (found["notes"][0], found["edge"]) == (note, None)
    model = load(tmp_path / "t-onefold" / "model.onefold")
    assert model.estimator_.search_["stopped"] == "interrupted"
    assert model.best_params_ == found["best_params"]
    # There is something to go on with.
    assert files(tmp_path) == ["t-onefold", "t-onefold.journal", "t.parquet"]


@pytest.mark.parametrize(
    ("numbers", "code", "words"),
    [
        ([signal.SIGINT, signal.SIGINT], 130, "onefold: stopping …\nonefold: still stopping"),
        ([signal.SIGTERM, signal.SIGTERM], 143, ""),
        ([signal.SIGTERM, signal.SIGINT], 143, "onefold: still stopping"),
        ([signal.SIGINT, signal.SIGTERM], 130, "onefold: stopping …\nonefold: interrupted"),
    ],
)
def test_a_second_interruption_does_not_disturb_the_first(tmp_path, numbers, code, words):
    """The word comes while the main thread is busy, and tidying up runs to its end.

    A second SIGTERM ended it midway: an empty folder was left behind.
    """
    script = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from onefold.cli import entry

def run(arguments):
    try:
        print("begun", flush=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            sum(range(1000))
    finally:
        print("tidying", flush=True)
        time.sleep(1.0)
        Path("tidied").touch()

entry.import_module = lambda name: SimpleNamespace(run_demo=run)
sys.exit(entry.main(["demo"]))
"""
    process = begun(tmp_path, sys.executable, "-c", script)
    assert process.stdout is not None
    for word, number in zip(("begun\n", "tidying\n"), numbers):
        assert process.stdout.readline() == word
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(words)
    assert "Traceback" not in err
    assert (tmp_path / "tidied").exists()


@pytest.mark.parametrize(
    ("stop", "code", "line"),
    [
        (entry.Interrupted(), 130, "onefold: interrupted; no file is left half-written\n"),
        (SystemExit(143), 143, ""),
    ],
)
def test_a_signal_while_a_class_is_made_is_no_internal_error(monkeypatch, capsys, stop, code, line):
    """Python 3.11 wraps it in a RuntimeError: Ctrl-C during an import ended with 1 and a traceback."""

    def importing(name: str) -> None:
        raise RuntimeError("Error calling __set_name__") from stop

    monkeypatch.setattr(entry, "import_module", importing)
    assert main(["demo"]) == code
    assert capsys.readouterr().err == line


@pytest.fixture
def key():
    """Ctrl-C as the command line hears it, without a signal."""
    found = entry._CtrlC()
    earlier = signal.signal(signal.SIGINT, found)
    yield found
    signal.signal(signal.SIGINT, earlier)


def test_ctrl_c_between_evaluations_and_after_the_search(key, capsys):
    with entry.best_kept(lambda event: None) as callback:
        callback({"best_score": -1.0})
        key(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            callback({"best_score": -1.0})
        callback({"best_score": None})  # of the parts that are left
        with pytest.raises(entry.Interrupted):
            key(signal.SIGINT, None)
    assert capsys.readouterr().err == FINISHING + "onefold: stopping …\n"
    key.__init__()
    with entry.best_kept(lambda event: None) as callback:
        callback({"best_score": -1.0})
    with pytest.raises(entry.Interrupted):  # in the final fit, say, which calls nobody back
        key(signal.SIGINT, None)


def test_a_time_budget_ends_the_search_and_the_result_says_so(table, capsys):
    assert main([*TUNE, *SMALL, "--time-budget", "0.000001s", "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["search"]["stopped"], found["candidates"]) == ("time_budget", 3)  # of one kernel
    assert [one["gamma"] for one in found["search"]["untried"]] == pytest.approx([0.5, 2.0])
    assert found["notes"][0] == (
        "the search stopped at its time budget, and 2 candidates were not tried (gamma 0.5; gamma 2)"
    )
    assert main(["inspect", "t-onefold"]) == 0
    assert "stopped at its time budget" in capsys.readouterr().out
    assert main([*TUNE, *SMALL, "--time-budget", "1h", "--json", "--force"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["search"]["stopped"], found["search"]["untried"]) == (None, [])


# Kills, and going on


def answer(folder: Path, out: str) -> dict:
    """All that a result says but times, and the command, which has --resume in it or not."""
    with (folder / "t-onefold" / "search.csv").open() as file:
        table = [{k: v for k, v in row.items() if "time" not in k} for row in csv.DictReader(file)]
    return {**json.loads(out), "seconds": None, "command": None, "table": table}


@pytest.mark.parametrize(
    ("rows", "options", "most"),
    [(300, ["--simple"], 2), (150, ["--kernel", "rbf,laplacian"], 3)],
    ids=["plain", "metrics and blend"],
)
def test_a_killed_search_goes_on_to_the_same_answer(tmp_path, monkeypatch, capsys, rows, options, most):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, rows)
    command = [*TABLE, *options, "--json"]
    assert main(["tune", *command]) == 0
    expected = answer(tmp_path, capsys.readouterr().out)
    shutil.rmtree(tmp_path / "t-onefold")
    lines = 1
    draws = random.Random(rows)
    for _ in range(most):
        process = tuning(tmp_path, lines := lines + draws.randrange(1, 7), *command)
        process.kill()
        process.communicate()
        if process.returncode == 0:
            break
        assert JOURNAL.exists()
        assert not (tmp_path / "t-onefold" / "model.onefold").exists()
    process = begun(tmp_path, *ONEFOLD, "tune", *command, "--resume")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert answer(tmp_path, out) == expected
    assert (files(tmp_path), files(tmp_path / "t-onefold")) == (["t-onefold", "t.parquet"], FILES)


def again(*more: str) -> list[str]:
    return [*TUNE, *SMALL, "--resume", "--force", *more]


def test_a_stopped_search_goes_on_or_says_why_not(table, refused, capsys, monkeypatch):
    assert main(again("--time-budget", "1e-6", "--jobs", "1", "--quiet")) == 0
    capsys.readouterr()
    kept = JOURNAL.read_bytes()
    first = kept.index(b"\n") + 1
    table.assign(width=table.width + 1e-9 * np.arange(len(table))).to_csv("t.csv", index=False)
    line = refused(*again())
    assert (
        "t-onefold.journal is the journal of another search, which differs in rows; delete the file"
        in line
    )
    table.to_csv("t.csv", index=False)
    assert "which differs in random_state, splits" in refused(*again("--seed", "1"))
    assert "which differs in criterion" in refused(*again("--criterion", "press"))
    with Journal(JOURNAL):
        assert "t-onefold.journal is in use by another search" in refused(*again())
    JOURNAL.write_bytes(kept[: first + 20] + b"?" + kept[first + 21 :])
    assert "line 2 of t-onefold.journal is damaged; delete the file" in refused(*again())
    JOURNAL.write_bytes(b"something else\n")
    assert "t-onefold.journal is not the journal of a search" in refused(*again())
    assert JOURNAL.read_bytes() == b"something else\n"
    JOURNAL.write_bytes(kept)
    evaluated = []
    monkeypatch.setattr("onefold.cli.terminal.Progress.__call__", lambda self, e: evaluated.append(e))
    assert main([*again("--gammas", "2^-3:2^3:4"), "--json"]) == 0  # a wider grid
    assert [one["done"] for one in evaluated] == [2, 3, 4]  # what is known is not evaluated again
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["candidates"], found["search"]["stopped"]) == (12, None)
    assert not JOURNAL.exists()


def test_a_refused_search_leaves_no_empty_journal(table, refused, monkeypatch):
    def refuse(*args, **kwargs):
        assert JOURNAL.exists()
        raise ValueError("not like this")

    monkeypatch.setattr("onefold.estimators.cv.set_up", refuse)
    assert "not like this" in refused(*TUNE, *SMALL, "--resume")
    assert not JOURNAL.exists()


def test_where_journals_and_stages_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert journal_of(Path("a/v1.2")) == Path("a/v1.2.journal")
    assert journal_of(Path(".")) == tmp_path.with_name(f"{tmp_path.name}.journal")
    with pytest.raises(ValueError, match="empty name"):
        journal_of(Path("/"))
    done = subprocess.Popen(["true"])
    done.wait()
    left = {f"{_STAGE}1", f"{_STAGE}x", ".onefold-elsewhere-7"}
    for name in (f"{_STAGE}{done.pid}", *left):
        (tmp_path / name).mkdir()
    with pytest.raises(LookupError), staged_results(tmp_path):
        raise LookupError
    assert {path.name for path in tmp_path.iterdir()} == left  # that of the killed is tidied up


WITHIN = """
import sys
import time
import onefold.search.watching as watching
from onefold.approximations import cg
from onefold.cli import main
from onefold.cli.terminal import Progress

watching._TELL_SECONDS = watching._SAVE_SECONDS = 0.0
cg._ERROR_SHARE = 0.0  # to the tolerance, in many iterations

def shown(self, event):
    if "iteration" in event:
        print(event["done"], event["iteration"]["number"], flush=True)
        time.sleep(0.1 if event["iteration"]["number"] < 6 else 0.0)

Progress.__call__ = shown
sys.exit(main(sys.argv[1:]))
"""
ITERATED = [*TABLE, "--simple", "--approximation", "cg", "--gammas", "0.2,0.4", "--alphas", "0.01"]
ITERATED += ["--jobs", "1", "--search", "grid", "--cv", "2", "--resume"]
STATE = "t-onefold.journal.iterate"


@pytest.mark.parametrize(("line", "code"), [("0 2\n", 130), ("1 2\n", 0)])
def test_ctrl_c_within_an_iteration(tmp_path, line, code):
    """Without a score it stops at once; with one, the best is kept. What was solved so far is there."""
    write_table(tmp_path, 2500)
    process = begun(tmp_path, sys.executable, "-c", WITHIN, "tune", *ITERATED)
    assert process.stdout is not None
    assert line in iter(process.stdout.readline, "")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (code, False)
    assert (FINISHING in err) == (code == 0)
    kept = {"t.parquet", str(JOURNAL), STATE}
    assert set(files(tmp_path)) == kept | ({"t-onefold"} if code == 0 else set())
    more = ["--force"] if code == 0 else []
    process = begun(tmp_path, sys.executable, "-c", WITHIN, "tune", *ITERATED, *more)
    assert process.stdout is not None
    done, number = process.stdout.readline().split()
    assert (done, int(number) > 2) == (line[0], True)  # it goes on from there
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert files(tmp_path) == ["t-onefold", "t.parquet"]
