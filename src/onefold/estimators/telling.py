"""The progress of a search: a line on the screen, and the user's function."""

from __future__ import annotations

import sys
from typing import Any

from onefold.machine.speed import duration_words
from onefold.search.remaining import Remaining, part_words


class Telling:
    """The callback of one search, on behalf of an estimator."""

    def __init__(self, estimator: Any) -> None:
        self._name, self._verbose = type(estimator).__name__, estimator.verbose
        self._callback, self._remaining = estimator.callback, Remaining()

    def __call__(self, event: dict[str, Any]) -> None:
        if self._verbose:
            best = "none yet" if event["best_score"] is None else f"{event['best_score']:.6g}"
            line = f"{part_words(event)}, best score {best} {event['best_params']}"
            if left := self._remaining.seconds(event):
                line += f", {duration_words(left)} left"
            sys.stderr.write(f"[{self._name}] {line}\n")
        if self._callback is not None:
            self._callback(event)
