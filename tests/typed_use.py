"""Calls that `mypy` accepts, and some that it must not: part of what ``make lint`` checks, never run.

A line that is wrong says so by ``type: ignore``; where mypy finds nothing wrong with it, it complains.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.model_selection import KFold

from onefold import LSSVCCV, LSSVR, TableClassifier, TablePreparation, TableRegressor, plan, trust
from onefold.heldout import GapKFold
from onefold.tables import TableSource, open_table
from onefold.tuning import tune_table
from onefold.typing import CrossValidation, Splitter, TableLike


def accepted(X: np.ndarray) -> float:
    own: Splitter = GapKFold(2)
    rows = np.arange(3), np.arange(2)
    splits: list[CrossValidation] = [5, "loo", KFold(3), own, [rows], None]
    for cv in splits:
        LSSVCCV(gammas=[0.1, 1.0], cv=cv, criterion=["error", "roc_auc"]).fit(X, ["a", "b", "a"])
    LSSVR(alpha=np.ones(2), random_state=np.random.default_rng(0)).fit([[1.0], [2.0]], X).predict(X)
    plan(LSSVR(), (100, 5))
    trust(LSSVR(), X, X[:, 0], groups=[1, 2, 3])
    return LSSVR().fit(X, X[:, 0], sample_weight=X[:, 1]).score(X, X[:, 0])


def tables(frame: pd.DataFrame, X: np.ndarray) -> float:
    """What the estimators of tables take: arrays, frames, paths as text or as Path, open tables."""
    path = Path("t.csv")
    several: list[TableLike | TableSource] = [X, frame, pa.table(frame), "t.csv", path, open_table(path)]
    for table in several:
        regressor = TableRegressor(categorical=["a"], scratch=path.parent).fit(table, "y", groups="site")
        regressor.predict(table)
        TablePreparation(min_frequency=10).fit(table, "y").transform(table)
        regressor.score(table, "y")
        classifier = TableClassifier(class_weight="balanced").fit(
            table, ["a", "b"], sample_weight="mass"
        )
        classifier.predict_proba(table)
        classifier.decision_function(table)
        classifier.score(table, frame["y"])
    plan(TableRegressor(), path, "y")
    trust(TableRegressor(), path, "y")
    tune_table(path, "y", simple=True).save(path)
    return TableRegressor().fit(path, frame["y"], frame["mass"]).score(path, frame["y"])


def refused(X: np.ndarray) -> None:
    LSSVCCV(cv=3.5)  # type: ignore[arg-type]
    LSSVCCV(criterion=7)  # type: ignore[arg-type]
    LSSVR().fit(X, None)  # type: ignore[arg-type]
    LSSVR(random_state="seed")  # type: ignore[arg-type]
    GapKFold().split(None)  # type: ignore[arg-type]
    TableRegressor().fit(Path("t.csv"), None)  # type: ignore[arg-type]
    TableClassifier().predict(None)  # type: ignore[arg-type]
    TableRegressor(missing="ignore")  # type: ignore[arg-type]
    TableRegressor(scratch=7)  # type: ignore[arg-type]
