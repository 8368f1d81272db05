"""How far a long piece of work has come, for whoever listens: a callback in the context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("onefold_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(done, total)`` for every step of an iteration inside the context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(done: int, total: int) -> None:
    """Say that so many steps are done of `total` at most."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(done, total)
