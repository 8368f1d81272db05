"""The files of a tuned model: the model, the table of its search, a page about it."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.files import MODEL_NAME
from onefold.report import gather
from onefold.tables import TableModel

RESULT_NAMES = (MODEL_NAME, "search.csv")
REPORT_NAME = "report.html"
OUTPUT_NAMES = (*RESULT_NAMES, REPORT_NAME)


def write_results(model: TableModel, stage: Path) -> None:
    """Write the model and the table of its search to `stage`."""
    model.save(stage / MODEL_NAME)
    _write_search(model.estimator_.cv_results_, stage / "search.csv")


def write_page(model: TableModel, table: Any, directory: Path, **options: Any) -> str | None:
    """Write the report, once the model is safe; returns why there is none, if there is none.

    `table` is None where its rows do not fit into memory; `options` go to :func:`onefold.report.gather`.
    """
    path = directory / REPORT_NAME
    try:
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tuning has spoken of these rows
            gather(model, table, **options).save(path)
    except OSError as error:
        return f"{path} can't be written ({error.strerror or error})"
    except (ValueError, MemoryError) as error:
        return " ".join(str(error).split())
    return None


def _write_search(cv_results: Mapping[str, Any], path: Path) -> None:
    """``cv_results_`` with one line per candidate; empty where a candidate has no such value."""
    names = [name for name in cv_results if name != "params"]
    columns = [np.ma.asarray(cv_results[name]).tolist() for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for values in zip(*columns):
            writer.writerow(["" if value is None else value for value in values])
