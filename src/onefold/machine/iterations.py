r"""Long iterations that somebody watches: how far they are, and states that they can go on from.

Whoever starts work may watch the iterations in it (`watch_iterations`); whoever iterates asks for the
watcher (`watcher`), tells it after each iteration how far it is, and offers its state: arrays by name
that nothing changes later. The watcher may keep them, and give them back when the same work is begun
again. Work is the same if its key is: plain values that say what is solved.

The distance from the goal falls by the same factor in the same time, as a rule. With its logarithm at
the first iteration that was watched, and now, relative to a goal of 1:

    (1)  seconds left = (seconds since then) · log now / (log then − log now)

A watcher is known in the thread that it was named in, and in no thread of a pool.
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
    """How far an iteration is."""

    number: int
    residual: float  # relative to the right-hand sides
    seconds_left: float | None  # None while unknown


class Watcher(Protocol):
    """Follows the iterations of one piece of work after another."""

    @property
    def replaceable(self) -> bool:
        """Whether the work may be given up, because there is another result."""

    def begin(self, key: Key) -> Arrays | None:
        """Work begins; the state that was kept of it, if any."""

    def iterated(self, iteration: Iteration, state: Callable[[], Arrays]) -> None:
        """The work that has begun is so far."""

    def end(self) -> None:
        """It has come to its end, and its state is of no more use."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("onefold_watcher", default=None)


def watcher() -> Watcher | None:
    """Who watches the iterations of this thread; None where nobody does."""
    return _WATCHER.get()


@contextmanager
def watch_iterations(watching: Watcher | None) -> Iterator[None]:
    """Let somebody watch the iterations in the context."""
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
