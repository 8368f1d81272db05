"""svmlight / LIBSVM text files: sparse features with numbers instead of names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from onefold.tables.errors import TableError
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource


class SvmlightSource(TableSource):
    """A sparse table whose named columns are only ``target`` and, where given, ``qid``.

    Feature numbers stay as they are written, so that column 0 of the matrix is empty in files
    that count from one; whoever learns from the rows drops it with the other constant columns.
    """

    default_target = "target"
    sparse = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            first = next((line for line in file if _has_data(line)), None)
        if first is None:
            raise TableError(f"{path.name} is empty; a table needs rows")
        self.names = ("target", "qid") if b" qid:" in first else ("target",)
        self._parse([first], start=0)

    def read(self) -> TableRows:
        with self.path.open("rb") as file:
            return self._parse(file, start=0)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        wanted = list(self.names if columns is None else columns)
        start = 0
        with self.path.open("rb") as file:
            lines = filter(_has_data, file)
            while block := list(itertools.islice(lines, rows)):
                parsed = self._parse(block, start=start)
                yield TableRows(parsed.columns.select(wanted), sparse=parsed.sparse, start=start)
                start += len(parsed)

    def _parse(self, lines: Iterable[bytes], start: int) -> TableRows:
        try:
            loaded = load_svmlight_file(
                BytesIO(b"".join(lines)), zero_based=True, query_id="qid" in self.names
            )
        except (ValueError, OverflowError, IndexError) as error:
            raise TableError(
                f"{self.path.name} is not in svmlight format (lines of 'label number:value …'); "
                "a table with a header line should be named .csv or .tsv"
            ) from error
        X: csr_matrix = loaded[0]
        columns: dict[str, np.ndarray | pa.Array] = dict(zip(self.names, loaded[1:]))
        labels = loaded[1]
        if (labels == np.round(labels)).all() and np.abs(labels).max() < 2.0**53:
            columns["target"] = labels.astype(np.int64)  # written +1, -1
        return TableRows(pa.table(columns), sparse=X, start=start)


def _has_data(line: bytes) -> bool:
    return bool(line.split(b"#", 1)[0].strip())
