"""Who is told of a search's progress: the screen, a function, scikit-learn's callbacks."""

from __future__ import annotations

import sys
from typing import Any

from onefold.estimators.callbacks import Tasks
from onefold.machine.notebook import LiveLine, in_notebook
from onefold.search.remaining import Remaining, duration_words, part_words


class Telling:
    """The callback of one search, on behalf of an estimator; `tasks` are set once they have begun."""

    def __init__(self, estimator: Any) -> None:
        self._name, self._verbose = type(estimator).__name__, estimator.verbose
        self._callback = estimator.callback
        self._remaining, self._live = Remaining(), LiveLine()
        self._enough = self._passed_on = False
        self.tasks: Tasks | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        if self._verbose:
            self._write(event)
        if self._callback is not None:
            self._callback(event)
        self._enough |= self.tasks is not None and self.tasks.evaluated()
        if self._enough and not self._passed_on and event["best_score"] is not None:
            self._passed_on = True  # a second one would end the fit
            raise KeyboardInterrupt("a callback wants no more evaluations")

    def _write(self, event: dict[str, Any]) -> None:
        """One line after the other; in a notebook the same one again and again."""
        line = f"[{self._name}] {self._line(event)}"
        if in_notebook():
            self._live.show(line, min(1.0, event["done"] / max(event["total"], 1)))
        else:
            sys.stderr.write(f"{line}\n")

    def _line(self, event: dict[str, Any]) -> str:
        best = "none yet" if event["best_score"] is None else f"{event['best_score']:.6g}"
        line = f"{part_words(event)}, best score {best} {event['best_params']}"
        left = self._remaining.seconds(event)
        return f"{line}, {duration_words(left)} left" if left else line
