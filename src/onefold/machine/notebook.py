"""What a notebook shows of a plan or a trust check: a small table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0"
_TITLE = "text-align:left;font-weight:bold"


def html_table(rows: Sequence[tuple[str, str]], caption: str) -> str:
    """Names and values, escaped; no colours, so that it suits light and dark pages."""
    cells = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:0.7">{escape(name)}</th>'
        f'<td style="{_CELL};max-width:45em">{escape(value)}</td></tr>'
        for name, value in rows
    )
    title = f'<caption style="{_TITLE}">{escape(caption)}</caption>'
    return f'<table style="border:none">{title}<tbody>{cells}</tbody></table>'
