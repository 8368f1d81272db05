"""Output files that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["model_file", "refuse_existing", "replaced_file", "staged_directory"]

MODEL_NAME = "model.onefold"


def refuse_existing(paths: Sequence[Path], force: bool) -> None:
    """Raise if one of the files exists and may not be replaced."""
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        raise ValueError(f"{existing[0]} exists; use --force to replace it, or another --out")


def model_file(path: Path) -> Path:
    """The model file meant by a path, which may be the directory it lies in."""
    return path / MODEL_NAME if path.is_dir() else path


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
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    stage = directory / f".onefold-{os.getpid()}"
    try:
        stage.mkdir()
        yield stage
        for name in names:
            if (stage / name).exists():
                os.replace(stage / name, directory / name)
            else:
                (directory / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if made and not any(directory.iterdir()):
            directory.rmdir()


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block ends without error."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no directory {path.parent} to write {path.name} in")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
