"""Rows in memory: named columns and, for svmlight files, a sparse block of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onefold.tables.errors import TableError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_matrix

__all__ = ["Rows", "rows_of_frame"]


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a table.

    Parameters
    ----------
    columns : pyarrow.Table
        The named columns.
    sparse : scipy.sparse.csr_matrix or None
        The features of an svmlight file, which have numbers rather than names.
    start : int
        How many rows of the table come before these; error messages count with it.
    auxiliary : frozenset of str
        Columns that can be asked for by name but are never taken as features by themselves.
    """

    columns: pa.Table
    sparse: csr_matrix | None = None
    start: int = 0
    auxiliary: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return int(self.columns.num_rows if self.sparse is None else self.sparse.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.column_names)

    def column(self, name: str, role: str = "column") -> pa.ChunkedArray:
        """One column by name; `role` words the error ("target column", "weight column", …)."""
        if name not in self.columns.column_names:
            raise TableError(f"there is no {role} '{name}'; {did_you_mean(name, self.names)}")
        return self.columns.column(name)

    def slices(self, rows: int) -> Iterator[Rows]:
        """The same rows in blocks of at most `rows`."""
        for begin in range(0, len(self), rows):
            yield replace(
                self,
                columns=self.columns.slice(begin, rows),
                sparse=None if self.sparse is None else self.sparse[begin : begin + rows],
                start=self.start + begin,
            )

    def take(self, indices: Sequence[int] | Any) -> Rows:
        """The rows with these positions, in this order."""
        return replace(
            self,
            columns=self.columns.take(indices),
            sparse=None if self.sparse is None else self.sparse[indices],
            start=0,
        )


def rows_of_frame(frame: Any) -> Rows:
    """Rows of a pandas, polars or Arrow table (anything with the Arrow stream interface)."""
    import pyarrow as pa

    if isinstance(frame, Rows):
        return frame
    if isinstance(frame, pa.Table):
        return Rows(frame)
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__dataframe__"):
        raise TableError(
            f"a table is a path or a pandas, polars or pyarrow table, not {type(frame).__name__}"
        )
    try:
        return Rows(pa.table(frame))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(f"the table has a column of mixed types ({error})") from error
