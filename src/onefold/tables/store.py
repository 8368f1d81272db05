"""Where the encoded rows of a table are kept: in memory, or in a file that the search maps.

How wide the matrix is depends on the categories of the columns, so this is decided between the two
passes over a table: the matrix goes to a float32 file if its table stays on disk, or if it would take
half of the free memory itself. The file lies in a folder that can be chosen (`scratch`).
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onefold.linalg import host_array
from onefold.machine import memory
from onefold.machine.files import atomic_write
from onefold.machine.memory import available_memory
from onefold.tables.errors import Remedy, TableError
from onefold.tables.kinds import Preparation, UnseenValues
from onefold.tables.rows import Table, TableRows

# The share of the free memory that a table and its matrix may take.
_MEMORY_SHARE = 0.5
# Copies of the test rows that simple models make while they are fitted and predict.
_COPIES = 4
_REMEDIES: list[Remedy | str] = [
    "free some space there",
    Remedy("scratch", "FOLDER", "to choose a folder on a disk with more space"),
    "use fewer rows",
]


def exceeds_memory(size: int) -> bool:
    """Whether so many bytes would leave too little memory for the search."""
    free = available_memory()
    return free is not None and size > _MEMORY_SHARE * free


def stays_on_disk(table: Table) -> bool:
    """Whether reading the whole table would leave too little memory for the search."""
    return not table.in_memory and exceeds_memory(table.bytes_in_memory())


def in_memory(table: Table) -> Table:
    """The rows of a table; the table itself where they stay on disk."""
    return table if stays_on_disk(table) else table.read()


def matrix_stays_on_disk(table: Table, n: int, width: int) -> bool:
    """Whether the matrix (n, width) of a table goes to a file."""
    return not table.in_memory or exceeds_memory(8 * n * width)


@contextmanager
def scratch_file(scratch: str | os.PathLike[str] | None, size: int) -> Iterator[Path]:
    """The name of a file of `size` bytes in a folder of its own; raise where there is no room for it.

    The folder is made in `scratch`, by default in that of the system for temporary files.
    """
    place = Path(tempfile.gettempdir() if scratch is None else scratch).absolute()
    room = shutil.disk_usage(place).free
    where = str(place)
    if memory.lies_in_memory(place):
        room = min(room, int(_MEMORY_SHARE * (memory.available_memory() or room)))
        where += ", which is kept in memory (tmpfs),"
    if size > room:
        raise TableError(
            f"the {_megabytes(size)} of encoded rows do not fit in memory, and {where} has only "
            f"{_megabytes(room)} of free space",
            _REMEDIES,
        )
    try:
        folder = tempfile.TemporaryDirectory(prefix="onefold-", dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        raise _not_written(size, place, error) from error
    with folder:
        yield Path(folder.name) / "rows.npy"


def write_matrix(preparation: Preparation, blocks: Iterable[TableRows], n: int, path: Path) -> Any:
    """The n rows of a table as a mapped float32 array in a file at `path`."""
    width = len(preparation.feature_names)
    dtype = np.lib.format.dtype_to_descr(np.dtype(np.float32))
    header = {"descr": dtype, "fortran_order": False, "shape": (n, width)}
    n_written = 0
    try:
        # Written, not mapped: a disk that gets full would end the process (SIGBUS).
        with atomic_write(path) as partial, partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                for rows in block.slices(preparation.rows_at_once):
                    matrix = preparation.transform(rows, UnseenValues())
                    file.write(matrix.astype(np.float32).data)
                    n_written += len(rows)
    except OSError as error:
        raise _not_written(4 * n * width, path.parent.parent, error) from error
    if n_written != n:
        raise TableError(
            f"the table had {n} rows and has {n_written} now; leave it as it is during the fit"
        )
    return np.load(path, mmap_mode="r")


class StackedMatrix:
    """Matrices one below the other: in memory or, once they are too large, in a float64 file.

    The file lies in `scratch` and is removed with `files`.
    """

    def __init__(self, scratch: str | os.PathLike[str] | None, files: ExitStack) -> None:
        self._scratch = scratch
        self._files = files
        self._matrices: list[np.ndarray] = []  # those that are not in the file
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._size = 0
        self._width = 0

    def append(self, matrix: Any) -> None:
        """Add the rows of an array or a CSR matrix."""
        self._matrices.append(np.ascontiguousarray(host_array(matrix)))
        self._size += self._matrices[-1].nbytes
        self._width = matrix.shape[1]
        if self._file is None and exceeds_memory(_COPIES * self._size):
            self._path = self._files.enter_context(scratch_file(self._scratch, self._size))
            self._file = self._files.enter_context(self._path.open("wb"))
        if self._file is not None:
            try:
                self._file.writelines(part.data for part in self._matrices)
                self._file.flush()
            except OSError as error:
                raise _not_written(self._size, Path(self._file.name).parent.parent, error) from error
            self._matrices.clear()

    def array(self) -> np.ndarray:
        """All rows."""
        if self._path is None:
            return np.concatenate(self._matrices)
        shape = (self._size // (8 * self._width), self._width)
        return np.memmap(self._path, np.float64, "r", shape=shape)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"


def _not_written(size: int, folder: Path, error: OSError) -> TableError:
    """The error for a file of `size` bytes that the disk refuses."""
    reason = os.strerror(error.errno or errno.ENOSPC).lower()
    return TableError(
        f"the {_megabytes(size)} of encoded rows cannot be written to {folder} ({reason})", _REMEDIES
    )
