"""The state in files of what prepares the tables of an estimator, and of the estimators of tables.

It is checked by its attributes, so that this module needs nothing of `onefold.tables`.
"""

from __future__ import annotations

import re
from numbers import Real
from typing import Any
from zoneinfo import available_timezones

import numpy as np

from onefold.saving.checks import ESTIMATORS
from onefold.saving.container import BadContent
from onefold.saving.rules import (
    State,
    is_bool,
    is_dict,
    is_list,
    is_names,
    is_text,
    maybe,
    number,
    of_type,
    one_of,
    whole_number,
)

_CYCLES = ("year", "week", "day")
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")
_ORDERS = ("dmy", "mdy", "ymd", "time")
_is_real = of_type(Real)  # medians of tables that fill in nothing are NaN


def _texts(value: Any, owner: Any) -> bool:
    return type(value) is tuple and all(isinstance(item, str) for item in value)


def _some_texts(value: Any, owner: Any) -> bool:
    return type(value) in (list, tuple) and all(isinstance(item, str) for item in value)


def _categories(value: Any, owner: Any) -> bool:
    return _texts(value, owner) and len(value) > 0


def _zone(value: Any, owner: Any) -> bool:
    known = isinstance(value, str) and (not value or _OFFSET.fullmatch(value))
    return bool(known) or value in available_timezones()


def _cycles(value: Any, owner: Any) -> bool:
    return _texts(value, owner) and set(value) <= set(_CYCLES)


_COLUMN = {"name": is_text, "gaps": is_bool}
_STANDARD = {"mean": number(), "scale": number(above=0.0), "median": _is_real}
_PARTS = {
    "Part": State(_COLUMN),
    "Numbers": State({**_COLUMN, **_STANDARD}),
    "Times": State(
        {**_COLUMN, **_STANDARD, "order": one_of(*_ORDERS), "cycles": _cycles, "zone": _zone}
    ),
    "Truths": State({**_COLUMN, "most_frequent": is_bool}),
    "Categories": State({**_COLUMN, "categories": _categories, "most_frequent": is_text}),
}


def _are_parts(value: Any, owner: Any) -> bool:
    return type(value) is tuple and all(type(item).__name__ in _PARTS for item in value)


def _check_columns(found: Any) -> None:
    if len(set(found.columns)) != len(found.columns):
        raise ValueError("a column appears twice")


def _are_formats(value: Any, owner: Any) -> bool:
    return type(value) is dict and all(type(form).__name__ == "NumberFormat" for form in value.values())


_FITTED = {
    "estimator_": lambda v, m: type(v).__name__ in ESTIMATORS and hasattr(v, "expansion_"),
    "preparation_": lambda v, m: type(v).__name__ == "Preparation",
    "n_features_in_": whole_number(),
    "feature_names_in_": is_names,
    "classes_": lambda v, m: np.array_equal(v, m.estimator_.classes_),
    "target_": maybe(is_text),
    "id_column_": maybe(is_text),
    "report_": is_dict,
    "notes_": is_list,
    "reading_": lambda v, m: type(v).__name__ == "Reading",
}
_NEEDED = tuple(name for name in _FITTED if name not in ("feature_names_in_", "classes_"))


def _check_model(model: Any) -> None:
    labels = hasattr(model.estimator_, "classes_")
    if labels != (model.task == "classification") or labels != hasattr(model, "classes_"):
        raise BadContent("the estimator of its tables is for another task")
    if len(model.preparation_.feature_names) != model.estimator_.n_features_in_:
        raise BadContent("the preparation of its tables makes other features than its estimator takes")


_PARAMETERS = {
    "missing": one_of("error", "impute"),
    "simple": is_bool,
    "metric": maybe(one_of("none", "diagonal", "full", "auto")),
    "blend": one_of(True, False, "auto"),
    "id_column": maybe(is_text),
    "ordered": is_bool,
    "gap": whole_number(),
    "categorical": _some_texts,
    "drop": _some_texts,
}
_MODEL = State(_PARAMETERS, _FITTED, _NEEDED, whole=_check_model)

TABLES = {
    "TableClassifier": _MODEL,
    "TableRegressor": _MODEL,
    "Preparation": State(
        {
            "parts": _are_parts,
            **dict.fromkeys(("constant", "row_numbers", "identifiers"), _texts),
            "missing": one_of("error", "impute"),
        },
        whole=_check_columns,
    ),
    "Reading": State({"formats": _are_formats, "na_values": _texts}),  # its constructor checks the rest
    "NumberFormat": State(),
    **_PARTS,
}
