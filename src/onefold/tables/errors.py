"""The one exception of this package, and the sentences it is made of.

Sentences name settings as Python does, ``drop=['age']``; the command line says ``--drop age`` instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_SHOWN = 8


class TableError(ValueError):
    """A table that can't be used as it is; the message says why and what to do."""


def setting(name: str, value: Any) -> str:
    """A parameter with its value, as a sentence names it."""
    return f"{name}={value!r}"


def listing(names: Iterable[str]) -> str:
    """Quote names for a sentence, the first eight of them at most."""
    quoted = [f"'{name}'" for name in names]
    hidden = len(quoted) - _SHOWN
    if hidden > 0:
        return ", ".join(quoted[:_SHOWN]) + f" and {hidden} more"
    return ", ".join(quoted)


def counts(gaps: Iterable[tuple[str, int]], n_rows: int) -> str:
    """Columns with the rows that they lack, the worst first."""
    worst = sorted(gaps, key=lambda item: -item[1])
    shown = ", ".join(f"'{name}' ({count} of {n_rows} rows)" for name, count in worst[:_SHOWN])
    return shown + (f" and {len(worst) - _SHOWN} more columns" if len(worst) > _SHOWN else "")


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """The end of a "no such column" sentence: the nearest names, or all of them."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"'{lowered[match]}'" for match in near) + "?"
    return f"the columns are {listing(choices)}"
