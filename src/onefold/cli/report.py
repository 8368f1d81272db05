"""``onefold report``: a model and a table in, one page about both out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.command import repeated
from onefold.cli.files import model_file, refuse_existing, replaced_file
from onefold.cli.tableoptions import open_asked
from onefold.cli.words import json_text
from onefold.report import Report, gather
from onefold.report.subject import of_table
from onefold.tables import TableError, TableRows, TableSource
from onefold.tables.errors import listing
from onefold.tables.target import read_target

DEFAULT_NAME = "report.html"


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    out: Path | None = arguments.out
    if out is None and not arguments.json:
        out = Path(DEFAULT_NAME)
    path = model_file(arguments.model)
    if out is None:
        found = _gathered(arguments, path)
    else:
        refuse_existing([out], arguments.force, inputs=[arguments.table, path])
        with replaced_file(out) as temporary:
            found = _gathered(arguments, path)
            temporary.write_text(found.html(), encoding="utf-8")
        print(f"onefold: wrote {out}", file=sys.stderr)
    print(json_text(found.as_dict()) if arguments.json else found.text())


def _gathered(arguments: argparse.Namespace, path: Path) -> Report:
    model = saving.load(path)
    source = open_asked(arguments, of_table(model, "reading"))
    X, y = _rows(model, source, arguments.target)
    return gather(model, X, y, new_rows=None, repeat=[repeated(arguments)])


def _rows(model: Any, source: TableSource, target: str | None) -> tuple[Any, Any]:
    """The table, and its targets where the model does not know where they are."""
    rows = source.read()
    known = of_table(model, "target")
    if known is not None:
        if target not in (None, known):
            raise ValueError(f"the model predicts '{known}'; leave --target out")
        source.require(known, "the target")
        return rows, None
    target = target or source.default_target
    if target is None:
        raise TableError(
            f"name the column that the model predicts with --target COL; the columns are "
            f"{listing(source.names)}"
        )
    source.require(target, "--target")
    classes = getattr(model, "classes_", None)
    task: Any = "regression" if classes is None else "classification"
    return _matrix(model, rows, target), read_target(rows, target, task, classes)


def _matrix(model: Any, rows: TableRows, target: str) -> Any:
    """The columns of numbers that a model without a preparation of tables takes."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [name for name in rows.names if name != target]
    return np.column_stack([rows.numbers(str(name)) for name in names])
