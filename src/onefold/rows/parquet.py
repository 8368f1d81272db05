"""Partitioned Parquet as rows of Dask: which columns are features, targets, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.rows.runner import require_dask


class ParquetRows(NamedTuple):
    """What a fit takes, lazily: ``fit(rows.X, rows.y, rows.sample_weight, rows.groups)``."""

    X: Any  # dask.dataframe.DataFrame
    y: Any  # dask.dataframe.Series, or DataFrame for several targets
    sample_weight: Any = None  # dask.dataframe.Series or None
    groups: Any = None


def open_parquet(
    path: Any,
    target: str | Sequence[str],
    *,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    **options: Any,
) -> ParquetRows:
    """Open a Parquet file or a folder of them; nothing but its schema is read.

    Rows count in the order of the files' names, as ``dask.dataframe.read_parquet`` reads them.

    Parameters
    ----------
    path : str or list of str
        A file, a folder, a pattern such as ``"part-*.parquet"``, or an address that Dask knows.
    target : str or list of str
        The column to predict, or several.
    features : list of str, optional
        Columns to predict from; by default all others.
    sample_weight, groups : str, optional
        The column of weights, and that of groups for grouped splitters.
    **options
        For ``dask.dataframe.read_parquet``: ``storage_options``, ``filters``, ``split_row_groups`` …

    Returns
    -------
    ParquetRows
    """
    require_dask()
    from dask.dataframe import read_parquet

    table = read_parquet(path, **options)
    targets = [target] if isinstance(target, str) else list(target)
    others = [*targets, *(name for name in (sample_weight, groups) if name is not None)]
    known = list(table.columns)
    wanted = [name for name in known if name not in others] if features is None else list(features)
    missing = [name for name in (*others, *wanted) if name not in known]
    if missing or not targets or not wanted:
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing)) or 'for that'}; its columns are "
            f"{', '.join(map(repr, known))}."
        )
    return ParquetRows(
        table[wanted],
        table[targets[0]] if isinstance(target, str) else table[targets],
        None if sample_weight is None else table[sample_weight],
        None if groups is None else table[groups],
    )
