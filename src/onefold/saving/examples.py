"""Rows like those that a fitted pipeline has seen, made from what its steps remember.

A scaler knows a middle and a spread, an encoder its categories, an imputer what stands for a gap. For
each column there are usual values, and unusual ones where the step allows them: an unknown category, a
gap that will be filled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

_MOST_CATEGORIES = 64
_TOLERANT = ("ignore", "warn", "infrequent_if_exist", "use_encoded_value")


@dataclass(frozen=True)
class Column:
    """Values of one column, usual and unusual."""

    usual: list[Any] = field(default_factory=lambda: [0.0, 1.0, -1.0])
    unusual: list[Any] = field(default_factory=list)

    @property
    def is_text(self) -> bool:
        """Whether any value is not a number."""
        return not all(isinstance(value, int | float) for value in self.usual)


def around(center: Any, spread: Any) -> list[float]:
    """A number and its surroundings; 0 and 1 stand in for what is not finite."""
    middle, width = float(center), float(spread)
    middle = middle if math.isfinite(middle) else 0.0
    width = width if math.isfinite(width) else 1.0
    return [middle, middle + width, middle - width]


def unknown_to(categories: Any) -> Any:
    """A value that is not among the categories, of the same type."""
    texts = [category for category in categories if isinstance(category, str)]
    if texts:
        return max(texts, key=len) + "?"
    return max((float(category) for category in categories if _is_finite(category)), default=0.0) + 1.0


def levelled(columns: list[list[Any]]) -> list[list[Any]]:
    """Columns of equal length, the shorter ones from their beginning again."""
    length = max((len(values) for values in columns), default=0)
    return [[values[i % len(values)] for i in range(length)] for values in columns]


def example_columns(step: Any, then: list[Any], width: int) -> list[Column]:
    """Values for the `width` columns that `step` takes, when the steps `then` come after it."""
    name = type(step).__name__
    if name in _BUILDERS:
        return _BUILDERS[name](step, then, width)
    if isinstance(step, str) or step is None or name == "FunctionTransformer":
        return example_columns(then[0], then[1:], width) if then else _plain(width)
    return _of_numbers(step, width)


def _plain(width: int) -> list[Column]:
    return [Column() for _ in range(width)]


def _of_numbers(step: Any, width: int) -> list[Column]:
    """From what scalers and decompositions remember of each column."""
    if type(step).__name__ == "PowerTransformer":  # box-cox takes positive numbers only
        return [Column([1.0, 2.0, 3.0]) for _ in range(width)]
    center = _first(step, ("mean_", "center_", "data_min_", "quantiles_"), width, 0.0)
    spread = _first(step, ("data_range_", "scale_"), width, 1.0)
    return [Column(around(center[j], spread[j])) for j in range(width)]


def _first(step: Any, names: tuple[str, ...], width: int, otherwise: float) -> Any:
    for name in names:
        value = getattr(step, name, None)
        if value is not None:
            value = value[value.shape[0] // 2] if value.ndim == 2 else value
            if value.shape == (width,):
                return value
    return np.full(width, otherwise)


def _of_pipeline(step: Any, then: list[Any], width: int) -> list[Column]:
    first, *others = [part for _, part in step.steps]
    return example_columns(first, others + then, width)


def _of_target(step: Any, then: list[Any], width: int) -> list[Column]:
    return example_columns(step.regressor_, then, width)


def _of_union(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = _plain(width)
    for _, part in step.transformer_list:
        if not isinstance(part, str):
            made = example_columns(part, [], width)
            columns = [_preferred(new, old) for new, old in zip(made, columns)]
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
        for j, new in zip(taken, example_columns(part, after, len(taken))):
            columns[j] = _preferred(new, columns[j])
    return columns


def _following(then: list[Any]) -> Any:
    """The next step that does something."""
    return next((part for part in then if part is not None and not isinstance(part, str)), None)


def _preferred(new: Column, old: Column) -> Column:
    """The new values, unless only the old ones are categories."""
    return old if old.is_text and not new.is_text else new


def _of_encoder(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = []
    for categories in step.categories_:
        known = categories[:_MOST_CATEGORIES].tolist()
        odd = [unknown_to(categories.tolist())] if step.handle_unknown in _TOLERANT else []
        columns.append(Column(known, odd))
    return columns


def _of_imputer(step: Any, then: list[Any], width: int) -> list[Column]:
    columns = _plain(width)
    for j, value in enumerate(getattr(step, "statistics_", np.empty(0)).tolist()):
        if isinstance(value, str):
            columns[j] = Column([value])
        elif _is_finite(value):
            columns[j] = Column(around(value, 1.0))
    following = _following(then)
    if hasattr(following, "categories_"):
        columns = (_of_encoder(following, [], width) + columns)[:width]  # indicators come last
    return [Column(column.usual, [*column.unusual, step.missing_values]) for column in columns]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


_BUILDERS: dict[str, Any] = {
    "Pipeline": _of_pipeline,
    "TransformedTargetRegressor": _of_target,
    "FeatureUnion": _of_union,
    "ColumnTransformer": _of_columns,
    "OneHotEncoder": _of_encoder,
    "OrdinalEncoder": _of_encoder,
    "SimpleNamespace": _of_encoder,
    "SimpleImputer": _of_imputer,
    "KNNImputer": _of_imputer,
}
