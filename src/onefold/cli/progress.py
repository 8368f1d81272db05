"""A progress bar on stderr: redrawn in place on a terminal, a line now and then in a log."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from onefold.facts.ran import group_words
from onefold.machine.speed import duration_words
from onefold.search.loop import progress_words

_WIDEST, _NARROWEST = 28, 6  # bars
_LOG_EVERY_SECONDS = 10.0


class Progress:
    """Follow a search; an instance is the ``callback`` of an estimator.

    Parameters
    ----------
    stream : text stream or None
        Where to draw; None for silence.
    describe : callable
        Words for the best score so far.
    rounds_score : bool, default=False
        Whether rounds of metrics are scored by the same measure, not by the rows they are learned from.
    """

    def __init__(
        self, stream: TextIO | None, describe: Callable[[float], str], *, rounds_score: bool = False
    ) -> None:
        self._stream = stream
        self._describe = describe
        self._rounds_score = rounds_score
        self._terminal = stream is not None and stream.isatty()
        self._last_line = time.monotonic()
        self._drawn = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        if self._stream is None:
            return
        words = [progress_words(event)]
        if event["left"]:
            words.append(f"{duration_words(event['left'])} left")
        best = self._best(event)
        text = ", ".join([*words, f"best so far {best}"] if best else words)
        if self._terminal:
            done = min(1.0, int(event["done"]) / max(int(event["total"]), 1))
            self._redraw(self._with_bar(text, done))
        elif time.monotonic() - self._last_line >= _LOG_EVERY_SECONDS:
            self._last_line = time.monotonic()
            print(f"onefold: {text}", file=self._stream, flush=True)

    def _best(self, event: Mapping[str, Any]) -> str:
        score, params = event.get("best_score"), event.get("best_params") or {}
        if score is None:
            return ""
        own_measure = self._rounds_score or event["part"] == "all rows" or "round" not in params
        words = [group_words(params)] if "round" in params else []
        return ", ".join([*words, self._describe(float(score))] if own_measure else words)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            self._redraw("")

    def _with_bar(self, text: str, done: float) -> str:
        """The text after a bar, within the terminal: the bar gives way first, then the text's end."""
        columns = self._columns() - 1  # the last one makes some terminals wrap
        width = min(_WIDEST, columns - len(text) - 3)
        if width < _NARROWEST:
            return text if len(text) <= columns else text[: max(columns - 1, 0)] + "…"
        filled = int(width * done)
        return f"[{'█' * filled}{'·' * (width - filled)}] {text}"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns if self._stream else 0
        except (OSError, ValueError):  # no terminal after all, or one that does not say
            return shutil.get_terminal_size().columns

    def _redraw(self, text: str) -> None:
        if self._stream is not None:
            # Spaces over what the longer line before has left, then back to the first column.
            over = min(self._drawn, self._columns() - 1)
            self._stream.write("\r" + text.ljust(over) + ("" if text else "\r"))
            self._stream.flush()
            self._drawn = len(text)
