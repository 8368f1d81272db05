"""Rows in memory: named columns, and how they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import as_numbers, as_text, kind_of
from onefold.tables.errors import TableError, did_you_mean
from onefold.tables.reading import Reading


@dataclass(frozen=True)
class TableRows:
    """Consecutive rows of a table.

    Parameters
    ----------
    columns : pyarrow.Table
        The named columns.
    start : int
        How many rows of the table come before these; error messages count with it.
    reading : Reading
        How columns of text are to be read.
    written : pyarrow.Table or None
        Every column as the text it was in the file, missing values included, for formats of text.
    notes : mapping of column names to str
        What was assumed about columns, in words for whoever uses them.
    problems : mapping of column names to TableError
        Columns that can't be used; asking for one raises its error.
    remarks : tuple of str
        What was assumed about the file that they come from.
    """

    columns: pa.Table
    start: int = 0
    reading: Reading = field(default_factory=Reading)
    written: pa.Table | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, TableError] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.column_names)

    def require(self, name: str, option: str = "") -> None:
        """Refuse a column that there is not; `option` is where it was named."""
        if name not in self.names:
            self.column(name, role=f"{option} column".strip())

    def column(self, name: str, role: str = "column") -> pa.ChunkedArray:
        """One column by name; `role` words the error ("target column", "weight column", …)."""
        if name not in self.columns.column_names:
            raise TableError(f"there is no {role} '{name}'; {did_you_mean(name, self.names)}")
        if name in self.problems:
            raise self.problems[name]
        return self.columns.column(name)

    def numbers(self, name: str, role: str = "column") -> np.ndarray:
        """The values of a column as float64, NaN where missing."""
        return as_numbers(self.column(name, role), name, self.start, self.reading.format_of(name))

    def text(self, name: str) -> pa.ChunkedArray:
        """A column as it was written, where that is known, null where missing; else the column."""
        column, written = self.columns.column(name), self.raw(name)
        if pa.types.is_string(column.type) or not pa.types.is_string(written.type):
            return column
        return pc.if_else(pc.is_null(column), pa.scalar(None, pa.string()), written)

    def raw(self, name: str) -> pa.ChunkedArray:
        """A column as it was written, to the letter, where that is known, else the column."""
        return (self.columns if self.written is None else self.written).column(name)

    def weights(self, name: str) -> np.ndarray:
        """The column of weights; raises where one is negative or missing."""
        values = self.numbers(name, role="weight column")
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise TableError(
                f"the weight column '{name}' has {values[bad[0]]:g} in data row {bad[0] + 1}; "
                "weights are numbers that are not negative"
            )
        return values

    def groups(self, name: str) -> np.ndarray:
        """The column of groups, as numbers of them."""
        column = self.column(name, role="groups column")
        if kind_of(column) == "numeric":
            missing = int(np.isnan(as_numbers(column, name)).sum())
            values = column.to_numpy()  # exactly: numbers beyond 2**53 are groups of their own
        else:
            text = as_text(column, name)
            missing, values = int(text.null_count), np.asarray(text.to_pylist())
        if missing:
            raise TableError(
                f"missing values in '{name}' ({missing} of {len(self)} rows); every row needs a group"
            )
        codes: np.ndarray = np.unique(values, return_inverse=True)[1]
        return codes

    def select(self, names: Sequence[str]) -> TableRows:
        """The same rows with these columns alone."""
        written = None if self.written is None else self.written.select(list(names))
        return replace(self, columns=self.columns.select(list(names)), written=written)

    def slices(self, rows: int) -> Iterator[TableRows]:
        """The same rows in blocks of at most `rows`."""
        for begin in range(0, len(self), rows):
            yield replace(
                self,
                columns=self.columns.slice(begin, rows),
                written=None if self.written is None else self.written.slice(begin, rows),
                start=self.start + begin,
            )

    def take(self, indices: Sequence[int] | Any) -> TableRows:
        """The rows with these positions, in this order."""
        return replace(
            self,
            columns=_without_views(self.columns).take(indices),
            written=None if self.written is None else self.written.take(indices),
            start=0,
        )


def _without_views(table: pa.Table) -> pa.Table:
    """The same without string and binary views, such as polars has: Arrow cannot take rows of them."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return table.cast(pa.schema([one.with_type(plain.get(one.type, one.type)) for one in table.schema]))
