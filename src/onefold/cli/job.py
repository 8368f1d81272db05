"""The main job behind ``tune`` and ``demo``: rows in, a tuned table model out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from onefold.cli.criterion import check_criterion, default_criterion
from onefold.cli.folds import choose_folds
from onefold.cli.leaks import suspicious_columns
from onefold.cli.measures import heldout_measures
from onefold.cli.notes import notes_of
from onefold.kernels import resolve_kernel
from onefold.search import GridEdgeWarning
from onefold.tables import (
    Preparation,
    Reading,
    Rows,
    TableError,
    TableModel,
    Target,
    learn_preparation,
    learn_target,
)
from onefold.tables.columns import as_numbers, as_text, kind_of
from onefold.tables.suspects import column_notes, row_number_columns
from onefold.tables.target import Task

__all__ = ["Job", "Settings", "check_kernel", "check_target", "prepare_job", "run_job"]

_SMALLEST, _LARGEST = 1e-140, 1e145  # spread of a target whose squared errors are still numbers


@dataclass(frozen=True)
class Settings:
    """What to tune and how; the options of ``onefold tune`` under the same names."""

    target: str
    task: Task | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    id: str | None = None
    weight: str | None = None
    groups: str | None = None
    missing: Literal["error", "impute"] = "error"
    kernel: str = "rbf"
    cv: int | Literal["loo"] = 5
    ordered: bool = False
    gap: int = 0
    criterion: str | None = None
    class_weight: Literal["balanced"] | None = None
    gammas: list[float] | None = None
    alphas: list[float] | None = None
    approximation: str = "auto"
    check: bool = False
    jobs: int | None = None
    seed: int = 0

    def named_columns(self) -> dict[str, str]:
        """Every column that an option names, with the option."""
        named = {"--target": self.target, "--id": self.id, "--weight": self.weight}
        named["--groups"] = self.groups
        return {option: name for option, name in named.items() if name is not None}


@dataclass(frozen=True)
class Job:
    """Checked input, ready for the long work."""

    settings: Settings
    target: Target
    preparation: Preparation
    X: Any
    weight: np.ndarray | None
    groups: np.ndarray | None
    cv: Any
    cv_words: str
    notes: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)

    @property
    def criterion(self) -> str:
        """The criterion asked for, or the one that goes with the task."""
        balanced = self.settings.class_weight is not None
        return self.settings.criterion or default_criterion(self.target.task, balanced)

    def folds(self) -> list[np.ndarray]:
        """The rows that are held out and scored together."""
        rows = len(self.target.values)
        if self.cv == "loo":
            return [np.arange(rows)]
        splits = self.cv.split(np.zeros((rows, 1)), self.target.values, self.groups)
        return [np.asarray(test) for _, test in splits]


def prepare_job(rows: Rows, settings: Settings) -> Job:
    """Check everything that can be wrong with the rows, and prepare them."""
    check_kernel(settings, sparse=rows.sparse is not None)
    target = learn_target(rows, settings.target, settings.task)
    check_target(settings, target)
    named = {*settings.named_columns().values(), *settings.drop}
    left_out = row_number_columns(rows, keep={*named, *settings.categorical})
    weight = None if settings.weight is None else _weights(rows, settings.weight)
    groups = None if settings.groups is None else _groups(rows, settings.groups)
    cv, words = choose_folds(settings, target, groups)
    not_features = {*named, *left_out}
    preparation = learn_preparation(rows, not_features, settings.missing, settings.categorical)
    others = [settings.weight or "", target.name if target.task == "regression" else ""]
    notes = column_notes(rows, preparation.columns, others, left_out)
    X = preparation.transform(rows)
    return Job(settings, target, preparation, X, weight, groups, cv, words, notes, rows.reading)


def run_job(job: Job, callback: Callable[[Mapping[str, Any]], None] | None) -> TableModel:
    """Search, fit, and measure the held-out predictions."""
    from onefold.estimators import LSSVCCV, LSSVRCV

    settings = job.settings
    options: dict[str, Any] = {
        "kernel": settings.kernel,
        "gammas": settings.gammas,
        "alphas": settings.alphas,
        "approximation": settings.approximation,
        "check": settings.check,
        "cv": job.cv,
        "criterion": job.criterion,
        "n_jobs": settings.jobs,
        "callback": callback,
    }
    if job.target.task == "classification":
        estimator: Any = LSSVCCV(class_weight=settings.class_weight, **options)
    else:
        estimator = LSSVRCV(**options)
    suspicious = suspicious_columns(job.X, job.preparation, job.target)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # Folds that lack a class are spoken of once, in words, before the search.
        warnings.filterwarnings("ignore", message="The least populated class|y_pred contains classes")
        warnings.simplefilter("ignore", GridEdgeWarning)  # a note in the report says so
        estimator.fit(job.X, job.target.values, sample_weight=job.weight, groups=job.groups)
        seconds = time.perf_counter() - begin
        # The callback has done its work and a model file has no room for code.
        estimator.set_params(callback=None)
        report = _report(job, estimator, suspicious, seconds)
    target, task = settings.target, job.target.task
    return TableModel(estimator, job.preparation, target, task, settings.id, report, job.reading)


def _report(job: Job, estimator: Any, suspicious: list[str], seconds: float) -> dict[str, Any]:
    """What tuning found, as plain values: the source of the text, the JSON and ``inspect``."""
    report = {
        "task": job.target.task,
        "task_reason": job.target.reason,
        "rows": int(job.X.shape[0]),
        "features": int(job.X.shape[1]),
        "kernel": job.settings.kernel,
        "cv": job.cv_words,
        "criterion": job.criterion,
        "class_weight": job.settings.class_weight,
        "best_score": float(estimator.best_score_),
        "candidates": len(estimator.cv_results_["params"]),
        "heldout": heldout_measures(estimator, job.target.values, job.folds(), job.weight),
        "suspicious_columns": suspicious,
        "seconds": seconds,
    }
    report["column_notes"] = list(job.notes)
    _prefer_the_criterion(report)
    report["notes"] = notes_of(report, estimator, job.target.name)
    return report


def _prefer_the_criterion(report: dict[str, Any]) -> None:
    """Where the criterion is one of the measures, its own way of taking means over folds counts."""
    held, score = report["heldout"], report["best_score"]
    ways = {"r2": 1, "rmse": -1}
    name = {"neg_root_mean_squared_error": "rmse"}.get(report["criterion"], report["criterion"])
    if held is not None and name in ways:
        held[name] = ways[name] * score


def check_kernel(settings: Settings, sparse: bool) -> None:
    """Refuse a kernel that does not go with the widths or the rows."""
    kernel = resolve_kernel(settings.kernel, 1.0, 3, 1.0)
    if settings.gammas is not None and not kernel.has_width:
        raise ValueError(f"the {settings.kernel} kernel has no width: leave --gammas out")
    if sparse and not kernel.accepts_sparse:
        raise ValueError(
            f"the {settings.kernel} kernel can't use svmlight tables, which are sparse; "
            "choose another --kernel"
        )


def check_target(settings: Settings, target: Target) -> None:
    """Refuse options that do not go with the target, and targets that cannot be squared."""
    if target.task == "regression":
        if settings.class_weight is not None:
            raise ValueError(
                f"--class-weight is for classification, and '{target.name}' holds numbers; leave it "
                "out, or use --task classification"
            )
        spread = float(target.values.max() / 2 - target.values.min() / 2)
        if not _SMALLEST < spread < _LARGEST:
            raise TableError(
                f"the values of '{target.name}' differ by {2 * spread:.2g} at most, whose square is "
                "beyond floating point; multiply the column by a constant, to values near 1"
            )
    if settings.criterion is not None:
        check_criterion(settings.criterion, target, settings.approximation)


def _weights(rows: Rows, name: str) -> np.ndarray:
    values = as_numbers(rows.column(name, role="weight column"), name)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise TableError(
            f"the weight column '{name}' has {values[bad[0]]:g} in data row {bad[0] + 1}; "
            "weights are positive numbers"
        )
    return values


def _groups(rows: Rows, name: str) -> np.ndarray:
    column = rows.column(name, role="groups column")
    if kind_of(column) == "numeric":
        absent = int(np.isnan(as_numbers(column, name)).sum())
        values = column.to_numpy()  # exactly: numbers beyond 2**53 are groups of their own
    else:
        text = as_text(column, name)
        absent = int(text.null_count)
        values = np.asarray(text.to_pylist())
    if absent:
        raise TableError(
            f"missing values in '{name}' ({absent} of {len(rows)} rows); every row needs a group"
        )
    codes: np.ndarray = np.unique(values, return_inverse=True)[1]
    return codes
