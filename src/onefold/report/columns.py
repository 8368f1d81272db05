"""The columns of whatever rows a person has: numbers with gaps, or codes of categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from onefold.linalg import is_sparse, to_numpy
from onefold.tables import TableError, TableRows, rows_of_frame
from onefold.tables.columns import as_text, kind_of

MOST_COLUMNS = 200  # that are looked at one by one


@dataclass(frozen=True)
class Column:
    """One column of the rows that a report looks at.

    Attributes
    ----------
    name : str
    values : ndarray (n,)
        float64 with NaN where missing; or codes of `categories` with -1 where missing.
    categories : tuple of str or None
        None for numbers.
    """

    name: str
    values: np.ndarray
    categories: tuple[str, ...] | None = None

    @property
    def absent(self) -> np.ndarray:
        """Which rows have no value."""
        return self.values < 0 if self.categories is not None else np.isnan(self.values)

    @property
    def distinct(self) -> int:
        """How many different values it has."""
        return len(np.unique(self.values[~self.absent]))

    def filled(self) -> np.ndarray:
        """The values without gaps: the median, or a category of its own."""
        absent = self.absent
        if self.categories is not None:
            return np.where(absent, len(self.categories), self.values)
        if absent.all():
            return np.zeros(len(self.values))
        return np.where(absent, np.median(self.values[~absent]), self.values)

    def at(self, rows: Any) -> Column:
        """The same column of some rows."""
        return Column(self.name, self.values[rows], self.categories)


def columns_of(X: Any, names: Sequence[str] | None = None) -> list[Column]:
    """The columns of an array, a sparse matrix, a frame or rows of a table; the first two hundred.

    `names` are those to look at of a frame or of rows of a table, and those of an array's columns.
    """
    if isinstance(X, TableRows) or hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__"):
        try:
            rows = rows_of_frame(X)
        except TableError:  # columns of mixed kinds, which a pipeline may well take
            found = getattr(X, "columns", [])[:MOST_COLUMNS]
            return [_of_array(str(name), np.asarray(X[name], dtype=object)) for name in found]
        wanted = [str(name) for name in (rows.names if names is None else names)]
        wanted = [name for name in wanted if name in rows.names][:MOST_COLUMNS]
        return [_of_table(rows, name) for name in wanted]
    if is_sparse(X):
        X = X[:, :MOST_COLUMNS].toarray()
    values = to_numpy(X)
    if values.ndim != 2:
        return []
    count = min(values.shape[1], MOST_COLUMNS)
    if names is None or len(names) != values.shape[1]:
        names = [f"feature {j}" for j in range(count)]
    return [_of_array(str(names[j]), values[:, j]) for j in range(count)]


def _of_table(rows: TableRows, name: str) -> Column:
    column = rows.columns.column(name)
    kind = kind_of(column)
    if kind in ("numeric", "empty"):
        return Column(name, _finite(rows.numbers(name)))
    if kind in ("date", "other"):
        return _of_texts(name, [None if value is None else str(value) for value in column.to_pylist()])
    text = as_text(column, name)
    coded = text.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        return _of_texts(name, text.to_pylist())
    codes = np.asarray(coded.indices.fill_null(-1), dtype=np.intp)
    return Column(name, codes, tuple(coded.dictionary.to_pylist()))


def _of_array(name: str, values: np.ndarray) -> Column:
    if values.dtype.kind in "biuf":
        return Column(name, _finite(np.asarray(values, dtype=np.float64)))
    try:
        return Column(name, _finite(values.astype(np.float64)))
    except (TypeError, ValueError):
        return _of_texts(name, [None if _missing(value) else str(value) for value in values.tolist()])


def _of_texts(name: str, texts: list[str | None]) -> Column:
    places: dict[str, int] = {}
    codes = [-1 if text is None else places.setdefault(text, len(places)) for text in texts]
    return Column(name, np.array(codes, dtype=np.intp), tuple(places))


def _missing(value: Any) -> bool:
    return value is None or value != value


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)
