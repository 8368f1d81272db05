"""The classes that a model file may name, and what each must hold beyond what its constructor checks.

A file names a class by its bare name; only names found here are ever built, so a file cannot reach any
other code. What prediction does not read, such as ``cv_results_``, is not checked; whether the
parts work together is tested by predicting the rows in the file (`onefold.saving.file`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from onefold.approximations import registered
from onefold.calibration import Calibrator
from onefold.expansions import Blend, Expansion, FoldModels, GridExpansion, LineExpansion
from onefold.expansions.grid import LARGEST_DIMENSION
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import all_finite, is_sparse
from onefold.machine.threads import MOST_JOBS
from onefold.saving.container import NONSENSE, BadContent

_ESTIMATORS = (
    "LSSVC", "LSSVR", "KernelRidge", "LSSVCCV", "LSSVRCV", "KernelRidgeCV", "SparseLSSVC", "SparseLSSVR",
)  # fmt: skip
_NAMES = {
    "onefold.kernels": (
        "RBF", "Laplacian", "Matern", "PowerExponential", "Metric", "Polynomial", "Linear",
        "Precomputed", "Sum", "Product",
    ),
    "onefold.search": ("FullGrid", "Halving"),
    "onefold.calibration": ("LogOdds", "Temperature", "Sigmoid", "Isotonic", "ConformalIntervals"),
    "onefold.expansions": ("Expansion", "LineExpansion", "GridExpansion", "Blend", "FoldModels"),
    "onefold.estimators": _ESTIMATORS,
    "onefold.tables": (
        "TableClassifier", "TableRegressor", "TablePreparation", "Preparation", "Reading",
    ),
    "onefold.heldout": ("GapKFold",),
    "sklearn.model_selection": (
        "KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit",
        "RepeatedKFold", "RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit",
        "GroupShuffleSplit", "LeaveOneOut", "LeavePOut", "LeaveOneGroupOut", "LeavePGroupsOut",
        "PredefinedSplit",
    ),
}  # fmt: skip
MODULES = {name: module for module, names in _NAMES.items() for name in names}
# Features of a model of tables: more would take long, because their names are made one by one.
_MOST_COLUMNS = 2**24
# Values of a function up to this are accepted: sums of a few such numbers are still finite.
_LARGEST = 1e300


def find(name: str) -> type | None:
    """The class that files know as `name`, imported when it is asked for; None if there is none."""
    if name in MODULES:
        cls: type = getattr(import_module(MODULES[name]), name)
        return cls
    classes = (*registered().values(), *import_module("onefold.tables.kinds").KINDS)
    return {cls.__name__: cls for cls in classes}.get(name)


def name_of(value: object) -> str | None:
    """The name of the value's class in files; None for a class (or subclass) not listed."""
    name = type(value).__name__
    return name if find(name) is type(value) else None


def check(value: Any) -> None:
    """Raise BadContent unless an instance can be used; called when files are read or written."""
    name = type(value).__name__
    try:
        if name in _CHECKS:
            _CHECKS[name](value)
    except BadContent:
        raise
    except NONSENSE as error:
        raise BadContent(f"its {name} is not valid ({error!s:.200})") from error


def _check_function(f: Any) -> None:
    """Every part must be a sum of finite terms; constructors compared shapes."""
    f = f.on_host()
    for weight, part in f.parts:
        kernel = part.kernel
        grid = isinstance(part, GridExpansion)
        if not isinstance(kernel, Kernel):
            raise BadContent("the kernel of its expansion is not a kernel")
        names = ["coef", "intercept", *(("lower", "step", "values") if grid else ("centres",))]
        if isinstance(kernel, Precomputed) and part.centres is None:
            names.remove("centres")  # its rows are kernel values
        arrays = {name: getattr(part, name) for name in names} | {"overall intercept": f.intercept}
        for what, array in arrays.items():
            if type(array) is not np.ndarray and not is_sparse(array):
                raise BadContent(f"the {what} of its expansion is not an array")
            if array.dtype.kind != "f":
                raise BadContent(f"the {what} of its expansion has dtype {array.dtype}, not floats")
            if not all_finite(array):
                raise BadContent(f"the {what} of its expansion has infinite or undefined values")
        if part.n_centres == 0 or part.n_targets == 0:
            raise BadContent("its expansion is empty")
        if grid:
            axes = type(part.counts) is tuple and 1 <= len(part.counts) <= LARGEST_DIMENSION
            if not axes or not (part.step > 0).all() or np.abs(part.values).max() > _LARGEST:
                raise BadContent("the axes, steps or values of its grid are damaged")
        elif "centres" in arrays and (
            isinstance(kernel, Precomputed) or part.centres.ndim != 2 or part.centres.shape[1] == 0
        ):
            raise BadContent("the centres of its expansion are not a table of rows")
        if part.n_features:
            kernel.check_features(part.n_features)
        with np.errstate(all="ignore"):
            reach = weight * (np.abs(part.coef).sum(axis=0, dtype=np.float64) + np.abs(part.intercept))
            if not np.all(reach + np.abs(f.intercept) <= _LARGEST):
                raise BadContent("its expansion gives infinite or undefined values")


def _check_fold_models(models: FoldModels) -> None:
    if not np.all(np.abs(models.intercept) <= _LARGEST):
        raise BadContent("its fold models give infinite or undefined values")
    for term in models.terms:
        _check_function(term)


def _check_estimator(estimator: Any) -> None:
    """What prediction reads must be consistent."""
    f: Any = getattr(estimator, "expansion_", None)
    classifier = isinstance(estimator, ClassifierMixin)
    rules: dict[str, Callable[[Any], bool]] = {
        "expansion_": lambda value: type(value) in (Expansion, LineExpansion, GridExpansion, Blend),
        "n_features_in_": lambda value: (
            _is_whole(value) and value == (f.n_centres if f.n_features is None else f.n_features)
        ),
        "feature_names_in_": lambda value: (
            value is None
            or (
                type(value) is np.ndarray
                and value.shape == (estimator.n_features_in_,)
                and all(isinstance(item, str) for item in value.tolist())
            )
        ),
        "calibrator_": lambda value: (
            value is None
            or (classifier and isinstance(value, Calibrator) and value.columns in (None, f.n_targets))
        ),
        "n_jobs": lambda value: value is None or (_is_whole(value) and 0 < abs(value) <= MOST_JOBS),
    }
    if classifier:
        rules["classes_"] = lambda value: _are_classes(value, f.n_targets)
    else:
        rules["single_target_"] = lambda value: (
            isinstance(value, bool | np.bool_) and (f.n_targets == 1 or not value)
        )
    for key, holds in rules.items():
        value = getattr(estimator, key, None)
        if not holds(value):
            raise BadContent(
                f"the {key} of its {type(estimator).__name__} is {value!r:.60}, which is inconsistent "
                "with the rest of the model"
            )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _are_classes(value: Any, columns: int) -> bool:
    """Distinct labels, one for every column of decision values, two for a single one."""
    if type(value) is not np.ndarray or value.ndim != 1:
        return False
    labels = value.tolist()
    for label in labels:
        if not (isinstance(label, str) or (isinstance(label, Real) and math.isfinite(label))):
            return False
    return len(set(labels)) == len(labels) > 1 and columns == (1 if len(labels) == 2 else len(labels))


def _check_preparation(estimator: Any) -> None:
    """Parameters must be valid, and the record of the table must be texts."""
    estimator._check_preparation()
    tables = import_module("onefold.tables")  # a higher layer
    preparation = estimator.preparation_
    if type(preparation) is not tables.Preparation or type(estimator.reading_) is not tables.Reading:
        raise BadContent("its table preparation is not valid")
    width = estimator.n_features_in_
    names = getattr(estimator, "feature_names_in_", None)
    is_valid = (
        _is_whole(width)
        and 0 < width <= _MOST_COLUMNS
        and (names is None or (len(names) == width and _are_texts(list(names))))
        and all(map(_are_texts, (estimator.drop, estimator.categorical, estimator.numeric)))
        and type(estimator.notes_) is list
    )
    if not is_valid:
        raise BadContent("its record of the table is damaged")


def _check_table_model(model: Any) -> None:
    """Parameters must be valid, and what prediction reads must be consistent."""
    model._check_settings()
    _check_preparation(model)
    inner = model.estimator_
    preparation = model.preparation_
    if type(inner).__name__ not in _ESTIMATORS:
        raise BadContent("its inner estimator is not a onefold estimator")
    labels = hasattr(inner, "classes_")
    if labels != (model.task == "classification") or labels != hasattr(model, "classes_"):
        raise BadContent("its inner estimator is for another task")
    if labels and not np.array_equal(model.classes_, inner.classes_):
        raise BadContent("its classes differ from those of its inner estimator")
    if len(preparation.feature_names) != inner.n_features_in_:
        raise BadContent("its table preparation does not make the features of its inner estimator")
    bounds = getattr(model, "clip_", None)  # which files of 1.0.0rc1 do not have
    if bounds is not None and (labels or not _are_bounds(bounds, inner.expansion_.n_targets)):
        raise BadContent("the range of its predictions is not valid")
    roles = (model.target_, model.id_column_, model.id_column)
    columns = [name for name in roles if name is not None]
    if not _are_texts(columns) or type(model.report_) is not dict:
        raise BadContent("its record of the table is damaged")


def _are_bounds(value: Any, targets: int) -> bool:
    """A lower and a greater upper bound for each target, which may be infinite."""
    is_table = type(value) is np.ndarray and value.shape == (targets, 2) and value.dtype == np.float64
    return is_table and bool(np.all(value[:, 0] < value[:, 1]))


def _check_reading(reading: Any) -> None:
    """Words and columns must be texts; the constructor checks the rest."""
    lists = [reading.na_values, reading.points, list(reading.categories), *reading.categories.values()]
    if not all(map(_are_texts, lists)):
        raise BadContent("its options for reading tables are damaged")


def _are_texts(value: Any) -> bool:
    return type(value) in (list, tuple) and all(type(item) is str for item in value)


_CHECKS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(_ESTIMATORS, _check_estimator),
    **dict.fromkeys(("Expansion", "LineExpansion", "GridExpansion", "Blend"), _check_function),
    "FoldModels": _check_fold_models,
    **dict.fromkeys(("TableClassifier", "TableRegressor"), _check_table_model),
    "TablePreparation": _check_preparation,
    "Reading": _check_reading,
}
