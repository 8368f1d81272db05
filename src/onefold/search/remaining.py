r"""How long a part of a search will still take, from its own pace:

    left = (seconds since the part began) / (evaluations since) · (evaluations to come)

What a journal knew costs nothing and is not counted; nor are rounds that nobody has proposed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Remaining:
    """Follows the events of one search, as a callback gets them."""

    def __init__(self) -> None:
        self._part: Any = None
        self._begun = self._last = 0.0
        self._before = 0

    def seconds(self, event: Mapping[str, Any]) -> float:
        """Seconds that are left for the part of the event."""
        done, now = int(event["done"]), float(event["seconds"])
        if event["part"] != self._part:
            self._part, self._begun, self._before = event["part"], self._last, done - 1
        self._last = now
        pace = (now - self._begun) / max(done - self._before, 1)
        return max(pace, 0.0) * max(int(event["total"]) - done, 0)


def part_words(event: Mapping[str, Any]) -> str:
    """How far a search is: ``rounds: 12/36 kernels``; a search in one part needs no name for it."""
    done, total, part = int(event["done"]), int(event["total"]), str(event["part"])
    name = "" if part == "grid" else f"{part}: "
    return f"{name}{min(done, total)}/{total} kernels"
