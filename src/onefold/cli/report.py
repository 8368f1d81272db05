"""``onefold report``: a model and a table in, one page about both out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.options import open_asked
from onefold.cli.output import REPORT_NAME, model_file, refuse_existing, repeated, replaced_file
from onefold.facts.words import json_text
from onefold.report import Report, gather
from onefold.tables import TableError, TableSource
from onefold.tables.errors import listing
from onefold.tables.target import read_target


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    path, out = model_file(arguments.model), arguments.out
    if out is None and arguments.json:
        found = _gathered(arguments, path)
    else:
        # The page next to the model is the one that tune or this command wrote.
        out, force = (path.with_name(REPORT_NAME), True) if out is None else (out, arguments.force)
        refuse_existing([out], force, inputs=[arguments.table, path])
        with replaced_file(out) as temporary:
            found = _gathered(arguments, path)
            temporary.write_text(found.html(), encoding="utf-8")
        print(f"onefold: wrote {out}", file=sys.stderr)
    print(json_text(found.as_dict()) if arguments.json else found.text())


def _gathered(arguments: argparse.Namespace, path: Path) -> Report:
    model = saving.load(path)
    source = open_asked(arguments, getattr(model, "reading_", None))
    X, y = _rows(model, source, arguments.target)
    return gather(model, X, y, new_rows=None, repeat=[repeated(arguments)])


def _rows(model: Any, source: TableSource, target: str | None) -> tuple[Any, Any]:
    """The table, and its targets where the model does not know where they are."""
    rows, known = source.read(), getattr(model, "target_", None)
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
    names = getattr(model, "feature_names_in_", None)
    if names is None:  # a model of an array takes the other columns in their order
        names = [name for name in rows.names if name != target]
    matrix = np.column_stack([rows.numbers(str(name)) for name in names])
    classes = getattr(model, "classes_", None)
    task: Any = "regression" if classes is None else "classification"
    return matrix, read_target(rows, target, task, classes)
