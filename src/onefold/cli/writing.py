"""The files of a tuned model: the model, the table of the search, its picture."""

from __future__ import annotations

import csv
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.files import MODEL_NAME
from onefold.cli.words import decimal, score_words
from onefold.jobs.criterion import shown
from onefold.tables import TableModel

RESULT_NAMES = (MODEL_NAME, "search.csv")
PICTURE_NAME = "search.png"
OUTPUT_NAMES = (*RESULT_NAMES, PICTURE_NAME)
_LONGEST_NAME = 40


def write_results(model: TableModel, stage: Path) -> None:
    """Write the model and the table of its search to `stage`."""
    model.save(stage / MODEL_NAME)
    _write_search(model.estimator.cv_results_, stage / "search.csv")


def draw_search(model: TableModel, directory: Path) -> str | None:
    """Draw the search, once the model is safe; returns why there is no picture, if there is none.

    An older picture goes in any case: it would be that of another search.
    """
    path = directory / PICTURE_NAME
    try:
        path.unlink(missing_ok=True)
        with _quiet_about_letters():
            _draw(model, path)
    except OSError as error:
        return f"{path} can't be written ({error.strerror or error})"
    except ImportError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 (matplotlib raises whatever it likes; none of it matters)
        return f"matplotlib can't draw it ({' '.join(str(error).split()):.100} …)"
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


@contextmanager
def _quiet_about_letters() -> Iterator[None]:
    """Letters that the font does not have are drawn as boxes, which speak for themselves."""
    logger = logging.getLogger("matplotlib.mathtext")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*missing from font")
            yield
    finally:
        logger.setLevel(level)


def _draw(model: TableModel, path: Path) -> None:
    from onefold.plots import plain_text, search_heatmap

    report = model.report
    results, criterion = dict(model.estimator.cv_results_), report["criterion"]
    scores, held = np.asarray(results["mean_test_score"]), report["heldout"]
    label, meaning = f"{criterion} (higher is better)", shown(criterion)
    best = score_words(criterion, report["best_score"])
    # The default criteria have a form that people know, which orders candidates the same way.
    if meaning.style == "share":
        label = f"held-out {meaning.label}"
        results["mean_test_score"] = meaning.number(scores)
    elif meaning.style == "squared" and held is not None:
        label = "held-out R2"
        # Divided twice: the square of a small spread may be no number any more.
        results["mean_test_score"] = 1.0 + scores / held["baseline_rmse"] / held["baseline_rmse"]
        best = f"R2 {decimal(held['r2'])}, {best}"
    headline = plain_text(f"{_shortened(model.target)}: {best}")
    search_heatmap(
        results,
        path,
        model.estimator.best_params_,
        headline=headline,
        score_label=plain_text(label),
    )


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
