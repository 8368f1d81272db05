"""Consecutive pieces of a range."""

from __future__ import annotations

from collections.abc import Iterator


def spans(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at most `step` that cover range(n)."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def even_spans(n: int, longest: int) -> Iterator[slice]:
    """As few slices as cover range(n) with at most `longest` each, all of nearly the same length."""
    pieces = max(1, -(-n // longest))
    return spans(n, max(1, -(-n // pieces)))
