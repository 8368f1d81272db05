"""The files of a tuned model: the model, the table of the search, its picture."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.files import MODEL_NAME
from onefold.cli.measures import score_words
from onefold.tables import TableModel

__all__ = ["OUTPUT_NAMES", "write_model"]

OUTPUT_NAMES = (MODEL_NAME, "search.csv", "search.png")


def write_model(model: TableModel, stage: Path) -> str | None:
    """Write all output files to `stage`; returns why there is no picture, if there is none."""
    model.save(stage / MODEL_NAME)
    _write_search(model.estimator.cv_results_, stage / "search.csv")
    return _draw_search(model, stage / "search.png")


def _write_search(cv_results: Mapping[str, Any], path: Path) -> None:
    """``cv_results_`` with one line per candidate; empty where a candidate has no such value."""
    names = [name for name in cv_results if name != "params"]
    columns = [np.ma.asarray(cv_results[name]).tolist() for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for values in zip(*columns):
            writer.writerow(["" if value is None else value for value in values])


def _draw_search(model: TableModel, path: Path) -> str | None:
    from onefold.plots import search_heatmap

    report = model.report
    results, criterion = dict(model.estimator.cv_results_), report["criterion"]
    label, scores = f"{criterion} (higher is better)", np.asarray(results["mean_test_score"])
    # The default criteria have a form that people know, which orders candidates the same way.
    if criterion == "error":
        label, results["mean_test_score"] = "held-out accuracy", 1.0 + scores
    elif criterion == "mse":
        label = "held-out R2"
        results["mean_test_score"] = 1.0 + scores / report["heldout"]["baseline_rmse"] ** 2
    headline = f"{model.target}: {score_words(criterion, report['best_score'])}"
    best = model.estimator.best_params_
    try:
        search_heatmap(results, path, best, headline=headline, score_label=label)
    except ImportError as error:
        return str(error)
    return None
