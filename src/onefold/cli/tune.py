"""``onefold tune``: from a table to a model, the scores of its search and a report; ``onefold plan``."""

from __future__ import annotations

import argparse
import glob
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onefold.approximations.auto import METRIC_ROWS
from onefold.cli.entry import Interrupted, best_kept
from onefold.cli.options import open_from_arguments, parameters
from onefold.cli.output import (
    journal_of,
    nonempty_journal,
    outputs_in,
    staged_results,
    write_results,
)
from onefold.cli.report import write_page
from onefold.cli.terminal import Progress, repeated, result_text
from onefold.facts.criteria import criterion_of
from onefold.facts.words import counted, json_text
from onefold.machine.speed import duration_words
from onefold.search import GridEdgeWarning, SearchStoppedWarning
from onefold.search.checkpoint import state_path
from onefold.tables import Reading, TableError, TableModel, TableSource
from onefold.tables.errors import listing
from onefold.tables.findings import edge_note, few_rows_note
from onefold.tables.searching import SearchSettings
from onefold.tuning import Tuning, tuning

_ON_DISK = "rows are kept on disk in float32, because they would take over half of the free memory"


def run_tune(arguments: argparse.Namespace) -> None:
    """Run the command."""
    quiet = arguments.quiet or arguments.json
    source, options = _table_and_options(arguments)
    directory: Path = arguments.out or Path(_default_directory(arguments.table))
    journal = journal_of(directory) if arguments.resume else None
    inputs = [table for table in (arguments.table, options.get("test")) if table is not None]
    outputs = outputs_in(directory, arguments.force, inputs)
    progress = Progress(None if quiet else sys.stderr)
    with (
        _mention_journal(None if quiet else journal),
        nonempty_journal(journal),
        staged_results(directory) as stage,
        tuning(source, **options, checkpoint=journal, scratch=stage) as job,
    ):
        for note in [] if quiet else _notes(job, arguments.table.name, "task" in options):
            print(f"onefold: {note}", file=sys.stderr)
        model = _run_with_progress(job, progress)
        write_results(model, stage)
    if journal is not None and model.report_["search"]["stopped"] is None:
        journal.unlink(missing_ok=True)
        state_path(journal).unlink(missing_ok=True)
    elif journal is not None and not quiet:
        print(f"onefold: kept {journal}; repeat the command with --force to resume", file=sys.stderr)
    weight = job.training.sample_weight
    repeat = [repeated(arguments)]
    with progress:
        progress.begin_report()
        no_page = write_page(model, job.rows, directory, repeat=repeat, sample_weight=weight)
    if no_page:
        print(f"onefold: no report.html: {no_page}", file=sys.stderr)
    files = [str(path) for path in outputs if path.is_file()]
    if not arguments.json:
        print(result_text(model, files))
        return
    facts = {
        "table": str(arguments.table),
        "target": model.target_,
        **model.report_,
        "best_params": model.best_params_,
        "approximation": model.estimator_.approximation_,
        "edge": edge_note(model.estimator_),
        "constant_columns": list(model.preparation_.constant),
        "files": files,
        "no_report": no_page,
    }
    print(json_text(facts))


@contextmanager
def _mention_journal(journal: Path | None) -> Iterator[None]:
    """Say that the search can be resumed, if the block is stopped by a signal."""
    try:
        yield
    except (Interrupted, SystemExit):
        if journal is not None and journal.exists():
            print(f"onefold: kept {journal}; repeat the command to resume", file=sys.stderr)
        raise


def run_plan(arguments: argparse.Namespace) -> None:
    """Print what `run_tune` would do with the same options."""
    source, options = _table_and_options(arguments)
    with tuning(source, **options) as job:
        search = job.training.search
        planned = job.plan()
    if not arguments.json:
        print(f"{planned}\nsearch  {_search_text(search)}")
        return
    names = ("rows", "features", "reason", "seconds", "bytes", "free_bytes", "fits")
    facts = {name: getattr(planned, name) for name in names}
    members = planned.members
    facts |= {"approximation": repr(planned.approximation), "search": search.as_plain()}
    facts["members"] = None if members is None else repr(members.approximation)
    print(json_text(facts))


def _search_text(search: SearchSettings) -> str:
    """The kernels that a search compares, its metric, and whether it blends."""
    names = search.as_plain()["kernels"]
    words = [f"kernels {', '.join(names)}"]
    words += [f"metric {search.metric}"] if search.metric else []
    words += ["blend"] if search.blend else []
    return ", ".join(words) + (f" ({search.note})" if search.note else "")


def _table_and_options(arguments: argparse.Namespace) -> tuple[TableSource, dict[str, Any]]:
    """The table of a command, and its options as those of :func:`onefold.tuning.tuning`."""
    source = open_from_arguments(arguments)
    options = parameters(arguments)
    if options.get("target") is None:
        raise TableError(
            f"--target COL, the column to predict, is required; the columns are {listing(source.names)}"
        )
    reading = None if source.reading == Reading() else source.reading
    return source, options | {"reading": reading}


def _default_directory(table: Path) -> str:
    """The directory without --out: the table's name without its suffix, followed by -onefold."""
    name = table.name
    if glob.has_magic(name) and not table.exists():
        name = table.parent.name or "table"
        table = table.parent
    if name in ("", ".."):  # . and .. by the names of their folders
        name = Path(os.path.abspath(table)).name or "table"
    return f"{Path(name.removesuffix('.gz')).stem}-onefold"


def _run_with_progress(job: Tuning, progress: Progress) -> TableModel:
    """Run the job; progress goes to stderr, and Ctrl-C keeps the best so far."""
    progress.criterion = criterion_of(job.estimator)
    with (
        progress,
        best_kept(progress) as callback,
        warnings.catch_warnings(),
    ):
        # The notes of the result say the same: folds without a class, edges of grids, stopped searches.
        warnings.filterwarnings("ignore", message="The least populated class|y_pred contains classes")
        warnings.simplefilter("ignore", GridEdgeWarning)
        warnings.simplefilter("ignore", SearchStoppedWarning)
        return job.run(callback)


def _notes(job: Tuning, table: str, has_task: bool) -> list[str]:
    """What to say about a table, and about what will run, before the search."""
    training = job.training
    target = job.target
    why = "as requested" if has_task else f"because {target.reason} (--task overrides)"
    rows, features = training.X.shape
    columns = len(training.preparation.columns) + len(training.preparation.constant)
    size = f"{counted(rows, 'row')}, {counted(columns, 'column')} ({counted(features, 'feature')})"
    notes = [
        _ON_DISK if training.on_disk else None,
        training.search.note,
        f"{table}: {size}",
        f"{target.task} of '{target.name}', {why}",
        *training.notes,
        few_rows_note(job.model.cv, training.y) if target.task == "classification" else None,
        _method_note(job),
    ]
    return [note for note in notes if note is not None]


def _method_note(job: Tuning) -> str:
    """The approximation that will run, with its time and the reason for it."""
    planned = job.plan()
    search = job.training.search
    landmarks = getattr(planned.approximation, "n_components", None)
    method = f"with {landmarks:,} landmarks" if isinstance(landmarks, int) else "method"
    if job.model.approximation == "auto" and search.metric is not None and planned.rows > METRIC_ROWS:
        # Which of them is faster is known only after the metrics have been learned.
        method += ", or cg (conjugate gradients) where faster"
    # The time is that of the whole grid; other strategies leave some of it out.
    timed = search.search == "grid" and planned.seconds is not None
    time = f", about {duration_words(planned.seconds or 0.0)}" if timed else ""
    return f"will run: {planned.approximation.name} {method}{time} ({planned.reason})"
