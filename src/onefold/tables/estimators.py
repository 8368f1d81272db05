"""Estimators whose X is a whole table: text, dates, booleans and gaps in, predictions out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from onefold import saving
from onefold.approximations import Approximation
from onefold.estimators import LSSVCCV, LSSVRCV
from onefold.search.loop import Callback
from onefold.tables.errors import TableError
from onefold.tables.model import TableModel
from onefold.tables.preparation import Missing
from onefold.tables.reading import Reading
from onefold.tables.target import TargetKind
from onefold.typing import (
    ArrayLike,
    ClassWeight,
    CriterionLike,
    CrossValidation,
    MaybeArray,
    RandomState,
)


@dataclass(eq=False, repr=False, kw_only=True)
class TableClassifier(ClassifierMixin, TableModel):
    r"""Classes from a table as it is: f(x) of :class:`LSSVCCV` on the prepared columns.

    Numbers are standardised, text becomes one indicator per category, dates become elapsed time and the
    cycles that they can show, yes and no one feature, and gaps are filled in and marked
    (docs/tables.md). Kernels, metrics, widths and ridges are chosen by held-out predictions, and
    the best are blended.

    Parameters
    ----------
    reading : Reading or None, default=None
        How tables of text and sheets are read: decimal marks, the order of day and month, words for
        missing values (:class:`onefold.tables.Reading`).
    missing : {"impute", "error"}, default="impute"
        Fill in the median or the most frequent value, with a feature that says where; or refuse gaps.
    categorical : sequence of str, default=()
        Columns whose values are categories, even if they look like numbers or dates.
    drop : sequence of str, default=()
        Columns to leave out.
    min_frequency : int, float or None, default=None
        Categories in fewer rows than this, or in a smaller share of the rows, are taken together in one
        indicator, as in scikit-learn's ``OneHotEncoder``; values never seen in training count among
        them.
    drop_missing_target : bool, default=False
        Leave out rows without a target, with a note; otherwise they are refused.
    id_column : str, default=None
        Column that names the rows: no feature; predictions and reports repeat it.
    cv : int, "loo", splitter or iterable, default=5
        A number is of folds: rows shuffled into them, evenly by class, or whole groups where there are
        groups.
    ordered : bool, default=False
        Folds are blocks of consecutive rows, as for rows in the order of time.
    gap : int, default=0
        With `ordered`: rows left out around each fold.
    criterion, approximation, time_budget, checkpoint, device, n_jobs, verbose, callback
        As in :class:`LSSVCCV`.
    class_weight : "balanced", dict or None, default=None
        With "balanced" the criterion is balanced accuracy, unless another is named.
    simple : bool, default=False
        One kernel as it is, over widths and ridges alone: no metric and no blend, in a part of the time.
    kernel : str or list, default="auto"
    metric : {"auto", "diagonal", "full", "none"} or None, default="auto"
    blend : bool or "auto", default="auto"
        What is chosen among, as in :class:`LSSVCCV`. "auto" learns a metric and blends where that is
        possible: not for rows on disk, leave-one-out, criteria without splits and some approximations;
        ``report_["search"]["note"]`` says so.
    gammas, alphas, search, check
        As in :class:`LSSVCCV`; `gammas` are relative to the mean distance of the rows unless `simple`.
    calibration : str or None, default="temperature"
        How decision values become probabilities, as in :class:`LSSVCCV`.
    random_state : int, RandomState or None, default=0
        Of the folds and of what else is random.

    Attributes
    ----------
    estimator_ : LSSVCCV
        Fitted on the prepared matrix, with all that it has.
    preparation_ : Preparation
        Makes the matrix of any rows.
    classes_ : array
    n_features_in_ : int
    feature_names_in_ : array of str
        The columns of the table; not there for arrays.
    feature_importances_, importances_
        The share of every column in what moves the prediction, as an array and by name.
    notes_ : list of str
        What was filled in, left out or assumed.
    report_ : dict
        What the fit found: scores, choice, importances, notes.
    best_score_, best_params_, cv_results_
        The score of the model that is kept, of the blend or of the best candidate, as the criterion
        counts it (greater is better); what was chosen; every candidate.
    target_, id_column_, reading_
        Names of the target and of the column that names the rows, if known; how text is read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from onefold import TableClassifier
    >>> table = pa.table({"colour": ["red", "blue"] * 20, "size": range(40)})
    >>> model = TableClassifier(simple=True).fit(table, ["warm", "cold"] * 20)
    >>> model.predict(pa.table({"size": [7], "colour": ["red"]})).tolist()
    ['warm']
    """

    task: ClassVar[TargetKind] = "classification"
    _inner: ClassVar[Any] = LSSVCCV

    class_weight: ClassWeight = None
    calibration: str | None = "temperature"

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """Accuracy on the rows of a table; y may be the name of a column of X."""
        return float(super().score(X, self.known_target(X, y), sample_weight))


@dataclass(eq=False, repr=False, kw_only=True)
class TableRegressor(RegressorMixin, MultiOutputMixin, TableModel):
    r"""Numbers from a table as it is: f(x) of :class:`LSSVRCV` on the prepared columns.

    Parameters
    ----------
    missing, categorical, drop, min_frequency, drop_missing_target, id_column, cv, ordered, gap,
    criterion, simple, kernel, metric, blend, gammas, alphas, search, check, approximation, time_budget,
    checkpoint, device, random_state, n_jobs, verbose, callback
        As in :class:`TableClassifier`.
    intervals : str or None, default="cv+"
        Where the bounds of ``predict_interval`` come from, as in :class:`LSSVRCV`.
    target_transform : {"log", None}, default=None
        "log" fits the logarithm of positive targets, as for prices, where errors grow with the value.
        Predictions, intervals and quantiles are in the units of the target, predictions being the
        exponential of the one fitted: medians rather than means. The search scores in units of the
        logarithm.

    Attributes
    ----------
    estimator_ : LSSVRCV
    preparation_, n_features_in_, feature_names_in_, feature_importances_, importances_, notes_, report_,
    best_score_, best_params_, cv_results_, target_, id_column_, reading_
        As in :class:`TableClassifier`.
    """

    task: ClassVar[TargetKind] = "regression"
    _inner: ClassVar[Any] = LSSVRCV

    intervals: str | None = "cv+"
    target_transform: Literal["log"] | None = None

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """R² on the rows of a table; y may be the name of a column of X."""
        return float(super().score(X, self.known_target(X, y), sample_weight))


def load_table_model(path: str | Path) -> TableModel:
    """Read a model that was tuned on a table, with its preparation.

    Raises
    ------
    TableError
        If the file holds another model; `onefold.load` reads such files.
    onefold.saving.ModelFileError
        If the file is not a onefold model or is damaged.
    """
    model = saving.load(path)
    if not isinstance(model, TableModel):
        raise TableError(
            f"{path} holds a {type(model).__name__} that was not tuned on a table; read it with "
            "onefold.load"
        )
    return model
