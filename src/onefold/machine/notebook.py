"""What a notebook shows: small tables, and one line that is written anew while something runs.

IPython is not imported here: a notebook has it loaded, and nobody else needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from typing import Any

_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0"
_TITLE = "text-align:left;font-weight:bold"


def html_table(rows: Sequence[tuple[str, str]], caption: str = "") -> str:
    """Names and values, escaped; no colours, so that it suits light and dark pages."""
    cells = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:0.7">{escape(name)}</th>'
        f'<td style="{_CELL};max-width:45em">{escape(value)}</td></tr>'
        for name, value in rows
    )
    title = f'<caption style="{_TITLE}">{escape(caption)}</caption>' if caption else ""
    return f'<table style="border:none">{title}<tbody>{cells}</tbody></table>'


def in_notebook() -> bool:
    """Whether an IPython kernel runs this process; its terminal is a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class LiveLine:
    """A line below a notebook's cell, with a bar, that each call writes anew."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: float) -> None:
        """Write the line; `done` is the share between 0 and 1 that the bar shows."""
        bar = f'<progress value="{done:.3f}" max="1" style="width:12em"></progress>'
        shown = {"text/plain": text, "text/html": f"{bar} <code>{escape(text)}</code>"}
        if self._handle is None:
            display = sys.modules["IPython"].display.display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
