"""The journal of ``onefold tune --resume``: where it lies, and when it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onefold.machine.journal import Journal


def journal_beside(directory: Path) -> Path:
    """The journal of the results in a directory: beside it, as it is written before they are."""
    named = directory if directory.name not in ("", "..") else Path(os.path.abspath(directory))
    if not named.name:
        raise ValueError(
            f"--resume keeps a journal beside the results, and {directory} has no place for it"
        )
    return named.with_name(f"{named.name}.journal")


@contextmanager
def useful_journal(path: Path | None) -> Iterator[None]:
    """Leave no journal behind that has nothing in it, whatever ends the block."""
    try:
        yield
    finally:
        if path is not None and path.exists() and _empty(path):
            path.unlink(missing_ok=True)


def _empty(path: Path) -> bool:
    try:
        with Journal(path) as journal:
            return not journal.records
    except (OSError, ValueError):  # somebody else's
        return False
