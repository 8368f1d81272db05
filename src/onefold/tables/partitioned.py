"""Several Parquet files as one table: a pattern such as ``data/*.parquet``, or a folder of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from onefold.tables.errors import TableError, listing
from onefold.tables.parquet import ParquetSource
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource

_SUFFIX = ".parquet"


class PartitionedSource(TableSource):
    """The files of a pattern or a folder, in the order of their names; all have the same columns."""

    def __init__(self, path: Path) -> None:
        self.path = path if path.name else path.resolve()  # "." has no name to speak of
        self.paths = parquet_files(path)
        self._files = [ParquetSource(one) for one in self.paths]
        self.names = self._files[0].names
        for file in self._files:
            other = sorted(set(file.names) ^ set(self.names))
            if other:
                raise TableError(
                    f"{file.path.name} and {self.paths[0].name} differ in {listing(other)}; the files "
                    "of one table have the same columns"
                )

    def bytes_in_memory(self) -> int:
        return sum(file.bytes_in_memory() for file in self._files)

    def read(self) -> TableRows:
        tables = [file.read().columns.select(list(self.names)) for file in self._files]
        try:
            return TableRows(pa.concat_tables(tables, promote_options="permissive"))
        except pa.ArrowException as error:
            raise TableError(
                f"a column of {self.path.name} has numbers in some files and other values in others; "
                "write the files again with one type per column"
            ) from error

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        start = 0
        for file in self._files:
            count = 0
            for block in file.batches(rows, self.names if columns is None else columns):
                yield replace(block, start=start + block.start)
                count = block.start + len(block)
            start += count


def parquet_files(path: Path) -> list[Path]:
    """The files behind a pattern or in a folder, sorted; raise if there are none."""
    pattern, shown = str(path), str(path)
    if os.path.isdir(path):
        pattern, shown = (os.path.join(it, f"*{_SUFFIX}") for it in (glob.escape(pattern), pattern))
    found = sorted(one for one in glob.glob(pattern) if os.path.isfile(one))
    if not found:
        raise TableError(f"there is no Parquet file {shown}")
    other = [one for one in found if not one.lower().endswith(_SUFFIX)]
    if other:
        raise TableError(
            f"{path} stands for files that are no Parquet ({listing(other[:3])}), and only those "
            f"are joined to one table: use a pattern that ends in *{_SUFFIX}"
        )
    return [Path(one) for one in found]


def is_partitioned(path: Path) -> bool:
    """Whether a path is a pattern that no file has for a name, or a folder."""
    return os.path.isdir(path) or (glob.has_magic(str(path)) and not os.path.exists(path))
