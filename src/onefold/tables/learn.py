"""Learning the preparation of a table from blocks of the rows that a model is tuned on.

Memory gives it one block, a table on disk many; counts, moments and medians add, so that both learn the
same, to rounding. Medians are exact for one block and for up to 16384 values; of more in several blocks
their rank is right to 0.1 % (:mod:`onefold.tables.medians`), and a note says so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from onefold.tables.column_learning import NumberColumn, TextColumn, TimeColumn
from onefold.tables.columns import kind_of
from onefold.tables.errors import Remedy, TableError, counts, listing
from onefold.tables.features import Numbers, Part, Times, Truths
from onefold.tables.prepare import Preparation, refuse_missing
from onefold.tables.rows import TableRows
from onefold.tables.suspects import empty_or_distinct, unnamed

Missing = Literal["error", "impute"]
_ORDER = (Numbers, Times, Truths)  # of the features; then categories, then columns that only have gaps


def learn_preparation(
    rows: TableRows,
    exclude: Collection[str] = (),
    missing: Missing = "impute",
    categorical: Collection[str] = (),
) -> Preparation:
    """Learn how to turn rows of this table, all of them in memory, into rows of a matrix.

    Parameters
    ----------
    rows : Rows
        The rows a model will be tuned on.
    exclude : collection of str
        Columns that are not features: target, weights, groups, identifiers, dropped ones.
    missing : {"impute", "error"}
        Fill missing values with the median or the most frequent, and say where they were in a feature
        of their own; or refuse them.
    categorical : collection of str
        Columns whose values are categories, even if they look like numbers or dates.
    """
    learner = Learner(exclude, missing, categorical)
    learner.add(rows)
    return learner.finish()


class Learner:
    """Learns a preparation from blocks of rows; the parameters are those of `learn_preparation`.

    Attributes
    ----------
    rows : int
        How many have been added.
    gaps : dict
        How many values each column lacks.
    """

    def __init__(
        self,
        exclude: Collection[str] = (),
        missing: Missing = "impute",
        categorical: Collection[str] = (),
    ) -> None:
        if missing not in {"error", "impute"}:
            raise TableError(f"missing is 'error' or 'impute', not '{missing}'")
        self._exclude, self._missing, self._codes = set(exclude), missing, set(categorical)
        self.rows = 0
        self.gaps: dict[str, int] = {}
        self._columns: dict[str, _Column] = {}
        self._nameless: dict[str, None] = {}

    def add(self, rows: TableRows) -> None:
        """Take a block of rows; raises where a column can't be used, with the row."""
        self.rows += len(rows)
        for place, name in enumerate(rows.names):
            if name in self._exclude:
                continue
            if unnamed(name) and name not in self._codes:
                if not empty_or_distinct(rows, name):
                    raise TableError(
                        f"column {place + 1} has no name in the header",
                        ["name it", Remedy("drop", [name])],
                    )
                self._nameless[name] = None
                continue
            column = self._columns.setdefault(name, _Column(name, name in self._codes))
            column.add(rows)

    def finish(self) -> Preparation:
        """The preparation; raises if there is nothing to learn from, or what is missing is refused."""
        if self.rows == 0:
            raise TableError("the table has no rows")
        if not self._columns:
            raise TableError("the table has no column left to predict from")
        infinite = [name for name, column in self._columns.items() if column.infinite]
        if infinite:
            raise TableError(f"infinite values in {listing(infinite)}; remove or replace them")
        self.gaps = {name: column.gaps for name, column in self._columns.items() if column.gaps}
        if self._missing == "error":
            drop, impute = Remedy("drop", list(self.gaps)), Remedy("missing", "impute")
            refuse_missing(self.gaps, self.rows, ["fill them in", drop, impute])
        identifiers = tuple(name for name, one in self._columns.items() if one.identifies(self.rows))
        used = {name: one for name, one in self._columns.items() if name not in identifiers}
        if not used:
            raise TableError(f"every column looks like an identifier ({listing(identifiers)})")
        found = {name: column.part(self.rows) for name, column in used.items()}
        parts = [part for part in found.values() if part is not None]
        constant = tuple(name for name, part in found.items() if part is None)
        if not parts:
            raise TableError(f"every column is constant ({listing(constant)}): nothing to learn")
        return Preparation(
            parts=tuple(sorted(parts, key=_place)),
            missing=self._missing,
            constant=constant,
            row_numbers=tuple(self._nameless),
            identifiers=identifiers,
        )

    def notes(self) -> list[str]:
        """What was done about gaps, and which medians are not exact."""
        notes = []
        gaps = {name: count for name, count in self.gaps.items() if count < self.rows}
        if gaps:
            words = "by the median or the most frequent value, with a feature that says where"
            notes.append(f"missing values filled in {words}: {counts(gaps.items(), self.rows)}")
        if any(column.sketched for column in self._columns.values()):
            notes.append("medians, which fill in what is missing, are right to 0.1 % of the rows")
        return notes


class _Column:
    """One column over all blocks; its kind is that of the first block in which it has a value."""

    def __init__(self, name: str, codes: bool) -> None:
        self.name = name
        self.gaps = 0
        self._codes = codes
        self._kind = ""
        self._learned: Any = None

    @property
    def infinite(self) -> bool:
        return isinstance(self._learned, NumberColumn) and self._learned.infinite

    def identifies(self, rows: int) -> bool:
        """Whether its texts tell rows apart; columns that the user calls categories never do."""
        text = isinstance(self._learned, TextColumn) and not self._codes
        return text and self._learned.identifies(rows)

    @property
    def sketched(self) -> bool:
        return self._learned is not None and not self._learned.median.exact

    def add(self, rows: TableRows) -> None:
        if self._codes:
            kind = "text" if kind_of(rows.text(self.name)) != "empty" else "empty"
        else:
            if self.name in rows.problems:
                codes = Remedy("categorical", [self.name], "if the values are codes")
                raise rows.problems[self.name].with_remedy(codes)
            kind = kind_of(rows.column(self.name))
        if kind == "empty":
            self.gaps += len(rows)
            return
        kind = {"boolean": "text"}.get(kind, kind)
        if kind == "other":
            raise _unusable(rows, self.name)
        if self._learned is None:
            self._kind, self._learned = kind, self._begin(kind, rows)
        if kind != self._kind:
            raise TableError(
                f"column '{self.name}' holds values of one kind first and of another from data row "
                f"{rows.start + 1} on; write it with one type"
            )
        self.gaps += self._learned.add(rows)

    def part(self, rows: int) -> Part | None:
        found: Part | None = None if self._learned is None else self._learned.part(self.gaps, rows)
        if found is None and 0 < self.gaps < rows:
            return Part(self.name, gaps=True)  # all its values are equal, but not all are there
        return found

    def _begin(self, kind: str, rows: TableRows) -> Any:
        if kind == "numeric":
            return NumberColumn(self.name)
        if kind == "date":
            return TimeColumn(self.name)
        # A column of a type for categories was meant to be one.
        meant = self._codes or "dictionary" in str(rows.columns.column(self.name).type)
        return TextColumn(self.name, meant)


def _unusable(rows: TableRows, name: str) -> TableError:
    kind = str(rows.column(name).type)
    encoding = " (is the file saved with UTF-8 encoding?)" if "binary" in kind else ""
    return TableError(
        f"values of type {kind} in '{name}'{encoding}", ["convert them", Remedy("drop", [name])]
    )


def _place(part: Part) -> int:
    if type(part) is Part:
        return len(_ORDER) + 1
    return _ORDER.index(type(part)) if type(part) in _ORDER else len(_ORDER)
