"""Checking and converting what users pass: rows, targets, weights, ridge values."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from onefold.kernels import Kernel, Precomputed
from onefold.linalg import (
    all_finite,
    double,
    is_foreign,
    is_sparse,
    namespace,
    to_numpy,
    without_gradient,
)
from onefold.rows import is_remote, opened

_LARGEST = 1e150  # its square is a float64
_LARGEST_TARGET = 1e140  # sums of its squares are float64, and so are those of its inverse
_LARGEST_SINGLE = 1e15  # its square, summed over features, is a float32


def check_rows(estimator: Any, X: Any, *, sparse: bool, fitting: bool) -> Any:
    """X as a finite two-dimensional float array or CSR matrix, in its own array library.

    Rows in single precision whose squares would overflow there are converted.
    """
    X = opened(X, getattr(estimator, "client", None))
    if is_remote(X):
        validate_data(estimator, X.example(), reset=fitting, skip_check_array=True)
        _check_largest(X.largest)
        return X.astype(np.float64) if X.largest > _LARGEST_SINGLE else X
    if is_foreign(X):
        X = _check_foreign_rows(estimator, X, fitting)
    else:
        X = _check_host_rows(estimator, X, sparse, fitting)
    if isinstance(estimator._kernel_for_tags(), Precomputed):
        return X
    values, xp = (X.data if is_sparse(X) else X), namespace(X)
    largest = max(float(xp.max(values)), -float(xp.min(values))) if 0 not in values.shape else 0.0
    _check_largest(largest)
    return double(X) if largest > _LARGEST_SINGLE else X


def _check_largest(largest: float) -> None:
    """Raise if squares of such values overflow."""
    if largest > _LARGEST:
        raise ValueError(
            f"X holds values as large as {largest:.3g}, whose squares overflow; scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )


def _check_host_rows(estimator: Any, X: Any, sparse: bool, fitting: bool) -> Any:
    try:
        return validate_data(
            estimator,
            X,
            reset=fitting,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
        )
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"X holds text ({error}); encode such columns as numbers first, "
            "for example with sklearn.preprocessing.OneHotEncoder."
        ) from error


def _check_foreign_rows(estimator: Any, X: Any, fitting: bool) -> Any:
    X, xp = without_gradient(X), namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"X must have two dimensions, rows and features, none empty; got shape {tuple(X.shape)}."
        )
    if X.dtype not in (xp.float32, xp.float64):
        if not xp.isdtype(X.dtype, ("integral", "bool", "real floating")):
            raise ValueError(f"X must hold real numbers; got {X.dtype}.")
        X = xp.astype(X, xp.float64)  # half precision too: its squares overflow from 256 on
    if not all_finite(X):
        raise ValueError("X contains NaN or infinity; impute or drop those rows.")
    return validate_data(estimator, X, reset=fitting, skip_check_array=True)  # names and their number


def check_kernel_matrix(kernel: Kernel, X: Any) -> None:
    """Raise unless a precomputed training matrix is square, and the widths match the features."""
    if isinstance(kernel, Precomputed) and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"a precomputed kernel matrix must be square to fit; got shape {tuple(X.shape)}."
        )
    kernel.check_features(X.shape[1])


def check_targets(y: Any, n: int) -> Any:
    """Numeric y of shape (n,) or (n, targets) as a NumPy array."""
    y = np.asarray(to_numpy(y)) if is_foreign(y) else y
    y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y", ensure_min_samples=0)
    if y.ndim > 2:
        raise ValueError(f"y must be (rows,) or (rows, targets); got shape {y.shape}.")
    check_length(y, n)
    return y


def as_labels(y: Any) -> Any:
    """Y as a splitter may see it: as it was given, or in host memory."""
    return to_numpy(y) if is_foreign(y) else y


def check_squares(Y: Any) -> None:
    """Raise if squared errors of such targets would overflow, or vanish, in float64."""
    xp = namespace(Y)
    size = float(xp.max(xp.abs(Y)))
    if size > _LARGEST_TARGET or 0 < size < 1 / _LARGEST_TARGET:
        raise ValueError(
            f"the targets vary by {size:.3g}, whose squared errors leave the range of float64; multiply "
            "y by a constant."
        )


def check_length(y: Any, n: int) -> None:
    """Raise unless y has a value for each of the n rows."""
    if y.shape[0] != n:
        raise ValueError(f"X has {n} rows but y has {y.shape[0]}; they must match row by row.")


def check_weights(sample_weight: Any, n: int) -> Any | None:
    """A NumPy vector of weights that are not negative (nor all 0, says scikit-learn)."""
    if sample_weight is None:
        return None
    given = to_numpy(sample_weight) if is_foreign(sample_weight) else sample_weight
    weight = _check_sample_weight(given, np.empty((n, 1)), dtype=np.float64)
    if np.any(weight < 0):
        raise ValueError("sample_weight must not be negative.")
    return weight


def weights_of_classes(class_weight: Any, y: Any) -> Any | None:
    """The weight of each row's class: finite and not negative."""
    if class_weight is None:
        return None
    weight = compute_sample_weight(class_weight, y)
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError(f"class_weight must hold finite numbers, none negative; got {class_weight!r}.")
    return weight


def mean_weight(weight: Any) -> float:
    """The mean of positive weights; exactly the weight where all are equal."""
    largest = float(weight.max())
    return largest * float(np.mean(weight / largest))


def check_alpha_count(alpha: Any, targets: int, estimator_type: str | None) -> None:
    """Raise unless there is one alpha, or in regression one per target."""
    if alpha.size > 1 and (estimator_type == "classifier" or alpha.size != targets):
        raise ValueError(
            f"alpha must be one number, or in regression one per target ({targets}); "
            f"got {alpha.size} values."
        )


def check_alphas(values: Any, name: str) -> Any:
    """A non-empty vector of positive numbers."""
    try:
        vector = np.asarray(to_numpy(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be positive numbers; got {values!r}.") from error
    if vector.ndim > 1 or vector.size == 0:
        raise ValueError(f"{name} must be a non-empty list of positive numbers; got {values!r}.")
    vector = vector.reshape(-1)
    if not np.all(np.isfinite(vector)) or np.any(vector <= 0):
        raise ValueError(f"{name} must be greater than 0 and finite; got {values!r}.")
    return vector


def check_budget(seconds: Any) -> float | None:
    """A time budget in seconds; raise unless it is None or a number greater than 0."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not float(seconds) > 0:
        raise ValueError(f"time_budget must be a number of seconds greater than 0; got {seconds!r}.")
    return float(seconds)
