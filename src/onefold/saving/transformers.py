"""The scikit-learn classes that may stand around an estimator in a file, and what each must hold.

An entry lists every attribute that fitting sets, private ones included, so that `transform` gives the
same bits after loading, and a rule for each. What depends on the values (that the steps fit each other,
that a row passes through) is settled by `onefold.saving.selftest`; the rules here see to it that trying
is safe: types, shapes, and no index or size that reaches beyond the arrays of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold.saving.errors import NONSENSE, BadContent

Rule = Callable[[Any, Any], Any]  # (value, its owner); False or an exception means no

_MOST_FEATURES = 1 << 22  # made by PolynomialFeatures
_HIGHEST_DEGREE = 1000
_MOST_JOBS = 256
_FARTHEST = 1e150  # the square of a difference of two such numbers is still finite


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


# Rules for single values


def _is_int(value: Any, owner: Any = None) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def _is_bool(value: Any, owner: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: Any, owner: Any) -> bool:
    return isinstance(value, Real)


def _is_dtype(value: Any, owner: Any) -> bool:
    return isinstance(value, np.dtype)


def _is_text(value: Any, owner: Any) -> bool:
    return isinstance(value, str)


def _is_dict(value: Any, owner: Any) -> bool:
    return type(value) is dict


def _array(*shape: str | None, kinds: str = "f") -> Rule:
    """An array with one axis for each of `shape`; "n" is one entry per feature, None any number."""

    def rule(value: Any, owner: Any) -> bool:
        if type(value) is not np.ndarray or value.dtype.kind not in kinds or value.ndim != len(shape):
            return False
        if value.dtype.kind == "f" and np.any(np.abs(value.astype(np.float64)) > _FARTHEST):
            return False  # NaN has its uses; whether it does harm, the test will tell
        return all(size == owner.n_features_in_ for size, axis in zip(value.shape, shape) if axis)

    return rule


def _maybe(rule: Rule) -> Rule:
    return lambda value, owner: value is None or rule(value, owner)


def _either(*rules: Rule) -> Rule:
    return lambda value, owner: any(rule(value, owner) for rule in rules)


def _instance(*names: str) -> Rule:
    return lambda value, owner: type(value).__name__ in names and isinstance(value, BaseEstimator)


def _per_feature(rule: Rule) -> Rule:
    """A list with one entry per feature, each of which the rule accepts."""
    return lambda value, owner: (
        type(value) is list
        and len(value) == owner.n_features_in_
        and all(rule(item, owner) for item in value)
    )


def _is_names(value: Any, owner: Any) -> bool:
    named = type(value) is np.ndarray and value.shape == (owner.n_features_in_,)
    return named and all(isinstance(item, str) for item in value.tolist())


def _is_output_config(value: Any, owner: Any) -> bool:
    return value in ({}, *({"transform": kind} for kind in ("default", "pandas", "polars")))


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


def _is_identity(value: Any, owner: Any) -> bool:
    return value is None


_vector, _stored = _array("n"), "biufOU"

# Parameters that could run code, start processes or touch the disk when the model is used.
_PARAMETERS: dict[str, Rule] = {
    "func": _is_identity,
    "inverse_func": _is_identity,
    "memory": _is_identity,
    "kw_args": _is_identity,
    "inv_kw_args": _is_identity,
    "feature_names_out": _maybe(_is_text),
    "n_jobs": lambda v, o: v is None or (isinstance(v, int) and abs(v) <= _MOST_JOBS and v != 0),
    "steps": _is_steps,
    "transformers": _is_steps,
    "transformer_list": _is_steps,
}
_COMMON: dict[str, Rule] = {
    "n_features_in_": _is_int,
    "feature_names_in_": _is_names,
    "_sklearn_output_config": _is_output_config,
}
_ENCODER: dict[str, Rule] = {
    "categories_": _per_feature(_array(None, kinds=_stored)),
    "_infrequent_enabled": _is_bool,
    "_infrequent_indices": _per_feature(_maybe(_array(None, kinds="i"))),
    "_default_to_infrequent_mappings": _per_feature(_maybe(_array(None, kinds="i"))),
}
STATE: dict[str, dict[str, Rule]] = {
    "StandardScaler": {
        "n_samples_seen_": _either(_is_number, _array("n", kinds="iuf")),
        **dict.fromkeys(("mean_", "var_", "scale_"), _maybe(_vector)),
    },
    "MinMaxScaler": {
        "n_samples_seen_": _is_number,
        **dict.fromkeys(("scale_", "min_", "data_min_", "data_max_", "data_range_"), _vector),
    },
    "MaxAbsScaler": {"n_samples_seen_": _is_number, "max_abs_": _vector, "scale_": _vector},
    "RobustScaler": dict.fromkeys(("center_", "scale_"), _maybe(_vector)),
    "Normalizer": {},
    "Binarizer": {},
    "PowerTransformer": {"lambdas_": _vector, "_scaler": _instance("StandardScaler")},
    "QuantileTransformer": {
        "n_quantiles_": _is_int,
        "references_": _array(None),
        "quantiles_": _array(None, "n"),
    },
    "PolynomialFeatures": dict.fromkeys(
        ("_min_degree", "_max_degree", "n_output_features_", "_n_out_full"), _is_int
    ),
    "FunctionTransformer": {},
    "OneHotEncoder": {
        **_ENCODER,
        "drop_idx_": _maybe(_array("n", kinds="Oi")),
        "_drop_idx_after_grouping": _maybe(_array("n", kinds="Oi")),
        "_n_features_outs": _per_feature(_is_int),
    },
    "OrdinalEncoder": {**_ENCODER, "_missing_indices": _is_dict},
    "SimpleImputer": {
        "statistics_": _array("n", kinds=_stored),
        "indicator_": _maybe(_instance("MissingIndicator")),
        "_fit_dtype": _is_dtype,
        "_fill_dtype": _is_dtype,
    },
    "KNNImputer": {
        "_fit_X": _array(None, "n"),
        "_mask_fit_X": _array(None, "n", kinds="b"),
        "_valid_mask": _array("n", kinds="b"),
        "indicator_": _maybe(_instance("MissingIndicator")),
    },
    "MissingIndicator": {
        "features_": _array(None, kinds="iu"),
        "_n_features": _is_int,
        "_precomputed": _is_bool,
    },
    "PCA": {
        "components_": _array(None, "n"),
        "mean_": _vector,
        **dict.fromkeys(
            ("explained_variance_", "explained_variance_ratio_", "singular_values_"), _array(None)
        ),
        "noise_variance_": _is_number,
        "n_components_": _is_int,
        "n_samples_": _is_int,
        "_fit_svd_solver": _is_text,
    },
    "TruncatedSVD": {
        "components_": _array(None, "n"),
        **dict.fromkeys(
            ("explained_variance_", "explained_variance_ratio_", "singular_values_"), _array(None)
        ),
    },
    "VarianceThreshold": {"variances_": _vector},
    "ColumnTransformer": {
        "transformers_": _is_steps,
        "output_indices_": lambda v, o: type(v) is dict and all(type(i) is slice for i in v.values()),
        "sparse_output_": _is_bool,
        "_columns": lambda v, o: type(v) is list,
        "_transformer_to_input_indices": _is_dict,
        "_remainder": lambda v, o: _is_steps([v], o),
        "_n_features": _is_int,
        "_name_to_fitted_passthrough": _is_dict,
        "_transformers_feature_names_out": _array(None, kinds="OU"),
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
        if drop is not None and not (_is_int(drop) and drop < columns):
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
        known = np.nan_to_num(table)  # a feature without values has NaN throughout
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
