"""The state in files of what prepares the tables of an estimator.

It is checked by its attributes, so that this module needs nothing of `onefold.tables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.saving.rules import Rule, State, array, is_bool, is_dict, is_text, maybe, one_of

_LARGEST_INDEX = 1 << 31
_TASK = {True: "classification", False: "regression"}


def _texts(value: Any, owner: Any) -> bool:
    return type(value) is tuple and all(isinstance(item, str) for item in value)


def _per_number(value: Any, found: Any) -> bool:
    return bool(array(None, farthest=np.inf)(value, found)) and value.size == len(found.numeric)


def _per_category(rule: Rule) -> Rule:
    return lambda value, found: (
        type(value) is tuple
        and len(value) == len(found.categorical)
        and all(rule(item, found) for item in value)
    )


def _check_columns(found: Any) -> None:
    if len(set(found.numeric + found.categorical)) != len(found.numeric + found.categorical):
        raise ValueError("a column appears twice")
    kept, scale = found.sparse_kept, found.sparse_scale
    if (kept is None) != (scale is None):
        raise ValueError("features have numbers or scales, but not both")
    if kept is not None and not (kept.size == scale.size > 0 and 0 <= kept.min() <= kept.max()):
        raise ValueError("the numbers and scales of its features do not fit each other")
    if kept is not None and kept.max() >= _LARGEST_INDEX:
        raise ValueError("the numbers of its features are too large")


PREPARATION = State(
    {
        **dict.fromkeys(("numeric", "categorical", "constant"), _texts),
        **dict.fromkeys(("mean", "scale", "median"), _per_number),
        "categories": _per_category(lambda value, found: _texts(value, found) and len(value) > 0),
        "boolean": _per_category(is_bool),
        "most_frequent": _per_category(is_text),
        "missing": one_of("error", "impute"),
        "sparse_kept": maybe(array(None, kinds="iu")),
        "sparse_scale": maybe(array(None, farthest=np.inf)),
    },
    whole=_check_columns,
)
TABLE_MODEL = State(
    {
        "preparation": lambda v, model: PREPARATION.check(v, "preparation of tables"),
        "target": is_text,
        "task": lambda v, model: v == _TASK[hasattr(model.estimator, "classes_")],
        "id_column": maybe(is_text),
        "report": is_dict,
    }
)
