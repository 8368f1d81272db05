"""The long iterations of a search: their progress for callbacks, and states that outlive the process.

A solution of many rows takes minutes. Its last state is kept in memory during the search, so that work
interrupted by Ctrl-C continues from there if it is still needed. With a journal, the state is also
written to a file next to it, for a search that is resumed after a crash or a kill. The key of a state
names the search, the stage, the candidate and the systems that are solved; states with other keys are
ignored.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onefold.machine.files import atomic_write
from onefold.machine.iterations import Arrays, Iteration, Key, watch_iterations
from onefold.machine.journal import plain
from onefold.machine.warning import warn_user

# Seconds before a state is first written to the disk, and between two writes: chosen, so that at most a
# minute of work is lost and short solutions write nothing.
_SAVE_SECONDS = 60.0
# Seconds before the first report of a solution, and between two reports: chosen, for human readers.
_TELL_SECONDS = 1.0
_KEY = "key"
_NAMES = "names"  # of the arrays: a damaged file may have lost some
# What NumPy and zipfile raise for files that are damaged, whichever byte it is.
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    AttributeError,
    TypeError,
    RuntimeError,  # compressed in a way that nobody knows, or encrypted
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(eq=False)
class KeptState:
    """The last state of the work of a search, by the key of that work."""

    _key: str = ""
    _arrays: Arrays | None = None
    _written: str = ""  # the key of the state in the file, as far as this process has seen it
    _writable: bool = True

    def find(self, key: str, path: Path | None) -> Arrays | None:
        """The state with a key: the one in memory, or the one in the file."""
        if self._key == key:
            return self._arrays
        if path is None:
            return None
        arrays = read_state(path)
        if arrays is None or str(arrays.pop(_KEY, "")) != key:
            return None
        names = arrays.pop(_NAMES, None)
        if names is None or set(names.tolist()) != arrays.keys():
            return None
        self._written = key
        return arrays

    def remember(self, key: str, arrays: Arrays) -> None:
        """Keep the current state in memory."""
        self._key = key
        self._arrays = arrays

    def write(self, path: Path) -> None:
        """Write the state to the disk; if that fails, warn once and do not try again."""
        if self._arrays is None or not self._writable:
            return
        names = np.array(sorted(self._arrays))
        contents: dict[str, Any] = {_KEY: np.array(self._key), _NAMES: names, **self._arrays}
        try:
            with atomic_write(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **contents)
        except OSError as error:
            self._writable = False
            warn_user(
                f"{path} could not be written ({error.strerror}); the search continues, but a long "
                "solution will start again if it is stopped."
            )
            return
        self._written = self._key

    def drop(self, key: str, path: Path | None) -> None:
        """Delete the state of the work with this key, which has ended."""
        if self._key == key:
            self._key = ""
            self._arrays = None
        if path is not None and self._written == key:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            self._written = ""


def read_state(path: Path) -> dict[str, Any] | None:
    """The arrays of a file; None where there is none that can be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except _UNREADABLE:
        return None


@dataclass(eq=False)
class WorkWatcher:
    """Watches what is solved for one candidate: a :class:`onefold.machine.iterations.Watcher`."""

    _work: Sequence[Any]  # what names the search, the stage and the candidate
    _state: KeptState
    _path: Path | None  # of the file; None without a journal
    _tell: Callable[[Iteration], None]
    _is_replaceable: Callable[[], bool]
    _key: str = field(default="", init=False)  # of what is being solved
    _last_report: float = field(default=0.0, init=False)  # the time, or that of the beginning
    _last_save: float = field(default=0.0, init=False)  # likewise

    @property
    def replaceable(self) -> bool:
        """As in `Watcher`."""
        return self._is_replaceable()

    def begin(self, key: Key) -> Arrays | None:
        """As in `Watcher`."""
        self._key = json.dumps(plain([*self._work, dict(key)]), sort_keys=True)
        self._last_report = self._last_save = time.monotonic()
        return self._state.find(self._key, self._path)

    def iterated(self, iteration: Iteration, state: Callable[[], Arrays]) -> None:
        """As in `Watcher`; the state is kept whenever the progress is reported."""
        now = time.monotonic()
        if now - self._last_report < _TELL_SECONDS:
            return
        self._last_report = now
        self._state.remember(self._key, state())
        self._save()
        self._tell(iteration)

    def end(self) -> None:
        """As in `Watcher`."""
        self._state.drop(self._key, self._path)
        self._key = ""

    def _save(self) -> None:
        """Write the state that is kept, if the last write was long ago."""
        if self._path is not None and self._key and time.monotonic() - self._last_save >= _SAVE_SECONDS:
            self._state.write(self._path)
            self._last_save = time.monotonic()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the iterations in the block; if it is interrupted, the last state is kept."""
        try:
            with watch_iterations(self):
                yield
        except BaseException:
            self._save()
            raise
