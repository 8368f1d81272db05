"""Partitioned Parquet as rows of Dask: which columns are features, targets, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onefold.rows.runner import require_dask

_PARTITION_BYTES = 2**27  # of row groups that are read together, as they are in memory


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


def open_files(paths: Sequence[str], others: Sequence[str], features: Sequence[str]) -> ParquetRows:
    """Parquet files as they are, in the given order: y is a dataframe of the columns `others`.

    Names are no patterns, and what pandas notes in a file about its index is left alone: an index that
    was stored is a column as any other. A partition is a file, or some row groups of a large one.
    """
    require_dask()
    import dask.dataframe
    from pyarrow.parquet import read_schema

    from_map: Any = dask.dataframe.from_map
    pieces = [piece for path in paths for piece in _pieces(path)]
    none = read_schema(paths[0]).empty_table()
    frames = [
        from_map(_read, pieces, names=list(names), meta=_frame(none.select(list(names))))
        for names in (features, others)
    ]
    return ParquetRows(*frames)


def _pieces(path: str) -> list[tuple[str, list[int]]]:
    """A file and the row groups of each of its partitions."""
    from pyarrow.parquet import read_metadata

    known, pieces, held = read_metadata(path), [(path, list[int]())], 0
    for group in range(known.num_row_groups):
        size = known.row_group(group).total_byte_size
        if pieces[-1][1] and held + size > _PARTITION_BYTES:
            pieces.append((path, []))
            held = 0
        pieces[-1][1].append(group)
        held += size
    return pieces


def _read(piece: tuple[str, list[int]], names: list[str]) -> Any:
    from pyarrow.parquet import ParquetFile

    path, groups = piece
    with ParquetFile(path) as file:
        return _frame(file.read_row_groups(groups, columns=names).select(names))


def _frame(table: Any) -> Any:
    """An Arrow table as a dataframe, without what pandas has noted in it."""
    return table.to_pandas(ignore_metadata=True)


def standardised(X: Any, mean: Any, scale: Any) -> Any:
    """(X − mean) / scale of the columns of a Dask dataframe, lazily, as an array."""
    return X.map_partitions(lambda rows: (rows.astype("float64") - mean) / scale).to_dask_array()
