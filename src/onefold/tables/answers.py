"""Targets and answers in the forms that people's programs have them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from onefold.linalg import is_foreign, to_numpy
from onefold.tables.errors import TableError


def as_target(y: Any) -> Any:
    """A target as a NumPy array; raise where a value is missing."""
    if is_foreign(y):
        return to_numpy(y)
    if isinstance(y, pa.Array | pa.ChunkedArray):
        values = np.asarray(y.to_pandas())
    elif hasattr(y, "to_numpy"):
        values = np.asarray(y.to_numpy())
    else:
        values = np.asarray(y)
    absent = np.zeros(0, dtype=bool)
    if values.dtype.kind in "mM":
        absent = np.isnat(values)
    elif values.dtype.kind == "f":
        absent = np.isnan(values)
    elif values.dtype.kind == "O":
        # NaN, NaT and pandas' NA are the values that are not equal to themselves, or not clearly so.
        absent = np.array([one is None or _is_no_value(one) for one in values.ravel()])
    if absent.any():
        raise TableError(
            f"missing values in y ({int(absent.sum())} of {len(values)} rows): Input y contains NaN; "
            "the target must be known: remove those rows"
        )
    if values.dtype.kind == "M":
        raise TableError(
            "y holds dates, and a target holds numbers, text or booleans; turn them into numbers, such "
            "as days since the first"
        )
    if values.dtype.kind == "m":  # in seconds, as columns of durations are
        return values / np.timedelta64(1, "s")
    if values.dtype.kind == "O" and values.ndim == 1 and len(values):
        kinds = {type(one) for one in values}
        if kinds <= {bool, np.bool_} or kinds <= {str}:
            return values.astype(bool if kinds <= {bool, np.bool_} else str)
        if kinds <= {int, float} and len(kinds):
            return values.astype(float if float in kinds else np.int64)
        if str in kinds and len(kinds) > 1:
            mixed = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise TableError(f"y mixes values of the types {mixed}; convert them to one type")
    return values


def as_frame_like(table: Any, values: np.ndarray, columns: Sequence[str]) -> Any:
    """An array of answers as a frame of the library that the table is of; an array for other tables."""
    library = type(table).__module__.partition(".")[0]
    if values.ndim != 2 or library not in ("pandas", "polars"):
        return values
    frame: Any = import_module(library).DataFrame
    named = {name: values[:, j] for j, name in enumerate(columns)}
    return frame(named, index=table.index) if library == "pandas" else frame(named)


def feature_matrix_names(model: Any) -> list[str]:
    """The columns of the table that a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{j}" for j in range(model.n_features_in_)]


def _is_no_value(one: Any) -> bool:
    return type(one).__name__ in ("NAType", "NaTType") or (isinstance(one, float) and one != one)
