"""``onefold tune``: a table in; a model, the table of its search and a page out."""

from __future__ import annotations

import argparse
import glob
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from onefold.cli.command import repeated
from onefold.cli.files import refuse_existing, staged_directory
from onefold.cli.progress import Progress
from onefold.cli.result_text import result_json, result_text
from onefold.cli.resuming import journal_beside, useful_journal
from onefold.cli.stopping import best_kept
from onefold.cli.tableoptions import open_asked
from onefold.cli.words import counted, json_text, score_words
from onefold.cli.writing import OUTPUT_NAMES, RESULT_NAMES, write_page, write_results
from onefold.estimators.setup import plan
from onefold.machine.speed import duration_words
from onefold.search import GridEdgeWarning, SearchStoppedWarning
from onefold.search.metric import FIRST_ROWS
from onefold.tables import TableError, TableModel, TableSource
from onefold.tables.errors import listing
from onefold.tables.findings import criterion_of, few_rows_note
from onefold.tuning import Tuning, tuning

_ON_DISK = "rows stay on disk, in float32, as the table would fill half of the free memory"
# Options that are parameters of the estimators under the same or another name.
_SAME = (
    "drop", "categorical", "missing", "simple", "cv", "ordered", "gap", "criterion", "gammas", "alphas",
    "search", "approximation", "check", "time_budget", "task", "weight", "groups", "holdout", "test",
    "class_weight",
)  # fmt: skip
_OTHER = {"id_column": "id_column", "jobs": "n_jobs", "seed": "random_state"}


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    quiet = arguments.quiet or arguments.json
    source = open_asked(arguments)
    directory: Path = arguments.out or Path(default_directory(arguments.table))
    journal = journal_beside(directory) if arguments.resume else None
    outputs = [directory / name for name in OUTPUT_NAMES]
    given = [table for table in (arguments.table, arguments.test) if table is not None]
    refuse_existing(outputs, arguments.force, inputs=given)
    with (
        useful_journal(journal),
        staged_directory(directory, RESULT_NAMES) as stage,
        tuning(source, **options_of(arguments, source), checkpoint=journal, scratch=stage) as job,
    ):
        for note in [] if quiet else _notes(job, arguments):
            print(f"onefold: {note}", file=sys.stderr)
        model = _followed(job, quiet)
        write_results(model, stage)
    if journal is not None:
        _close_journal(journal, model, quiet)
    as_fitted = {"sample_weight": job.training.sample_weight, "groups": job.training.groups}
    no_page = write_page(model, job.rows, directory, repeat=[repeated(arguments)], **as_fitted)
    if no_page:
        print(f"onefold: no report.html: {no_page}", file=sys.stderr)
    files = [str(path) for path in outputs if path.is_file()]
    if arguments.json:
        print(json_text(result_json(model, arguments.table, files)))
    else:
        print(result_text(model, files))


def default_directory(table: Path) -> str:
    """Where the files go unless --out says so: the table's name without its suffix, + -onefold."""
    if glob.has_magic(table.name) and not table.exists():
        table = table.parent if table.parent.name else Path("table")
    name = table.name.removesuffix(".gz")
    return f"{Path(name).stem}-onefold"


def options_of(arguments: argparse.Namespace, source: TableSource) -> dict[str, Any]:
    """The options of the command as those of :func:`onefold.tuning.tuning`."""
    target = arguments.target or source.default_target
    if target is None:
        raise TableError(
            f"name the column to predict, as in --target COL; the columns are {listing(source.names)}"
        )
    names = {name: name for name in _SAME} | _OTHER
    options = {name: getattr(arguments, option) for option, name in names.items()}
    return options | chosen(arguments) | {"target": target}


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is chosen among, as the estimators of tables have it; what is not given is left to them."""
    named = {name: getattr(arguments, name) for name in ("kernel", "metric", "blend")}
    if named["kernel"] is not None and "," in named["kernel"]:
        named["kernel"] = [name.strip() for name in named["kernel"].split(",")]
    return {name: value for name, value in named.items() if value is not None}


def _followed(job: Tuning, quiet: bool) -> TableModel:
    """Run the job; progress goes to stderr, and Ctrl-C keeps the best so far."""
    words = partial(score_words, criterion_of(job.model.inner_estimator(job.training.search)))
    every_row = job.training.X.shape[0] <= FIRST_ROWS
    stream = None if quiet else sys.stderr
    with (
        Progress(stream, words, rounds_score=every_row) as progress,
        best_kept(progress) as callback,
        warnings.catch_warnings(),
    ):
        # Notes say these in words: folds that lack a class, ends of grids, searches that ended early.
        warnings.filterwarnings("ignore", message="The least populated class|y_pred contains classes")
        warnings.simplefilter("ignore", GridEdgeWarning)
        warnings.simplefilter("ignore", SearchStoppedWarning)
        return job.run(callback)


def _close_journal(journal: Path, model: TableModel, quiet: bool) -> None:
    """Remove the journal of a whole search; that of one that ended early can be gone on with."""
    if model.report_["search"]["stopped"] is None:
        journal.unlink(missing_ok=True)
    elif not quiet:
        kept = f"{journal} is kept: the same command with --force goes on from here"
        print(f"onefold: {kept}", file=sys.stderr)


def _notes(job: Tuning, arguments: argparse.Namespace) -> list[str]:
    model, training, target = job.model, job.training, job.target
    why = "as asked for" if arguments.task else f"because {target.reason} (--task overrides)"
    rows, features = training.X.shape
    notes = [
        *([_ON_DISK] if training.on_disk else []),
        *([training.search.note] if training.search.note else []),
        f"{arguments.table.name}: {counted(rows, 'row')}, {counted(features, 'feature')}",
        f"{target.task} of '{target.name}', {why}",
        *training.notes,
    ]
    few = few_rows_note(arguments.cv, training.y) if target.task == "classification" else None
    if few is not None:
        notes.append(few)
    if model.search == "grid":  # no plan is made of ways through a grid that leave some of it out
        found = plan(model.inner_estimator(training.search), training.X, training.y)
        time = "" if found.seconds is None else f", about {duration_words(found.seconds)}"
        notes.append(f"will run {found.approximation!r}{time} ({found.reason})")
    return notes
