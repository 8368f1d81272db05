"""The state of onefold's estimators and expansions in files."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from onefold.approximations import resolve_approximation
from onefold.estimators.validation import check_alphas
from onefold.expansions import FoldModels
from onefold.kernels.base import check_width
from onefold.saving import intervals
from onefold.saving.choices import FITTED, PARAMETERS, one_kernel, some_kernels
from onefold.saving.expansions import blend_fields, build_blend, check_expansion
from onefold.saving.rules import (
    Layout,
    Rule,
    State,
    array,
    either,
    is_bool,
    is_names,
    is_number,
    maybe,
    number,
    of_type,
    one_of,
    whole_number,
)

_MOST_JOBS = 4096

EXPANSIONS = {
    **dict.fromkeys(("Expansion", "GridExpansion"), State(whole=check_expansion)),
    "Blend": State(whole=check_expansion, layout=Layout(blend_fields, build_blend)),
    "FoldModels": intervals.FOLD_MODELS,
}


# Parameters


def _check_widths(value: Any, estimator: Any) -> None:
    """Raise unless `value` is a list of widths, "scale" among them."""
    if value is not None:
        check_alphas([1.0 if item == "scale" else item for item in value], "gammas")


def _check_class_weight(value: Any, estimator: Any) -> bool:
    if isinstance(value, dict):
        weights = value.values()
        return all(isinstance(item, Real) and 0.0 <= float(item) < math.inf for item in weights)
    return value is None or value == "balanced"


def _check_criterion(value: Any, estimator: Any) -> bool:
    several = type(value) in (list, tuple) and len(value) > 0
    return value is None or all(
        isinstance(one, str) or callable(one) for one in (value if several else [value])
    )


def _check_settings(value: Any, estimator: Any) -> None:
    """Raise unless the settings of a pruned estimator fit together."""
    settings = [estimator.n_centres, estimator.tolerance, estimator.max_centres, estimator.drop]
    if not all(item is None or isinstance(item, Real) for item in settings):
        raise TypeError("n_centres, tolerance, max_centres and drop are numbers")
    estimator._check_settings()


_PARAMETERS: dict[str, Rule] = {
    **PARAMETERS,
    "gamma": lambda v, e: v is None or (isinstance(v, str) and v == "scale") or check_width(v),
    "gammas": _check_widths,
    "alpha": lambda v, e: check_alphas(v, "alpha"),
    "alphas": lambda v, e: v is None or check_alphas(v, "alphas"),
    "degree": number(above=0.0),
    "coef0": number(),
    "approximation": lambda v, e: resolve_approximation(v),
    "class_weight": _check_class_weight,
    "n_jobs": lambda v, e: v is None or (whole_number(-_MOST_JOBS, _MOST_JOBS)(v, e) and v != 0),
    "criterion": _check_criterion,
    "callback": lambda v, e: v is None or callable(v),
    "refit": one_of("auto", "exact", "same"),
    "check": is_bool,
    "verbose": is_number,
    "device": lambda v, e: v is None or isinstance(v, str) or type(v).__name__ == "device",
    "client": lambda v, e: v is None or hasattr(v, "compute"),
    "random_state": maybe(either(of_type(np.random.RandomState, np.random.Generator), whole_number())),
    "max_centres": _check_settings,
    **intervals.PARAMETERS,
}


# Fitted attributes


def _check_feature_count(value: Any, estimator: Any) -> bool:
    expansion = estimator.expansion_
    width = expansion.n_centres if expansion.n_features is None else expansion.n_features
    return bool(whole_number()(value, estimator)) and value == width


def _check_classes(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.ndim != 1 or value.size < 2:
        return False
    columns = estimator.expansion_.n_targets
    labels = value.tolist()
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        return False
    if value.dtype.kind == "O" and not all(isinstance(item, str | Real) for item in labels):
        return False
    return columns == (1 if value.size == 2 else value.size) and len(set(labels)) == value.size


def _check_single_target(value: Any, estimator: Any) -> bool:
    single = estimator.expansion_.n_targets == 1
    return isinstance(value, bool | np.bool_) and (single or not value)


def _check_approximation(value: Any, estimator: Any) -> bool:
    if type(value) is not dict or not all(type(key) is str for key in value):
        return False
    stages = [value] if "fitted_with" not in value else list(value.values())
    return all(type(stage) is dict for stage in stages)


_scores = array(None, farthest=math.inf)


def _check_table(value: Any, count: int) -> bool:
    """Whether every column of a table of results has `count` entries."""
    return type(value) is dict and all(
        type(key) is str and isinstance(column, list | np.ndarray) and np.shape(column)[:1] == (count,)
        for key, column in value.items()
    )


def _check_results(value: Any, estimator: Any) -> bool:
    params, scores = value["params"], [value[key] for key in value if key.endswith("_score")]
    return (
        all(type(item) is dict for item in params)
        and bool(_scores(value["mean_test_score"], estimator))
        and _check_table(value, len(params))
        and all(column.dtype.kind in "fi" for column in scores)
    )


def _check_best_params(value: Any, estimator: Any) -> bool:
    known = type(value) is dict and all(isinstance(item, Real | str | None) for item in value.values())
    return known and value == estimator.cv_results_["params"][estimator.best_index_]


def _check_heldout(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.dtype.kind != "f" or value.ndim not in (1, 2):
        return value is None
    return bool(estimator.expansion_.n_targets == (1 if value.ndim == 1 else value.shape[1]))


def _check_path(value: Any, estimator: Any) -> bool:
    sizes, means = value["n_centres"], value["mean_test_score"]
    vectors = array(None, kinds="iu")(sizes, estimator) and _scores(means, estimator)
    return vectors and _check_table(value, sizes.size)


_FITTED: dict[str, Rule] = {  # in this order: later rules rely on earlier ones
    "expansion_": lambda v, e: type(v).__name__ in EXPANSIONS and type(v) is not FoldModels,
    "n_features_in_": _check_feature_count,
    "feature_names_in_": is_names,
    "classes_": _check_classes,
    "single_target_": _check_single_target,
    "approximation_": _check_approximation,
    "gamma_": maybe(number(above=0.0)),
    "alpha_": number(above=0.0),
    "best_score_": number(),
    "cv_results_": _check_results,
    "best_index_": lambda v, e: whole_number(0, len(e.cv_results_["params"]) - 1)(v, e),
    "best_params_": _check_best_params,
    "heldout_prediction_": _check_heldout,
    "history_": lambda v, e: type(v) is list and all(type(item) is dict for item in v),
    "path_": _check_path,
    "n_centres_": whole_number(1),
    "robust_weights_": lambda v, e: _scores(v, e) and bool(np.isfinite(v).all()),
    "robust_rounds_": whole_number(),
    **FITTED,
    **intervals.FITTED,
}


def _state(*needed: str, kernel: Rule = one_kernel) -> State:
    always = ("expansion_", "n_features_in_", "approximation_")
    return State({**_PARAMETERS, "kernel": kernel}, _FITTED, (*always, *needed))


def _search(*needed: str) -> State:
    """Of an estimator that may choose among kernels."""
    chosen = ("gamma_", "alpha_", "best_index_", "best_params_", "best_score_", "cv_results_")
    return _state(*needed, *chosen, "heldout_prediction_", "history_", kernel=some_kernels)


PARAMETERS_OF_SEARCH: dict[str, Rule] = {**_PARAMETERS, "kernel": some_kernels}
_PRUNED = ("gamma_", "alpha_", "best_score_", "path_", "n_centres_")
ESTIMATORS = {
    "LSSVC": _state("classes_"),
    "LSSVR": _state("single_target_"),
    "KernelRidge": _state("single_target_"),
    "LSSVCCV": _search("classes_"),
    "LSSVRCV": _search("single_target_"),
    "KernelRidgeCV": _search("single_target_"),
    "SparseLSSVC": _state("classes_", *_PRUNED),
    "SparseLSSVR": _state("single_target_", *_PRUNED),
}
