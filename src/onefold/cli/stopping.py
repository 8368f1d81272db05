"""Stopping in order: announced, files tidied up on the way out, nothing half-written.

The first Ctrl-C asks a search that has found something to end, and what it has found is kept; the second
one, and the first everywhere else, stops at once. Python runs its handlers between two steps of the main
thread: a factorisation that is under way is finished first.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

Callback = Callable[[Mapping[str, Any]], None]


class Interrupted(BaseException):
    """Ctrl-C that stops at once; a search would keep its best after a KeyboardInterrupt."""


class _CtrlC:
    """What Ctrl-C does: end the running search where it has found something, or stop."""

    def __init__(self) -> None:
        self.search: _Search | None = None
        self._over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._over:  # no other disturbs the tidying up
            _announce("still stopping")
        elif self.search is not None and self.search.has_score and not self.search.asked:
            _announce("stopping: the best so far will be kept (Ctrl-C again to stop at once) …")
            self.search.asked = True
        else:
            self._over = True
            _announce("stopping …")
            raise Interrupted


class _Search:
    """A search's callback that raises KeyboardInterrupt once it is asked to, between evaluations.

    The final fit calls nobody back, and is not disturbed.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._ended = self.asked = self.has_score = False

    def __call__(self, event: Mapping[str, Any]) -> None:
        self._callback(event)
        self.has_score |= event["best_score"] is not None
        if self.asked and not self._ended:
            self._ended = True  # the next one would end more than the search
            raise KeyboardInterrupt


@contextmanager
def orderly_stopping() -> Iterator[None]:
    """Ctrl-C asks a search to end or raises Interrupted; SIGTERM raises SystemExit."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    handlers: dict[int, Any] = {signal.SIGINT: _CtrlC(), signal.SIGTERM: _terminate}
    earlier = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


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


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _announce(words: str) -> None:
    start = "\n" if sys.stderr.isatty() else ""  # a progress bar may stand at the cursor
    print(f"{start}onefold: {words}", file=sys.stderr, flush=True)
