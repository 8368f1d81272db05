"""``onefold report``: one page about a model and its rows; the page that ``tune`` and ``demo`` write."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from onefold.cli.options import open_asked
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
    if out is None and not arguments.json:  # the page next to the model is one that onefold wrote
        out = path.with_name(REPORT_NAME)
        force = True
    refuse_existing([out] if out else [], force, inputs=[arguments.table, path])
    model = load_table_model(path)
    source = open_asked(arguments, model.reading_)
    if model.target_ is not None:
        source.require(model.target_, "the target")
    found = write_report(model, None, source.read(), new_rows=None, repeat=[repeated(arguments)])
    if out is not None:
        with replaced_file(out) as temporary:
            temporary.write_text(found.html(), encoding="utf-8")
        print(f"onefold: wrote {out}", file=sys.stderr)
    print(json_text(found.as_dict()) if arguments.json else found.text())


def write_page(model: TableModel, table: Any, directory: Path, **options: Any) -> str | None:
    """Write the report, once the model is safe; returns why there is none, if there is none."""
    path = directory / REPORT_NAME
    try:
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tuning has spoken of these rows
            write_report(model, path, table, **options)
    except OSError as error:
        return f"{path} cannot be written ({error.strerror or error})"
    except (ValueError, MemoryError) as error:
        return " ".join(str(error).split())
    return None
