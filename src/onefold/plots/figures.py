"""A figure that belongs to nobody's window, axes that notebooks show, and the file a picture goes to."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.machine.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MISSING = 'pictures need matplotlib: pip install "onefold[plot]"'
_PYPLOT_SIZE = (6.4, 4.8)


def new_figure(width: float, height: float) -> Any:
    """A matplotlib Figure of its own: no window, no global state, nothing for the caller to close."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return Figure(figsize=(width, height), layout="constrained")


def pyplot_axes() -> Axes:
    """Axes of a new figure of pyplot, which notebooks show."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return plt.subplots(figsize=_PYPLOT_SIZE, layout="constrained")[1]


def write_figure(figure: Any, path: str | os.PathLike[str], dpi: int) -> None:
    """Write a figure, whole or not at all; the suffix of the path gives its format."""
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=dpi)


@contextmanager
def quiet_about_letters() -> Iterator[None]:
    """Letters that the font does not have are drawn as boxes, which speak for themselves."""
    logger = logging.getLogger("matplotlib.mathtext")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*missing from font")
            yield
    finally:
        logger.setLevel(level)
