"""A journal: a file of records that only grows, and that a crash at any moment leaves readable.

The first line says what the file is. Every other one is a checksum, a space and a record as strict JSON,
written in one piece and brought to the disk before the next begins. A crash can damage only the last
line, which is cut off when the journal is opened again. While it is open, nobody else can open it.

Numbers are exact: Python writes the shortest decimals that give the same float64 back, and what JSON has
no number for is written ``{"float": "nan"}``. Reading calls nothing but a JSON parser.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from onefold.machine.threads import Lock
from onefold.machine.warning import warn_user

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

_FIRST_LINE = b"onefold journal 1\n"


class Journal(AbstractContextManager["Journal"]):
    """An open journal: a file at `path`, made if there is none."""

    records: list[dict[str, Any]]  # all that are in the file, in order

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = Lock()
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {self.path.parent} does not exist; create it first.")
        new = not self.path.exists()
        if not (new or self.path.is_file() or self.path.is_dir()):  # reading it may never end
            raise OSError(f"{self.path} is a pipe or a device; use another name for the journal.")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:  # other processes are kept out until this one ends, even by a crash
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.records, self._end = self._read()
            if new:  # the file is on the disk only once its folder is
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException as error:
            os.close(self._file)
            if not isinstance(error, BlockingIOError):
                raise
            raise BlockingIOError(
                f"{self.path} is in use by another search; wait until it has finished, or use another "
                "name."
            ) from None

    def _read(self) -> tuple[list[dict[str, Any]], int]:
        """The records, and where the next one goes; a torn end is not counted."""
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        if _FIRST_LINE.startswith(content):  # empty, or torn at once
            try:
                self._put(0, _FIRST_LINE)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            return [], len(_FIRST_LINE)
        if not content.startswith(_FIRST_LINE):
            raise ValueError(
                f"{self.path} is not the journal of a search; use another name for the journal."
            )
        *lines, _ = content.split(b"\n")
        records: list[dict[str, Any]] = []
        end = len(_FIRST_LINE)
        for number, line in enumerate(lines[1:], start=2):
            record = _record(line)
            if record is None:
                if number == len(lines):
                    break
                raise ValueError(
                    f"line {number} of {self.path} is damaged; delete the file to search again."
                )
            records.append(record)
            end += len(line) + 1
        return records, end

    def append(self, record: dict[str, Any]) -> None:
        """Bring a record to the disk; warn once if that fails, and take no more."""
        with self._lock:
            if self._end < 0:
                return
            text = json.dumps(plain(record), allow_nan=False).encode("ascii")
            line = b"%08x %s\n" % (zlib.crc32(text), text)
            try:
                self._put(self._end, line)
            except OSError as error:
                with suppress(OSError):  # a torn end is cut off when the journal is opened again, too
                    os.ftruncate(self._file, self._end)
                self._end = -1
                warn_user(
                    f"{self.path} could not be written ({error.strerror}); the search continues, but "
                    "new results will be lost if it is stopped."
                )
                return
            self._end += len(line)
            self.records.append(record)

    def _put(self, place: int, line: bytes) -> None:
        os.ftruncate(self._file, place)  # what an interruption has left of a line
        while line:
            written = os.pwrite(self._file, line, place)
            place = place + written
            line = line[written:]
        os.fsync(self._file)

    def close(self) -> None:
        """Let others open it, also while a process lives that was forked in between."""
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)

    def __exit__(self, *error: object) -> None:
        self.close()


def _record(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text, object_hook=_float_or_dict)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def plain(value: Any) -> Any:
    """Values that JSON has a form for; of anything else, its name."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _float_or_dict(values: dict[str, Any]) -> Any:
    if values.keys() == {"float"} and values["float"] in ("nan", "inf", "-inf"):
        return float(values["float"])
    return values
