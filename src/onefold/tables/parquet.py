"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from onefold.tables.errors import TableError
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource, rechunk


class ParquetSource(TableSource):
    """One Parquet file; blocks are decoded as they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._plain_errors():
            self.names = tuple(pyarrow.parquet.read_schema(path).names)
        self.check_names()

    def bytes_in_memory(self) -> int:
        with self._plain_errors():
            rows = pyarrow.parquet.read_metadata(self.path).num_rows
        return 3 * 8 * int(rows) * len(self.names)

    def read(self) -> TableRows:
        with self._plain_errors(), pyarrow.parquet.ParquetFile(self.path) as file:
            return TableRows(file.read())

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        wanted = list(self.names if columns is None else columns)
        start = 0
        with self._plain_errors(), pyarrow.parquet.ParquetFile(self.path) as file:
            for table in rechunk(file.iter_batches(batch_size=rows, columns=wanted), rows):
                yield TableRows(table.select(wanted), start=start)
                start += table.num_rows

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TableError(
                f"{self.path.name} is not a readable Parquet file; it is damaged, incomplete or of "
                "another format: write it again"
            ) from error
