"""What expansions, estimators and models of tables must hold to predict, beyond what constructors check.

Asked before writing and after reading. What prediction does not read, such as ``cv_results_``, is not
looked at; whether the parts work together, the trial of the model will tell (`onefold.saving.selftest`).
"""

from __future__ import annotations

import math
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from onefold.calibration import Calibrator
from onefold.estimators import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)
from onefold.expansions import Blend, Expansion, FoldModels, GridExpansion
from onefold.expansions.grid import LARGEST_DIMENSION
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import all_finite, is_sparse
from onefold.saving.container import BadContent

ESTIMATORS: tuple[type, ...] = (
    LSSVC, LSSVR, KernelRidge, LSSVCCV, LSSVRCV, KernelRidgeCV, SparseLSSVC, SparseLSSVR,
)  # fmt: skip
_LARGEST = 1e300  # sums of a few such numbers are still finite
_MOST_JOBS = 4096


def check_expansion(f: Expansion | GridExpansion | Blend) -> None:
    """Raise BadContent unless every part of f is a sum of finite terms; constructors compared shapes."""
    f = f.on_host()
    _check_numbers(f.intercept, "the intercepts")
    for weight, part in f.parts:
        if not isinstance(part.kernel, Kernel):
            raise BadContent("the kernel of its expansion is not a kernel")
        arrays = {"the coefficients": part.coef, "the intercepts": part.intercept}
        if isinstance(part, GridExpansion):
            if type(part.counts) is not tuple or not 1 <= len(part.counts) <= LARGEST_DIMENSION:
                raise BadContent("the grid of its expansion has no or too many axes")
            arrays |= {f"the {name}": getattr(part, name) for name in ("lower", "step", "values")}
            features: int = len(part.counts)
        else:
            if (part.centres is None) != isinstance(part.kernel, Precomputed):
                raise BadContent("its expansion has centres without need, or lacks them")
            if part.centres is not None:
                arrays["the centres"] = part.centres
                if part.centres.ndim != 2 or part.centres.shape[1] == 0:
                    raise BadContent("the centres of its expansion are not a table of rows")
                if is_sparse(part.centres) and not part.kernel.accepts_sparse:
                    raise BadContent("its centres are sparse and its kernel takes dense rows only")
            features = 0 if part.centres is None else part.centres.shape[1]
        for what, array in arrays.items():
            _check_numbers(array, what)
        if part.n_centres == 0 or part.n_targets == 0:
            raise BadContent("its expansion is empty")
        if features:
            part.kernel.check_features(features)
        with np.errstate(all="ignore"):
            reach = weight * (np.abs(part.coef).sum(axis=0, dtype=np.float64) + np.abs(part.intercept))
            reach += np.abs(f.intercept)
        grid: Any = part if isinstance(part, GridExpansion) else None
        if not np.all(reach <= _LARGEST) or (grid and np.abs(grid.values).max() > _LARGEST):
            raise BadContent("its expansion gives infinite or undefined values")
        if grid and not (grid.step > 0).all():
            raise BadContent("the steps of its grid are not all positive")


def _check_numbers(value: Any, what: str) -> None:
    if type(value) is not np.ndarray and not is_sparse(value):
        raise BadContent(f"{what} of its expansion are not an array")
    if value.dtype.kind != "f":
        raise BadContent(f"{what} of its expansion have dtype {value.dtype}, not floating point")
    if not all_finite(value):
        raise BadContent(f"{what} of its expansion are not all finite")


def check_fold_models(models: FoldModels) -> None:
    """Raise BadContent unless every term is a sum of finite terms."""
    if not np.all(np.abs(models.intercept) <= _LARGEST):
        raise BadContent("its fold models give infinite or undefined values")
    for term in models.terms:
        check_expansion(term)


def check_estimator(estimator: Any) -> None:
    """Raise BadContent unless what prediction reads fits together."""
    rules = {
        "expansion_": _is_function,
        "n_features_in_": _is_feature_count,
        "feature_names_in_": _are_names,
        "calibrator_": _fits_decision,
        "n_jobs": _is_job_count,
    }
    rules |= {"classes_": _are_classes} if isinstance(estimator, ClassifierMixin) else {}
    rules |= {} if isinstance(estimator, ClassifierMixin) else {"single_target_": _is_single_target}
    for key, rule in rules.items():
        value = getattr(estimator, key, None)
        if not rule(value, estimator):
            raise BadContent(
                f"the {key} of its {type(estimator).__name__} is {value!r:.60}, which does not fit the "
                "rest of the model"
            )


def _is_function(value: Any, estimator: Any) -> bool:
    return type(value) in (Expansion, GridExpansion, Blend)


def _is_feature_count(value: Any, estimator: Any) -> bool:
    expansion = estimator.expansion_
    width = expansion.n_centres if expansion.n_features is None else expansion.n_features
    return isinstance(value, Integral) and not isinstance(value, bool) and value == width


def _are_names(value: Any, estimator: Any) -> bool:
    """None, or one string per feature."""
    if type(value) is not np.ndarray or value.shape != (estimator.n_features_in_,):
        return value is None
    return all(isinstance(item, str) for item in value.tolist())


def _are_classes(value: Any, estimator: Any) -> bool:
    if type(value) is not np.ndarray or value.ndim != 1 or value.size < 2:
        return False
    columns, labels = estimator.expansion_.n_targets, value.tolist()
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        return False
    if value.dtype.kind == "O" and not all(isinstance(item, str | Real) for item in labels):
        return False
    return columns == (1 if value.size == 2 else value.size) and len(set(labels)) == value.size


def _is_single_target(value: Any, estimator: Any) -> bool:
    return isinstance(value, bool | np.bool_) and (estimator.expansion_.n_targets == 1 or not value)


def _fits_decision(value: Any, estimator: Any) -> bool:
    """None, or a calibrator for as many columns of decision values as the classifier has."""
    fits = isinstance(value, Calibrator) and isinstance(estimator, ClassifierMixin)
    return value is None or (fits and value.columns in (None, estimator.expansion_.n_targets))


def _is_job_count(value: Any, estimator: Any) -> bool:
    known = isinstance(value, Integral) and not isinstance(value, bool)
    return value is None or (known and value != 0 and abs(int(value)) <= _MOST_JOBS)


def check_table_model(model: Any) -> None:
    """Raise BadContent unless parameters make sense, and what prediction reads fits together."""
    model.check_settings()
    tables = import_module("onefold.tables")  # above this room
    inner, preparation = model.estimator_, model.preparation_
    if type(inner) not in ESTIMATORS or not hasattr(inner, "expansion_"):
        raise BadContent("the estimator of its tables is not a fitted one")
    if type(preparation) is not tables.Preparation or type(model.reading_) is not tables.Reading:
        raise BadContent("the preparation of its tables is none")
    labels = hasattr(inner, "classes_")
    if labels != (model.task == "classification") or labels != hasattr(model, "classes_"):
        raise BadContent("the estimator of its tables is for another task")
    if labels and not np.array_equal(model.classes_, inner.classes_):
        raise BadContent("its classes are not those of its estimator")
    if len(preparation.feature_names) != inner.n_features_in_:
        raise BadContent("the preparation of its tables makes other features than its estimator takes")
    names = getattr(model, "feature_names_in_", None)
    named = names is None or (len(names) == model.n_features_in_ and _texts(list(names)))
    columns = (model.target_, model.id_column_, model.id_column)
    noted = type(model.report_) is dict and type(model.notes_) is list
    if not named or not noted or not all(one is None or type(one) is str for one in columns):
        raise BadContent("what it remembers of its table is damaged")
    if not _texts(model.drop) or not _texts(model.categorical):
        raise BadContent("its lists of columns are damaged")


def check_reading(reading: Any) -> None:
    """Raise BadContent unless words and columns are texts; the constructor checks the rest."""
    known = reading.categories
    lists = [reading.na_values, reading.points, *(known.values() if type(known) is dict else [None])]
    if not all(map(_texts, lists)) or not _texts(list(known)):
        raise BadContent("how its tables are read is damaged")


def _texts(value: Any) -> bool:
    return type(value) in (list, tuple) and all(type(one) is str for one in value)
