"""Streams that are full, closed, read-only or broken, and encodings with few characters.

Commands run as processes with an environment of their own: what the shell of these tests sets
(PYTHONUNBUFFERED, say) hides what users meet.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from cli_arguments import FILES, ONEFOLD, SMALL, TUNE, files, two_classes

import onefold
from onefold.cli import main, streams
from onefold.cli.entry import _matplotlib_silenced

NO_SPACE = "onefold: error: cannot write to standard output: no space left on device; make room there\n"
NOT_OPEN = "onefold: error: cannot write to standard output: bad file descriptor; open it for writing\n"
PREDICT = "predict t-onefold t.csv"
TUNE_AGAIN = shlex.join([*TUNE, *SMALL, "--out", "new"])
REPORT = "report t-onefold t.csv --out page.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and a model of it, which commands leave as they are."""
    folder = tmp_path_factory.mktemp("streams")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("onefold.report.report.pictures_of", lambda estimator, y: ([], None))
        two_classes().to_csv("t.csv", index=False)
        assert main([*TUNE, *SMALL, "--quiet"]) == 0
    return folder


def shell(folder: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of Bash in which ``onefold`` is this one, with nothing in the environment but this."""
    plain = {"HOME": str(folder), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    command = f'onefold() {{ {shlex.join(ONEFOLD)} "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=plain | environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
    )


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [
        (PREDICT, ""),
        (PREDICT, "1"),
        (f"{PREDICT} --json", ""),
        ("inspect t-onefold", ""),
        ("inspect t-onefold", "1"),
        ("plan t.csv --target kind", ""),
    ],
)
def test_a_full_output_is_one_line_and_exit_code_2(folder, command, unbuffered):
    """Python's flush at exit made it 120, with "Exception ignored" after the line."""
    done = shell(folder, f"onefold {command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (2, NO_SPACE)


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_commands_that_print_and_end_tell_of_their_output_too(folder, unbuffered):
    """argparse keeps errors of the stream to itself: --version and --help ended with 120, or with 0."""
    for command in ("--version", "--help", "tune --help"):
        done = shell(folder, f"onefold {command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
        assert (done.returncode, done.stderr) == (2, NO_SPACE)
    done = shell(folder, "onefold --version 1</dev/null", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (2, NOT_OPEN)
    line = "onefold tune --help | true; echo ${PIPESTATUS[0]}"
    done = shell(folder, line, PYTHONUNBUFFERED=unbuffered)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_files_are_complete_before_the_output_fails(folder):
    """What the command is for is done, whatever becomes of the words about it."""
    done = shell(folder, f"onefold {TUNE_AGAIN} --quiet >/dev/full; echo $? >&2; ls new >&2")
    assert done.stderr == f"{NO_SPACE}2\n" + "".join(f"{name}\n" for name in FILES)
    done = shell(folder, f"onefold {REPORT} 1</dev/null; echo $? >&2; rm page.html >&2")
    assert done.stderr == f"onefold: wrote page.html\n{NOT_OPEN}2\n"
    line = f"onefold {TUNE_AGAIN} --quiet --force | true; echo ${{PIPESTATUS[0]}}; rm -r new"
    done = shell(folder, line)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("target", ["2>/dev/full", "2> >(true)", "2</dev/null", "2>&-"])
def test_notes_that_nobody_can_take_do_not_end_the_work(folder, target, unbuffered):
    """`tune` stopped before its search: exit code 0 and no model, or 120."""
    wait = "sleep 0.2; " if "true" in target else ""  # the reader has gone by then
    line = f"{{ {wait}onefold {TUNE_AGAIN}; }} {target}; echo $?; ls new; rm -r new"
    done = shell(folder, line, PYTHONUNBUFFERED=unbuffered)
    assert done.stdout.startswith("Best of 9 candidates for 'kind'")
    assert done.stdout.endswith("\n".join(["0", *FILES, ""]))
    assert done.stderr == ""


def test_refusals_that_nobody_can_take_keep_their_exit_code(folder):
    done = shell(folder, "onefold predict t-onefold none.csv 2>/dev/full; echo $?")
    assert done.stdout == "2\n"
    done = shell(folder, f"onefold {PREDICT} --out p.csv 2>/dev/full; echo $?; rm p.csv")
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": name} for name in ("ascii", "cp437")]
    + [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=lambda one: "-".join(one.values()),
)
def test_encodings_that_lack_characters_get_others(folder, environment):
    """`tune` ended with exit code 2 after all files were written, and `tune --help` too."""
    line = f"onefold {TUNE_AGAIN} 2>&1 && onefold tune --help && cat new/report.html; rm -r new"
    done = shell(folder, line, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "accuracy" in done.stdout
    assert "NAME[,NAME...]" in done.stdout
    page = done.stdout[done.stdout.index("<!") :]
    assert "±" in page  # files are UTF-8 all the same
    assert "\ufffd" not in page


@pytest.mark.parametrize("name", ["ascii", "latin-1", "cp437", "cp1251", "cp932", "utf-8"])
def test_every_text_can_be_written_in_every_encoding(tmp_path, monkeypatch, capsys, name):
    """The help of all commands, and characters that there are no others for."""
    for command in ([], ["tune"], ["predict"], ["plan"], ["report"], ["inspect"], ["demo"]):
        with open(tmp_path / "out", "w", encoding=name) as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert main([*command, "--help"]) == 0
        assert (tmp_path / "out").read_text(encoding=name).startswith("usage: onefold")
    with open(tmp_path / "out", "w", encoding=name) as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        with streams.standard_streams():
            sys.stdout.write("R² 0.9 ± 0.1, 2 × 3 … 'ночь'\n")
    text = (tmp_path / "out").read_text(encoding=name)
    assert (
        text
        == {
            "ascii": "R2 0.9 +/- 0.1, 2 x 3 ... '\\u043d\\u043e\\u0447\\u044c'\n",
            "latin-1": "R² 0.9 ± 0.1, 2 × 3 ... '\\u043d\\u043e\\u0447\\u044c'\n",
            "cp437": "R² 0.9 ± 0.1, 2 x 3 ... '\\u043d\\u043e\\u0447\\u044c'\n",
            "cp1251": "R2 0.9 ± 0.1, 2 x 3 … 'ночь'\n",
            "cp932": "R2 0.9 ± 0.1, 2 × 3 … 'ночь'\n",
            "utf-8": "R² 0.9 ± 0.1, 2 × 3 … 'ночь'\n",
        }[name]
    )


def test_predictions_are_written_as_they_are_or_refused(tuned, tmp_path, monkeypatch, capsys):
    """A label in other characters would be another label."""
    table = tuned.assign(who=[f"größe {i}" for i in range(60)])
    table.to_csv("new.csv", index=False)
    with open("out", "w", encoding="ascii") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(["predict", "t-onefold", "new.csv"]) == 2
    assert capsys.readouterr().err == (
        "onefold: error: standard output has encoding ascii, which cannot represent \\xf6; use --out "
        "FILE (written in UTF-8), or set PYTHONIOENCODING=utf-8\n"
    )
    with open("out", "w", encoding="ascii") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(["predict", "t-onefold", "new.csv", "--json"]) == 0
    assert json.loads(Path("out").read_text())["predictions"]["who"][7] == "größe 7"


def test_a_signal_between_two_notes_does_no_harm(monkeypatch):
    """A handler that writes while a note is being written meets a RuntimeError of the stream."""

    class Busy:
        encoding = None
        calls = 0

        def write(self, text: str) -> int:
            self.calls += 1
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

        def flush(self) -> None:
            pass

    busy = Busy()
    monkeypatch.setattr(sys, "stderr", busy)
    with streams.standard_streams():
        sys.stderr.write("first")
        sys.stderr.write("second")
    assert busy.calls == 2  # it may work the next time
    assert sys.stderr is busy


def test_the_streams_of_python_are_as_they_were(capsys):
    """In a program that calls `main`, the stream leads where it did after a failure."""
    with open("/dev/full", "w") as full, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(["--version"]) == 2
        assert sys.stdout is full
        with pytest.raises(OSError, match="No space left"):  # noqa: PT012
            full.write("again")
            full.flush()
        streams._discard(full)
    assert capsys.readouterr().err == NO_SPACE


# Files


def test_pipes_and_devices_are_refused_at_once(tuned, refused):
    """A named pipe as a table was waited for, for ever."""
    os.mkfifo("p.csv")
    command = [*ONEFOLD, "tune", "p.csv", "--target", "kind"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2
    for table in ("p.csv", "/dev/null"):
        words = f"{table} is a pipe or a device, not a file; write the table to a file first"
        assert words in refused("tune", table, "--target", "kind")
        assert words in refused("predict", "t-onefold", table)
        assert words in refused(*TUNE, "--force", "--test", table)
    assert "not a file; use another --out" in refused(
        "predict", "t-onefold", "t.csv", "--out", "p.csv", "--force"
    )
    assert "not a file; use another --out" in refused(
        "report", "t-onefold", "t.csv", "--out", "/dev/null", "--force"
    )
    assert "it is a folder or a device, not a file" in refused("inspect", "p.csv")
    os.mkfifo("t-onefold.journal")
    assert "is a pipe or a device; use another name" in refused(*TUNE, *SMALL, "--force", "--resume")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "svm", "xlsx"])
def test_names_that_are_not_utf8_are_refused_by_name(tuned, refused, suffix):
    """A CSV was said to have content that is not UTF-8; Parquet gave a bare codec error."""
    name = os.fsdecode(b"nm\xff.") + suffix
    {"csv": tuned.to_csv, "parquet": lambda path: pq_write(tuned, path)}.get(
        suffix, lambda path: Path(path).touch()
    )(name)
    line = refused("tune", name, "--target", "kind")
    assert "the name 'nm\\udcff." in line
    assert "is not UTF-8 text; rename the file or its folder" in line


def pq_write(frame: pd.DataFrame, path: str) -> None:
    with open(path, "wb") as file:
        frame.to_parquet(file)


def test_predictions_go_to_a_file_of_any_name(tuned, capsys):
    name = os.fsdecode(b"nm\xff.parquet")
    assert main(["predict", "t-onefold", "t.csv", "--out", name]) == 0
    with open(name, "rb") as file:
        assert pd.read_parquet(file).who.tolist() == tuned.who.tolist()


def test_models_that_the_system_does_not_let_read(tmp_path, monkeypatch):
    """A bare OSError came out of `load`."""
    monkeypatch.chdir(tmp_path)
    os.symlink("loop.onefold", "loop.onefold")
    Path("file").touch()
    for name in ("loop.onefold", "/proc/self/mem", "file/below"):
        with pytest.raises(onefold.saving.ModelFileError, match="give the path of the model file"):
            onefold.load(name)
    with pytest.raises(FileNotFoundError):
        onefold.load("none.onefold")


def test_disks_that_refuse_are_named_as_they_were_asked_for(tuned, refused, monkeypatch):
    """Not by the stage, nor by the temporary file, which a read-only disk refuses to remove as well."""
    opened = Path.open

    def read_only(path, *args, **kwargs):
        raise OSError(30, "Read-only file system", str(path))

    def read_only_here(path, *args, **kwargs):
        return (read_only if path.suffix == ".tmp" else opened)(path, *args, **kwargs)

    place = "write to a folder where you have permission"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", read_only_here)
        patch.setattr(Path, "unlink", read_only)
        line = refused("predict", "t-onefold", "t.csv", "--out", "p.csv")
        assert line == f"onefold: error: cannot use p.csv: read-only file system; {place}"
    monkeypatch.setattr(Path, "mkdir", read_only)
    line = refused(*TUNE, *SMALL, "--out", "t-onefold", "--force")
    assert line == f"onefold: error: cannot use t-onefold: read-only file system; {place}"


def test_places_that_are_gone_are_not_called_missing_files(tuned, refused, monkeypatch):
    """In a folder that was deleted, `--out p.csv` was answered with "there is no file p.csv"."""
    opened = Path.open

    def gone(path, *args, **kwargs):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    def gone_here(path, *args, **kwargs):
        return (gone if path.suffix == ".tmp" else opened)(path, *args, **kwargs)

    words = "no such file or directory; give the name of a file in a folder that exists"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", gone_here)
        line = refused("predict", "t-onefold", "t.csv", "--out", "p.csv")
        assert line == f"onefold: error: can't use p.csv: {words}"
        line = refused("predict", "t-onefold", "none.csv", "--out", "p.csv")
        assert line == "onefold: error: there is no file none.csv"
    monkeypatch.setattr(Path, "mkdir", gone)
    line = refused(*TUNE, *SMALL, "--out", "new")
    assert line == f"onefold: error: can't use new: {words}"


def test_models_that_may_not_be_read_are_not_written_elsewhere(tuned, refused, monkeypatch):
    """The remedy was "write to a folder where you have permission"."""
    model = Path("t-onefold", "model.onefold")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: Path(path) != model)
        line = refused("inspect", "t-onefold")
        assert line == f"onefold: error: {model} cannot be read (permission denied); give another model"
    exists = Path.exists

    def closed(path):
        if path == model:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", closed)
    line = refused("predict", "t-onefold", "t.csv")
    assert line == "onefold: error: t-onefold cannot be read (permission denied); give another model"


def test_matplotlib_gives_no_advice_about_its_cache(folder):
    """Where HOME can't be written, two lines about MPLCONFIGDIR stood among the notes."""
    done = shell(folder, f"onefold {TUNE_AGAIN} --quiet >/dev/null; rm -r new", HOME="/proc")
    assert done.stderr == ""


def test_matplotlib_speaks_again_after_the_command():
    logger = logging.getLogger("matplotlib")
    level = logger.level
    with _matplotlib_silenced():
        assert not logger.isEnabledFor(logging.WARNING)
    assert logger.level == level


# Errors that nobody has foreseen


def test_internal_errors_have_exit_code_1_and_a_traceback(folder, monkeypatch, capsys):
    """With a full stderr they had 120."""
    script = (
        "import sys\nfrom onefold.cli import entry\n"
        "def fail(name): raise KeyError('odd')\n"
        "entry.import_module = fail\nsys.exit(entry.main(['demo']))\n"
    )
    (folder / "fails.py").write_text(script)
    done = shell(
        folder, f"{sys.executable} fails.py; echo $?; {sys.executable} fails.py 2>/dev/full; echo $?"
    )
    assert done.stdout == "1\n1\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert (
        lines[-1]
        == "onefold: error: internal error (KeyError); please report it with the traceback above"
    )


def test_tracebacks_of_refusals_are_shown_where_asked_for(table, capsys, monkeypatch):
    """A ValueError of whatever place was one line, with no way to find the place."""
    monkeypatch.setenv("ONEFOLD_TRACEBACK", "1")
    assert main(["tune", "t.csv", "--target", "knid"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith("onefold: error: --target: t.csv has no column 'knid'")
    assert files() == ["t.csv"]
