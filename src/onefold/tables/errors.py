"""The one exception of this package: a cause, and what to do about it.

A remedy is a parameter with a value. Python reads ``drop=['age']``, whoever uses the command line
``--drop age``; remedies that the running command has no option for are not offered there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from onefold.facts import words

# Names that a message lists; of more, their number is given.
_MOST_NAMED = 8
# Fields of `Reading` that a remedy can set.
_READING_FIELDS = ("decimal", "thousands", "delimiter", "encoding", "na_values", "dayfirst", "sheet")
_ESTIMATORS = {"classification": "TableClassifier", "regression": "TableRegressor"}


class Remedy(NamedTuple):
    """A parameter to set, in which case (``"if they are codes"``), and one to set with it."""

    name: str
    value: Any
    case: str = ""
    companion: Remedy | None = None


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
        """The message, with remedies written by `spell` and parameters by `name`.

        Remedies for which `spell` returns None are left out.
        """
        spelled_remedies: list[str] = []
        after_use = False
        for remedy in self.remedies:
            text = remedy if isinstance(remedy, str) else spell(remedy)
            if text is None:
                continue
            if isinstance(remedy, Remedy):
                text = f"{'' if after_use else 'use '}{text} {remedy.case}".rstrip()
            after_use = isinstance(remedy, Remedy)
            spelled_remedies.append(text)
        cause = " and ".join(map(name, self.options)) + self.cause
        if not spelled_remedies:
            return cause
        *earlier, last = spelled_remedies
        return f"{cause}; {', '.join(earlier)}, or {last}" if earlier else f"{cause}; {last}"

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
        sentences = (
            f"({number}) {problem.spelled(spell, name)}"
            for number, problem in enumerate(self.problems, start=1)
        )
        return f"{self.cause}: " + ". ".join(sentences)


def _as_python(remedy: Remedy) -> str:
    if remedy.name == "task":
        return _ESTIMATORS[remedy.value]
    parameters = [remedy] if remedy.companion is None else [remedy, remedy.companion]
    settings = {parameter.name: f"{parameter.name}={parameter.value!r}" for parameter in parameters}
    reading = ", ".join(setting for name, setting in settings.items() if name in _READING_FIELDS)
    arguments = [setting for name, setting in settings.items() if name not in _READING_FIELDS]
    if reading:
        arguments.insert(0, f"Reading({reading})")
    return ", ".join(arguments)


def listing(names: Iterable[str]) -> str:
    """Quote names for a message, the first eight of them at most."""
    return words.quoted(names, _MOST_NAMED, last=", ")


def counts(missing: Iterable[tuple[str, int]], n_rows: int) -> str:
    """Columns and how many values they lack, the largest number first."""
    ordered = sorted(missing, key=lambda item: -item[1])
    named = ", ".join(f"'{name}' ({count} of {n_rows} rows)" for name, count in ordered[:_MOST_NAMED])
    more = len(ordered) - _MOST_NAMED
    return f"{named} and {more} more columns" if more > 0 else named


def did_you_mean(name: str, choices: Sequence[str], noun: str = "columns") -> str:
    """The end of a "no such column" sentence: the nearest names, or all of them."""
    return words.did_you_mean(str(name), choices) or f"the {noun} are {listing(choices)}"
