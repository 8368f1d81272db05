"""Estimators whose X is a whole table: text, dates, booleans and gaps in, predictions out."""

from __future__ import annotations

import inspect
import os
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import PredefinedSplit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from onefold import saving
from onefold.approximations import Approximation
from onefold.calibration import check_calibration
from onefold.calibration.intervals import CHOICES
from onefold.docstrings import shared_docs
from onefold.estimators import LSSVCCV, LSSVRCV
from onefold.estimators.base import framed_like, with_groups_of
from onefold.estimators.validation import check_budget
from onefold.expansions.compact import with_sparse_centres
from onefold.facts.criteria import check_criterion
from onefold.heldout import past_splits
from onefold.linalg import is_sparse
from onefold.search.loop import Callback
from onefold.tables.clipping import Clip, TargetRange, bounds_of, check_clip, clipped, ranges_of
from onefold.tables.codes import RowSample
from onefold.tables.errors import Remedy, TableError
from onefold.tables.findings import findings
from onefold.tables.learning import Learner
from onefold.tables.preparation import TableEstimator, joined, matrix_blocks
from onefold.tables.rows import BLOCK, Table
from onefold.tables.searching import SearchSettings, check_kernels, search_of, takes_axis
from onefold.tables.source import opened
from onefold.tables.target import TargetKind, as_target, read_target
from onefold.tables.training import Training, prepared_again, training_of
from onefold.typing import (
    ArrayLike,
    ClassWeight,
    CriterionLike,
    CrossValidation,
    MaybeArray,
    RandomState,
    TableLike,
)

_CHOICES: dict[str, tuple[Any, ...]] = {
    "drop_missing_target": (True, False),
    "ordered": (True, False, "auto"),
    "target_transform": (None, "log"),
    "intervals": (None, *CHOICES),
    "metric": (None, "none", "diagonal", "full", "auto"),
    "blend": (True, False, "auto"),
    "simple": (True, False),
    "loss": ("sum", "mean"),
}  # for parameters, some of which one of the two estimators lacks


# What an estimator predicts with: its function, and the models without each fold.
_FUNCTIONS = ("expansion_", "fold_models_", "spread_models_")


def _inside(name: str) -> Callable[[Any], bool]:
    """Whether the estimator inside has a method."""
    return lambda model: hasattr(getattr(model, "estimator_", None) or inner_estimator(model), name)


@dataclass(eq=False, repr=False, kw_only=True)
class TableModel(TableEstimator):
    """A self-tuning estimator together with the preparation of its tables; its fields are parameters."""

    task: ClassVar[TargetKind]
    _inner: ClassVar[Any]

    drop_missing_target: bool = False
    id_column: str | None = None
    cv: CrossValidation = 5
    ordered: bool | Literal["auto"] = False
    gap: int = 0
    criterion: CriterionLike = None
    simple: bool = False
    kernel: Any = "auto"
    metric: str | None = "auto"
    blend: bool | Literal["auto"] = "auto"
    gammas: MaybeArray = None
    alphas: MaybeArray = None
    loss: str = "sum"
    search: Any = "auto"
    check: bool = False
    approximation: str | Approximation = "auto"
    time_budget: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    scratch: str | os.PathLike[str] | None = None
    device: Any = None
    random_state: RandomState = 0
    n_jobs: int | None = None
    verbose: int = 0
    callback: Callback | None = None

    def get_metadata_routing(self) -> Any:
        """The requests of this estimator, as meta-estimators of scikit-learn ask for them."""
        return with_groups_of(self.cv, super().get_metadata_routing())

    def fit(
        self,
        X: TableLike | Table,
        y: ArrayLike,
        sample_weight: MaybeArray = None,
        groups: MaybeArray = None,
    ) -> Self:
        """Learn the preparation of a table, choose a model and fit it.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, array, path or open table
            A table on disk that is larger than memory is not read into memory as a whole.
        y : array or column (n,), or the name of a column of X
        sample_weight, groups : array (n,), or the name of a column of X, optional
            Weights of the rows; groups of rows that stay in the same fold. Groups may be the names of
            several columns, ``["shop", "year"]``: rows are in one group if they agree in all of them.
            With ``groups="auto"``, groups that are noticed in the table stay together, and the column
            that names them is not a feature. By default what is noticed gives a second score
            (``report_["second"]``).
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        with training_of(self, X, y, sample_weight, groups) as training:
            self._fit_prepared(training)
        self._set_columns(X, self._column_names())
        return self

    def _fit_prepared(self, training: Training) -> Self:
        """The second half of `fit`: choose a model, fit it and say what was found."""
        second = training.second
        inner = inner_estimator(
            self,
            training.search,
            cv=training.splitting.cv,
            second_cv=None if second is None else second.cv,
        )
        shares = training.facts.explained_shares(training.y, self.task == "classification")
        begin = time.perf_counter()
        y = self._fitted_target(training.y)
        spans = (span for _, span in training.preparation.spans())
        inner._feature_groups = [
            np.arange(part.start, part.stop) for part in spans if part.start < part.stop
        ]
        if hasattr(inner, "intervals"):
            inner._feature_names = training.preparation.feature_names
        inner.fit(training.X, y, sample_weight=training.sample_weight, groups=training.groups)
        del inner._feature_groups
        vars(inner).pop("_feature_names", None)
        functions = {name: getattr(inner, name, None) for name in _FUNCTIONS}
        for name, function in zip(functions, with_sparse_centres(list(functions.values()))):
            if function is not None:
                setattr(inner, name, function)
        seconds = time.perf_counter() - begin
        if training.splitting.kind == "given" or isinstance(inner.cv, list | PredefinedSplit):
            inner.set_params(cv=self.cv)
        inner.set_params(callback=None, checkpoint=None, second_cv=None)  # they have done their work
        self.estimator_ = inner
        self.preparation_ = training.preparation
        self.reading_ = training.reading
        self.feature_names_in_ = np.asarray(training.columns, dtype=object)
        self.n_features_in_ = len(training.columns)
        if hasattr(inner, "classes_"):
            self.classes_ = inner.classes_
        self.target_: str | None = None if training.target is None else training.target.name
        self.id_column_: str | None = self.id_column
        self.notes_: list[str] = list(training.notes)
        ranges = self._ranges(training.y)
        if ranges:
            self.clip_: np.ndarray | None = bounds_of(ranges)
        self.report_: dict[str, Any] = findings(self, training, ranges, shares, seconds)
        return self

    def _learner(self, roles: Sequence[str] = ()) -> Learner:
        """What learns the preparation, with a sample of the rows for questions about their target."""
        learner = super()._learner(roles)
        learner.sample = RowSample(self._seed)
        return learner

    @property
    def _seed(self) -> int:
        """The seed of the sample; 0 unless `random_state` is one."""
        seed = self.random_state
        return int(seed) if isinstance(seed, int | np.integer) and 0 <= seed < 2**32 else 0

    def _as_step(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """The estimator inside, the matrix, targets, and weights and groups that it would be fitted to.

        What :func:`onefold.trust` and :func:`onefold.plan` look at. The preparation is the fitted one,
        or learned from these rows; nothing is kept.
        """
        self._check_settings()
        with ExitStack() as files:
            if hasattr(self, "estimator_"):
                prepared = prepared_again(self, self._opened(X), y, sample_weight, groups)
                matrix, y, weight, groups = files.enter_context(prepared)
                inner = self.estimator_
            else:
                training = files.enter_context(training_of(self, X, y, sample_weight, groups))
                inner = inner_estimator(self, training.search, cv=training.splitting.cv)
                matrix = training.X
                y = training.y
                weight = training.sample_weight
                groups = training.groups
            if isinstance(matrix, np.memmap):  # its file is there for as long as the matrix is
                weakref.finalize(matrix, files.pop_all().close)
            return inner, matrix, self._fitted_target(y), {"sample_weight": weight, "groups": groups}

    def _fitted_target(self, y: Any) -> Any:
        """A target as the estimator inside fits it."""
        return np.log(y) if y is not None and self._logarithmic else y

    def _in_target_units(self, values: Any) -> Any:
        """What the estimator inside predicts, in the units of the target and within its range."""
        return clipped(self._unclipped(values), getattr(self, "clip_", None))

    def _unclipped(self, values: Any) -> Any:
        """What the estimator inside predicts, in the units of the target."""
        return np.exp(values) if self._logarithmic else values

    def _ranges(self, y: Any) -> list[TargetRange]:
        """The range of every target of a regression, given those of the training rows."""
        return []

    @property
    def _takes_sparse(self) -> bool:
        parts = self.estimator_.expansion_.parts
        return all(is_sparse(getattr(part, "centres", None)) for _, part in parts)

    @property
    def _wants_axis(self) -> bool:
        return takes_axis(self.approximation)

    @property
    def _logarithmic(self) -> bool:
        return getattr(self, "target_transform", None) == "log"

    def predict(self, X: TableLike | Table) -> np.ndarray:
        """Predict every row of a table, an array, a path or an open table."""
        return self._predicted("predict", X)

    @available_if(_inside("decision_function"))
    def decision_function(self, X: TableLike | Table) -> np.ndarray:
        """Decision values of the inner estimator."""
        return self._predicted("decision_function", X)

    @available_if(_inside("predict_proba"))
    def predict_proba(self, X: TableLike | Table) -> np.ndarray:
        """The probability of every class, in the order of ``classes_``."""
        return self._predicted("predict_proba", X)

    @available_if(_inside("predict_log_proba"))
    def predict_log_proba(self, X: TableLike | Table) -> np.ndarray:
        """Logarithms of the probabilities."""
        return self._predicted("predict_log_proba", X)

    @available_if(_inside("predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Lower and upper bounds that hold the target with this probability: (rows, 2), or a frame.

        Of several targets (rows, targets, 2), or a frame with columns "lower_0", "upper_0" and so on.
        """
        values = self._predicted("predict_interval", X, coverage=coverage)
        return framed_like(X, values, ("lower", "upper"))

    @available_if(_inside("predict_quantiles"))
    def predict_quantiles(self, X: Any, quantiles: Any) -> Any:
        """Quantiles of the target: (rows, quantiles), or a frame."""
        values = self._predicted("predict_quantiles", X, quantiles=quantiles)
        return framed_like(X, values, [str(quantile) for quantile in np.atleast_1d(quantiles)])

    def _target_of(self, X: Any, y: Any) -> Any:
        """The target of further rows: an array, or the column of X with this name."""
        check_is_fitted(self, "estimator_")
        if isinstance(y, str):
            rows = opened(X, self.reading_).read_columns([y], BLOCK)
            return read_target(rows, y, self.task, getattr(self, "classes_", None))
        return None if y is None else as_target(y)

    def report(self, path: Any = None, X: Any = None, y: Any = None, **options: Any) -> Any:
        """Return a report on the fit and write it to `path` as HTML; see :func:`onefold.write_report`.

        X and y are the rows that the model was fitted on; y may be the name of a column of X.
        """
        check_is_fitted(self, "estimator_")
        from onefold.report import write_report

        return write_report(self, path, X, y, **options)

    def to_onnx(
        self, *, dtype: str = "float64", target_opset: int | None = None, decision: bool = False
    ) -> Any:
        """Preparation and estimator as an ``onnx.ModelProto`` with one input (rows, 1) per column.

        Numbers have type `dtype`, NaN where missing; all other columns are text, "" where missing
        (:doc:`/manual/export`). Date columns are not supported. The default is float64, because columns
        are passed unscaled and float32 has only seven digits.
        """
        from onefold.export import to_onnx

        return to_onnx(self, dtype=dtype, target_opset=target_opset, decision=decision)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of that matrix."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.preparation_.feature_names, dtype=object)

    @property
    def best_score_(self) -> float:
        """The score of the final model: of the blend, or of the best candidate."""
        check_is_fitted(self, "estimator_")
        blended = getattr(self.estimator_, "blend_score_", None)
        return float(self.estimator_.best_score_ if blended is None else blended)

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen hyper-parameters, as in the inner estimator."""
        check_is_fitted(self, "estimator_")
        return dict(self.estimator_.best_params_)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Every candidate with its scores, as in the inner estimator."""
        check_is_fitted(self, "estimator_")
        return dict(self.estimator_.cv_results_)

    @property
    def importances_(self) -> dict[str, float]:
        """Permutation importance of every table column, as a fraction of the total, largest first."""
        check_is_fitted(self, "estimator_")
        features = getattr(self.estimator_, "feature_importances_", None)
        shares = self.preparation_.shares(features)
        if shares is None:
            raise AttributeError("importances need a learned metric; fit with metric='auto'")
        return shares

    @property
    def feature_importances_(self) -> np.ndarray:
        """`importances_` as an array in the order of the columns, 0 for dropped columns."""
        shares = self.importances_
        names = self._column_names()
        return np.array([shares.get(name, 0.0) for name in names])

    def compressed(
        self,
        centres: int | None = None,
        *,
        tolerance: float | None = None,
        X: TableLike | Table | None = None,
        y: MaybeArray = None,
        random_state: RandomState = 0,
    ) -> Self:
        """Return a copy on fewer centres, which predicts faster and is a smaller file.

        As in :meth:`LSSVCCV.compressed`, which has the parameters; the record of the change is
        ``estimator_.approximation_["compressed"]``.

        Parameters
        ----------
        centres, tolerance, random_state
            As in :meth:`LSSVCCV.compressed`. With ``target_transform="log"`` errors are those of the
            logarithm.
        X : pandas, polars or pyarrow table, array, path or open table, optional
            Rows on which the change is measured; they are held in memory.
        y : array or column (rows,), or the name of a column of X, optional
            Their targets.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from onefold import TableRegressor
        >>> table = pa.table({"size": range(40), "price": [size**0.5 for size in range(40)]})
        >>> model = TableRegressor(simple=True).fit(table, "price").compressed(10)
        >>> model.estimator_.expansion_.n_centres
        10
        """
        check_is_fitted(self, "estimator_")
        matrix = None if X is None else joined([block for _, block in matrix_blocks(self, X)])
        target = y if X is None else self._fitted_target(self._target_of(X, y))
        options: Any = {"tolerance": tolerance, "X": matrix, "y": target, "random_state": random_state}
        copied = copy(self)
        copied.estimator_ = self.estimator_.compressed(centres, **options)
        return copied

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write estimator and preparation to one file, which :func:`onefold.load` reads."""
        check_is_fitted(self, "estimator_")
        saving.save(self, path)

    def _predicted(self, method: str, X: Any, **options: Any) -> np.ndarray:
        """A method of the estimator inside on the rows of a table, block by block."""
        blocks = (matrix for _, matrix in matrix_blocks(self, X))
        return joined([on_matrix(self, method, matrix, **options) for matrix in blocks])

    def _check_settings(self) -> None:
        """Raise where parameters make no sense, whatever the table."""
        self._check_preparation()
        for name, choices in _CHOICES.items():
            value = getattr(self, name, None)
            if not any(
                value is choice or (isinstance(choice, str) and value == choice) for choice in choices
            ):
                words = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {words}; got {value!r}")
        past = past_splits(self.cv) is not None
        if (isinstance(self.cv, int | np.integer) and self.cv < 2) or (
            isinstance(self.cv, str) and self.cv != "loo" and not past
        ):
            raise ValueError(
                f"cv must be a number of folds, at least 2, 'loo' or 'past:5'; got {self.cv!r}"
            )
        if self.gap and not self.ordered and not past:
            raise TableError("a gap needs ordered rows", [Remedy("ordered", True)])
        if getattr(self, "calibration", None) is not None:
            check_calibration(self.calibration)
        if self.scratch is not None and not os.path.isdir(self.scratch):
            raise ValueError(f"scratch must be an existing folder; got {self.scratch!r}")
        check_clip(getattr(self, "clip", None))
        check_kernels(self)
        check_budget(self.time_budget)

    def _check_criterion(self, target: str = "y", values: Any = None) -> None:
        """Raise where a criterion is unknown or not for this task, or for these values of the target."""
        criteria: Any = self.criterion
        for criterion in criteria if isinstance(criteria, list | tuple) else [criteria]:
            if isinstance(criterion, str):
                check_criterion(criterion, self.task, target, values)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


@shared_docs(LSSVCCV)
@dataclass(eq=False, repr=False, kw_only=True)
class TableClassifier(ClassifierMixin, TableModel):
    r"""Classifier for tables: prepares the columns and fits :class:`LSSVCCV` to them.

    Numbers are standardised, text is one-hot encoded, dates become elapsed time and the cycles that
    they span (year, week, day), booleans become one feature, and missing values are imputed and marked
    (:doc:`/manual/tables`). Kernels, metrics, widths and ridges are chosen by held-out predictions, and
    the best models are blended.

    Parameters
    ----------
    reading : Reading or None, default=None
        How CSV files and spreadsheets are parsed: decimal mark, order of day and month, texts for
        missing values (:class:`onefold.tables.Reading`).
    missing : {"impute", "error"}, default="impute"
        "impute" fills in the median or the most frequent value and adds a feature that marks missing
        values; "error" raises an error if values are missing.
    categorical : sequence of str, default=()
        Columns to treat as categories, even if they look like numbers or dates.
    numeric : sequence of str, default=()
        Columns to treat as numbers. By default, up to two columns of whole numbers that act like names,
        such as those of shops, become categories if a quick comparison on held-out rows of a sample
        says so, with a note (:doc:`/manual/tables`).
    drop : sequence of str, default=()
        Columns to leave out.
    min_frequency : int, float or None, default=None
        Categories that occur in fewer rows (int), or in a smaller fraction of the rows (float), share
        one indicator, as in scikit-learn's ``OneHotEncoder``; so do values not seen in training.
    drop_missing_target : bool, default=False
        Drop rows without a target, with a note; otherwise they raise an error.
    id_column : str, default=None
        Column that identifies the rows: not a feature, but copied to predictions and reports.
    cv : int, "loo", "past:5", splitter or iterable, default=5
        An int is the number of folds: rows are shuffled and stratified by class; with groups, each
        group is kept in one fold. "past:5" tests five blocks of rows in turn, each by models of the rows
        before it.
    ordered : bool or "auto", default=False
        Use blocks of consecutive rows as folds, for rows in order of time. "auto" uses blocks of
        consecutive moments if the table is noticed to come in time, in the order of the column that
        says so; with ``cv="past:5"`` also in that of the only date column.
    gap : int, default=0
        With `ordered` or ``cv="past:5"``: number of rows left out around each fold, or before it; of
        moments where rows share them.
    criterion
        As in :class:`LSSVCCV`.
    class_weight : "balanced", dict or None, default=None
        Multiplies the weight of each row by that of its class. With "balanced" the criterion is balanced
        accuracy, unless another is given.
    simple : bool, default=False
        Search widths and ridges of a single kernel only, without a metric or a blend; much faster.
    kernel : str or list, default="auto"
        The kernel, or several to choose from; "auto" is ["rbf", "powexp", "laplacian"].
    metric : {"auto", "diagonal", "full", "none"} or None, default="auto"
        The metric to learn: "diagonal" is a weight per feature, "full" a matrix that also mixes
        features. "auto" learns one where possible: not for rows on disk, leave-one-out, criteria without
        splits and some approximations; ``report_["search"]["note"]`` says so.
    blend : bool or "auto", default="auto"
        Whether to keep a weighted sum of the best models, unless the best single model predicts held-out
        rows as well. "auto" blends where a metric can be learned.
    gammas : list of float, default=None
        Widths to try, relative to the mean distance between rows unless `simple`.
    alphas, loss
        As in :class:`LSSVCCV`.
    search : {"auto", "grid", "halving"} or object from :mod:`onefold.search`, default="auto"
        Search strategy. "auto" is "halving" for a single kernel without a metric, else "grid".
    check, approximation, time_budget, checkpoint
        As in :class:`LSSVCCV`.
    scratch : path, default=None
        Folder for the encoded rows of a table that is too large for memory; the file is removed after
        the fit. By default the system's folder for temporary files (``TMPDIR``). Choose one on a disk:
        /tmp is often kept in memory (tmpfs).
    device
        As in :class:`LSSVCCV`.
    random_state : int, RandomState or None, default=0
        Seed of the folds and of all other random choices.
    n_jobs, verbose, callback
        As in :class:`LSSVCCV`.
    calibration
        As in :class:`LSSVCCV`.

    Attributes
    ----------
    estimator_ : LSSVCCV
        The inner estimator, fitted on the prepared matrix.
    preparation_ : Preparation
        Turns rows of a table into rows of the matrix.
    classes_ : array
        Sorted labels.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : array of str
        The columns of the table; not defined for arrays.
    feature_importances_, importances_
        Permutation importance of each column on held-out rows (its features are permuted together), as
        a fraction of the total; as an array, and by name.
    notes_ : list of str
        What was imputed, dropped or assumed.
    report_ : dict
        Results of the fit: scores, chosen hyper-parameters, importances, notes.
    best_score_, best_params_, cv_results_
        The score of the final model (the blend or the best candidate) by the criterion, greater is
        better; the chosen hyper-parameters; every candidate.
    target_, id_column_, reading_
        Names of the target and of the ID column, if known; how text is parsed.

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
    calibration: str | None = "log_odds"

    def score(self, X: TableLike | Table, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """Accuracy on the rows of a table; y may be the name of a column of X."""
        target = self._target_of(X, y)
        weights = cast(Any, sample_weight)
        if target is not None and target.dtype == object:  # with labels that the model does not know
            return float(np.average(target == self.predict(X), weights=weights))
        return float(super().score(X, target, sample_weight))


@shared_docs(LSSVRCV, TableClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class TableRegressor(RegressorMixin, MultiOutputMixin, TableModel):
    r"""Regressor for tables: prepares the columns and fits :class:`LSSVRCV` to them.

    Parameters
    ----------
    reading, missing, categorical, numeric, drop, min_frequency, drop_missing_target, id_column
        As in :class:`TableClassifier`.
    cv : int, "loo", "past:5", splitter or iterable, default=5
        An int is the number of folds: rows are shuffled; with groups, each group is kept in one fold.
        "past:5" trains on earlier rows only, as in :class:`TableClassifier`.
    ordered, gap
        As in :class:`TableClassifier`.
    criterion
        As in :class:`LSSVRCV`.
    simple, kernel, metric, blend, gammas, alphas, loss, search, check, approximation, time_budget,
    checkpoint, scratch, device, random_state, n_jobs, verbose, callback
        As in :class:`TableClassifier`.
    intervals : {"auto", "cv+", "jackknife+", "normalised"} or None, default="auto"
        How prediction intervals are made, as in :class:`LSSVRCV`; for "auto", ``report_["intervals"]``
        says what was chosen and why.
    target_transform : {"log", None}, default=None
        "log" fits the logarithm of positive targets, such as prices, whose errors grow with the value.
        Predictions, intervals and quantiles are in the units of the target; predictions are the
        exponential of the fitted function, medians rather than means. The search scores on the log
        scale.
    clip : "auto", (low, high) or None, default="auto"
        Range that predictions, intervals and quantiles are kept within, for all targets; None in place
        of a bound leaves that side open. "auto" notices the range of each target in training: targets
        that are never negative (or never positive), shares up to 1 or 100, and a smallest or largest
        value with many rows exactly on it (:doc:`/guides/counts`). Scores of the search are those
        before clipping; ``report_["heldout"]``, tests and reports have those of what is predicted.

    Attributes
    ----------
    estimator_ : LSSVRCV
        The inner estimator, fitted on the prepared matrix; its predictions are not clipped.
    clip_ : array (targets, 2) or None
        Lower and upper bounds of the predictions, infinite where there is none.
    preparation_, n_features_in_, feature_names_in_, feature_importances_, importances_, notes_, report_,
    best_score_, best_params_, cv_results_, target_, id_column_, reading_
        As in :class:`TableClassifier`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from onefold import TableRegressor
    >>> table = pa.table({"colour": ["red", "blue"] * 20, "size": range(40)})
    >>> price = [size + 10 * (colour == "red") for colour, size in zip(*table.to_pydict().values())]
    >>> model = TableRegressor(simple=True).fit(table, price)
    >>> model.predict(pa.table({"size": [7], "colour": ["red"]})).round().tolist()
    [17.0]
    """

    task: ClassVar[TargetKind] = "regression"
    _inner: ClassVar[Any] = LSSVRCV

    intervals: str | None = "auto"
    target_transform: Literal["log"] | None = None
    clip: Clip = "auto"

    def _ranges(self, y: Any) -> list[TargetRange]:
        """The range of every target, given those of the training rows."""
        return ranges_of(self.clip, y, positive=self._logarithmic)

    def score(self, X: TableLike | Table, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """R² on the rows of a table; y may be the name of a column of X."""
        return float(super().score(X, self._target_of(X, y), sample_weight))


def inner_estimator(model: TableModel, search: SearchSettings | None = None, **options: Any) -> Any:
    """The estimator for the prepared matrix, not fitted; `options` replace parameters of the model."""
    search = search_of(model) if search is None else search
    names = inspect.signature(model._inner).parameters
    parameters = {name: getattr(model, name) for name in names if hasattr(model, name)}
    if model.criterion is None and parameters.get("class_weight") == "balanced":
        parameters["criterion"] = "balanced_accuracy"  # classes that weigh the same also count the same
    parameters["kernel"] = search.kernel
    parameters["metric"] = search.metric
    parameters["blend"] = search.blend
    parameters["search"] = search.search
    return model._inner(**parameters | options)


def on_matrix(model: TableModel, method: str, matrix: Any, **options: Any) -> np.ndarray:
    """A method of the estimator inside, on rows of its matrix, in the units of the target."""
    values = np.asarray(getattr(model.estimator_, method)(matrix, **options))
    return np.asarray(model._in_target_units(values))


def load_table_model(path: str | Path) -> TableModel:
    """Read a model that was tuned on a table, with its preparation.

    Raises
    ------
    TableError
        If the file contains a model that was not fitted to a table; read it with `onefold.load`.
    onefold.saving.ModelFileError
        If the file is not a onefold model or is damaged.
    """
    model = saving.load(path)
    if not isinstance(model, TableModel):
        raise TableError(
            f"{path} contains a {type(model).__name__}, which was not tuned on a table; read it with "
            "onefold.load"
        )
    return model
