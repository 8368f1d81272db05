r"""Progress of long iterations, and states from which they can be resumed.

The caller may watch the iterations of some work (`watch_iterations`). An iteration asks for the watcher
(`watcher`), reports its progress after each step, and offers its state: arrays by name that do not
change later. The watcher may keep them, and return them when the same work begins again. Work is the
same if its key is the same: plain values that say what is solved.

The distance from the goal usually falls by the same factor in equal times. With the distances at the
first watched iteration (then) and now, relative to a goal of 1:

    (1)  seconds left = (seconds since then) · log now / (log then − log now)

A watcher is seen by the thread that set it, and by no thread of a pool.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

Key = Mapping[str, Any]
Arrays = Mapping[str, Any]  # in host memory


@dataclass(frozen=True)
class Iteration:
    """The progress of an iteration."""

    number: int
    residual: float  # relative to the right-hand sides
    seconds_left: float | None  # None while unknown


class Watcher(Protocol):
    """Follows the iterations of one piece of work after another."""

    @property
    def replaceable(self) -> bool:
        """Whether the work may be aborted, because there is another result."""

    def begin(self, key: Key) -> Arrays | None:
        """Called when work begins; returns the state that was kept of it, if any."""

    def iterated(self, iteration: Iteration, state: Callable[[], Arrays]) -> None:
        """Called after each iteration of the work."""

    def end(self) -> None:
        """Called when the work has ended; its state is no longer needed."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("onefold_watcher", default=None)


def watcher() -> Watcher | None:
    """The watcher of the iterations of this thread; None if there is none."""
    return _WATCHER.get()


@contextmanager
def watch_iterations(watching: Watcher | None) -> Iterator[None]:
    """Have the iterations in the context watched."""
    token = _WATCHER.set(watching)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@dataclass(frozen=True)
class Pace:
    """The distance from the goal, relative to it, and the time, when an iteration was first watched."""

    distance: float
    began: float

    @classmethod
    def at(cls, distance: float) -> Pace:
        """From now on."""
        return cls(distance, time.monotonic())

    def seconds_left(self, distance: float) -> float | None:
        """(1); None where the distance has not fallen."""
        if not 0 < distance < self.distance < math.inf:
            return None
        decrease = math.log(self.distance / distance)
        return (time.monotonic() - self.began) * max(math.log(distance), 0.0) / decrease
