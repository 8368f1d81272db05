"""Rows like those that a model has seen, made from what its steps remember.

A scaler knows a middle and a spread, an encoder its categories, an imputer what stands for a gap. Each
column is a list of usual values, then unusual ones where the step allows them: an unknown category, a
gap that will be filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from onefold.saving.errors import BadContent

Column = list[Any]

_MOST_CATEGORIES = 64
_TOLERANT = ("ignore", "warn", "infrequent_if_exist", "use_encoded_value")


def candidate_rows(model: Any) -> Iterator[Any]:
    """Rows to try: arrays, sparse matrices, or columns with their names; the most telling first."""
    width, names = columns_of(model)
    made = _columns(model, [], width)
    for end in (None, -1, -2, 1):  # without the gap, without the unknown category, the first value alone
        arrays = [_as_array(column) for column in _levelled([c[:end] or c[:1] for c in made])]
        if names is not None:
            yield {"names": [str(name) for name in names], "columns": arrays}
        elif all(array.dtype == np.float64 for array in arrays):
            yield np.stack(arrays, axis=1)
            yield sparse.csr_matrix(np.stack(arrays, axis=1))
        else:
            yield np.stack([array.astype(object) for array in arrays], axis=1)


def table_rows(preparation: Any) -> Any:
    """Rows like those that the preparation of a table was learned from, gaps where it fills them."""
    if preparation.sparse_kept is not None:
        kept, scale = preparation.sparse_kept, preparation.sparse_scale
        shape = (2, int(kept.max()) + 1)
        return sparse.csr_matrix((scale[[0, -1]], ([0, 1], kept[[0, -1]])), shape=shape)
    gap = [None] if preparation.missing == "impute" else []
    columns = [_of_table_column(part) + gap for part in preparation.parts]
    return {"names": list(preparation.columns), "columns": _levelled(columns)}


def _of_table_column(part: Any) -> Column:
    """Values like those of a column of a table; gaps alone come after anything."""
    kind = type(part).__name__
    if kind == "Numbers":
        return list(_around(part.mean, part.scale))
    if kind == "Times":
        day, earliest = 86_400.0, -2e9  # about 1906
        if part.order == "time":
            return [f"{hour:02d}:30" for hour in (0, 7, 23)]
        moments = np.clip(_around(part.mean, part.scale), earliest, -earliest) // day
        return [str(np.datetime64(int(one), "D")) for one in moments]
    if kind == "Truths":
        return ["true", "false", "true?"]
    if kind == "Categories":
        return [part.categories[0], part.categories[-1], _unknown_to(part.categories)]
    return ["any"]


def columns_of(model: Any) -> tuple[int, Any]:
    """How many columns the first step that says so takes, and their names if it knows them."""
    while not hasattr(model, "n_features_in_"):
        if type(model).__name__ == "TransformedTargetRegressor":
            model = model.regressor_
            continue
        steps = [step for _, step in getattr(model, "steps", []) if not isinstance(step, str | None)]
        if not steps:
            raise BadContent("no step says how many columns it takes")
        model = steps[0]
    return int(model.n_features_in_), getattr(model, "feature_names_in_", None)


def _levelled(columns: list[Column]) -> list[Column]:
    """Columns of equal length, the shorter ones from their beginning again."""
    length = max((len(values) for values in columns), default=0)
    return [[values[i % len(values)] for i in range(length)] for values in columns]


def _as_array(values: Column) -> np.ndarray:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _around(center: Any, spread: Any) -> list[float]:
    """A number and its surroundings; 0 and 1 stand in for what is not finite."""
    middle, width = float(center), float(spread)
    middle, width = middle if math.isfinite(middle) else 0.0, width if math.isfinite(width) else 1.0
    return [middle, middle + width, middle - width]


def _unknown_to(categories: Any) -> Any:
    """A value that is not among the categories, of the same type."""
    texts = [category for category in categories if isinstance(category, str)]
    if texts:
        return max(texts, key=len) + "?"
    return max((float(category) for category in categories if _is_finite(category)), default=0.0) + 1.0


# Columns for one step, when the steps `then` come after it


def _columns(step: Any, then: list[Any], width: int) -> list[Column]:
    name = type(step).__name__
    if name in _BUILDERS:
        return _BUILDERS[name](step, then, width)
    if isinstance(step, str) or step is None or name == "FunctionTransformer":
        return _columns(then[0], then[1:], width) if then else _plain(width)
    if name == "PowerTransformer":  # box-cox takes positive numbers only
        return [[1.0, 2.0, 3.0] for _ in range(width)]
    center = _remembered(step, ("mean_", "center_", "data_min_", "quantiles_"), width, 0.0)
    spread = _remembered(step, ("data_range_", "scale_"), width, 1.0)
    return [_around(center[j], spread[j]) for j in range(width)]


def _plain(width: int) -> list[Column]:
    return [[0.0, 1.0, -1.0] for _ in range(width)]


def _remembered(step: Any, names: tuple[str, ...], width: int, otherwise: float) -> Any:
    for value in (getattr(step, name, None) for name in names):
        if value is not None:
            value = value[value.shape[0] // 2] if value.ndim == 2 else value
            if value.shape == (width,):
                return value
    return np.full(width, otherwise)


def _of_pipeline(step: Any, then: list[Any], width: int) -> list[Column]:
    first, *others = [part for _, part in step.steps]
    return _columns(first, others + then, width)


def _of_union(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = _plain(width)
    for _, part in step.transformer_list:
        if not isinstance(part, str):
            columns = list(map(_preferred, _columns(part, [], width), columns))
    return columns


def _of_columns(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = _plain(width)
    following = _following(then)
    for name, part, _ in step.transformers_:
        taken = step._transformer_to_input_indices.get(name, [])
        if not len(taken) or (isinstance(part, str) and part == "drop"):
            continue
        after = []
        if hasattr(following, "categories_"):  # the share of this part in an encoder that comes later
            share = following.categories_[step.output_indices_[name]]
            after = [SimpleNamespace(categories_=share, handle_unknown=following.handle_unknown)]
        for j, new in zip(taken, _columns(part, after, len(taken))):
            columns[j] = _preferred(new, columns[j])
    return columns


def _following(then: list[Any]) -> Any:
    """The next step that does something."""
    return next((part for part in then if part is not None and not isinstance(part, str)), None)


def _preferred(new: Column, old: Column) -> Column:
    """The new values, unless only the old ones are categories."""
    texts = [any(isinstance(value, str) for value in column) for column in (new, old)]
    return old if texts == [False, True] else new


def _of_encoder(step: Any, then: list[Any], width: int) -> list[Column]:
    tolerant = step.handle_unknown in _TOLERANT
    return [
        known[:_MOST_CATEGORIES] + ([_unknown_to(known)] if tolerant else [])
        for known in (categories.tolist() for categories in step.categories_)
    ]


def _of_imputer(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = _plain(width)
    for j, value in enumerate(getattr(step, "statistics_", np.empty(0)).tolist()):
        if isinstance(value, str):
            columns[j] = [value]
        elif _is_finite(value):
            columns[j] = _around(value, 1.0)
    following = _following(then)
    if hasattr(following, "categories_"):
        columns = (_of_encoder(following, [], width) + columns)[:width]  # indicators come last
    return [[*column, step.missing_values] for column in columns]


_BUILDERS: dict[str, Any] = {
    "Pipeline": _of_pipeline,
    "TransformedTargetRegressor": lambda step, then, width: _columns(step.regressor_, then, width),
    "FeatureUnion": _of_union,
    "ColumnTransformer": _of_columns,
    "OneHotEncoder": _of_encoder,
    "OrdinalEncoder": _of_encoder,
    "SimpleNamespace": _of_encoder,
    "SimpleImputer": _of_imputer,
    "KNNImputer": _of_imputer,
}
