"""``onefold tune``: a table in; a model, the table of its search and a page out."""

from __future__ import annotations

import argparse
import glob
import shlex
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from onefold.cli.files import refuse_existing, staged_directory
from onefold.cli.progress import Progress
from onefold.cli.result_text import result_json, result_text
from onefold.cli.resuming import journal_beside, useful_journal
from onefold.cli.spelling import as_options
from onefold.cli.stopping import best_kept
from onefold.cli.tableoptions import open_asked
from onefold.cli.words import counted, json_text, score_words
from onefold.cli.writing import (
    OUTPUT_NAMES,
    RESULT_NAMES,
    write_page,
    write_results,
)
from onefold.jobs import Job, Settings, prepared, run_job
from onefold.jobs.expected import expected_note
from onefold.jobs.folds import few_rows_note
from onefold.jobs.held_back import checked_test, split_rows
from onefold.search.metric import FIRST_ROWS
from onefold.tables import TableError, TableModel, TableSource
from onefold.tables.errors import listing

_ON_DISK = "rows stay on disk, in float32, as the table would fill half of the free memory"


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    quiet = arguments.quiet or arguments.json
    source = open_asked(arguments)
    directory: Path = arguments.out or Path(default_directory(arguments.table))
    journal = journal_beside(directory) if arguments.resume else None
    settings = _settings(arguments, source, journal)
    outputs = [directory / name for name in OUTPUT_NAMES]
    if settings.test is not None:
        checked_test(settings, source.reading)
    given = [table for table in (arguments.table, arguments.test) if table is not None]
    refuse_existing(outputs, arguments.force, inputs=given)
    with useful_journal(journal), staged_directory(directory, RESULT_NAMES) as stage:
        with prepared(source, settings, stage) as job:
            for note in [] if quiet else _notes(job, arguments.table.name):
                print(f"onefold: {as_options(note)}", file=sys.stderr)
            model = _followed(job, None if quiet else sys.stderr)
            elsewhere = isinstance(job.X, np.memmap)
            as_fitted = {"sample_weight": job.weight, "groups": job.groups}
        model.report_["command"] = again = shlex.join(["onefold", *arguments.argv])
        write_results(model, stage)
    if journal is not None:
        _close_journal(journal, model, quiet)
    rows = None if elsewhere else split_rows(source.read(), settings)[0]
    no_page = write_page(model, rows, directory, repeat=[again], **as_fitted)
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


def _followed(job: Job, stream: TextIO | None) -> TableModel:
    """Run the job; progress goes to a stream, and Ctrl-C keeps the best so far."""
    words = partial(score_words, job.criterion)
    every_row = job.X.shape[0] <= FIRST_ROWS
    with Progress(stream, words, rounds_score=every_row) as progress, best_kept(progress) as callback:
        return run_job(job, callback)


def _close_journal(journal: Path, model: TableModel, quiet: bool) -> None:
    """Remove the journal of a whole search; that of one that ended early can be gone on with."""
    if model.report_["search"]["stopped"] is None:
        journal.unlink(missing_ok=True)
    elif not quiet:
        kept = f"{journal} is kept: the same command with --force goes on from here"
        print(f"onefold: {kept}", file=sys.stderr)


def _settings(arguments: argparse.Namespace, source: TableSource, journal: Path | None) -> Settings:
    target = arguments.target or source.default_target
    if target is None:
        raise TableError(
            f"name the column to predict, as in --target COL; the columns are {listing(source.names)}"
        )
    names = {item.name for item in fields(Settings)} - {"checkpoint"}
    options = {name: getattr(arguments, name) for name in names}
    settings = Settings(**{**options, "target": target, "checkpoint": journal})
    settings.check_columns(source)
    return settings


def _notes(job: Job, table: str) -> list[str]:
    target, preparation = job.target, job.preparation
    why = "as asked for" if job.settings.task else f"because {target.reason} (--task overrides)"
    notes = [
        *([_ON_DISK] if isinstance(job.X, np.memmap) else []),
        *([job.search.note] if job.search.note else []),
        f"{table}: {counted(job.X.shape[0], 'row')}, {counted(job.X.shape[1], 'feature')}",
        f"{target.task} of '{target.name}', {why}",
    ]
    if preparation.constant:
        notes.append(f"left out, being constant: {listing(preparation.constant)}")
    told = [few_rows_note(job.settings.cv, target), expected_note(job)]
    return [*notes, *job.notes, *(note for note in told if note is not None)]
