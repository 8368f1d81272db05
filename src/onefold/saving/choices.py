"""Rules for kernels, metrics, blends and calibrations, and for what an estimator tells of them.

None of the fitted attributes must be there: they came with later versions, and plain searches have none.
"""

from __future__ import annotations

from numbers import Real
from pathlib import PurePath
from typing import Any

import numpy as np

from onefold.calibration import CALIBRATIONS, Calibrator
from onefold.kernels import resolve_kernel
from onefold.saving.rules import (
    Rule,
    accepts,
    array,
    either,
    is_bool,
    is_text,
    maybe,
    number,
    of_type,
    one_of,
    whole_number,
)
from onefold.search.strategies import resolve_strategy

_ROUNDING = 1e-6  # of shares that sum to 1


def one_kernel(value: Any, estimator: Any) -> None:
    """Raise unless `value` is a kernel or the name of one."""
    resolve_kernel(value, 1.0, 3, 1.0)


def some_kernels(value: Any, estimator: Any) -> bool:
    """A kernel, several, or "auto"; raises where one of them is none."""
    if isinstance(value, str) and value == "auto":
        return True
    kernels = value if type(value) in (list, tuple) else [value]
    for kernel in kernels:
        one_kernel(kernel, estimator)
    return len(kernels) > 0


PARAMETERS: dict[str, Rule] = {
    "metric": maybe(one_of("diagonal", "full", "auto")),
    "select": one_of("min", "1se"),
    "max_rounds": whole_number(1),
    "metric_rows": maybe(whole_number(1)),
    "blend": is_bool,
    "search": lambda v, e: resolve_strategy(v),
    "time_budget": maybe(number(above=0.0)),
    "checkpoint": maybe(either(is_text, of_type(PurePath))),
    "calibration": maybe(one_of(*CALIBRATIONS)),
}

_MEMBER: dict[str, Rule] = {
    "kernel": is_text,
    "metric": one_of("none", "diagonal", "full"),
    "round": whole_number(),
    "gamma": maybe(number(above=0.0)),
    "alpha": number(above=0.0),
    "weight": lambda v, e: number()(v, e) and v >= 0,
}


def _is_metric(value: Any, estimator: Any) -> bool:
    shaped = either(array("n"), array("n", "n"))
    return bool(shaped(value, estimator)) and bool(np.isfinite(value).all())


def _are_shares(value: Any, estimator: Any) -> bool:
    """One non-negative number per feature, 1 in all."""
    return bool(
        array("n")(value, estimator) and np.all(value >= 0) and abs(value.sum() - 1.0) <= _ROUNDING
    )


def _is_history(value: Any, estimator: Any) -> bool:
    return type(value) is list and all(
        type(item) is dict
        and all(type(key) is str for key in item)
        and all(isinstance(entry, str | Real | None) for entry in item.values())
        for item in value
    )


def _are_members(value: Any, estimator: Any) -> bool:
    """Notes of members, of which those with a weight are the parts of the expansion."""
    if type(value) is not list or not all(type(item) is dict for item in value):
        return False
    known = all(accepts(rule, item[key], estimator) for item in value for key, rule in _MEMBER.items())
    return known and sum(item["weight"] > 0 for item in value) == len(estimator.expansion_.parts)


def _fits_decision(value: Any, estimator: Any) -> bool:
    """A calibrator for as many columns of decision values as the classifier has."""
    fits = isinstance(value, Calibrator) and hasattr(estimator, "classes_")
    return fits and value.columns in (None, estimator.expansion_.n_targets)


def _are_probabilities(value: Any, estimator: Any) -> bool:
    """One row for each held-out prediction, of numbers from 0 to 1 that sum to 1, or of NaN."""
    if not array(None, None)(value, estimator):
        return False
    if value.shape != (len(estimator.heldout_prediction_), estimator.classes_.size):
        return False
    told = value[~np.isnan(value).all(axis=1)]
    return bool(np.all((told >= 0) & (told <= 1)) and np.all(abs(told.sum(axis=1) - 1) <= _ROUNDING))


FITTED: dict[str, Rule] = {
    "kernel_": maybe(is_text),
    "metric_": maybe(_is_metric),
    "feature_importances_": maybe(_are_shares),
    "metric_history_": maybe(_is_history),
    "blend_": maybe(_are_members),
    "blend_score_": maybe(number()),
    "calibrator_": maybe(_fits_decision),
    "heldout_proba_": maybe(_are_probabilities),
    "search_": lambda v, e: type(v) is dict and all(type(key) is str for key in v),
}
