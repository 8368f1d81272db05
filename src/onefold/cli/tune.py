"""``onefold tune``: a table in; a model, the table of its search and a picture out."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from onefold.cli.files import refuse_existing, staged_directory
from onefold.cli.folds import few_rows_note
from onefold.cli.job import Job, Settings, prepare_job, run_job
from onefold.cli.ondisk import larger_than_memory, prepare_on_disk
from onefold.cli.progress import Progress
from onefold.cli.report import result_json, result_text
from onefold.cli.tableoptions import open_asked
from onefold.cli.words import counted, json_text, score_words
from onefold.cli.writing import OUTPUT_NAMES, RESULT_NAMES, draw_search, write_results
from onefold.tables import TableError, TableSource
from onefold.tables.errors import listing

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    quiet = arguments.quiet or arguments.json
    source = open_asked(arguments)
    settings = _settings(arguments, source)
    directory: Path = arguments.out or Path(default_directory(arguments.table))
    outputs = [directory / name for name in OUTPUT_NAMES]
    refuse_existing(outputs, arguments.force, inputs=[arguments.table])
    with staged_directory(directory, RESULT_NAMES) as stage:
        mapped = larger_than_memory(source)
        job = (
            prepare_on_disk(source, settings, stage) if mapped else prepare_job(source.read(), settings)
        )
        if not quiet:
            if mapped:
                text = "rows stay on disk, in float32, as the table would fill half of the free memory"
                print(f"onefold: {text}", file=sys.stderr)
            for note in _notes(job, arguments.table.name):
                print(f"onefold: {note}", file=sys.stderr)
        words = partial(score_words, job.criterion)
        with Progress(None if quiet else sys.stderr, words) as progress:
            model = run_job(job, progress)
        (stage / "rows.npy").unlink(missing_ok=True)
        write_results(model, stage)
    no_picture = draw_search(model, directory)
    if no_picture:
        print(f"onefold: no search.png: {no_picture}", file=sys.stderr)
    files = [str(path) for path in outputs if path.is_file()]
    if arguments.json:
        print(json_text(result_json(model, arguments.table, files, no_picture)))
    else:
        print(result_text(model, files))


def default_directory(table: Path) -> str:
    """Where the files go unless --out says so: the table's name without its suffix, + -onefold."""
    name = table.name.removesuffix(".gz")
    return f"{Path(name).stem}-onefold"


def _settings(arguments: argparse.Namespace, source: TableSource) -> Settings:
    target = arguments.target or source.default_target
    if target is None:
        raise TableError(
            f"name the column to predict with --target COL; the columns are {listing(source.names)}"
        )
    if arguments.gap and not arguments.ordered:
        raise ValueError("--gap N goes with --ordered: give both or none")
    settings = Settings(
        target=target,
        task=arguments.task,
        drop=tuple(arguments.drop),
        categorical=tuple(arguments.categorical),
        id=arguments.id,
        weight=arguments.weight,
        groups=arguments.groups,
        missing=arguments.missing,
        kernel=arguments.kernel,
        cv=arguments.cv,
        ordered=arguments.ordered,
        gap=arguments.gap,
        criterion=arguments.criterion,
        class_weight=arguments.class_weight,
        gammas=arguments.gammas,
        alphas=arguments.alphas,
        approximation=arguments.approximation,
        check=arguments.check,
        jobs=arguments.jobs,
        seed=arguments.seed,
    )
    named = list(settings.named_columns().items())
    named += [("--drop", name) for name in settings.drop]
    for option, name in named:
        if option != "--target" and name in settings.categorical:
            raise ValueError(f"'{name}' is named by {option} and by --categorical; choose one")
    named += [("--categorical", name) for name in settings.categorical]
    for option, name in named:
        source.require(name, option)
        if option != "--target" and name == target:
            raise ValueError(f"{option} names the target column '{name}'; choose another column")
    return settings


def _notes(job: Job, table: str) -> list[str]:
    target, preparation = job.target, job.preparation
    why = "as asked for" if job.settings.task else f"because {target.reason} (--task overrides)"
    notes = [
        f"{table}: {counted(job.X.shape[0], 'row')}, {counted(job.X.shape[1], 'feature')}",
        f"{target.task} of '{target.name}', {why}",
    ]
    if preparation.constant:
        notes.append(f"left out, being constant: {listing(preparation.constant)}")
    few = few_rows_note(job.settings.cv, target)
    return [*notes, *job.notes, *([] if few is None else [few])]
