"""The one exception of this package, and the sentences it is made of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_SHOWN = 8


class TableError(ValueError):
    """A table that can't be used as it is; the message says why and what to do."""


def listing(names: Iterable[str]) -> str:
    """Quote names for a sentence, the first eight of them at most."""
    quoted = [f"'{name}'" for name in names]
    hidden = len(quoted) - _SHOWN
    if hidden > 0:
        return ", ".join(quoted[:_SHOWN]) + f" and {hidden} more"
    return ", ".join(quoted)


def na_option(value: str) -> str:
    """The option that makes a value a missing one, as the shell takes it."""
    return f"--na-values{'=' if value.startswith('-') else ' '}'{value}'"


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """The end of a "no such column" sentence: the nearest names, or all of them."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"'{lowered[match]}'" for match in near) + "?"
    return f"the columns are {listing(choices)}"
