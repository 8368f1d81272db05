"""Rows like those that a fitted pipeline has seen, made from what its steps remember.

A scaler knows a middle and a spread, an encoder its categories, an imputer what stands for a gap. Four
values for each column: two that are known, one that is unusual where the step allows it (an unknown
category), and a gap where the step fills gaps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Columns = list[list[Any]]  # four values for each column

_PLAIN = [0.0, 1.0, -1.0, 0.5]
_TOLERANT = ("ignore", "warn", "infrequent_if_exist", "use_encoded_value")


def center_and_spread(center: Any, spread: Any) -> tuple[float, float]:
    """Two numbers, replaced by 0 and 1 where they are not finite."""
    middle, width = float(center), float(spread)
    return (middle if math.isfinite(middle) else 0.0, width if math.isfinite(width) else 1.0)


def unknown_to(categories: Any) -> Any:
    """A value that is not among the categories, of the same type."""
    first = list(categories)[0]
    if isinstance(first, str):
        return "".join(sorted(str(category) for category in categories)) + "?"
    numbers = [float(category) for category in categories if _is_finite(category)]
    return max(numbers, default=0.0) + 1.0


def example_columns(step: Any, then: list[Any], width: int) -> Columns:
    """Values for the `width` columns that `step` takes, when the steps `then` come after it."""
    name = type(step).__name__
    if name in _BUILDERS:
        return _BUILDERS[name](step, then, width)
    if name == "TransformedTargetRegressor":
        return example_columns(step.regressor_, then, width)
    if isinstance(step, str) or step is None or name == "FunctionTransformer":
        return example_columns(then[0], then[1:], width) if then else _plain(width)
    return _from_numbers(step, width)


def _plain(width: int) -> Columns:
    return [list(_PLAIN) for _ in range(width)]


def _from_numbers(step: Any, width: int) -> Columns:
    """From what scalers and decompositions remember of each column."""
    center = _first(step, ("mean_", "center_", "data_min_", "quantiles_"), width, 0.0)
    spread = _first(step, ("scale_", "data_range_"), width, 1.0)
    if type(step).__name__ == "MinMaxScaler":
        spread = step.data_range_
    if type(step).__name__ == "PowerTransformer":  # box-cox takes positive numbers only
        return [[1.0, 2.0, 3.0, 1.5] for _ in range(width)]
    columns = []
    for j in range(width):
        middle, width_j = center_and_spread(center[j], spread[j])
        columns.append([middle, middle + width_j, middle - width_j, middle + width_j / 2])
    return columns


def _first(step: Any, names: tuple[str, ...], width: int, otherwise: float) -> Any:
    for name in names:
        value = getattr(step, name, None)
        if value is not None:
            value = value[value.shape[0] // 2] if value.ndim == 2 else value
            if value.shape == (width,):
                return value
    return np.full(width, otherwise)


def _of_pipeline(step: Any, then: list[Any], width: int) -> Columns:
    first, *others = [part for _, part in step.steps]
    return example_columns(first, others + then, width)


def _of_union(step: Any, then: list[Any], width: int) -> Columns:
    columns = _plain(width)
    for _, part in reversed(step.transformer_list):
        if part not in ("drop", "passthrough"):
            columns = _preferred(example_columns(part, [], width), columns)
    return columns


def _of_columns(step: Any, then: list[Any], width: int) -> Columns:
    columns = _plain(width)
    for name, part, _ in step.transformers_:
        taken = step._transformer_to_input_indices.get(name, [])
        if len(taken) and part != "drop":
            # A step that every column passes unchanged has the last word on their values.
            made = example_columns(part, [], len(taken))
            for j, values in zip(taken, made):
                columns[j] = _preferred([values], [columns[j]])[0]
    return columns


def _preferred(new: Columns, old: Columns) -> Columns:
    """The new values, unless the old ones are categories and they are not."""
    text = [any(not isinstance(value, float) for value in values) for values in old]
    return [b if is_text else a for a, b, is_text in zip(new, old, text)]


def _of_encoder(step: Any, then: list[Any], width: int) -> Columns:
    columns = []
    for categories in step.categories_:
        known = categories.tolist()
        odd = unknown_to(known) if step.handle_unknown in _TOLERANT else known[0]
        columns.append([known[0], known[-1], odd, known[len(known) // 2]])
    return columns


def _of_imputer(step: Any, then: list[Any], width: int) -> Columns:
    columns = _plain(width)
    if hasattr(step, "statistics_"):
        for j, value in enumerate(step.statistics_.tolist()):
            if isinstance(value, str):
                columns[j] = [value] * 4
            elif _is_finite(value):
                columns[j] = [value, value + 1.0, value - 1.0, value]
    following = [part for part in then if part is not None and not isinstance(part, str)]
    if following and type(following[0]).__name__ in ("OneHotEncoder", "OrdinalEncoder"):
        columns[:] = (_of_encoder(following[0], [], width) + columns)[:width]  # then its indicators
    return [[*values[:3], step.missing_values] for values in columns]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


_BUILDERS: dict[str, Any] = {
    "Pipeline": _of_pipeline,
    "FeatureUnion": _of_union,
    "ColumnTransformer": _of_columns,
    "OneHotEncoder": _of_encoder,
    "OrdinalEncoder": _of_encoder,
    "SimpleImputer": _of_imputer,
    "KNNImputer": _of_imputer,
}
