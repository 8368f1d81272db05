"""The files of a tuned model: the model, the table of the search, its picture, a page about it."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.files import MODEL_NAME
from onefold.cli.words import decimal, score_words
from onefold.jobs.criterion import shown
from onefold.plots.figures import quiet_about_letters
from onefold.report import gather
from onefold.report.measures import kept_score
from onefold.tables import TableModel

RESULT_NAMES = (MODEL_NAME, "search.csv")
PICTURE_NAME = "search.png"
REPORT_NAME = "report.html"
OUTPUT_NAMES = (*RESULT_NAMES, PICTURE_NAME, REPORT_NAME)
_LONGEST_NAME = 40


def write_results(model: TableModel, stage: Path) -> None:
    """Write the model and the table of its search to `stage`."""
    model.save(stage / MODEL_NAME)
    _write_search(model.estimator_.cv_results_, stage / "search.csv")


def draw_search(model: TableModel, directory: Path) -> str | None:
    """Draw the search, once the model is safe; returns why there is no picture, if there is none.

    An older picture goes in any case: it would be that of another search.
    """
    path = directory / PICTURE_NAME
    try:
        path.unlink(missing_ok=True)
        with quiet_about_letters():
            _draw(model, path)
    except OSError as error:
        return f"{path} can't be written ({error.strerror or error})"
    except ImportError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 (matplotlib raises whatever it likes; none of it matters)
        return f"matplotlib can't draw it ({' '.join(str(error).split()):.100} …)"
    return None


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


def _draw(model: TableModel, path: Path) -> None:
    from onefold.plots import plain_text, search_heatmap, search_overview

    report, estimator = model.report_, model.estimator_
    label, number = _readable(report)
    score = score_words(report["criterion"], kept_score(report))
    held = report["heldout"]
    if shown(report["criterion"]).style == "squared" and held is not None:
        score = f"R2 {decimal(held['r2'])}, {score}"
    members = len(report["blend"] or [])
    blend = f" (a blend of {members})" if members > 1 else ""
    headline = plain_text(f"{_shortened(model.target_ or 'the target')}: {score}{blend}")
    if "kernel" in estimator.best_params_:
        shares = report["importances"] or {}
        search_overview(
            estimator, path, importances=shares, headline=headline, score_label=label, number=number
        )
        return
    results = dict(estimator.cv_results_)
    results["mean_test_score"] = number(np.asarray(results["mean_test_score"]))
    search_heatmap(results, path, estimator.best_params_, headline=headline, score_label=label)


def _readable(report: Mapping[str, Any]) -> tuple[str, Callable[[Any], Any]]:
    """What scores mean in a picture, and the way to them.

    The default criteria have a form that people know, which orders candidates the same way.
    """
    from onefold.plots import plain_text

    criterion, held = report["criterion"], report["heldout"]
    meaning = shown(criterion)
    if meaning.style == "share":
        return f"held-out {meaning.label}", meaning.number
    if meaning.style == "squared" and held is not None and held["baseline_rmse"] > 0:
        # Divided twice: the square of a small spread may be no number any more.
        spread = held["baseline_rmse"]
        return "held-out R2", lambda score: 1.0 + score / spread / spread
    return plain_text(f"{criterion} (higher is better)"), lambda score: score


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
