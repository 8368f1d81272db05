"""What the two estimators of whole tables share: fitting, and predictions block by block."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from onefold import saving
from onefold.approximations import Approximation
from onefold.estimators.base import with_groups_of
from onefold.estimators.validation import check_budget
from onefold.search.loop import Callback
from onefold.tables.errors import Remedy, TableError
from onefold.tables.findings import findings, suspicious_columns
from onefold.tables.preparation import Missing, Surprises, check_min_frequency
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, TableSource, as_array, is_frame
from onefold.tables.searching import Search, search_of
from onefold.tables.source import opened
from onefold.tables.target import TargetKind, as_target, read_target
from onefold.tables.text import frame_without_missing
from onefold.tables.training import Training, prepared_again, training_of
from onefold.typing import ArrayLike, CriterionLike, CrossValidation, MaybeArray, RandomState

_BLOCK_NUMBERS = 1 << 22  # of a block that is predicted, if its rows are neither few nor many
_FEWEST_ROWS, _MOST_ROWS = 256, 1 << 16
_PASSED_ON = (
    "gammas", "alphas", "search", "check", "criterion", "approximation", "time_budget", "checkpoint",
    "device", "random_state", "n_jobs", "verbose", "callback", "class_weight", "calibration",
    "intervals",
)  # fmt: skip


def _inside(name: str) -> Callable[[Any], bool]:
    """Whether the estimator inside has a method."""
    return lambda model: hasattr(getattr(model, "estimator_", None) or model.inner_estimator(), name)


@dataclass(eq=False, repr=False, kw_only=True)
class TableModel(BaseEstimator):
    """A self-tuning estimator together with the preparation of its tables; its fields are parameters."""

    task: ClassVar[TargetKind]
    _inner: ClassVar[Any]

    reading: Reading | None = None
    missing: Missing = "impute"
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    min_frequency: float | None = None
    drop_missing_target: bool = False
    id_column: str | None = None
    cv: CrossValidation = 5
    ordered: bool = False
    gap: int = 0
    criterion: CriterionLike = None
    simple: bool = False
    kernel: Any = "auto"
    metric: str | None = "auto"
    blend: bool | Literal["auto"] = "auto"
    gammas: MaybeArray = None
    alphas: MaybeArray = None
    search: Any = "grid"
    check: bool = False
    approximation: str | Approximation = "auto"
    time_budget: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    device: Any = None
    random_state: RandomState = 0
    n_jobs: int | None = None
    verbose: int = 0
    callback: Callback | None = None

    def get_metadata_routing(self) -> Any:
        """The requests of this estimator, as meta-estimators of scikit-learn ask for them."""
        return with_groups_of(self.cv, super().get_metadata_routing())

    def inner_estimator(self, search: Search | None = None, **options: Any) -> Any:
        """The estimator for the prepared matrix, not fitted; `options` go before the parameters here."""
        search = search_of(self) if search is None else search
        known = inspect.signature(self._inner).parameters
        given = {name: getattr(self, name) for name in _PASSED_ON if name in known} | {"cv": self.cv}
        if self.criterion is None and given.get("class_weight") == "balanced":
            given["criterion"] = "balanced_accuracy"  # classes that weigh the same also count the same
        return self._inner(**given | search.parameters() | options)

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Self:
        """Learn the preparation of a table, choose a model and fit it.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, array, path or open table
            A table on disk that is larger than memory stays there.
        y : array or column (n,), or the name of a column of X
        sample_weight, groups : array (n,), or the name of a column of X, optional
            How much rows count; which rows stay in the same fold.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        with training_of(self, X, y, sample_weight, groups) as training:
            self.fit_prepared(training)
        if not is_frame(X) and not isinstance(X, str | Path | TableSource | TableRows):
            self.n_features_in_ = int(as_array(X).shape[1])
            del self.feature_names_in_
        return self

    def fit_prepared(self, training: Training) -> Self:
        """The second half of `fit`: choose a model, fit it and say what was found."""
        inner = self.inner_estimator(training.search, cv=training.cv)
        suspicious = suspicious_columns(training, self.task == "regression")
        begin = time.perf_counter()
        y = self.fitted_target(training.y)
        inner.fit(training.X, y, sample_weight=training.sample_weight, groups=training.groups)
        seconds = time.perf_counter() - begin
        if training.cv_words == "folds as given":
            inner.set_params(cv=self.cv)
        inner.set_params(callback=None, checkpoint=None)  # they have done their work
        self.estimator_, self.preparation_, self.reading_ = inner, training.preparation, training.reading
        self.feature_names_in_ = np.asarray(training.columns, dtype=object)
        self.n_features_in_ = len(training.columns)
        if hasattr(inner, "classes_"):
            self.classes_ = inner.classes_
        self.target_: str | None = None if training.target is None else training.target.name
        self.id_column_: str | None = self.id_column
        self.notes_: list[str] = list(training.notes)
        self.report_: dict[str, Any] = findings(self, training, suspicious, seconds)
        return self

    def as_step(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """The estimator inside, the matrix, targets, and weights and groups that it would be fitted to.

        What :func:`onefold.trust` and :func:`onefold.plan` look at. The preparation is the fitted one,
        or learned from these rows; nothing is kept.
        """
        self.check_settings()
        if hasattr(self, "estimator_"):
            matrix, y, weight, groups = prepared_again(self, X, y, sample_weight, groups)
            given = {"sample_weight": weight, "groups": groups}
            return self.estimator_, matrix, self.fitted_target(y), given
        with training_of(self, X, y, sample_weight, groups) as training:
            inner = self.inner_estimator(training.search, cv=training.cv)
            given = {"sample_weight": training.sample_weight, "groups": training.groups}
            matrix = np.array(training.X) if training.on_disk else training.X
            return inner, matrix, self.fitted_target(training.y), given

    def fitted_target(self, y: Any) -> Any:
        """A target as the estimator inside fits it."""
        return np.log(y) if y is not None and self._logarithmic else y

    def in_target_units(self, values: Any) -> Any:
        """What the estimator inside predicts, in the units of the target."""
        return np.exp(values) if self._logarithmic else values

    def on_matrix(self, method: str, matrix: Any, **options: Any) -> np.ndarray:
        """A method of the estimator inside, on rows of :meth:`matrix`, in the units of the target."""
        values = np.asarray(getattr(self.estimator_, method)(matrix, **options))
        return np.asarray(self.in_target_units(values))

    @property
    def _logarithmic(self) -> bool:
        return getattr(self, "target_transform", None) == "log"

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict every row of a table, an array, a path or an open table."""
        return self._predicted("predict", X)

    @available_if(_inside("decision_function"))
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Decision values, as the estimator inside gives them."""
        return self._predicted("decision_function", X)

    @available_if(_inside("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of every class, in the order of ``classes_``."""
        return self._predicted("predict_proba", X)

    @available_if(_inside("predict_log_proba"))
    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Logarithms of the probabilities."""
        return self._predicted("predict_log_proba", X)

    @available_if(_inside("predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Lower and upper bounds that hold the target with this probability: (rows, 2), or a frame."""
        values = self._predicted("predict_interval", X, coverage=coverage)
        return _as_frame_like(X, values, ("lower", "upper"))

    @available_if(_inside("predict_quantiles"))
    def predict_quantiles(self, X: Any, quantiles: Any) -> Any:
        """Quantiles of the target: (rows, quantiles), or a frame."""
        values = self._predicted("predict_quantiles", X, quantiles=quantiles)
        return _as_frame_like(X, values, [str(one) for one in np.atleast_1d(quantiles)])

    def known_target(self, X: Any, y: Any) -> Any:
        """The target of further rows: an array, or the column of X with this name."""
        check_is_fitted(self, "estimator_")
        if isinstance(y, str):
            table = opened(X, self.reading_)
            rows = table.read() if isinstance(table, TableSource) else table
            return read_target(rows, y, self.task, getattr(self, "classes_", None))
        return None if y is None else as_target(y)

    def report(self, path: Any = None, X: Any = None, y: Any = None, **options: Any) -> Any:
        """A report on the fit, written to `path` as one HTML page; see :func:`onefold.write_report`.

        X and y, or the name of y's column in X, are the rows that it was fitted on.
        """
        check_is_fitted(self, "estimator_")
        from onefold.report import write_report

        return write_report(self, path, X, y, **options)

    def to_onnx(
        self, *, dtype: str = "float64", target_opset: int | None = None, decision: bool = False
    ) -> Any:
        """Preparation and estimator as an ``onnx.ModelProto`` with one input (rows, 1) per column.

        Numbers are of this type, NaN where missing; all else is text, "" where missing (docs/export.md).
        Dates are refused. float64, as columns come as they are and float32 has seven digits.
        """
        from onefold.export import to_onnx

        return to_onnx(self, dtype=dtype, target_opset=target_opset, decision=decision)

    def matrix(self, X: Any) -> Any:
        """The rows of a table as the matrix that the estimator inside sees."""
        matrices = [matrix for _, matrix in self.matrix_blocks(X, 1 << 62)]
        if not matrices:
            raise TableError("the table has no rows")
        return matrices[0] if len(matrices) == 1 else np.concatenate(matrices)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of that matrix."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.preparation_.feature_names, dtype=object)

    @property
    def best_score_(self) -> float:
        """The score of the model that is kept: of the blend, or of the best candidate."""
        check_is_fitted(self, "estimator_")
        blended = getattr(self.estimator_, "blend_score_", None)
        return float(self.estimator_.best_score_ if blended is None else blended)

    @property
    def best_params_(self) -> dict[str, Any]:
        """What was chosen, as the estimator inside has it."""
        check_is_fitted(self, "estimator_")
        return dict(self.estimator_.best_params_)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Every candidate with its scores, as the estimator inside has it."""
        check_is_fitted(self, "estimator_")
        return dict(self.estimator_.cv_results_)

    @property
    def importances_(self) -> dict[str, float]:
        """The share of every table column in what moves the prediction, the greatest first."""
        check_is_fitted(self, "estimator_")
        features = getattr(self.estimator_, "feature_importances_", None)
        found = self.preparation_.shares(features)
        if found is None:
            raise AttributeError("importances come from a learned metric; fit with metric='auto'")
        return found

    @property
    def feature_importances_(self) -> np.ndarray:
        """The same in the order of the columns, 0 for those that were left out."""
        shares = self.importances_
        names = self._column_names()
        return np.array([shares.get(name, 0.0) for name in names])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write estimator and preparation to one file, which :func:`onefold.load` reads."""
        check_is_fitted(self, "estimator_")
        saving.save(self, path)

    def predict_blocks(
        self, table: Any, batch_rows: int | None = None, extra: tuple[str, ...] = ()
    ) -> Iterator[tuple[TableRows, np.ndarray]]:
        """Blocks of rows with their predictions, in the order of the table.

        Holds no more than `batch_rows` rows in memory where the table can be read in blocks, by default
        about four million numbers. `extra` columns are read besides those that the model needs. One
        warning at the end tells what training had not seen.
        """
        for rows, matrix in self.matrix_blocks(table, batch_rows, extra):
            yield rows, self.on_matrix("predict", matrix)

    def matrix_blocks(
        self, table: Any, batch_rows: int | None = None, extra: tuple[str, ...] = ()
    ) -> Iterator[tuple[TableRows, Any]]:
        """Like `predict_blocks`, with the prepared matrix in place of predictions."""
        check_is_fitted(self, "estimator_")
        surprises = Surprises()
        for rows in self._blocks(table, batch_rows, extra):
            yield rows, self.preparation_.transform(rows, surprises)
        surprises.warn()

    def _blocks(self, table: Any, rows: int | None, extra: tuple[str, ...]) -> Iterator[TableRows]:
        """Blocks of at most `rows` rows with the columns that are needed, and `extra` ones.

        Tables are read as the model's own was, and the same texts mean a missing value.
        """
        width = max(len(self.preparation_.feature_names), 1)
        size = rows or min(max(_BLOCK_NUMBERS // width, _FEWEST_ROWS), _MOST_ROWS)
        wanted = tuple(dict.fromkeys(self.preparation_.columns + extra))
        if not isinstance(table, str | Path | TableSource) and not is_frame(table):
            self._check_width(as_array(table))
        source = opened(table, self.reading_, self._column_names())
        if isinstance(source, TableRows):
            source = self._by_names(source)
        for name in extra:
            source.require(name)
        if isinstance(source, TableRows) or not source.absent_is_zero:
            self.preparation_.check_columns(source.names)
        if isinstance(source, TableRows):
            blocks = source.select(wanted).slices(size)
        else:
            blocks = source.batches(size, wanted)
        yield from map(frame_without_missing, blocks)

    def _check_width(self, array: Any) -> None:
        if array.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input; pass a table with named columns, or such "
                "rows."
            )

    def _by_names(self, rows: TableRows) -> TableRows:
        """Rows by the names of the columns; a model that learned from an array knows places."""
        names = self._column_names()
        known = hasattr(self, "feature_names_in_") or set(names) <= set(rows.names)
        if known or len(rows.names) != len(names):
            return rows
        warnings.warn(
            f"X has column names, but {type(self).__name__} was fitted on an array: its columns are "
            "taken in their order",
            UserWarning,
            stacklevel=2,
        )
        return replace(rows, columns=rows.columns.rename_columns(names))

    def _column_names(self) -> list[str]:
        """The columns of the table that the model was fitted on."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [f"x{j}" for j in range(self.n_features_in_)]

    def _predicted(self, method: str, X: Any, **options: Any) -> np.ndarray:
        """A method of the estimator inside on the rows of a table, block by block."""
        check_is_fitted(self, "estimator_")
        blocks = [self.on_matrix(method, matrix, **options) for _, matrix in self.matrix_blocks(X)]
        if not blocks:
            raise TableError("the table has no rows")
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def check_settings(self) -> None:
        """Raise where parameters make no sense, whatever the table."""
        for name in ("drop", "categorical"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a list of columns; use {name}=[{getattr(self, name)!r}]")
        if self.reading is not None and not isinstance(self.reading, Reading):
            raise ValueError(f"reading must be an onefold.tables.Reading; got {self.reading!r}")
        if self.missing not in ("impute", "error"):
            raise ValueError(f"missing must be 'impute' or 'error'; got {self.missing!r}")
        check_min_frequency(self.min_frequency)
        if not any(self.drop_missing_target is value for value in (True, False)):
            raise ValueError(
                f"drop_missing_target must be True or False; got {self.drop_missing_target!r}"
            )
        if getattr(self, "target_transform", None) not in (None, "log"):
            raise ValueError(f"target_transform must be None or 'log'; got {self.target_transform!r}")
        if (isinstance(self.cv, int | np.integer) and self.cv < 2) or (
            isinstance(self.cv, str) and self.cv != "loo"
        ):
            raise ValueError(f"cv must be a number of folds, at least 2, or 'loo'; got {self.cv!r}")
        if self.gap and not self.ordered:
            raise TableError("a gap needs ordered rows", [Remedy("ordered", True)])
        check_budget(self.time_budget)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


def _as_frame_like(table: Any, values: np.ndarray, columns: Sequence[str]) -> Any:
    """Predictions as a frame of the library that the table is of; an array for other tables."""
    library = type(table).__module__.partition(".")[0]
    if values.ndim != 2 or library not in ("pandas", "polars"):
        return values
    frame: Any = import_module(library).DataFrame
    named = {name: values[:, j] for j, name in enumerate(columns)}
    return frame(named, index=table.index) if library == "pandas" else frame(named)
