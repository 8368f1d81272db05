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

from onefold.saving.errors import NONSENSE, BadContent
from onefold.saving.rules import (
    Rule,
    array,
    either,
    instance,
    is_bool,
    is_dict,
    is_dtype,
    is_int,
    is_names,
    is_none,
    is_number,
    is_output_config,
    is_steps,
    is_text,
    maybe,
    per_feature,
)

_MOST_FEATURES = 1 << 22  # made by PolynomialFeatures
_HIGHEST_DEGREE = 1000
_MOST_JOBS = 256


def check_transformer(value: BaseEstimator, name: str) -> None:
    """Raise BadContent unless parameters and fitted attributes of a listed class make sense."""
    params = value.get_params(deep=False)
    fitted = {key: item for key, item in vars(value).items() if key not in params}
    try:
        if hasattr(value, "_parameter_constraints"):
            value._validate_params()
        for key, rule in _PARAMETERS.items():
            if key in params and rule(params[key], value) is False:
                raise BadContent(
                    f"the {key} of its {name} is {params[key]!r:.60}, which no file holds",
                    "leave it at its default and fit again",
                )
        for key, rule in (_COMMON | STATE[name]).items():
            if key in fitted and rule(fitted[key], value) is False:
                raise BadContent(f"the {key} of its {name} is not valid")
        if fitted.keys() - {"_sklearn_output_config"}:
            _CHECKS.get(name, lambda owner: None)(value)
    except BadContent:
        raise
    except NONSENSE as error:
        raise BadContent(f"its {name} is not valid ({error!s:.200})") from error


def known_attributes(name: str) -> frozenset[str]:
    """What fitting sets on an instance of a listed class."""
    return frozenset(_COMMON) | frozenset(STATE[name])


_vector, _stored = array("n"), "biufOU"

# Parameters that could run code, start processes or touch the disk when the model is used.
_PARAMETERS: dict[str, Rule] = {
    "func": is_none,
    "inverse_func": is_none,
    "memory": is_none,
    "kw_args": is_none,
    "inv_kw_args": is_none,
    "feature_names_out": maybe(is_text),
    "n_jobs": lambda v, o: v is None or (isinstance(v, int) and abs(v) <= _MOST_JOBS and v != 0),
    "steps": is_steps,
    "transformers": is_steps,
    "transformer_list": is_steps,
}
_COMMON: dict[str, Rule] = {
    "n_features_in_": is_int,
    "feature_names_in_": is_names,
    "_sklearn_output_config": is_output_config,
}
_ENCODER: dict[str, Rule] = {
    "categories_": per_feature(array(None, kinds=_stored)),
    "_infrequent_enabled": is_bool,
    "_infrequent_indices": per_feature(maybe(array(None, kinds="i"))),
    "_default_to_infrequent_mappings": per_feature(maybe(array(None, kinds="i"))),
}
STATE: dict[str, dict[str, Rule]] = {
    "StandardScaler": {
        "n_samples_seen_": either(is_number, array("n", kinds="iuf")),
        **dict.fromkeys(("mean_", "var_", "scale_"), maybe(_vector)),
    },
    "MinMaxScaler": {
        "n_samples_seen_": is_number,
        **dict.fromkeys(("scale_", "min_", "data_min_", "data_max_", "data_range_"), _vector),
    },
    "MaxAbsScaler": {"n_samples_seen_": is_number, "max_abs_": _vector, "scale_": _vector},
    "RobustScaler": dict.fromkeys(("center_", "scale_"), maybe(_vector)),
    "Normalizer": {},
    "Binarizer": {},
    "PowerTransformer": {"lambdas_": _vector, "_scaler": instance("StandardScaler")},
    "QuantileTransformer": {
        "n_quantiles_": is_int,
        "references_": array(None),
        "quantiles_": array(None, "n"),
    },
    "PolynomialFeatures": dict.fromkeys(
        ("_min_degree", "_max_degree", "n_output_features_", "_n_out_full"), is_int
    ),
    "FunctionTransformer": {},
    "OneHotEncoder": {
        **_ENCODER,
        "drop_idx_": maybe(array("n", kinds="Oi")),
        "_drop_idx_after_grouping": maybe(array("n", kinds="Oi")),
        "_n_features_outs": per_feature(is_int),
    },
    "OrdinalEncoder": {**_ENCODER, "_missing_indices": is_dict},
    "SimpleImputer": {
        "statistics_": array("n", kinds=_stored),
        "indicator_": maybe(instance("MissingIndicator")),
        "_fit_dtype": is_dtype,
        "_fill_dtype": is_dtype,
    },
    "KNNImputer": {
        "_fit_X": array(None, "n"),
        "_mask_fit_X": array(None, "n", kinds="b"),
        "_valid_mask": array("n", kinds="b"),
        "indicator_": maybe(instance("MissingIndicator")),
    },
    "MissingIndicator": {
        "features_": array(None, kinds="iu"),
        "_n_features": is_int,
        "_precomputed": is_bool,
    },
    "PCA": {
        "components_": array(None, "n"),
        "mean_": _vector,
        **dict.fromkeys(
            ("explained_variance_", "explained_variance_ratio_", "singular_values_"), array(None)
        ),
        "noise_variance_": is_number,
        "n_components_": is_int,
        "n_samples_": is_int,
        "_fit_svd_solver": is_text,
    },
    "TruncatedSVD": {
        "components_": array(None, "n"),
        **dict.fromkeys(
            ("explained_variance_", "explained_variance_ratio_", "singular_values_"), array(None)
        ),
    },
    "VarianceThreshold": {"variances_": _vector},
    "ColumnTransformer": {
        "transformers_": is_steps,
        "output_indices_": lambda v, o: type(v) is dict and all(type(i) is slice for i in v.values()),
        "sparse_output_": is_bool,
        "_columns": lambda v, o: type(v) is list,
        "_transformer_to_input_indices": is_dict,
        "_remainder": lambda v, o: is_steps([v], o),
        "_n_features": is_int,
        "_name_to_fitted_passthrough": is_dict,
        "_transformers_feature_names_out": array(None, kinds="OU"),
    },
    "FeatureUnion": {},
    "Pipeline": {},
    "TransformedTargetRegressor": {
        "regressor_": lambda v, o: isinstance(v, BaseEstimator),
        "transformer_": lambda v, o: isinstance(v, BaseEstimator),
        "_training_dim": lambda v, o: type(v) is int and v in (1, 2),
    },
}


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
        if drop is not None and not (is_int(drop) and drop < columns):
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


_CHECKS: dict[str, Callable[[Any], None]] = {
    "OneHotEncoder": _check_onehot,
    "PolynomialFeatures": _check_polynomial,
    "KNNImputer": _check_knn,
    "QuantileTransformer": _check_quantiles,
}
