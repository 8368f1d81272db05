"""Do the parts of a model fit together? Asked before writing and after reading."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold.arrays import all_finite, is_foreign, is_sparse
from onefold.kernels import Kernel, Precomputed
from onefold.saving import registry
from onefold.saving.errors import BadContent

_EXPANSIONS = ("Expansion", "GridExpansion")


def check_consistent(value: Any) -> None:
    """Check an expansion, or the attributes of a fitted estimator; other values pass.

    Raises
    ------
    BadContent
        If predictions could not be made, or would be meaningless.
    """
    if registry.name_of(value) in _EXPANSIONS:
        _check_expansion(value)
    elif isinstance(value, BaseEstimator) and hasattr(value, "expansion_"):
        _check_estimator(value)


def _check_expansion(expansion: Any) -> None:
    """Shapes were compared by its constructor."""
    kernel, centres = expansion.kernel, expansion.centres
    if not isinstance(kernel, Kernel):
        raise BadContent("the kernel of its expansion is not a kernel")
    _check_numbers(expansion.coef, "the coefficients")
    _check_numbers(expansion.intercept, "the intercepts")
    if (centres is None) != isinstance(kernel, Precomputed):
        raise BadContent("its expansion has centres without need, or lacks them")
    if centres is None:
        return
    _check_numbers(centres, "the centres")
    if centres.ndim != 2:
        raise BadContent("the centres of its expansion are not a table of rows")
    try:
        kernel.check_features(centres.shape[1])
    except ValueError as error:
        raise BadContent(f"its kernel does not fit its centres ({error!s:.200})") from error


def _check_numbers(value: Any, what: str) -> None:
    if not (type(value) is np.ndarray or is_sparse(value) or is_foreign(value)):
        raise BadContent(f"{what} of its expansion are not an array")
    if not is_foreign(value) and value.dtype.kind != "f":
        raise BadContent(f"{what} of its expansion have dtype {value.dtype}, not floating point")
    if not all_finite(value):
        raise BadContent(f"{what} of its expansion are not all finite")


def _check_estimator(estimator: Any) -> None:
    expansion = estimator.expansion_
    if registry.name_of(expansion) not in _EXPANSIONS:
        raise BadContent("its expansion_ is not an expansion")
    n_features = getattr(estimator, "n_features_in_", None)
    width = expansion.n_centres if expansion.centres is None else expansion.centres.shape[1]
    if n_features is not None and (not isinstance(n_features, Integral) or n_features != width):
        raise BadContent(f"its n_features_in_ is {n_features!r:.40}, but its expansion has {width}")
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return
    if type(classes) is not np.ndarray or classes.ndim != 1:
        raise BadContent("its classes_ are not a list of labels")
    columns = expansion.coef.shape[1]
    if columns != (1 if classes.size == 2 else classes.size):
        raise BadContent(f"its {classes.size} classes do not fit {columns} columns of coefficients")
