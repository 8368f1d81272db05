"""Output files that appear complete or not at all."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onefold.machine.files import replacing

MODEL_NAME = "model.onefold"
# A process of another machine is not known here, by its number or at all.
_STAGE = f".onefold-{platform.node() or 'here'}-"


def refuse_existing(paths: Sequence[Path], force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise if one of the files exists and may not be replaced.

    A file that the command reads is never replaced, whatever `force` says and by whatever name
    (another spelling, a link) it is called.
    """
    existing = [path for path in paths if path.exists()]
    for path in existing:
        if any(given.exists() and path.samefile(given) for given in inputs):
            raise ValueError(f"--out would replace {path}, which this command reads; use another --out")
    if existing and not force:
        raise ValueError(f"{existing[0]} exists; use --force to replace it, or another --out")


def model_file(path: Path) -> Path:
    """The model file meant by a path, which may be the directory it lies in."""
    if path.is_dir():
        if not (path / MODEL_NAME).is_file():
            raise ValueError(
                f"the directory {path} holds no {MODEL_NAME}; give a model file, or the directory "
                "that onefold tune wrote"
            )
        return path / MODEL_NAME
    if not path.exists():
        raise ValueError(f"there is no model file {path}; onefold tune writes one")
    return path


@contextmanager
def staged_directory(directory: Path, names: Sequence[str]) -> Iterator[Path]:
    """A place for files that move to `directory` together when the block ends without error.

    An older file with one of the `names` that the block doesn't write again is removed, so that
    all files in the directory tell of the same run.
    The directory is made at once, so that an impossible one is noticed before any work; it is
    taken away again if it was made for nothing.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file, not a directory; choose another --out")
    for name in names:
        _refuse_directory(directory / name)
    made = [place for place in (directory, *directory.parents) if not place.exists()]
    stage = directory / f"{_STAGE}{os.getpid()}"
    try:
        _make(directory, stage)
        _tidy_up_after_the_killed(directory)
        yield stage
        for name in names:
            if (stage / name).exists():
                os.replace(stage / name, directory / name)
            else:
                (directory / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for place in made:
            with suppress(OSError):  # it was not made, or it is in use
                place.rmdir()


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block ends without error."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no directory {path.parent} to write {path.name} in")
    _refuse_directory(path)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"no permission to write in {path.parent}; choose another --out")
    with replacing(path) as temporary:
        yield temporary


def _make(directory: Path, stage: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stage.mkdir()
    except OSError as error:
        raise ValueError(
            f"can't write to {directory} ({error.strerror}); choose another --out"
        ) from error


def _tidy_up_after_the_killed(directory: Path) -> None:
    """Remove the stages of processes of this machine that did not live to do it themselves."""
    for stage in directory.glob(f"{_STAGE}*"):
        number = stage.name.removeprefix(_STAGE)
        if number.isascii() and number.isdigit() and not _lives(int(number)):
            shutil.rmtree(stage, ignore_errors=True)


def _lives(process: int) -> bool:
    if os.name != "posix":  # where to ask would be to interrupt it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a directory, not a file to replace; use another --out")
