"""The one exception of this package: a cause, and what to do about it.

A remedy is a parameter with a value. Python reads ``drop=['age']``, whoever uses the command line
``--drop age``; remedies that the running command has no option for are not offered there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

_SHOWN = 8
# Fields of Reading.
_OF_FILES = ("decimal", "thousands", "delimiter", "encoding", "na_values", "dayfirst", "sheet")
_ESTIMATORS = {"classification": "TableClassifier", "regression": "TableRegressor"}


class Remedy(NamedTuple):
    """A parameter to set, in which case (``"if they are codes"``), and one to set with it."""

    name: str
    value: Any
    when: str = ""
    also: Remedy | None = None


class TableError(ValueError):
    """A table that cannot be used as it is; the message says why and what to do.

    Parameters
    ----------
    cause : str
    remedies : sequence of Remedy and str
        What may be done, most likely first; text is shown as it is.
    options : sequence of str
        Parameters that are named before the cause.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from onefold import TableRegressor
    >>> from onefold.tables import TableError
    >>> try:
    ...     TableRegressor().fit(pa.table({"a": [1.0, 2.0], "y": [1.0, None]}), "y")
    ... except TableError as error:
    ...     print(type(error).__name__)
    TableError
    """

    def __init__(
        self, cause: str, remedies: Sequence[Remedy | str] = (), options: Sequence[str] = ()
    ) -> None:
        super().__init__(cause, remedies, options)
        self.cause = cause
        self.remedies = tuple(remedies)
        self.options = tuple(options)

    def __str__(self) -> str:
        return self.spelled(_as_python, str)

    def spelled(self, spell: Callable[[Remedy], str | None], name: Callable[[str], str]) -> str:
        """The sentence with its remedies as `spell` writes them, without those that it makes None of.

        Parameters are called as `name` has it.
        """
        shown: list[str] = []
        after_use = False
        for remedy in self.remedies:
            words = remedy if isinstance(remedy, str) else spell(remedy)
            if words is None:
                continue
            if isinstance(remedy, Remedy):
                words = f"{'' if after_use else 'use '}{words} {remedy.when}".rstrip()
            after_use = isinstance(remedy, Remedy)
            shown.append(words)
        words = ", or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
        cause = " and ".join(map(name, self.options)) + self.cause
        return f"{cause}; {words}" if shown else cause

    def with_remedy(self, remedy: Remedy | str) -> TableError:
        """The same error with one more remedy."""
        return TableError(self.cause, (*self.remedies, remedy), self.options)


class SeveralProblems(TableError):
    """All that is wrong with the columns of a table."""

    def __init__(self, problems: Sequence[TableError]) -> None:
        super().__init__(f"the table has {len(problems)} problems")
        self.args = (problems,)
        self.problems = tuple(problems)

    def spelled(self, spell: Callable[[Remedy], str | None], name: Callable[[str], str]) -> str:
        """The sentences one after another."""
        each = (
            f"({place}) {one.spelled(spell, name)}" for place, one in enumerate(self.problems, start=1)
        )
        return f"{self.cause}: " + ". ".join(each)


def raise_all(problems: Sequence[TableError]) -> None:
    """Raise what there is of problems, several of them as one error."""
    if problems:
        raise problems[0] if len(problems) == 1 else SeveralProblems(problems)


def _as_python(remedy: Remedy) -> str:
    if remedy.name == "task":
        return _ESTIMATORS[remedy.value]
    settings = {
        one.name: f"{one.name}={one.value!r}" for one in (remedy, remedy.also) if one is not None
    }
    of_files = ", ".join(setting for name, setting in settings.items() if name in _OF_FILES)
    others = [setting for name, setting in settings.items() if name not in _OF_FILES]
    return ", ".join([*([f"Reading({of_files})"] if of_files else []), *others])


def listing(names: Iterable[str]) -> str:
    """Quote names for a sentence, the first eight of them at most."""
    quoted = [f"'{name}'" for name in names]
    hidden = len(quoted) - _SHOWN
    if hidden > 0:
        return ", ".join(quoted[:_SHOWN]) + f" and {hidden} more"
    return ", ".join(quoted)


def counts(missing: Iterable[tuple[str, int]], n_rows: int) -> str:
    """Columns with how many values they lack, the largest number first."""
    ordered = sorted(missing, key=lambda item: -item[1])
    shown = ", ".join(f"'{name}' ({count} of {n_rows} rows)" for name, count in ordered[:_SHOWN])
    return shown + (f" and {len(ordered) - _SHOWN} more columns" if len(ordered) > _SHOWN else "")


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """The end of a "no such column" sentence: the nearest names, or all of them."""
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(name).lower(), list(lowered), n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"'{lowered[match]}'" for match in near) + "?"
    return f"the columns are {listing(choices)}"
