"""svmlight / LIBSVM text files: columns of numbers ``x1``, ``x2``, … after the number in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

from onefold.machine.memory import available_memory
from onefold.tables.errors import TableError
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource

_SHARE = 0.25  # of the free memory that the filled table may take


class SvmlightSource(TableSource):
    """The columns ``target``, ``qid`` where given, and one for every feature that is ever nonzero.

    What a line leaves out is 0, also for features that no line of this file has.
    """

    default_target = "target"
    absent_is_zero = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            lines = (line.split(b"#", 1)[0].split() for line in file)
            first = next((line for line in lines if line), None)
        if first is None:
            raise TableError(f"{path.name} is empty; a table needs rows")
        self._queries = any(word.startswith(b"qid:") for word in first)
        used = np.flatnonzero(self._loaded[0].getnnz(axis=0))
        own = ("target", "qid") if self._queries else ("target",)
        self.names = (*own, *(f"x{number}" for number in used))

    @cached_property
    def _loaded(self) -> Any:
        """Features in columns of their numbers, then labels and queries."""
        try:
            X, *own = load_svmlight_file(str(self.path), zero_based=True, query_id=self._queries)
        except (ValueError, OverflowError, IndexError) as error:
            raise TableError(
                f"{self.path.name} is not in svmlight format (lines of 'label number:value …'); "
                "a table with a header line should be named .csv or .tsv"
            ) from error
        free, filled = available_memory(), 8 * X.shape[0] * int((X.getnnz(axis=0) > 0).sum())
        if free is not None and filled > _SHARE * free:
            raise TableError(
                f"{self.path.name} would take {filled / 2**30:.1f} GiB as a table; read it with "
                "sklearn.datasets.load_svmlight_file and fit LSSVCCV or LSSVRCV to the sparse matrix"
            )
        return X.tocsc(), *own

    def bytes_in_memory(self) -> int:
        """Of the filled table, which is known to fit."""
        return 0

    def read(self) -> TableRows:
        """All rows."""
        return self._rows(self.names)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Slices of the table; columns of features that this file lacks are 0."""
        return self._rows(self.names if columns is None else columns).slices(rows)

    def _rows(self, names: Sequence[str]) -> TableRows:
        X, labels, *queries = self._loaded
        if (labels == np.round(labels)).all() and np.abs(labels).max() < 2.0**53:
            labels = labels.astype(np.int64)  # written +1, -1
        own = dict(zip(("target", "qid"), (labels, *queries)))
        zero = np.zeros(X.shape[0])
        columns = {}
        for name in names:
            if name in own:
                columns[name] = own[name]
            else:
                number = int(name.removeprefix("x"))
                columns[name] = X[:, [number]].toarray()[:, 0] if number < X.shape[1] else zero
        return TableRows(pa.table(columns))
