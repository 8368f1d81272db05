"""Running a job: the search, the final fit, and a report of what was found."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onefold.estimators import LSSVCCV, LSSVRCV
from onefold.jobs.criterion import shown
from onefold.jobs.held_back import checked_test, measures_on, rows_to_test
from onefold.jobs.job import Job, prepare_job
from onefold.jobs.leaks import suspicious_columns
from onefold.jobs.notes import notes_of
from onefold.jobs.ondisk import larger_than_memory, prepare_on_disk
from onefold.jobs.settings import Settings
from onefold.report.measures import heldout_measures, kept_score
from onefold.search import GridEdgeWarning, SearchStoppedWarning
from onefold.tables import TableModel, TableSource, open_table, rows_of_frame, table_model
from onefold.tables.importances import column_importances

Callback = Callable[[Mapping[str, Any]], None]

_MOST_COLUMNS = 50  # whose importance a report keeps


def tune_table(
    table: Any,
    target: str,
    *,
    callback: Callback | None = None,
    **options: Any,
) -> TableModel:
    """Choose a model for a column of a table, and fit it.

    By default a blend of several kernels in learned metrics; ``simple=True`` searches the rbf kernel as
    it is.

    Parameters
    ----------
    table : path, or pandas, polars or pyarrow table
        A table on disk that is larger than memory stays there. A pattern such as ``data/*.parquet``, or
        a folder of Parquet files, is one table.
    target : str
        The column to predict.
    callback : callable, optional
        That of the self-tuning estimators, for progress.
    **options
        The other fields of `Settings`.

    Returns
    -------
    TableClassifier or TableRegressor
        Takes tables like this one; its ``report_`` says what tuning found.
    """
    settings = Settings(target, **options)
    if settings.test is not None:
        checked_test(settings)
    if not isinstance(table, str | Path):
        rows = rows_of_frame(table)
        settings.check_columns(rows)
        return run_job(prepare_job(rows, settings), callback)
    source = open_table(table)
    settings.check_columns(source)
    with (
        tempfile.TemporaryDirectory() as scratch,
        prepared(source, settings, Path(scratch)) as job,
    ):
        return run_job(job, callback)


@contextmanager
def prepared(source: TableSource, settings: Settings, scratch: Path) -> Iterator[Job]:
    """The job on a table; rows that do not fit into memory are in `scratch` while the block runs."""
    if not larger_than_memory(source):
        yield prepare_job(source.read(), settings, source.remarks)
        return
    rows = scratch / "rows.npy"
    try:
        yield prepare_on_disk(source, settings, rows)
    finally:
        rows.unlink(missing_ok=True)


def run_job(job: Job, callback: Callback | None) -> TableModel:
    """Search, fit, and measure the held-out predictions."""
    settings = job.settings
    options: dict[str, Any] = {
        **job.search.parameters(),
        "gammas": settings.gammas,
        "alphas": settings.alphas,
        "approximation": settings.approximation,
        "check": settings.check,
        "cv": job.cv,
        "criterion": job.criterion,
        "search": settings.search,
        "time_budget": settings.time_budget,
        "checkpoint": settings.checkpoint,
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
        warnings.simplefilter("ignore", GridEdgeWarning)  # notes in the report say so
        warnings.simplefilter("ignore", SearchStoppedWarning)
        estimator.fit(job.X, job.target.values, sample_weight=job.weight, groups=job.groups)
        seconds = time.perf_counter() - begin
        # They have done their work, and a model file has no room for code.
        estimator.set_params(callback=None, checkpoint=None)
        report = _report(job, estimator, suspicious, seconds)
    model = table_model(
        estimator,
        job.preparation,
        settings.target,
        columns=job.columns,
        id_column=settings.id,
        report=report,
        reading=job.reading,
        notes=job.notes,
        **_parameters(job),
    )
    tested = rows_to_test(settings, model, job.held_back)
    if tested is not None:
        report["test"] = measures_on(model, job.target, tested, settings.weight, job.weight)
    return model


def _parameters(job: Job) -> dict[str, Any]:
    """The settings that an estimator of tables has parameters for."""
    settings, search = job.settings, job.search
    found: dict[str, Any] = {
        "missing": job.preparation.missing,
        "categorical": tuple(settings.categorical),
        "drop": tuple(settings.drop),
        "cv": settings.cv,
        "criterion": job.criterion,
        "simple": search.plain,
        **search.parameters(),
        "approximation": settings.approximation,
        "random_state": settings.seed,
        "n_jobs": settings.jobs,
    }
    if job.target.task == "classification":
        found["class_weight"] = settings.class_weight
    return found


def _report(job: Job, estimator: Any, suspicious: list[str], seconds: float) -> dict[str, Any]:
    """What tuning found, as plain values: the source of the text, the JSON and ``inspect``."""
    report: dict[str, Any] = {
        "task": job.target.task,
        "task_reason": job.target.reason,
        "rows": int(job.X.shape[0]),
        "features": int(job.X.shape[1]),
        "search": job.search.as_plain() | estimator.search_,
        "kernel": estimator.kernel_,
        "cv": job.cv_words,
        "criterion": job.criterion,
        "class_weight": job.settings.class_weight,
        "best_score": float(estimator.best_score_),
        "blend": estimator.blend_,
        "blend_score": estimator.blend_score_,
        "candidates": len(estimator.cv_results_["params"]),
        "heldout": heldout_measures(estimator, job.target.values, job.folds(), job.weight),
        "importances": column_importances(
            estimator.feature_importances_, job.preparation, _MOST_COLUMNS
        ),
        "suspicious_columns": suspicious,
        "seconds": seconds,
        "column_notes": list(job.notes),
        "test": None,  # until the model is there to be tested
    }
    criterion, held = shown(job.criterion), report["heldout"]
    # Its own way of taking means over folds counts.
    if held is not None and criterion.measure is not None:
        held[criterion.measure] = criterion.number(kept_score(report))
    report["notes"] = notes_of(report, estimator, job.target.name)
    return report
