"""Warnings that name the user's line, however deep in the package their reason lies."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.split(".")[0]


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the nearest caller outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
