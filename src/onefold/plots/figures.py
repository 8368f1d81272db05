"""A figure that belongs to nobody's window, and the file it goes to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from onefold.machine.replacing import replacing


def new_figure(width: float, height: float) -> Any:
    """A matplotlib Figure of its own: no window, no global state, nothing for the caller to close."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "onefold[plot]"') from error
    return Figure(figsize=(width, height))


def write_figure(figure: Any, path: str | os.PathLike[str], dpi: int) -> None:
    """Write a figure, whole or not at all; the suffix of the path gives its format."""
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=dpi)
