"""The main job behind ``tune`` and ``demo``: rows in, a tuned table model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from onefold.cli.folds import choose_folds
from onefold.cli.measures import heldout_measures
from onefold.kernels import resolve_kernel
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

__all__ = ["Job", "Settings", "check_kernel", "prepare_job", "run_job"]


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
        by_task = "error" if self.target.task == "classification" else "mse"
        return self.settings.criterion or by_task


def prepare_job(rows: Rows, settings: Settings) -> Job:
    """Check everything that can be wrong with the rows, and prepare them."""
    check_kernel(settings, sparse=rows.sparse is not None)
    target = learn_target(rows, settings.target, settings.task)
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
    estimator_class = LSSVCCV if job.target.task == "classification" else LSSVRCV
    estimator = estimator_class(
        kernel=settings.kernel,
        gammas=settings.gammas,
        alphas=settings.alphas,
        approximation=settings.approximation,
        check=settings.check,
        cv=job.cv,
        criterion=job.criterion,
        n_jobs=settings.jobs,
        callback=callback,
    )
    begin = time.perf_counter()
    estimator.fit(job.X, job.target.values, sample_weight=job.weight, groups=job.groups)
    seconds = time.perf_counter() - begin
    # The callback has done its work and a model file has no room for code.
    estimator.set_params(callback=None)
    report = {
        "task": job.target.task,
        "task_reason": job.target.reason,
        "rows": int(job.X.shape[0]),
        "features": int(job.X.shape[1]),
        "kernel": settings.kernel,
        "cv": job.cv_words,
        "criterion": job.criterion,
        "best_score": float(estimator.best_score_),
        "candidates": len(estimator.cv_results_["params"]),
        "heldout": heldout_measures(estimator, job.target.values),
        "seconds": seconds,
    }
    report["column_notes"] = list(job.notes)
    target, task = settings.target, job.target.task
    return TableModel(estimator, job.preparation, target, task, settings.id, report, job.reading)


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
