"""NumPy archives: a matrix X with y beside it, or one array per column."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from onefold.tables.errors import TableError
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource


class NpzSource(TableSource):
    """An .npz file.

    With a matrix ``X``: its columns are the features, named by the array ``feature_names`` or
    else ``x0, x1, …``; ``y`` and every other one-dimensional array with one entry per row can be
    named as target, groups, weight or id, but is not a feature. Arrays of other shapes are left
    alone. Without ``X``, every array is a column.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        arrays = _load(path)
        self._features = _matrix_columns(arrays, path.name) if "X" in arrays else {}
        self._others = _other_columns(arrays, path.name)
        self.names = (*self._features, *self._others)
        if self._features and "y" in self._others:
            self.default_target = "y"
        both = sorted(self._features.keys() & self._others.keys())
        if both:
            raise TableError(
                f"{path.name} has both a feature and an array named '{both[0]}'; rename one of them"
            )

    def read(self) -> TableRows:
        columns = {name: pa.array(_plain(a)) for name, a in (self._features | self._others).items()}
        auxiliary = frozenset(self._others) if self._features else frozenset[str]()
        return TableRows(pa.table(columns), auxiliary=auxiliary)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        everything = self.read()
        wanted = list(self.names if columns is None else columns)
        chosen = TableRows(everything.columns.select(wanted), auxiliary=everything.auxiliary)
        yield from chosen.slices(rows)


def _load(path: Path) -> dict[str, np.ndarray]:
    broken = f"{path.name} is not a readable .npz file; write it again with numpy.savez"
    if not zipfile.is_zipfile(path):
        raise TableError(broken)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, KeyError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise TableError(broken) from error
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise TableError(broken) from error
        raise TableError(
            f"{path.name} holds an array of Python objects; store numbers or fixed-width text"
        ) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TableError(f"'{name}' in {path.name} is no array; write it with numpy.savez")
        if array.dtype.kind not in "biufUSM":
            raise TableError(
                f"'{name}' in {path.name} has type {array.dtype}; store real numbers, booleans or text"
            )
    return arrays


def _plain(array: np.ndarray) -> np.ndarray:
    """An array that Arrow takes: native byte order, no extended precision, text for bytes."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    if array.dtype == np.longdouble:
        return array.astype(np.float64)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _matrix_columns(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    X = arrays["X"].reshape(-1, 1) if arrays["X"].ndim == 1 else arrays["X"]
    if X.ndim != 2:
        raise TableError(f"X in {name} has {X.ndim} dimensions; a table has rows and columns")
    titles = arrays.get("feature_names")
    names = [f"x{j}" for j in range(X.shape[1])] if titles is None else [str(t) for t in titles]
    if len(names) != X.shape[1]:
        raise TableError(f"{name} has {len(names)} feature_names for {X.shape[1]} columns of X")
    if len(set(names)) < len(names):
        raise TableError(f"feature_names in {name} repeats a name; give every column its own name")
    return {title: X[:, j] for j, title in enumerate(names)}


def _other_columns(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    if "X" not in arrays:
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise TableError(
                f"{name} needs a matrix X (and y), or one-dimensional arrays of one length; "
                f"it holds {', '.join(f'{k} {a.shape}' for k, a in arrays.items()) or 'nothing'}"
            )
        return arrays
    n_rows = len(arrays["X"])
    y = arrays.get("y")
    if y is not None and y.shape not in {(n_rows,), (n_rows, 1)}:
        raise TableError(
            f"y in {name} has shape {y.shape} where X has {n_rows} rows; store one target, with one "
            "value per row"
        )
    return {
        key: array.reshape(-1)
        for key, array in arrays.items()
        if key not in {"X", "feature_names"} and array.shape in {(n_rows,), (n_rows, 1)}
    }
