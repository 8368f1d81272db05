"""Warnings that name the user's line, from any depth of the package and in any thread."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from typing import Any

_PACKAGE = __name__.split(".")[0]
# Modules that call the package's code.
_BETWEEN = ("sklearn.callback", "contextlib", "concurrent.futures", "threading")

Line = tuple[str, int, dict[str, Any]]
"""File, number, and the globals of its module."""

STARTED_FROM: ContextVar[Line | None] = ContextVar("onefold_line", default=None)
"""In a thread of a pool: the user's line that started it."""


def user_line() -> Line:
    """That of the nearest caller outside this package."""
    frame = sys._getframe(0)
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if _inside(frame.f_globals.get("__name__", "")) and (started := STARTED_FROM.get()) is not None:
        return started
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the nearest caller outside this package."""
    file, number, module_globals = user_line()
    registry = module_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, file, number, module_globals.get("__name__"), registry)


def _inside(module: str) -> bool:
    return module.split(".")[0] == _PACKAGE or module.startswith(_BETWEEN)
