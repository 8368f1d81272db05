"""Do the parts of a fitted estimator fit together? Asked before writing and after reading.

Whatever passes can be used: `predict`, `repr`, `clone`, ``onefold inspect`` and saving it again.
Attributes without a rule here, such as those of a newer version, are left alone.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.random import Generator, RandomState
from sklearn.base import BaseEstimator, is_classifier

from onefold.approximations import resolve_approximation
from onefold.estimators.validation import check_alphas
from onefold.kernels import resolve_kernel
from onefold.kernels.base import check_width
from onefold.linalg import is_foreign, to_numpy
from onefold.saving import registry
from onefold.saving.errors import NONSENSE, BadContent
from onefold.saving.expansions import EXPANSIONS, check_expansion
from onefold.saving.rules import Rule
from onefold.saving.transformers import STATE, check_transformer

_MOST_JOBS = 4096
_ALWAYS = ("expansion_", "n_features_in_", "approximation_")
_CHOSEN = (
    "gamma_", "alpha_", "best_index_", "best_params_", "best_score_", "cv_results_",
    "heldout_prediction_", "history_",
)  # fmt: skip
_PRUNED = ("gamma_", "alpha_", "best_score_", "path_", "n_centres_")


def check_consistent(value: Any) -> None:
    """Check an expansion, or a fitted estimator; other values pass.

    Raises
    ------
    BadContent
        If predictions could not be made, or would be meaningless.
    """
    name = registry.name_of(value)
    if name in EXPANSIONS:
        check_expansion(value)
    elif name in STATE:
        check_transformer(value, name)
    elif name in registry.ESTIMATORS:
        _check_rules(value, PARAMETERS)
        fitted = {key for key in vars(value) if key.endswith("_") and not key.startswith("_")}
        if fitted:
            _check_fitted(value, name)


def _check_fitted(estimator: Any, name: str) -> None:
    needed: tuple[str, ...] = (*_ALWAYS, "classes_" if is_classifier(estimator) else "single_target_")
    needed += _CHOSEN if name.endswith("CV") else _PRUNED if name.startswith("Sparse") else ()
    for key in needed:
        if key not in vars(estimator):
            raise BadContent(f"its {name} lacks {key}")
    _check_rules(estimator, FITTED)


def _check_rules(estimator: BaseEstimator, rules: dict[str, Rule]) -> None:
    for key, rule in rules.items():
        if key not in vars(estimator):
            continue
        value = vars(estimator)[key]
        try:
            accepted = rule(to_numpy(value) if is_foreign(value) else value, estimator) is not False
        except NONSENSE as error:
            raise BadContent(f"its {key} is not valid ({error!s:.200})") from error
        if not accepted:
            raise BadContent(f"its {key} is {value!r:.60}, which does not fit the rest of the model")


# Rules for single values


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and 0.0 < float(value) < math.inf


def _is_vector(value: Any, kinds: str = "f") -> bool:
    return type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in kinds


def _check_widths(value: Any, estimator: Any) -> None:
    """Raise unless `value` is a list of widths, "scale" among them."""
    if value is not None:
        check_alphas([1.0 if item == "scale" else item for item in value], "gammas")


def _check_class_weight(value: Any, estimator: Any) -> bool:
    if isinstance(value, dict):
        weights = value.values()
        return all(isinstance(item, Real) and 0.0 <= float(item) < math.inf for item in weights)
    return value is None or value == "balanced"


def _check_settings(value: Any, estimator: Any) -> None:
    """Raise unless the settings of a pruned estimator fit together."""
    settings = [estimator.n_centres, estimator.tolerance, estimator.max_centres, estimator.drop]
    if not all(item is None or isinstance(item, Real) for item in settings):
        raise TypeError("n_centres, tolerance, max_centres and drop are numbers")
    estimator._check_settings()


PARAMETERS: dict[str, Rule] = {
    "kernel": lambda v, e: resolve_kernel(v, 1.0, 3, 1.0),
    "gamma": lambda v, e: v is None or (isinstance(v, str) and v == "scale") or check_width(v),
    "gammas": _check_widths,
    "alpha": lambda v, e: check_alphas(v, "alpha"),
    "alphas": lambda v, e: v is None or check_alphas(v, "alphas"),
    "degree": lambda v, e: _is_positive(v),
    "coef0": lambda v, e: isinstance(v, Real) and math.isfinite(v),
    "approximation": lambda v, e: resolve_approximation(v),
    "class_weight": _check_class_weight,
    "n_jobs": lambda v, e: v is None or (_is_integer(v) and 0 < abs(v) <= _MOST_JOBS),
    "criterion": lambda v, e: v is None or isinstance(v, str) or callable(v),
    "callback": lambda v, e: v is None or callable(v),
    "refit": lambda v, e: isinstance(v, str) and v in ("auto", "exact", "same"),
    "check": lambda v, e: isinstance(v, bool | np.bool_),
    "verbose": lambda v, e: isinstance(v, Real),
    "device": lambda v, e: v is None or isinstance(v, str) or type(v).__name__ == "device",
    "random_state": lambda v, e: (
        v is None or isinstance(v, RandomState | Generator) or (_is_integer(v) and v >= 0)
    ),
    "prune": _check_settings,
}


# Rules for fitted attributes


def _check_expansion_attribute(value: Any, estimator: Any) -> bool:
    return registry.name_of(value) in EXPANSIONS


def _check_feature_count(value: Any, estimator: Any) -> bool:
    expansion = estimator.expansion_
    # Not the centres of a grid: they would be formed.
    width = getattr(expansion, "n_features", None)
    if width is None:
        width = expansion.n_centres if expansion.centres is None else expansion.centres.shape[1]
    return _is_integer(value) and value == width


def _check_feature_names(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.shape != (estimator.n_features_in_,):
        return False
    return all(isinstance(name, str) for name in value.tolist())


def _check_classes(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.ndim != 1 or value.size < 2:
        return False
    columns = estimator.expansion_.coef.shape[1]
    labels = value.tolist()
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        return False
    if value.dtype.kind == "O" and not all(isinstance(item, str | Real) for item in labels):
        return False
    return columns == (1 if value.size == 2 else value.size) and len(set(labels)) == value.size


def _check_single_target(value: Any, estimator: Any) -> bool:
    single = estimator.expansion_.coef.shape[1] == 1
    return isinstance(value, bool | np.bool_) and (single or not value)


def _check_approximation(value: Any, estimator: Any) -> bool:
    if type(value) is not dict or not all(type(key) is str for key in value):
        return False
    stages = [value] if "fitted_with" not in value else list(value.values())
    return all(type(stage) is dict for stage in stages)


def _check_table(value: Any, count: int) -> bool:
    """Whether every column of a table of results has `count` entries."""
    return type(value) is dict and all(
        type(key) is str and isinstance(column, list | np.ndarray) and np.shape(column)[:1] == (count,)
        for key, column in value.items()
    )


def _check_results(value: Any, estimator: Any) -> bool:
    params, means = value["params"], value["mean_test_score"]
    if not _is_vector(means) or not all(type(item) is dict for item in params):
        return False
    scores = [column for key, column in value.items() if key.endswith("_score")]
    return _check_table(value, len(params)) and all(column.dtype.kind in "fi" for column in scores)


def _check_best_index(value: Any, estimator: Any) -> bool:
    return _is_integer(value) and 0 <= value < len(estimator.cv_results_["params"])


def _check_best_params(value: Any, estimator: Any) -> bool:
    known = type(value) is dict and all(isinstance(item, Real | str) for item in value.values())
    return known and value == estimator.cv_results_["params"][estimator.best_index_]


def _check_heldout(value: Any, estimator: Any) -> bool:
    if value is None:
        return True
    array = type(value) is np.ndarray and value.dtype.kind == "f" and value.ndim in (1, 2)
    columns = 1 if array and value.ndim == 1 else np.shape(value)[-1]
    return array and columns == estimator.expansion_.coef.shape[1]


def _check_path(value: Any, estimator: Any) -> bool:
    sizes, means = value["n_centres"], value["mean_test_score"]
    return _is_vector(sizes, "iu") and _is_vector(means) and _check_table(value, sizes.size)


FITTED: dict[str, Rule] = {  # in this order: later rules rely on earlier ones
    "expansion_": _check_expansion_attribute,
    "n_features_in_": _check_feature_count,
    "feature_names_in_": _check_feature_names,
    "classes_": _check_classes,
    "single_target_": _check_single_target,
    "approximation_": _check_approximation,
    "gamma_": lambda v, e: v is None or _is_positive(v),
    "alpha_": lambda v, e: _is_positive(v),
    "best_score_": lambda v, e: isinstance(v, Real) and math.isfinite(v),
    "cv_results_": _check_results,
    "best_index_": _check_best_index,
    "best_params_": _check_best_params,
    "heldout_prediction_": _check_heldout,
    "history_": lambda v, e: type(v) is list and all(type(item) is dict for item in v),
    "path_": _check_path,
    "n_centres_": lambda v, e: _is_integer(v) and v >= 1,
    "robust_weights_": lambda v, e: _is_vector(v) and bool(np.isfinite(v).all()),
    "robust_rounds_": lambda v, e: _is_integer(v) and v >= 0,
}
