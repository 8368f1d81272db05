"""Warnings that name the user's line, however deep in the package their reason lies."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PACKAGE = __name__.split(".")[0]
_BETWEEN = "sklearn.callback"  # wraps methods of the package


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the nearest caller outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _inside(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _inside(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.split(".")[0] == _PACKAGE or name.startswith(_BETWEEN)
