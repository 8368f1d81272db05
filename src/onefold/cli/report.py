"""``onefold report``: one page about a model and its rows; the page that ``tune`` and ``demo`` write."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from onefold.cli.options import open_from_arguments
from onefold.cli.output import REPORT_NAME, model_file, refuse_existing, replaced_file
from onefold.cli.terminal import repeated
from onefold.facts.words import json_text
from onefold.report import write_report
from onefold.tables import TableModel, load_table_model


def run_report(arguments: argparse.Namespace) -> None:
    """Write a page about a model and its rows."""
    path = model_file(arguments.model)
    out = arguments.out
    force = arguments.force
    if out is None and not arguments.json:  # the page next to the model was written by onefold
        out = path.with_name(REPORT_NAME)
        force = True
    refuse_existing([out] if out else [], force, inputs=[arguments.table, path])
    model = load_table_model(path)
    source = open_from_arguments(arguments, model.reading_)
    if model.target_ is not None:
        source.require(model.target_, "the target")
    report = write_report(model, None, source.read(), new_rows=None, repeat=[repeated(arguments)])
    if out is not None:
        with replaced_file(out) as temporary:
            temporary.write_text(report.html(), encoding="utf-8")
        print(f"onefold: wrote {out}", file=sys.stderr)
    print(json_text(report.as_dict()) if arguments.json else report.text())


def write_page(model: TableModel, table: Any, directory: Path, **options: Any) -> str | None:
    """Write the report of a model that is saved already; return why there is none, or None."""
    path = directory / REPORT_NAME
    try:
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tuning has warned about these rows
            write_report(model, path, table, **options)
    except OSError as error:
        return f"{path} cannot be written ({error.strerror or error})"
    except (ValueError, MemoryError) as error:
        return " ".join(str(error).split())
    return None
