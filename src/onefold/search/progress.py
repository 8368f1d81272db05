r"""The progress of a search: a line on the screen, the user's function, and how long it will still take.

    left = (seconds since the stage began) / (evaluations since) · (evaluations to come)

What a journal knew costs nothing and is not counted; nor are rounds that nobody has proposed yet.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from onefold.machine.speed import duration_words

Callback = Callable[[dict[str, Any]], None]


class Remaining:
    """Follows the events of one search, as a callback gets them."""

    def __init__(self) -> None:
        self._part: Any = None
        self._begun = self._last = 0.0
        self._before = 0

    def seconds(self, event: Mapping[str, Any]) -> float:
        """Seconds that are left for the stage of the event."""
        done, now = int(event["done"]), float(event["seconds"])
        if event["part"] != self._part:
            self._part, self._begun, self._before = event["part"], self._last, done - 1
        self._last = now
        pace = (now - self._begun) / max(done - self._before, 1)
        return max(pace, 0.0) * max(int(event["total"]) - done, 0)


def progress_words(event: Mapping[str, Any]) -> str:
    """How far a search is: ``300 rows: 12/36 kernels``; a search in one stage needs no name for it."""
    done, total, part = int(event["done"]), int(event["total"]), str(event["part"])
    name = "" if part == "grid" else f"{part}: "
    return f"{name}{min(done, total)}/{total} kernels"


class Progress:
    """The callback of one search on behalf of an estimator: a line if `verbose`, and the user's own."""

    def __init__(self, name: str, verbose: int, callback: Callback | None) -> None:
        self._name, self._verbose, self._callback = name, verbose, callback
        self._remaining = Remaining()

    def __call__(self, event: dict[str, Any]) -> None:
        if self._verbose:
            best = "none yet" if event["best_score"] is None else f"{event['best_score']:.6g}"
            line = f"{progress_words(event)}, best score {best} {event['best_params']}"
            if left := self._remaining.seconds(event):
                line += f", {duration_words(left)} left"
            sys.stderr.write(f"[{self._name}] {line}\n")
        if self._callback is not None:
            self._callback(event)
