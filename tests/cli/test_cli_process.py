"""The command line as a process: exit codes, interruption, pipes; progress and option values."""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli_arguments import SMALL, TUNE

import onefold
from onefold.cli import entry, main, options
from onefold.cli.progress import Progress
from onefold.cli.words import power_of_two

ONEFOLD = [sys.executable, "-m", "onefold"]


def run(*argv: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ONEFOLD, *argv], capture_output=True, text=True, timeout=120, **options)


def test_exit_codes_of_a_real_process(table):
    done = run(*TUNE, *SMALL)
    assert (done.returncode, "Best of 9" in done.stdout) == (0, True), done.stderr
    refused = run(*TUNE, *SMALL)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("onefold: error: t-onefold/model.onefold exists")
    version = run("--version")
    assert (version.returncode, version.stdout) == (0, f"onefold {onefold.__version__}\n")


def test_help(capsys):
    for argv in (["--help"], ["tune", "--help"], ["predict", "--help"], ["demo", "--help"]):
        assert main(argv) == 0
        assert "usage: onefold" in capsys.readouterr().out


def test_a_second_interruption_does_not_disturb_the_first(tmp_path):
    """The word comes while the main thread is busy, and tidying up runs to its end."""
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

entry.import_module = lambda name: SimpleNamespace(run=run)
sys.exit(entry.main(["demo"]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "tidying\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("onefold: stopping …\nonefold: still stopping")
    assert "Traceback" not in err
    assert (tmp_path / "tidied").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.csv"), "there is no file x.csv"),
        (PermissionError(13, "Permission denied", "x.csv"), "can't use x.csv: permission denied; check"),
        (OSError(28, "No space left on device"), "can't use a file: no space left on device; free some"),
        (OSError("odd"), "odd"),
    ],
)
def test_the_operating_system_speaks_in_sentences(monkeypatch, capsys, error, words):
    def fail(name):
        raise error

    monkeypatch.setattr(entry, "import_module", fail)
    assert main(["demo"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"onefold: error: {words}")
    assert "Errno" not in err


def test_a_closed_pipe_is_no_error(table, tmp_path):
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    wide = Path("long.csv")
    text = Path("t.csv").read_text()
    header, body = text.split("\n", 1)
    wide.write_text(header + "\n" + body * 2000)
    command = f"{' '.join(ONEFOLD)} predict t-onefold long.csv | head -2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, env=os.environ
    )
    assert done.stdout.splitlines()[0] == "who,prediction"
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_memory_errors_are_one_line(table, monkeypatch, capsys):
    def no_memory(name):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(entry, "import_module", no_memory)
    assert main([*TUNE]) == 1
    assert capsys.readouterr().err == ("onefold: error: not enough memory (Unable to allocate 9 TiB)\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_redrawn_and_wiped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Progress(stream, lambda score: f"{score:.1f}!") as progress:
        progress({"done": 1, "total": 4, "best_score": 0.5, "part": "grid", "left": 6.0})
        progress({"done": 4, "total": 4, "best_score": 0.7, "part": "grid", "left": 0.0})
    first, last, wiped = stream.getvalue().split("\r")[1:4]
    assert first == "[███████·····················] 1/4 kernels, 6 s left, best so far 0.5!"
    assert last.startswith("[" + "█" * 28 + "] 4/4 kernels, best so far 0.7!")
    assert wiped.strip() == ""
    assert "\n" not in stream.getvalue()


def test_progress_in_a_log_is_sparse(monkeypatch):
    clock = iter([0.0, 1.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr("onefold.cli.progress.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    with Progress(stream, str) as progress:
        for done in (1, 2, 3):
            progress({"done": done, "total": 3, "best_score": 1.0, "part": "rounds", "left": 3 - done})
    assert stream.getvalue() == "onefold: rounds: 2/3 kernels, 1 s left, best so far 1.0\n"


@pytest.mark.parametrize("columns", [1, 5, 20, 40, 70, 80, 200])
def test_progress_never_wraps(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    event = {"total": 433, "best_score": 0.5, "part": "paths gone again", "left": 100.0}
    event["best_params"] = {"kernel": "laplacian", "metric": "diagonal", "round": 3}
    with Progress(stream, lambda score: f"accuracy {score}") as progress:
        for done in (1, 300, 433):
            progress({**event, "done": done})
    lines = stream.getvalue().split("\r")
    assert max(map(len, lines)) < max(columns, 2)
    assert any("█" in line for line in lines) == (columns >= 200)


def test_progress_names_the_score_only_where_it_is_that_of_the_criterion():
    event = {"done": 1, "total": 2, "best_score": 0.5, "left": 1.0, "best_params": {}}
    rounds = {"kernel": "rbf", "metric": "full", "round": 1}
    for part, params, ours, words in [
        ("rounds", rounds, False, "best so far rbf, full metric, round 1"),
        ("rounds", rounds, True, "best so far rbf, full metric, round 1, 0.5!"),
        ("all rows", rounds, False, "best so far rbf, full metric, round 1, 0.5!"),
        ("433 rows", {"gamma": 1.0}, False, "433 rows: 1/2 kernels, 1 s left, best so far 0.5!"),
    ]:
        stream = Terminal()
        Progress(stream, lambda score: f"{score}!", rounds_score=ours)(
            {**event, "part": part, "best_params": params}
        )
        assert stream.getvalue().endswith(words)


def test_grids():
    assert options.grid("0.5, 1,2^3") == [0.5, 1.0, 8.0]
    np.testing.assert_allclose(options.grid("2^-15:2^9:13"), 2.0 ** np.arange(-15, 10, 2))
    np.testing.assert_allclose(options.grid("1,10:1000:3"), [1, 10, 100, 1000])
    for bad in ("", "0", "-1", "x", "1:2", "1:2:0", "1:2:3:4", "nan", "inf", "2^x", "-2^0.5"):
        with pytest.raises(argparse.ArgumentTypeError):
            options.grid(bad)


def test_durations():
    assert [options.duration(text) for text in ("90", "90s", "5m", "2h", " 0.5h")] == [
        90.0, 90.0, 300.0, 7200.0, 1800.0,
    ]  # fmt: skip
    for bad in ("", "s", "0", "-1", "nan", "inf", "1e400", "5d", "5 minutes"):
        with pytest.raises(argparse.ArgumentTypeError):
            options.duration(bad)


def test_powers_of_two_are_shown_as_such():
    assert [power_of_two(v) for v in (0.125, 1.0, 3.0)] == ["2^-3", "2^0", "3"]


def test_warnings_are_one_line_each_and_none_twice(monkeypatch, capsys):
    def run(arguments):
        for text in ("first\n line", "second", "first\n line"):
            warnings.warn(text, stacklevel=1)
            warnings.warn_explicit(text, UserWarning, f"{text}.py", 1)

    monkeypatch.setattr(entry, "import_module", lambda name: SimpleNamespace(run=run))
    assert main(["demo"]) == 0
    assert capsys.readouterr().err == "onefold: warning: first line\nonefold: warning: second\n"
