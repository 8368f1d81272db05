"""Checking and converting what users pass: rows, targets, weights, ridges, seeds."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_array, validate_data

from onefold.approximations import Problem
from onefold.approximations.problem import Loss
from onefold.calibration import check_calibration, is_class
from onefold.criteria import Task
from onefold.kernels import Precomputed
from onefold.linalg import (
    all_finite,
    as_float64,
    asarray_like,
    is_sparse,
    library_rows,
    namespace,
    take_rows,
)
from onefold.rows import example_of, is_remote, opened, to_device, to_host

# Largest feature: its square is within the range of float64.
_LARGEST = 1e150
# Largest target: sums of its squares are within the range of float64, and so are those of its inverse.
_LARGEST_TARGET = 1e140
# Largest feature whose square, summed over features, is within the range of float32.
_LARGEST_SINGLE = 1e15
# Number of seeds that are drawn from a generator: those of RandomState are below it.
_SEEDS = 2**31


def is_precomputed(kernel: Any) -> bool:
    """Whether the parameter of an estimator says that X is a kernel matrix."""
    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")


def check_rows(estimator: Any, X: Any, *, sparse: bool, fitting: bool) -> Any:
    """X as a finite two-dimensional float array or CSR matrix, in its own array library."""
    X = opened(X, getattr(estimator, "client", None))
    if is_remote(X):
        validate_data(estimator, example_of(X), reset=fitting, skip_check_array=True)
        largest = X.largest
    else:
        of_library = library_rows(X)
        if of_library is None:
            X = _check_host_rows(estimator, X, sparse, fitting)
        else:  # only the names and the number of its columns are left to check
            X = validate_data(estimator, of_library, reset=fitting, skip_check_array=True)
        if is_precomputed(estimator.kernel):
            return X
        values = X.data if is_sparse(X) else X
        xp = namespace(X)
        largest = max(float(xp.max(values)), -float(xp.min(values))) if 0 not in values.shape else 0.0
    if largest > _LARGEST:
        raise ValueError(
            f"X contains values as large as {largest:.3g}, whose squares overflow; scale the features, "
            "for example with sklearn.preprocessing.StandardScaler."
        )
    if largest <= _LARGEST_SINGLE:  # beyond, squares in single precision would overflow
        return X
    return X.astype(np.float64) if is_remote(X) else as_float64(X)


def _check_host_rows(estimator: Any, X: Any, sparse: bool, fitting: bool) -> Any:
    """X of NumPy or SciPy, checked by scikit-learn; an error about text names the remedy."""
    allowed = {"accept_sparse": "csr" if sparse else False, "dtype": [np.float64, np.float32]}
    try:
        return validate_data(estimator, X, reset=fitting, **allowed)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"X contains text ({error}); encode such columns as numbers first, "
            "for example with sklearn.preprocessing.OneHotEncoder."
        ) from error


def require_finite(values: Any) -> Any:
    """Predictions as they are; raise where they are not finite."""
    if not all_finite(values):
        raise ValueError(
            "the kernel overflows on these rows; scale them like the rows that the model was fitted on."
        )
    return values


def problem_of(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, sparse: bool
) -> tuple[Problem, Task]:
    """Validated input as a problem, and what its targets mean; sets `classes_` or `single_target_`."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if estimator.loss not in get_args(Loss):
        raise ValueError(f'loss must be "sum" or "mean"; got {estimator.loss!r:.60}.')
    X = check_rows(estimator, X, sparse=sparse, fitting=True)
    n = X.shape[0]
    classes = None
    of_classes = None
    if is_precomputed(estimator.kernel) and n != X.shape[1]:
        shape = tuple(X.shape)
        raise ValueError(f"a precomputed kernel matrix must be square to fit; got shape {shape}.")
    if isinstance(estimator, ClassifierMixin):
        y = _check_y(y, multi_output=False, estimator=estimator)
        check_length(y, n)
        check_classification_targets(y)
        if estimator.calibration is not None:
            check_calibration(estimator.calibration)
        classes, index = np.unique(y, return_inverse=True)
        _check_two_classes(classes, "y contains only one class ({})")
        # Two classes have one column, whose sign is the label.
        targets = 2.0 * is_class(index, 1 if classes.size == 2 else classes.size) - 1.0
        estimator.classes_ = classes
        if estimator.class_weight is not None:
            of_classes = compute_sample_weight(estimator.class_weight, y)
            if not np.all(np.isfinite(of_classes) & (of_classes >= 0)):
                raise ValueError(
                    "class_weight must contain finite, non-negative numbers; got "
                    f"{estimator.class_weight!r}."
                )
    else:
        y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y", ensure_min_samples=0)
        if y.ndim > 2:
            raise ValueError(f"y must have shape (rows,) or (rows, targets); got {y.shape}.")
        check_length(y, n)
        targets = np.asarray(y, dtype=np.float64).reshape(n, -1)
        estimator.single_target_ = y.ndim == 1
    weight = check_weights(sample_weight, n)
    task = Task(X, y, classes, weight)
    if of_classes is not None:
        task = replace(task, class_weight=of_classes[np.unique(y, return_index=True)[1]])
        weight = of_classes if weight is None else weight * of_classes
    X = to_device(X, estimator.device)
    precomputed = is_precomputed(estimator.kernel)
    problem = Problem(
        X,
        asarray_like(targets, X),
        None,
        estimator._fit_intercept,
        device=estimator.device,
        precomputed=precomputed,
    )
    if weight is not None and not np.all(weight > 0):
        rows = np.flatnonzero(weight > 0)
        weight = weight[rows]
        part = problem.rows(rows, precomputed=precomputed, fetch=False)
        # Scorers see rows where they were.
        X = part.X if task.X is problem.X else take_rows(task.X, rows)
        task = replace(task, X=X, y=y[rows], sample_weight=task.weight_of(rows))
        problem = part
        if classes is not None:
            _check_two_classes(np.unique(task.y), "only one class ({}) has rows of positive weight")
    if weight is not None:  # divided by their mean: equal weights become exactly 1
        largest = float(weight.max())
        unit = largest * float(np.mean(weight / largest))
        equal = bool(np.all(weight == weight[0]))
        root = None if equal else asarray_like(np.sqrt(weight) / np.sqrt(unit), problem.X)
        problem = replace(problem, root_weight=root, alpha_unit=unit)
    if estimator.loss == "mean":
        problem = problem.of_mean()
    # Labels are ±1 as they are; numbers may lie anywhere, and small differences need their digits.
    return (problem if classes is not None else problem.about_its_mean()), task


def _check_two_classes(classes: Any, complaint: str) -> None:
    """Raise unless there are two classes."""
    if classes.size < 2:
        what = complaint.format(repr(classes.tolist()[0]))
        raise ValueError(f"{what}; a classifier needs at least two classes.")


def check_squares(Y: Any) -> None:
    """Raise if squared errors of such targets would overflow, or vanish, in float64."""
    xp = namespace(Y)
    size = float(xp.max(xp.abs(Y)))
    if size > _LARGEST_TARGET or 0 < size < 1 / _LARGEST_TARGET:
        raise ValueError(
            f"the targets vary by {size:.3g}, so that squared errors leave the range of float64; "
            "multiply y by a constant."
        )


def check_length(y: Any, n: int) -> None:
    """Raise unless y has a value for each of the n rows."""
    if y.shape[0] != n:
        raise ValueError(f"X has {n} rows but y has {y.shape[0]}; they must match row by row.")


def check_weights(sample_weight: Any, n: int) -> Any | None:
    """A NumPy vector of weights that are not negative, nor all 0."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
    if np.any(weight < 0):
        raise ValueError("sample_weight must not be negative.")
    if not np.any(weight):  # scikit-learn says so itself from 1.8 on
        raise ValueError("sample_weight must contain at least one non-zero number.")
    return weight


def check_alphas(values: Any, name: str) -> Any:
    """A non-empty vector of positive numbers."""
    try:
        vector = np.asarray(to_host(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a positive number, or several; got {values!r}.") from error
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


def seed_of(random_state: Any) -> int | None:
    """The number itself, or one drawn from a generator; None where nothing is given."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    generator = check_random_state(random_state)  # raises for anything else
    is_seed = isinstance(random_state, Integral)
    return int(random_state) if is_seed else int(generator.randint(_SEEDS))


def check_count(name: str, value: Any) -> None:
    """Raise unless it is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
