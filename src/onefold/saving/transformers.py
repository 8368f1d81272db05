"""The scikit-learn classes that may stand around an estimator in a file, and what each must hold.

An entry lists every attribute that fitting sets, private ones included, so that `transform` gives the
same bits after loading, and a rule for each. What depends on the values (that the steps fit each other,
that a row passes through) is settled by `onefold.saving.selftest`; the rules here see to it that trying
is safe: types, shapes, and no index or size that reaches beyond the arrays of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold.saving.errors import BadContent
from onefold.saving.rules import (
    Rule,
    State,
    array,
    either,
    is_bool,
    is_dict,
    is_dtype,
    is_estimator,
    is_list,
    is_names,
    is_none,
    is_number,
    is_text,
    maybe,
    named,
    one_of,
    per_feature,
    whole_number,
)

_MOST_FEATURES = 1 << 22  # made by PolynomialFeatures
_HIGHEST_DEGREE = 1000
_MOST_JOBS = 256


def _is_steps(value: Any, owner: Any) -> bool:
    """A list of (name, step) or (name, step, columns), each step a word or a listed class."""
    words = ("drop", "passthrough")
    return type(value) is list and all(
        type(entry) is tuple
        and len(entry) in (2, 3)
        and isinstance(entry[0], str)
        and (entry[1] is None or isinstance(entry[1], BaseEstimator) or entry[1] in words)
        for entry in value
    )


def _is_slices(value: Any, owner: Any) -> bool:
    return type(value) is dict and all(type(item) is slice for item in value.values())


# What a list of rules cannot say


def _check_onehot(owner: Any) -> None:
    """Column numbers reach C code unchecked: they must lie within the columns that are allotted."""
    grouped, dropped = owner._infrequent_enabled, owner._drop_idx_after_grouping
    for i, categories in enumerate(owner.categories_):
        columns = categories.size
        if grouped and owner._infrequent_indices[i] is not None:
            rare, groups = owner._infrequent_indices[i], owner._default_to_infrequent_mappings[i]
            columns -= rare.size - 1
            if not (_within(rare, categories.size) and _within(groups, columns)):
                raise BadContent("the groups of its OneHotEncoder do not fit its categories")
            if groups.size != categories.size:
                raise BadContent("the groups of its OneHotEncoder do not fit its categories")
        drop = None if dropped is None else dropped[i]
        if drop is not None and not (_whole(drop, owner) and drop < columns):
            raise BadContent("its OneHotEncoder drops a category that there is not")
    if owner._n_features_outs != owner._compute_n_features_outs():
        raise BadContent("its OneHotEncoder has other columns than its categories give")


def _within(values: np.ndarray, count: int) -> bool:
    return values.size > 0 and bool(values.min() >= 0) and bool(values.max() < count)


def _check_polynomial(owner: Any) -> None:
    n, low, high = owner.n_features_in_, owner._min_degree, owner._max_degree
    if high > _HIGHEST_DEGREE or n > _MOST_FEATURES:
        raise BadContent("its PolynomialFeatures makes more features than can be handled")
    options = owner.interaction_only, owner.include_bias
    made, full = (owner._num_combinations(n, first, high, *options) for first in (low, 0))
    if not 0 < full <= _MOST_FEATURES or (made, full) != (owner.n_output_features_, owner._n_out_full):
        raise BadContent("its PolynomialFeatures does not make the features that it says")


def _check_quantiles(owner: Any) -> None:
    for table in (owner.references_[:, None], owner.quantiles_):
        known, gaps = np.nan_to_num(table), np.isnan(table)
        if not np.array_equal(gaps.all(axis=0), gaps.any(axis=0)):  # NaN: a feature without values
            raise BadContent("the quantiles of its QuantileTransformer have gaps")
        if table.shape[0] != owner.n_quantiles_ or np.any(np.diff(known, axis=0) < 0):
            raise BadContent("the quantiles of its QuantileTransformer do not rise")


def _check_knn(owner: Any) -> None:
    if owner._fit_X.shape != owner._mask_fit_X.shape:
        raise BadContent("the rows of its KNNImputer do not fit their mask")


_whole, _vector, _stored = whole_number(), array("n"), "biufOU"

# Parameters that could run code, start processes or touch the disk when the model is used.
_PARAMETERS: dict[str, Rule] = {
    **dict.fromkeys(("func", "inverse_func", "memory", "kw_args", "inv_kw_args"), is_none),
    "feature_names_out": maybe(is_text),
    "n_jobs": lambda v, o: v is None or (isinstance(v, int) and abs(v) <= _MOST_JOBS and v != 0),
    **dict.fromkeys(("steps", "transformers", "transformer_list"), _is_steps),
}
_COMMON: dict[str, Rule] = {
    "n_features_in_": _whole,
    "feature_names_in_": is_names,
    "_sklearn_output_config": one_of({}, *({"transform": k} for k in ("default", "pandas", "polars"))),
}


def _state(*fitted: dict[str, Rule], whole: Callable[[Any], None] | None = None) -> State:
    rules = {key: rule for part in (_COMMON, *fitted) for key, rule in part.items()}
    return State(_PARAMETERS, rules, whole=whole, closed=True)


def _each(rule: Rule, *names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, rule)


_ENCODER: dict[str, Rule] = {
    "categories_": per_feature(array(None, kinds=_stored)),
    "_infrequent_enabled": is_bool,
    "_infrequent_indices": per_feature(maybe(array(None, kinds="i"))),
    "_default_to_infrequent_mappings": per_feature(maybe(array(None, kinds="i"))),
}
_SPECTRUM = {
    "components_": array(None, "n"),
    **_each(array(None), "explained_variance_", "explained_variance_ratio_", "singular_values_"),
}
_INDICATOR = {"indicator_": maybe(named("MissingIndicator"))}
TRANSFORMERS: dict[str, dict[str, State]] = {
    "sklearn.preprocessing": {
        "Binarizer": _state(),
        "FunctionTransformer": _state(),
        "MaxAbsScaler": _state({"n_samples_seen_": is_number}, _each(_vector, "max_abs_", "scale_")),
        "MinMaxScaler": _state(
            {"n_samples_seen_": is_number},
            _each(_vector, "scale_", "min_", "data_min_", "data_max_", "data_range_"),
        ),
        "Normalizer": _state(),
        "OneHotEncoder": _state(
            _ENCODER,
            _each(maybe(array("n", kinds="Oi")), "drop_idx_", "_drop_idx_after_grouping"),
            {"_n_features_outs": per_feature(_whole)},
            whole=_check_onehot,
        ),
        "OrdinalEncoder": _state(_ENCODER, {"_missing_indices": is_dict}),
        "PolynomialFeatures": _state(
            _each(_whole, "_min_degree", "_max_degree", "n_output_features_", "_n_out_full"),
            whole=_check_polynomial,
        ),
        "PowerTransformer": _state({"lambdas_": _vector, "_scaler": named("StandardScaler")}),
        "QuantileTransformer": _state(
            {"n_quantiles_": _whole, "references_": array(None), "quantiles_": array(None, "n")},
            whole=_check_quantiles,
        ),
        "RobustScaler": _state(_each(maybe(_vector), "center_", "scale_")),
        "StandardScaler": _state(
            {"n_samples_seen_": either(is_number, array("n", kinds="iuf"))},
            _each(maybe(_vector), "mean_", "var_", "scale_"),
        ),
    },
    "sklearn.impute": {
        "KNNImputer": _state(
            _INDICATOR,
            {"_fit_X": array(None, "n"), "_mask_fit_X": array(None, "n", kinds="b")},
            {"_valid_mask": array("n", kinds="b")},
            whole=_check_knn,
        ),
        "MissingIndicator": _state(
            {"features_": array(None, kinds="iu"), "_n_features": _whole, "_precomputed": is_bool}
        ),
        "SimpleImputer": _state(
            _INDICATOR,
            {"statistics_": array("n", kinds=_stored)},
            _each(is_dtype, "_fit_dtype", "_fill_dtype"),
        ),
    },
    "sklearn.compose": {
        "ColumnTransformer": _state(
            {
                "transformers_": _is_steps,
                "output_indices_": _is_slices,
                "sparse_output_": is_bool,
                "_columns": is_list,
                "_remainder": lambda v, o: _is_steps([v], o),
                "_n_features": _whole,
                "_transformers_feature_names_out": array(None, kinds="OU"),
            },
            _each(is_dict, "_transformer_to_input_indices", "_name_to_fitted_passthrough"),
        ),
        "TransformedTargetRegressor": _state(
            _each(is_estimator, "regressor_", "transformer_"), {"_training_dim": one_of(1, 2)}
        ),
    },
    "sklearn.decomposition": {
        "PCA": _state(
            _SPECTRUM,
            {"mean_": _vector, "noise_variance_": is_number, "_fit_svd_solver": is_text},
            _each(_whole, "n_components_", "n_samples_"),
        ),
        "TruncatedSVD": _state(_SPECTRUM),
    },
    "sklearn.feature_selection": {"VarianceThreshold": _state({"variances_": _vector})},
    "sklearn.pipeline": {"FeatureUnion": _state(), "Pipeline": _state()},
}
