r"""One partition of a Dask collection, as the task that works on it sees it.

Nothing here knows Dask: these are the pure functions that run where the partition is. They take rows out
of it block by block, so that a task holds the partition and a block, never a second copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onefold.linalg import is_sparse
from onefold.machine.threads import spans

_BLOCK_BYTES = 16 * 2**20  # of rows converted at once


class Partition:
    """The rows of a partition, or those of them that are kept: indexing gives NumPy rows of one dtype.

    Parameters
    ----------
    rows : NumPy array (rows, d) or pandas DataFrame
    kept : int array or None
        Numbers of the rows that count; None for all.
    dtype : NumPy dtype
    """

    ndim = 2

    def __init__(self, rows: Any, kept: Any | None, dtype: Any) -> None:
        self._rows, self._kept, self.dtype = rows, kept, np.dtype(dtype)
        self.shape = (len(rows) if kept is None else len(kept), int(rows.shape[1]))

    def __getitem__(self, index: Any) -> Any:
        index = index if self._kept is None else self._kept[index]
        if hasattr(self._rows, "iloc"):
            return self._rows.iloc[index].to_numpy(dtype=self.dtype, na_value=np.nan)
        return np.asarray(self._rows[index], dtype=self.dtype)


class Look(NamedTuple):
    """What one look at a partition finds.

    Attributes
    ----------
    rows : int
    dtype : str
        Of the rows taken together; empty where there are none.
    largest : float
        The largest absolute value.
    trouble : str or None
        Why the partition cannot be used.
    """

    rows: int
    dtype: str
    largest: float
    trouble: str | None


def look_at(rows: Any, number: int, names: Sequence[Any] | None, features: int) -> Look:
    """Count the rows of partition `number`, find their dtype and whether they can be used."""
    trouble = _unusable(rows, number, names, features)
    if trouble is not None:
        return Look(0, "", 0.0, trouble)
    if not len(rows):
        return Look(0, "", 0.0, None)
    dtype, largest = _dtype_of(rows), 0.0
    part = Partition(rows, None, dtype)
    for run in _runs(part):
        block = np.abs(part[run])
        if not np.all(np.isfinite(block)):
            column = int(np.flatnonzero(~np.isfinite(block).all(axis=0))[0])
            return Look(0, "", 0.0, not_finite(number, column if names is None else names[column]))
        largest = max(largest, float(block.max(initial=0.0)))
    return Look(len(rows), dtype.str, largest, None)


def not_finite(number: int, column: Any) -> str:
    """What is wrong with a partition that holds NaN or infinity."""
    return (
        f"X contains NaN or infinity in column {column!r} of partition {number}; impute or drop those "
        "rows."
    )


def _unusable(rows: Any, number: int, names: Sequence[Any] | None, features: int) -> str | None:
    """Why a partition holds no rows of numbers; None if it does."""
    here = f"partition {number} of X"
    if names is not None:
        if not hasattr(rows, "iloc") or list(rows.columns) != list(names):
            return f"{here} has other columns than the first; give all partitions the same columns."
        return _text_column(rows.dtypes, f"of partition {number}")
    if is_sparse(rows) or not isinstance(rows, np.ndarray):
        return (
            f"{here} is a {type(rows).__name__}; convert it with X.map_blocks(numpy.asarray), and name "
            "the device with device=..."
        )
    if isinstance(rows, np.ma.MaskedArray) and np.ma.is_masked(rows):
        return f"{here} has masked values; impute or drop those rows."
    if rows.ndim != 2 or rows.shape[1] != features:
        return f"{here} has the shape {rows.shape}; give all partitions {features} columns."
    if rows.dtype.kind not in "biuf":
        return f"{here} holds {rows.dtype} and not real numbers; encode them as numbers first."
    return None


def _text_column(dtypes: Any, where: str) -> str | None:
    """The first column of a table that holds no real numbers, in a sentence."""
    from pandas.api.types import is_complex_dtype, is_numeric_dtype

    for name, dtype in dtypes.items():
        if not is_numeric_dtype(dtype) or is_complex_dtype(dtype):
            return (
                f"column {name!r} {where} holds text, or other values that are no real numbers "
                f"({dtype}); encode it as numbers first, for example with "
                "sklearn.preprocessing.OneHotEncoder, or leave it out."
            )
    return None


def _dtype_of(rows: Any) -> Any:
    """The dtype of the rows taken together, float64 for what is no float32 or float64."""
    if hasattr(rows, "iloc"):
        # Columns of pandas' own types have a place for missing values: they are read as float64.
        plain = [d if isinstance(d, np.dtype) else np.dtype(np.float64) for d in rows.dtypes]
        return common_dtype(plain)
    return common_dtype([rows.dtype])


def common_dtype(dtypes: Sequence[Any]) -> Any:
    """That of rows of these dtypes on top of each other, as a fit would convert them."""
    found = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    return found if found in (np.float32, np.float64) else np.dtype(np.float64)


def _runs(part: Partition) -> Any:
    """Blocks of rows that are converted at once."""
    return spans(part.shape[0], max(1, _BLOCK_BYTES // (8 * max(1, part.shape[1]))))


def require_length(rows: Any, length: int) -> None:
    """Raise if a partition has not as many rows as when it was looked at."""
    if len(rows) != length:
        raise ValueError(
            f"a partition of X had {length} rows when it was first read and has {len(rows)} now; give "
            "rows that are the same whenever they are computed, for example X.persist()."
        )


def picked_rows(rows: Any, index: Any, dtype: Any, length: int) -> Any:
    """The rows with the given numbers of a partition of that length."""
    require_length(rows, length)
    return Partition(rows, None, dtype)[index]


class Moments(NamedTuple):
    """Number, mean and squared deviations from it of some numbers."""

    size: int
    mean: float
    squares: float

    def joined(self, other: Moments) -> Moments:
        """Those of both sets of numbers."""
        size = self.size + other.size
        if not size:
            return self
        apart = other.mean - self.mean
        share = other.size / size
        squares = self.squares + other.squares + apart * apart * self.size * share
        return Moments(size, self.mean + apart * share, squares)


def moments_of(rows: Any, kept: Any | None) -> Moments:
    """Of all entries of the rows that size, in float64."""
    part, total = Partition(rows, kept, np.float64), Moments(0, 0.0, 0.0)
    for run in _runs(part):
        block = part[run]
        mean = float(block.mean())
        total = total.joined(Moments(block.size, mean, float(np.sum((block - mean) ** 2))))
    return total
