"""Files that appear complete or not at all: models and their searches, journals."""

from __future__ import annotations

import csv
import errno
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from onefold.machine.files import atomic_write, with_remedy
from onefold.machine.journal import Journal
from onefold.tables import TableModel

MODEL_NAME = "model.onefold"
SEARCH_NAME = "search.csv"
REPORT_NAME = "report.html"
# The folder of unfinished results: the host is in its name, since process ids differ between hosts.
_STAGE = f".onefold-{platform.node() or 'here'}-"


def outputs_in(directory: Path, force: bool, inputs: Sequence[Path] = ()) -> list[Path]:
    """The files that a model's directory will have; raise if one may not be written."""
    paths = [directory / name for name in (MODEL_NAME, SEARCH_NAME, REPORT_NAME)]
    refuse_existing(paths, force, inputs)
    return paths


def refuse_existing(paths: Sequence[Path], force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise if a file exists and may not be replaced; what the command reads, by any name, never is."""
    existing = [path for path in paths if path.exists()]
    for path in existing:
        if path.is_dir():
            raise ValueError(f"{path} is a directory, not a file; use another --out")
        if not path.is_file():
            raise ValueError(f"{path} is a pipe or a device, not a file; use another --out")
        if any(file.exists() and path.samefile(file) for file in inputs):
            raise ValueError(f"--out would replace {path}, an input of this command; use another --out")
    if existing and not force:
        raise ValueError(f"{existing[0]} exists; use --force to replace it, or another --out")


def model_file(path: Path) -> Path:
    """The model file of a path, which may be its directory."""
    try:
        file = path / MODEL_NAME if path.is_dir() else path
        exists = file.exists()
    except PermissionError as error:  # of a parent folder
        raise ValueError(f"{path} cannot be read (permission denied); give another model") from error
    if exists and not os.access(file, os.R_OK):
        raise ValueError(f"{file} cannot be read (permission denied); give another model")
    if not exists:
        cause = f"directory {path} has no {MODEL_NAME}" if path.is_dir() else f"{path} does not exist"
        raise ValueError(f"{cause}; give a model file or the directory that onefold tune wrote")
    return file


@contextmanager
def staged_results(directory: Path) -> Iterator[Path]:
    """A folder for a model and its search, which move to `directory` if the block ends without error."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file, not a directory; choose another --out")
    # Created first, so that an impossible directory is noticed before any work.
    new_directories = [path for path in (directory, *directory.parents) if not path.exists()]
    stage = directory / f"{_STAGE}{os.getpid()}"
    try:
        with _errors_name(directory):
            stage.mkdir(parents=True)
        _remove_abandoned_stages(directory)
        yield stage
        for name in (MODEL_NAME, SEARCH_NAME):
            with _errors_name(directory / name):
                os.replace(stage / name, directory / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for path in new_directories:
            with suppress(OSError):  # it was not created, or has files in it
                path.rmdir()


def _remove_abandoned_stages(directory: Path) -> None:
    """Remove the stages of processes of this machine that were killed."""
    for stage in directory.glob(f"{_STAGE}*"):
        number = stage.name.removeprefix(_STAGE)
        if os.name == "posix" and number.isascii() and number.isdigit():  # elsewhere it would interrupt
            try:
                os.kill(int(number), 0)
            except ProcessLookupError:
                shutil.rmtree(stage, ignore_errors=True)
            except OSError:  # of another user
                continue


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary name next to `path`, renamed to it when the block ends without error."""
    if not path.parent.is_dir():
        raise ValueError(
            f"cannot write {path.name}: directory {path.parent} does not exist; create it, or use "
            "another --out"
        )
    try:
        with atomic_write(path) as temporary:
            yield temporary
    except FileNotFoundError as error:
        if error.filename != str(path):  # of a file that the block reads
            raise
        raise _cannot_create(path) from error


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Let errors of the disk name the file to be written, not the one in the stage."""
    try:
        yield
    except FileNotFoundError as error:
        raise _cannot_create(path) from error
    except OSError as error:
        error.filename = str(path)
        raise


def _cannot_create(path: Path) -> ValueError:
    """The error for a file to write, of which FileNotFoundError would say that it does not exist."""
    return ValueError(f"can't use {path}: {with_remedy(errno.ENOENT).lower()}")


def write_results(model: TableModel, stage: Path) -> None:
    """Write the model, and ``cv_results_`` with one line per candidate, to `stage`."""
    results = {name: values for name, values in model.cv_results_.items() if name != "params"}
    with _errors_name(stage.parent / MODEL_NAME):
        model.save(stage / MODEL_NAME)
    path = stage / SEARCH_NAME
    with _errors_name(stage.parent / SEARCH_NAME), path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")  # masked values are empty cells
        writer.writerow(results)
        writer.writerows(zip(*(np.ma.asarray(values).tolist() for values in results.values())))


def journal_of(directory: Path) -> Path:
    """The journal of a search: next to the directory of its results, which are written after it."""
    if directory.name in ("", ".."):
        directory = Path(os.path.abspath(directory))
    return directory.with_name(f"{directory.name}.journal")


@contextmanager
def nonempty_journal(path: Path | None) -> Iterator[None]:
    """Remove the journal if it is empty at the end of the block, whatever ends it."""
    try:
        yield
    finally:
        if path is not None and path.exists():
            with suppress(OSError, ValueError):  # of another process
                with Journal(path) as journal:
                    empty = not journal.records
                if empty:
                    path.unlink(missing_ok=True)
