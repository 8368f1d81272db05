"""Is the preparation of tables beside an estimator whole, and what rows would it take?

The model of a table is checked by its attributes, so that this module needs nothing of
`onefold.tables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.saving.errors import NONSENSE, BadContent
from onefold.saving.examples import around, levelled, unknown_to

_LARGEST_INDEX = 1 << 31


def check_table(model: Any) -> None:
    """Raise BadContent unless the fields of a table's model have the right types and sizes."""
    try:
        valid = _is_preparation(model.preparation) and _is_frame(model)
    except NONSENSE as error:
        raise BadContent(f"its preparation of tables is not valid ({error!s:.200})") from error
    if not valid:
        raise BadContent("its preparation of tables is not valid")


def _is_frame(model: Any) -> bool:
    classes = hasattr(model.estimator, "classes_")
    task = "classification" if classes else "regression"
    named = model.id_column is None or isinstance(model.id_column, str)
    return named and isinstance(model.target, str) and model.task == task and type(model.report) is dict


def _is_preparation(found: Any) -> bool:
    names = _are_texts(found.numeric) and _are_texts(found.categorical) and _are_texts(found.constant)
    numbers = all(
        type(part) is np.ndarray and part.shape == (len(found.numeric),) and part.dtype.kind == "f"
        for part in (found.mean, found.scale, found.median)
    )
    lists = (found.categories, found.boolean, found.most_frequent)
    if not all(type(part) is tuple and len(part) == len(found.categorical) for part in lists):
        return False
    texts = all(_are_texts(part) and part for part in found.categories) and (
        _are_texts(found.most_frequent) and all(isinstance(part, bool) for part in found.boolean)
    )
    distinct = len(set(found.numeric + found.categorical)) == len(found.numeric + found.categorical)
    choice = found.missing in ("error", "impute")
    return names and numbers and texts and distinct and choice and _is_sparse_part(found)


def _is_sparse_part(found: Any) -> bool:
    kept, scale = found.sparse_kept, found.sparse_scale
    if kept is None or scale is None:
        return kept is None and scale is None
    arrays = all(type(part) is np.ndarray and part.ndim == 1 for part in (kept, scale))
    if not arrays or kept.size == 0 or kept.size != scale.size:
        return False
    if kept.dtype.kind not in "iu" or scale.dtype.kind != "f":
        return False
    return bool(kept.min() >= 0) and bool(kept.max() < _LARGEST_INDEX)


def _are_texts(values: Any) -> bool:
    return type(values) is tuple and all(isinstance(value, str) for value in values)


def table_columns(preparation: Any) -> dict[str, list[Any]]:
    """Columns of rows like those that a preparation was learned from, gaps where it fills them."""
    gap = [None] if preparation.missing == "impute" else []
    columns: dict[str, list[Any]] = {}
    for j, name in enumerate(preparation.numeric):
        columns[name] = [*around(preparation.mean[j], preparation.scale[j]), *gap]
    for j, name in enumerate(preparation.categorical):
        known = preparation.categories[j]
        columns[name] = [known[0], known[-1], unknown_to(known), *gap]
    return dict(zip(columns, levelled(list(columns.values()))))
