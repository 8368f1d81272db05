"""Stopping in order: said at once, files tidied up on the way out, nothing half-written.

A search that has found something is asked to end, and what it has found is kept; the second Ctrl-C stops
at once, as the first does everywhere else.

Python runs its signal handlers between two steps of the main thread, and a step may be a
factorisation of minutes. The word that Ctrl-C was heard therefore comes from a thread that the
operating system's own handler wakes up.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

_KEEPING = "stopping: the best so far will be kept (Ctrl-C again to stop at once) …"
_FIRST = "stopping …"
_AGAIN = "still stopping: the running factorisation cannot be interrupted"
_NOBODY = -1

Callback = Callable[[Mapping[str, Any]], None]


class Interrupted(BaseException):
    """Ctrl-C that stops at once; a search would keep its best after a KeyboardInterrupt."""


@contextmanager
def orderly_stopping() -> Iterator[None]:
    """Ctrl-C asks a search to end or raises Interrupted, and says so; SIGTERM raises SystemExit."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    ears, mouth = socket.socketpair()
    mouth.setblocking(False)
    key = _CtrlC()
    listener = threading.Thread(target=_announce, args=(ears, key), daemon=True)
    listener.start()
    earlier_fd = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    earlier = {
        signal.SIGINT: signal.signal(signal.SIGINT, key),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate),
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier_fd if earlier_fd >= 0 else _NOBODY)
        # The listener says what it has heard before the last word of the command.
        mouth.close()
        listener.join()
        ears.close()


@contextmanager
def best_kept(callback: Callback) -> Iterator[Callback]:
    """A search's callback while the block runs, by which the first Ctrl-C ends the search alone."""
    key, search = signal.getsignal(signal.SIGINT), _Search(callback)
    if not isinstance(key, _CtrlC):
        yield callback
        return
    key.search = search
    try:
        yield search
    finally:
        key.search = None


class _Search:
    """A search that runs; it ends where its callback raises KeyboardInterrupt, between evaluations.

    The final fit calls nobody back, and is not disturbed.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._asked = self._told = False
        self.has_score = False

    def ask(self) -> None:
        """Let it end after the running evaluation."""
        self._asked = True

    def __call__(self, event: Mapping[str, Any]) -> None:
        self._callback(event)
        self.has_score |= event["best_score"] is not None
        if self._asked and not self._told:
            self._told = True  # the next one would end more than the search
            raise KeyboardInterrupt


class _CtrlC:
    """What Ctrl-C does, the first time and again.

    Whichever of the two hears of it first, the listening thread or the main one, decides; the main
    thread may hear only once of several. After the one that stops, no other disturbs the tidying up.
    """

    def __init__(self) -> None:
        self.search: _Search | None = None
        self._answers: dict[int, str] = {}
        self._announced = self._handled = 0
        self._over = False

    def words(self) -> str:
        """The answer to the next one, for the listening thread."""
        self._announced += 1
        return self._answer(self._announced)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._handled = max(self._handled + 1, self._announced)
        search = self.search
        if self._answer(self._handled) == _KEEPING and search is not None:
            search.ask()
        elif not self._over:
            self._over = True
            raise Interrupted

    def _answer(self, number: int) -> str:
        last = self._answers.get(number - 1)
        if last not in (None, _KEEPING):
            answer = _AGAIN
        elif last is None and self.search is not None and self.search.has_score:
            answer = _KEEPING
        else:
            answer = _FIRST
        return self._answers.setdefault(number, answer)


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _announce(ears: socket.socket, key: _CtrlC) -> None:
    while heard := ears.recv(1):
        if heard[0] == signal.SIGINT:
            # A progress bar may stand at the cursor.
            start = "\n" if sys.stderr.isatty() else ""
            print(f"{start}onefold: {key.words()}", file=sys.stderr, flush=True)
