"""A progress bar on stderr: redrawn in place on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from onefold.cli.choice import group_words

_WIDTH = 28
_LOG_EVERY_SECONDS = 10.0


class Progress:
    """Follow a search; an instance is the ``callback`` of an estimator.

    Parameters
    ----------
    stream : text stream or None
        Where to draw; None for silence.
    describe : callable
        Words for the best score so far.
    """

    def __init__(self, stream: TextIO | None, describe: Callable[[float], str]) -> None:
        self._stream = stream
        self._describe = describe
        self._terminal = stream is not None and stream.isatty()
        self._last_line = time.monotonic()
        self._drawn = 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        if self._stream is None:
            return
        done, total = int(event["done"]), int(event["total"])
        best, params = event.get("best_score"), event.get("best_params") or {}
        words = f"{done}/{total} kernels"
        if "round" in params:  # whose score may be another measure, that of the rows it is learned from
            words += f", best so far {group_words(params)}"
        elif best is not None:
            words += f", best so far {self._describe(float(best))}"
        if self._terminal:
            filled = _WIDTH * done // max(total, 1)
            self._redraw(f"[{'█' * filled}{'·' * (_WIDTH - filled)}] {words}")
        elif time.monotonic() - self._last_line >= _LOG_EVERY_SECONDS:
            self._last_line = time.monotonic()
            print(f"onefold: {words}", file=self._stream, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            self._redraw("")

    def _redraw(self, text: str) -> None:
        if self._stream is not None:
            # Spaces over what the longer line before has left, then back to the first column.
            self._stream.write("\r" + text.ljust(self._drawn) + ("" if text else "\r"))
            self._stream.flush()
            self._drawn = len(text)
