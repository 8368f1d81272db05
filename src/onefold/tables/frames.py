"""Tables that programs hold in memory, as rows: pandas, polars, Arrow, plain arrays."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_array

from onefold.linalg import is_foreign, to_numpy
from onefold.tables.errors import TableError, listing
from onefold.tables.rows import TableRows


def rows_of_frame(frame: Any) -> TableRows:
    """Rows of a pandas, polars or Arrow table (anything with the Arrow stream interface)."""
    if isinstance(frame, TableRows):
        return frame
    if not is_frame(frame):
        raise TableError(
            f"a table is a path or a pandas, polars or pyarrow table, not {type(frame).__name__}"
        )
    try:
        table = _arrow(frame)
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        found = re.search("for column ([0-9]+) with type", str(error))  # pandas' are numbered below
        which = f"column '{_titles(frame)[int(found[1])]}'" if found else "a column"
        raise TableError(
            f"{which} of the table has values of mixed types, or of one that is neither number nor "
            "text; convert it"
        ) from error
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise TableError(
            f"the table has more than one column named {listing(twice)}; give every column its own name"
        )
    return TableRows(table)


def is_frame(table: Any) -> bool:
    """Whether something has named columns; one column by itself, a Series, has none."""
    if isinstance(table, TableRows):
        return True
    known = any(hasattr(table, name) for name in ("__arrow_c_stream__", "__dataframe__"))
    return known and type(table).__name__ not in ("Series", "ChunkedArray")


def rows_of_array(X: Any, names: Sequence[str] | None = None) -> TableRows:
    """Rows of an array; the columns are `names`, or ``x0, x1, …``."""
    X = as_array(X)
    titles = [f"x{j}" for j in range(X.shape[1])] if names is None else list(names)
    columns = {}
    for j, title in enumerate(titles):
        try:
            columns[title] = pa.array(_plain(X[:, j]), from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise TableError(
                f"column {j} of X holds values of mixed types, or of one that is neither number nor "
                "text; convert it"
            ) from error
    return TableRows(pa.table(columns))


def as_array(X: Any) -> Any:
    """Rows without names as an array (n, d) of anything, or as a CSR matrix."""
    if isinstance(X, str | os.PathLike) or type(X) is dict or hasattr(X, "collect"):
        raise TableError(
            f"X is a pandas, polars or pyarrow table or an array, not a {type(X).__name__}; read, "
            "collect or convert it first"
        )
    X = to_numpy(X) if is_foreign(X) else X
    return check_array(X, dtype=None, ensure_all_finite=False)


def _plain(values: np.ndarray) -> np.ndarray:
    """A column that Arrow takes: native byte order, no extended precision, text for bytes."""
    if values.dtype == np.longdouble:
        return values.astype(np.float64)
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "O":
        return values
    return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if type(frame).__module__.partition(".")[0] == "pandas":
        # Without its index, which names rows and is no column; column names become text.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            renamed = frame.set_axis(range(len(frame.columns)), axis=1)
            odd = {j: _storable(renamed[j]) for j, kind in enumerate(frame.dtypes) if _is_odd(kind)}
            if odd:
                renamed = type(frame)({j: odd.get(j, renamed[j]) for j in renamed.columns})
            table = pa.Table.from_pandas(renamed, preserve_index=False)
        return table.rename_columns(_titles(frame)).replace_schema_metadata(None)
    table = pa.table(frame)
    return table.rename_columns([str(name) for name in table.column_names])


def _titles(frame: Any) -> list[str]:
    """The column names of a pandas frame as text."""
    levels = getattr(frame.columns, "nlevels", 1) > 1
    return [" ".join(map(str, name)) if levels else str(name) for name in frame.columns]


def _is_odd(kind: Any) -> bool:
    """Whether a type of pandas is one that Arrow does not have: sparse, periods, intervals, bins."""
    found = kind.categories.dtype if hasattr(kind, "ordered") and kind.categories is not None else kind
    return type(found).__name__ in ("SparseDtype", "PeriodDtype", "IntervalDtype")


def _storable(column: Any) -> Any:
    """The same values in a type that Arrow has: dense numbers, beginnings of periods, names of bins."""
    kind = type(column.dtype).__name__
    if kind == "SparseDtype":
        return column.sparse.to_dense()
    if kind == "PeriodDtype":
        return column.dt.to_timestamp()
    return column.astype(object).map(str, na_action="ignore").astype("category")
