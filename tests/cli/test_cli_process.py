"""The command line as a process: exit codes, interruption, pipes; progress, option values, help."""

from __future__ import annotations

import argparse
import inspect
import io
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli_arguments import IN_UTF8, ONEFOLD, SMALL, TUNE, files

import onefold
from onefold.approximations import registered
from onefold.cli import entry, main, options
from onefold.cli.terminal import _REPORT_SECONDS, Progress, command_line
from onefold.search.strategies import STRATEGIES
from onefold.tables import TableClassifier, TableError, TableRegressor
from onefold.tables.errors import Remedy
from onefold.tuning import tuning


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ONEFOLD, *argv], capture_output=True, timeout=120, **IN_UTF8)


def test_exit_codes_of_a_real_process(table):
    done = run(*TUNE, *SMALL)
    assert (done.returncode, "Best of 9" in done.stdout) == (0, True), done.stderr
    assert done.stdout.endswith("-m onefold predict t-onefold/model.onefold NEW_TABLE\n")
    refused = run(*TUNE, *SMALL)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("onefold: error: t-onefold/model.onefold exists")
    version = run("--version")
    assert (version.returncode, version.stdout) == (0, f"onefold {onefold.__version__}\n")
    # A closed pipe is no error.
    header, body = Path("t.csv").read_text().split("\n", 1)
    Path("long.csv").write_text(header + "\n" + body * 2000)
    command = f"{' '.join(ONEFOLD)} predict t-onefold long.csv | head -2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120, **IN_UTF8)
    assert (done.stdout.splitlines()[0], done.stdout.splitlines()[-1]) == ("who,prediction", "0")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("predict t-onefold t.csv >&-", 0, ""),
        ("predict t-onefold t.csv >&- 2>&-", 0, ""),
        ("predict t-onefold none.csv >&-", 2, "there is no file none.csv"),
        ("predict t-onefold t.csv >/dev/full", 2, "cannot write to standard output: no space left"),
        ("predict t-onefold t.csv --out p.csv", 2, "cannot use p.csv: file too large"),
        ("predict t-onefold t.csv --out p.parquet", 2, "cannot use p.parquet: file too large"),
        ("tune t.csv --target kind --out new", 2, "cannot use new/model.onefold: file too large"),
    ],
)
def test_streams_that_are_closed_and_disks_that_are_full(tuned, command, code, words):
    limit = "ulimit -f 0; " if "--out" in command else ""  # a full disk for this process alone
    if (
        limit
        and subprocess.run(["bash", "-c", f"{limit}{sys.executable} -c 'import scipy.stats'"]).returncode
    ):
        pytest.skip("this SciPy writes a temporary file when it is imported")
    # joblib warns where it can't write a file, which is no error of the command's.
    small = " ".join(SMALL) if "tune" in command else ""
    line = f"{limit}PYTHONWARNINGS= exec {' '.join(ONEFOLD)} {command} {small}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=120, **IN_UTF8)
    last = done.stderr.splitlines()[-1] if code else done.stderr
    assert (done.returncode, done.stdout) == (code, "")
    assert last.startswith(f"onefold: error: {words}" if code else words)
    assert files() == ["t-onefold", "t.csv"]


def test_help_waits_for_no_library():
    loaded = "import sys; from onefold.cli import main; main(['tune', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, timeout=120, **IN_UTF8)
    text, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert not {"numpy", "sklearn", "pyarrow"} & {*modules.split()}
    words = " ".join(text.split())
    for name in [*(n for n, kind in registered().items() if kind.selects), *STRATEGIES]:
        assert re.search(rf"\b{name}\b", words)


def test_predict_waits_for_no_report():
    loaded = "import sys, onefold.cli.predict, onefold.tuning; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, timeout=120, **IN_UTF8)
    assert not {"onefold.report", "onefold.plots", "jinja2"} & {*done.stdout.split()}


def test_options_are_parameters(capsys):
    """Nothing on the way from an option to its parameter can be forgotten."""
    faces = (TableClassifier, TableRegressor, tuning)
    known = {name for one in faces for name in inspect.signature(one).parameters}
    for command in ("tune", "plan"):
        arguments = options.parsed([command, "t.csv"])
        assert options.parameters(arguments) == {}
        names = arguments.options.keys() - {"help", "table", "resume", "out", "force", "json", "quiet"}
        reading = {spec.lstrip("-").replace("-", "_") for spec in options._READING} | {"dayfirst"}
        assert names - reading <= known
    given = ["--kernel", "rbf, linear", "--no-blend", "--seed", "3", "--drop", "a", "b", "--drop", "c"]
    assert options.parameters(options.parsed(["tune", "t.csv", "--ordered", *given])) == {
        "ordered": True,
        "kernel": ["rbf", "linear"],
        "blend": False,
        "random_state": 3,
        "drop": ["a", "b", "c"],
    }
    for argv in (["--help"], ["predict", "--help"], ["demo", "--help"]):
        assert main(argv) == 0
        assert "usage: onefold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tune", "t.csv", "--targt", "y"], "y (did you mean --target? see onefold tune --help)"),
        (["inspect", "m", "--id", "y"], "unrecognized arguments: --id y (see onefold inspect --help)"),
        (
            ["tune", "-", "--target", "y"],
            "standard input is not supported; write the table to a file first",
        ),
        ([*TUNE, "--cv", "few"], "'few' is not a number of folds, 'loo' or 'past:5'"),
        ([*TUNE, "--gammas", "1,-2"], "'1,-2' is not a grid of positive numbers"),
        ([*TUNE, "--jobs", "0"], "n_jobs must not be 0"),
        ([*TUNE, "--jobs", "4097"], "n_jobs must be at most 4096"),  # it was refused after the search
        ([*TUNE, "--seed", "-1"], "eed must be between 0 and 2**32 - 1"),
        ([*TUNE, "--min-frequency", "many"], "'many' is not a number of rows"),
        ([*TUNE, "--class-weight", "none"], "invalid choice: 'none'"),
        ([*TUNE, "--out", ""], "--out: the path is empty"),
        ([*TUNE, "--holdout", "1.5"], "not a fraction between 0 and 1"),
        ([*TUNE, "--time-budget", "soon"], "not a duration"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        ([], "required: COMMAND"),
    ],
)
def test_arguments_that_are_refused(table, refused, argv, words):
    assert words in refused(*argv)


def test_grids_and_durations():
    assert options.grid("0.5, 1,2^3") == [0.5, 1.0, 8.0]
    np.testing.assert_allclose(options.grid("2^-15:2^9:13"), 2.0 ** np.arange(-15, 10, 2))
    np.testing.assert_allclose(options.grid("1,10:1000:3"), [1, 10, 100, 1000])
    durations = [options.duration(text) for text in ("90", "90s", "5m", "2h", " 0.5h")]
    assert durations == [90.0, 90.0, 300.0, 7200.0, 1800.0]
    grids = ("", "0", "-1", "x", "1:2", "1:2:0", "1:2:3:4", "nan", "inf", "2^x", "-2^0.5")
    times = ("", "s", "0", "-1", "nan", "inf", "1e400", "5d", "5 minutes")
    for parse, texts in ((options.grid, grids), (options.duration, times)):
        for bad in texts:
            with pytest.raises(argparse.ArgumentTypeError):
                parse(bad)


@pytest.mark.parametrize(
    ("remedies", "words"),
    [
        ([Remedy("drop", ["a b", "it's"])], 'odd; use --drop "a b" "it\'s"'),
        ([Remedy("na_values", ["?"]), Remedy("cv", "-")], 'odd; use --na-values "?", or --cv=-'),
        ([Remedy("simple", True), Remedy("blend", False)], "odd; use --simple, or --no-blend"),
        ([Remedy("decimal", ","), Remedy("id_column", "nr")], 'odd; use --decimal ",", or --id nr'),
        ([Remedy("elsewhere", 1)], "odd"),
    ],
)
def test_remedies_are_options_of_the_running_command(refused, monkeypatch, remedies, words):
    def refuse(arguments):
        raise TableError("'kg weight=5' is odd", remedies)

    monkeypatch.setattr(
        entry, "import_module", lambda name: SimpleNamespace(run_tune=refuse, run_inspect=refuse)
    )
    assert refused(*TUNE) == f"onefold: error: 'kg weight=5' is {words}"
    assert refused("inspect", "m.onefold") == "onefold: error: 'kg weight=5' is odd"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "there is no file x.csv"),
        (OSError(28, ""), 2, "no space left on device; make room there\n"),
        (OSError(13, "", "p.csv"), 2, "cannot use p.csv: permission denied; write to a folder where "),
        (OSError("odd; mend it"), 2, "odd; mend it\n"),
        (MemoryError("Unable to allocate 9 TiB"), 1, "not enough memory (Unable to allocate 9 TiB)"),
    ],
)
def test_errors_are_sentences(monkeypatch, capsys, error, code, words):
    def fail(name):
        raise error

    monkeypatch.setattr(entry, "import_module", fail)
    assert main(["demo"]) == code
    err = capsys.readouterr().err
    assert err.startswith(f"onefold: error: {words}")
    assert "Errno" not in err


@pytest.mark.filterwarnings("default")  # as in a shell, where warnings are no errors
def test_warnings_are_one_line_each_and_none_twice(monkeypatch, capsys):
    def run(arguments):
        for text in ("first\n line", "second", "first\n line"):
            warnings.warn(text, stacklevel=1)
            warnings.warn_explicit(text, UserWarning, f"{text}.py", 1)

    monkeypatch.setattr(entry, "import_module", lambda name: SimpleNamespace(run_demo=run))
    assert main(["demo"]) == 0
    assert capsys.readouterr().err == "onefold: warning: first line\nonefold: warning: second\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EVENT = {"done": 1, "total": 4, "best_score": -0.5, "part": "grid", "best_params": {}}
EVENT |= {"seconds": 3.0, "left": 9.0 - _REPORT_SECONDS}


def test_progress_is_redrawn_and_wiped_on_a_terminal_and_sparse_in_a_log(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Progress(stream, "error") as progress:
        progress(EVENT)
        progress(
            EVENT | {"done": 4, "best_score": -0.25, "seconds": 9.0, "left": 12.0 - _REPORT_SECONDS}
        )
        progress.begin_part(
            EVENT | {"part": "final fit", "seconds": 10.0, "left": 23.0 - _REPORT_SECONDS}
        )
    first, last, final, wiped = stream.getvalue().split("\r")[1:5]
    best = "best so far accuracy"
    assert first == f"[█████···············] 25 %, 9 s left, 1 of 4 evaluations, {best} 50.00%"
    assert last.startswith("[████████············] 43 %, 12 s left, 4 of 4 evaluations, ")
    # It never goes back, and the final fit is part of the same whole.
    assert final.startswith("[████████············] 43 %, 23 s left, final fit")
    assert wiped.strip() == ""
    assert "\n" not in stream.getvalue()
    clock = iter([0.0, 1.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr("onefold.cli.terminal.time.monotonic", lambda: next(clock))
    with Progress(log := io.StringIO(), None) as progress:
        for done in (1, 2, 3):
            progress(
                EVENT | {"done": done, "total": 3, "part": "rounds", "left": 6 - done - _REPORT_SECONDS}
            )
    assert log.getvalue() == "onefold: 4 s left, rounds: 2 of 3 evaluations, best so far -0.5\n"


def test_commands_that_are_printed_work_in_the_shell_that_printed_them(monkeypatch, tmp_path):
    program = tmp_path / "bin" / "onefold"
    program.parent.mkdir()
    program.touch(0o755)
    # Another program of the same name in the search path is not this one.
    monkeypatch.setenv("PATH", str(program.parent))
    for started, words in {
        "/usr/bin/pytest": "onefold",
        "env/bin/onefold": "env/bin/onefold",
        "an env/bin/onefold": "'an env/bin/onefold'",
        str(program): "onefold",
        "somewhere/onefold/__main__.py": f"{sys.executable} -m onefold",
    }.items():
        monkeypatch.setattr(sys, "argv", [started])
        assert command_line("inspect", "a b/m") == f"{words} inspect 'a b/m'"


def test_a_warning_that_python_makes_an_error_is_one_line(monkeypatch, capsys):
    """It was a traceback with PYTHONWARNINGS=error."""

    def run(arguments):
        warnings.warn("missing values", stacklevel=1)

    monkeypatch.setattr(entry, "import_module", lambda name: SimpleNamespace(run_demo=run))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["demo"]) == 2
    words = "missing values (a warning that -W or PYTHONWARNINGS turns into an error)"
    assert capsys.readouterr().err == f"onefold: error: {words}\n"
