"""Notes on the columns of a table, and what a fit to it found, as plain values for ``report_``.

Terminal, JSON and ``inspect`` read them there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.facts.criteria import criterion_of
from onefold.facts.data import MOST_VALUES, UNEXPLAINED, Column, equal_columns, explained_alone
from onefold.facts.scores import flat_scores, heldout_predictions, score_notes, scores_of
from onefold.search.ledger import edges
from onefold.tables.columns import is_moment
from onefold.tables.errors import listing
from onefold.tables.kinds import DateColumn, Preparation
from onefold.tables.reading import is_number
from onefold.tables.rows import TableRows

if TYPE_CHECKING:
    from onefold.tables.training import Training

_MOST_COLUMNS = 50  # whose importance is kept
_NAMED = 6  # candidates that were not tried are named, if they are no more
_NAMED_COPIES = 8
_FEWEST = 20  # rows before different numbers in all of them mean anything


def column_notes(
    rows: TableRows, features: Collection[str], roles: Collection[str], row_numbers: Collection[str]
) -> tuple[str, ...]:
    """Notes on the columns of a table: `features`, those with `roles`, and dropped `row_numbers`."""
    on_types = {} if rows.types is None else rows.types.notes
    notes = [on_types[name] for name in (*features, *roles) if name in on_types]
    if row_numbers:
        notes.append(
            f"dropped unnamed columns that number the rows or are empty: {listing(row_numbers)}"
        )
    for name in features:
        if _identifies(rows, name):
            notes.append(
                f"column '{name}' has a different value in every row, like an identifier or a row "
                "number; drop it unless it is meaningful"
            )
    return tuple(notes)


def in_order_of(training: Training) -> str | None:
    """A column of dates that the rows are sorted by, up or down, where folds are drawn at random."""
    if not training.cv_words.endswith("-fold"):
        return None
    preparation = training.preparation
    matrix = training.X
    for part, (name, place) in zip(preparation.parts, preparation.spans()):
        if isinstance(part, DateColumn):
            rows = np.asarray(matrix[:: max(1, matrix.size // MOST_VALUES), place])
            values = rows[rows[:, -1] == 0, 0] if part.missing else rows[:, 0]
            steps = np.diff(values)
            sorted_ = bool((steps >= 0).all() or (steps <= 0).all())
            if sorted_ and len(values) >= _FEWEST and 2 * np.count_nonzero(steps) > len(values):
                return name
    return None


def columns_of(preparation: Preparation, matrix: Any) -> list[Column]:
    """The columns of a table as its matrix has them; of many rows, some at equal distances."""
    rows = np.asarray(matrix[:: max(1, matrix.size // MOST_VALUES)], dtype=np.float64)
    columns = []
    for part, (name, place) in zip(preparation.parts, preparation.spans()):
        values = rows[:, place]
        if part.indicators:
            columns.append(Column(name, values.argmax(axis=1), part.names))
        else:  # of a moment, the elapsed time; where all values are equal, whether there is one
            columns.append(Column(name, values[:, 0]))
    return columns


def duplicate_columns(columns: Sequence[Column]) -> list[list[str]]:
    """Names of columns that say the same; none of few rows, where they may do so by chance."""
    return equal_columns(columns) if columns and len(columns[0].values) >= _FEWEST else []


def copies_note(columns: Sequence[Column]) -> str | None:
    """A note on columns that say the same as one before them."""
    groups = duplicate_columns(columns)
    copies = [f"'{name}' duplicates '{group[0]}'" for group in groups for name in group[1:]]
    if not copies:
        return None
    words = ", ".join(copies[:_NAMED_COPIES])
    if len(copies) > _NAMED_COPIES:
        words += f" and {len(copies) - _NAMED_COPIES} more"
    return f"duplicate columns: {words}; importance is split between them, so drop the duplicates"


def _identifies(rows: TableRows, name: str) -> bool:
    """Whether a column has a different text or whole number in every row."""
    column = rows.column(name)
    if column.null_count:
        return False
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    known = text or (pa.types.is_integer(column.type) and pc.min(column).as_py() >= 0)
    n = len(column)
    if not known or n < _FEWEST or pc.count_distinct(column).as_py() < n:
        return False
    return not text or not (is_number(column[0].as_py()) or is_moment(column[0].as_py()))


def findings(model: Any, training: Training, suspicious: list[str], seconds: float) -> dict[str, Any]:
    """What the fit of a table's estimator found."""
    estimator = model.estimator_
    target = training.target
    y = np.ravel(training.y) if hasattr(estimator, "classes_") else training.y  # labels may be a column
    scores = None
    predictions = heldout_predictions(estimator, y)
    if predictions is not None and np.isfinite(predictions.values).all(axis=1).any():
        predictions = replace(predictions, values=model._in_target_units(predictions.values))
        scores = scores_of(estimator, predictions, training.X, y, training.sample_weight)
        scores["in_order_of"] = in_order_of(training)
    report: dict[str, Any] = {
        "task": model.task,
        "task_reason": "as requested" if target is None else target.reason,
        "rows": int(training.X.shape[0]),
        "features": int(training.X.shape[1]),
        "search": training.search.as_plain() | estimator.search_,
        "kernel": estimator.kernel_,
        "cv": training.cv_words,
        "criterion": criterion_of(estimator),
        "class_weight": getattr(model, "class_weight", None),
        "target_transform": getattr(model, "target_transform", None),
        "best_score": float(estimator.best_score_),
        "blend": estimator.blend_,
        "blend_score": estimator.blend_score_,
        "candidates": len(estimator.cv_results_["params"]),
        "heldout": None if scores is None else flat_scores(scores),
        "scores": scores,
        "importances": training.preparation.shares(estimator.feature_importances_, _MOST_COLUMNS),
        "suspicious_columns": suspicious,
        "seconds": seconds,
        "column_notes": list(training.notes),
        "test": None,
    }
    notes = [stopped_note(report["search"]), *score_notes(scores), edge_note(estimator)]
    if (reason := estimator.search_.get("no_importances")) is not None:
        notes.append(f"no column importances: {reason}")
    if suspicious:
        notes.append(leak_note(suspicious, "the target" if target is None else f"'{target.name}'"))
    report["notes"] = [note for note in notes if note is not None]
    return report


def few_rows_note(cv: Any, labels: np.ndarray) -> str | None:
    """A note if the smallest class cannot be in every fold."""
    if not isinstance(cv, int):
        return None
    names, counts = np.unique(labels, return_counts=True)
    fewest = int(counts.argmin())
    if counts[fewest] >= cv:
        return None
    if counts[fewest] == 1:
        single = f"the class '{names[fewest]}' has only one row"
        return f"{single}, so it can never be predicted out of fold; add rows of it, or drop it"
    return (
        f"the class '{names[fewest]}' has only {counts[fewest]} rows, fewer than the {cv} folds, so "
        "some folds have none of it; use fewer folds, or leave-one-out"
    )


def stopped_note(search: dict[str, Any]) -> str | None:
    """Why a search ended early, and what it has not tried."""
    if search["stopped"] is None:
        return None
    why = f"was {search['stopped']}"
    why = "stopped at its time budget" if search["stopped"] == "time_budget" else why
    untried = []
    for candidate in search["untried"]:
        words = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in candidate.items())
        untried.append(", ".join(words))
    if not untried:
        return f"the search {why}; the remaining candidates were not tried"
    count = f"{len(untried)} candidate{'s were' if len(untried) > 1 else ' was'} not tried"
    listed = f" ({'; '.join(untried)})" if all(untried) and len(untried) <= _NAMED else ""
    return f"the search {why}, and {count}{listed}"


def edge_note(estimator: Any) -> str | None:
    """A warning if the best value lies at the end of a grid, beyond which there may be better."""
    # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
    if estimator.metric is not None or estimator.search_["stopped"] is not None:
        return None
    at_edge = edges(estimator.cv_results_, estimator.best_index_)
    if not at_edge:
        return None
    names = [edge.split()[1] for edge in at_edge]
    in_python = " and ".join(f"{name}s=" for name in names)
    in_shell = " and ".join(f"--{name}s" for name in names)
    return (
        f"the search chose the {' and the '.join(at_edge)} that it tried, where the scores still rise; "
        f"extend the grid ({in_python}, or {in_shell} on the command line)"
    )


def suspicious_columns(training: Training, classifier: bool) -> list[str]:
    """Names of the columns that alone explain 98 % of what a constant prediction leaves open."""
    shares = columns_alone(training.preparation, training.X, training.y, classifier)
    names = (name for name, _ in training.preparation.spans())
    return [name for name in names if shares.get(name, 0.0) > 1.0 - UNEXPLAINED]


def columns_alone(
    preparation: Preparation, matrix: Any, y: np.ndarray, classifier: bool
) -> dict[str, float]:
    """The share of the target that each column of a table explains by itself, as the model sees it."""
    sample = y[:: max(1, matrix.size // MOST_VALUES)]
    return explained_alone(columns_of(preparation, matrix), sample, classifier)


def leak_note(names: list[str], target: str) -> str:
    """What to do about them."""
    quoted = listing(names)
    if len(names) > 1:
        return (
            f"{quoted} each alone predict {target} almost perfectly; drop them if they are not known "
            "when predictions are made"
        )
    return (
        f"{quoted} alone predicts {target} almost perfectly; drop it if it is not known when "
        "predictions are made"
    )
