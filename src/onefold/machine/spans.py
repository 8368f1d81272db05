"""A range in consecutive pieces: work goes block by block."""

from __future__ import annotations

from collections.abc import Iterator


def spans(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at most `step` that cover range(n)."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
