"""Lazy predictions: a function of rows, mapped over the partitions of a Dask collection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg import on_device, to_numpy
from onefold.machine.threads import limit_blas, spans, use_threads
from onefold.rows.dask_table import is_frame, whole_rows

_ROWS = 2**16  # predicted at once


@dataclass(frozen=True)
class Predicted:
    """What is predicted for rows, and what it looks like.

    Attributes
    ----------
    function : function
        Of some rows, an array or a table, to an array (rows,) or (rows, columns).
    dtype : NumPy dtype
        Of its values.
    columns : sequence or None
        Names of its columns; None where it has one dimension.
    device : optional
        Where NumPy rows are moved to first.
    """

    function: Callable[[Any], Any]
    dtype: Any
    columns: Sequence[Any] | None
    device: Any = None

    def of(self, rows: Any, number: Any) -> Any:
        """The predictions of a partition, some rows at a time; errors name the partition."""
        shape = (0,) if self.columns is None else (0, len(self.columns))
        pieces = [np.empty(shape, dtype=self.dtype)]
        try:
            with use_threads(1), limit_blas(1):
                for part in spans(rows.shape[0], _ROWS):
                    some = rows.iloc[part] if hasattr(rows, "iloc") else rows[part]
                    some = some if self.device is None else on_device(np.asarray(some), self.device)
                    pieces.append(np.asarray(to_numpy(self.function(some)), dtype=self.dtype))
        except ValueError as error:
            raise ValueError(f"partition {number} of X: {error}") from error
        return np.concatenate(pieces)


def lazily(X: Any, predicted: Predicted) -> Any:
    """A Dask array for a Dask array; a series or a dataframe of the same divisions for a dataframe."""
    if is_frame(X):
        import pandas

        like = pandas.Series if predicted.columns is None else pandas.DataFrame
        shown: dict[str, Any] = {} if predicted.columns is None else {"columns": list(predicted.columns)}
        shape = (0,) if predicted.columns is None else (0, len(predicted.columns))
        meta = like(np.empty(shape, dtype=predicted.dtype), **shown)
        return X.map_partitions(_of_frame, predicted, meta=meta)
    X = whole_rows(X)
    if predicted.columns is None:
        return X.map_blocks(_of_block, predicted, dtype=predicted.dtype, drop_axis=1)
    chunks = (X.chunks[0], (len(predicted.columns),))
    return X.map_blocks(_of_block, predicted, dtype=predicted.dtype, chunks=chunks)


def _of_block(rows: Any, predicted: Predicted, block_id: tuple[int, ...] = (0,)) -> Any:
    return predicted.of(rows, block_id[0])


def _of_frame(rows: Any, predicted: Predicted, partition_info: Any = None) -> Any:
    import pandas

    values = predicted.of(rows, (partition_info or {}).get("number", 0))
    if predicted.columns is None:
        return pandas.Series(values, index=rows.index)
    return pandas.DataFrame(values, index=rows.index, columns=list(predicted.columns))
