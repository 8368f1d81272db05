"""Rules for intervals: what makes the bounds, and the fold models behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.calibration import ConformalIntervals
from onefold.calibration.intervals import METHODS
from onefold.expansions import FoldModels
from onefold.saving.errors import BadContent
from onefold.saving.expansions import build_members, check_expansion, shared_members
from onefold.saving.rules import Layout, Rule, State, is_none, maybe, one_of

_LARGEST = 1e300


def _fields(models: FoldModels) -> dict[str, Any]:
    centres, terms = shared_members(models.terms)
    return {
        "centres": centres,
        "terms": terms,
        "folds": list(models.folds),
        "intercept": models.intercept,
    }


def _build(centres: list[Any], terms: list[Any], folds: list[Any], intercept: Any) -> FoldModels:
    if not all(type(numbers) is np.ndarray for numbers in (*folds, intercept)):
        raise BadContent("the folds of its fold models are not arrays")
    return FoldModels(tuple(build_members(centres, terms)), tuple(folds), intercept)


def _check(models: FoldModels) -> None:
    if not np.all(np.abs(models.intercept) <= _LARGEST):
        raise BadContent("its fold models give infinite or undefined values")
    for term in models.terms:
        check_expansion(term)


FOLD_MODELS = State(whole=_check, layout=Layout(_fields, _build))
INTERVALS = State()  # its constructor checks everything

PARAMETERS: dict[str, Rule] = {"intervals": maybe(one_of(*METHODS))}


def _makes_bounds(value: Any, estimator: Any) -> bool:
    """What makes bounds, and as many fold models as it has residuals of."""
    if type(value) is not ConformalIntervals or value.n_targets != estimator.expansion_.n_targets:
        return False
    models, spread = (getattr(estimator, name, "") for name in ("fold_models_", "spread_models_"))
    if (value.spread is None) != (spread is None):
        return False
    fits = [model is None or _fits(model, value, estimator) for model in (models, spread)]
    return all(fits) and (models is not None or (value.count == 1 and spread is None))


def _fits(models: Any, intervals: ConformalIntervals, estimator: Any) -> bool:
    if type(models) is not FoldModels:
        return False
    expansion = estimator.expansion_
    same = (models.count, models.n_targets) == (intervals.count, intervals.n_targets)
    rows = expansion.n_features is not None or models.terms[0].n_centres == expansion.n_centres
    return same and models.n_features == expansion.n_features and rows


def _are_scores(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.dtype.kind != "f" or value.ndim not in (1, 2):
        return False
    targets = 1 if value.ndim == 1 else value.shape[1]
    return bool(estimator.expansion_.n_targets == targets and not np.any(value < 0))


def _has_intervals(value: Any, estimator: Any) -> bool:
    """Fold models serve intervals alone."""
    return is_none(value, estimator) or getattr(estimator, "intervals_", None) is not None


FITTED: dict[str, Rule] = {
    "intervals_": maybe(_makes_bounds),
    "fold_models_": _has_intervals,
    "spread_models_": _has_intervals,
    "conformity_scores_": maybe(_are_scores),
}
