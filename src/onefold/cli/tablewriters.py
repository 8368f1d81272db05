"""Writers that take columns block by block."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet


class Writer(Protocol):
    """Something that takes blocks of named columns, the same names every time."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Append a block; columns are NumPy arrays or Arrow columns of one length."""


class CsvWriter:
    """CSV with a header line, to an open text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._started = False

    def write(self, columns: Mapping[str, Any]) -> None:
        if not self._started:
            self._writer.writerow(columns)
            self._started = True
        values = [_plain(column) for column in columns.values()]
        self._writer.writerows(zip(*values))


class ParquetWriter:
    """A Parquet file; the first block decides the column types."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        table: pa.Table = pa.table(dict(columns))
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _plain(column: Any) -> list[Any]:
    """Python values as a CSV shows them: booleans in lower case, as other tools read them."""
    values = column.tolist() if hasattr(column, "tolist") else column.to_pylist()
    return [str(value).lower() if isinstance(value, bool) else value for value in values]
