"""What models of tables must hold to predict, beyond what the constructors of their parts check."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.saving.checks import ESTIMATORS
from onefold.saving.container import BadContent

TABLES = ("TableClassifier", "TableRegressor", "Preparation", "Reading")


def check_table_model(model: Any) -> None:
    """Raise BadContent unless parameters make sense, and what prediction reads fits together."""
    model.check_settings()
    inner: Any = getattr(model, "estimator_", None)
    preparation: Any = getattr(model, "preparation_", None)
    if type(inner).__name__ not in ESTIMATORS or not hasattr(inner, "expansion_"):
        raise BadContent("the estimator of its tables is not a fitted one")
    if type(preparation).__name__ != "Preparation" or type(model.reading_).__name__ != "Reading":
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
