"""Notes on the columns of a table, and what a fit to it found, as plain values for ``report_``.

Terminal, JSON and ``inspect`` read them there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.facts.criteria import criterion_of
from onefold.facts.data import FEWEST_ROWS, MOST_VALUES, UNEXPLAINED, left_by_groups, left_by_numbers
from onefold.facts.scores import flat_scores, heldout_predictions, score_notes, scores_of
from onefold.search.ledger import edges
from onefold.tables.dates import is_moment
from onefold.tables.errors import listing
from onefold.tables.kinds import Preparation
from onefold.tables.reading import is_number
from onefold.tables.rows import TableRows

if TYPE_CHECKING:
    from onefold.tables.training import Training

_MOST_COLUMNS = 50  # whose importance is kept
_NAMED = 6  # candidates that were not tried are named, if they are no more
_ID_NAME = re.compile(r"(?i:(.*[\s_.-])?(id|uuid|guid|key|index|row|rownum|rowid|nr|no))|.*[a-z](Id|ID)")
_FEWEST = 20  # rows before different numbers in all of them mean anything
_MOST_COMPARED = 1 << 20  # numbers of a matrix that are looked at for copies of columns


def column_notes(
    rows: TableRows, features: Collection[str], others: Collection[str], left_out: Collection[str]
) -> tuple[str, ...]:
    """What to tell about the columns of a table: `features`, `others` in use, and those `left_out`."""
    notes = [rows.notes[name] for name in (*features, *others) if name in rows.notes]
    if left_out:
        notes.append(f"left out, as row numbers or empty columns without a name: {listing(left_out)}")
    for name in features:
        why = _identifies(rows, name)
        if why is not None:
            notes.append(
                f"column '{name}' {why}, like an identifier or a row number; drop it, unless it means "
                "something"
            )
    return tuple(notes)


def copies_note(preparation: Preparation, matrix: Any) -> str | None:
    """A note on columns that say the same as one before them."""
    if matrix.shape[0] < _FEWEST:
        return None
    rows = np.asarray(matrix[:: max(1, matrix.size // _MOST_COMPARED)], dtype=np.float64)
    seen: dict[bytes, str] = {}
    copies = []
    for name, place in preparation.spans():
        first = seen.setdefault(_pattern(rows[:, place]), name)
        if first != name:
            copies.append((name, first))
    if not copies:
        return None
    told = ", ".join(f"'{name}' of '{first}'" for name, first in copies[:8])
    more = f" and {len(copies) - 8} more" if len(copies) > 8 else ""
    return f"copies of columns, which share one importance: {told}{more}; drop them"


def _pattern(values: np.ndarray) -> bytes:
    """What a column says of every row, in any unit; of few different values whatever they are called."""
    # One number for each row, equal for equal rows.
    weights: np.ndarray = np.linspace(1.0, np.pi, values.shape[1])
    numbers: np.ndarray = np.round(np.asarray(values @ weights), 6)
    _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
    if 2 * len(first) > len(numbers):
        return numbers.tobytes()
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first))  # in the order of appearance
    return rank[codes.ravel()].tobytes()


def _identifies(rows: TableRows, name: str) -> str | None:
    column = rows.columns.column(name)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    known = text or pa.types.is_integer(column.type)
    if not known or len(column) < _FEWEST or column.null_count:
        return None
    distinct = pc.count_distinct(column).as_py()
    if text:  # words, or numbers in a block of a table of text
        whole = pc.all(pc.match_substring_regex(column, r"^\s*[0-9]+\s*$")).as_py()
    else:
        whole = pc.min(column).as_py() >= 0
    if distinct == len(column):
        if whole:
            return "has a different whole number in every row"
        if text and not is_number(column[0].as_py()) and not is_moment(column[0].as_py()):
            return "has a different text in every row"
    if whole and _ID_NAME.fullmatch(name) and 2 * distinct > len(column):
        return "has many different whole numbers"
    return None


def findings(model: Any, training: Training, suspicious: list[str], seconds: float) -> dict[str, Any]:
    """What the fit of a table's estimator found."""
    estimator, target = model.estimator_, training.target
    y = np.ravel(training.y) if hasattr(estimator, "classes_") else training.y  # labels may be a column
    scores, found = None, heldout_predictions(estimator, y)
    if found is not None and np.isfinite(found.values).all(axis=1).any():
        found = replace(found, values=model.in_target_units(found.values))
        scores = scores_of(estimator, found, training.X, y, training.sample_weight)
    report: dict[str, Any] = {
        "task": model.task,
        "task_reason": "as asked for" if target is None else target.reason,
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
        alone = f"'{names[fewest]}' has only one row"
        return f"{alone}, and no model that has not seen it can tell it: add rows"
    return (
        f"'{names[fewest]}' has only {counts[fewest]} of the rows, fewer than the {cv} folds: some "
        "folds tell nothing about it; use fewer folds, or leave-one-out"
    )


def stopped_note(search: dict[str, Any]) -> str | None:
    """Why a search ended early, and what it has not tried."""
    if search["stopped"] is None:
        return None
    why = (
        "ended with its time budget"
        if search["stopped"] == "time_budget"
        else f"was {search['stopped']}"
    )
    untried = [
        ", ".join(f"{name} {_short(value)}" for name, value in one.items()) for one in search["untried"]
    ]
    if not untried:
        return f"the search {why}; what would have followed was not tried"
    count = f"{len(untried)} candidate{'s were' if len(untried) > 1 else ' was'} not tried"
    listed = f" ({'; '.join(untried)})" if all(untried) and len(untried) <= _NAMED else ""
    return f"the search {why}, and {count}{listed}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def edge_note(estimator: Any) -> str | None:
    """A warning if the best value lies at the end of a grid, beyond which there may be better."""
    # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
    if estimator.metric is not None or estimator.search_["stopped"] is not None:
        return None
    at_edge = [edge.split()[1] for edge in edges(estimator.cv_results_, estimator.best_index_)]
    if not at_edge:
        return None
    wider = " and ".join(f"{name}s" for name in at_edge)
    last = "are the last ones" if len(at_edge) > 1 else "is the last one"
    return f"the best {' and '.join(at_edge)} {last} tried; wider {wider} may find better"


def suspicious_columns(training: Training, numbers: bool) -> list[str]:
    """Names of the columns that alone explain 98 % of what a constant prediction leaves open.

    A table with a single column has no rivals to compare it with: nothing is suspected there.
    """
    X, preparation = training.X, training.preparation
    step = max(1, X.shape[0] * X.shape[1] // MOST_VALUES)
    y = training.y[::step]
    if len(preparation.columns) < 2 or len(y) < FEWEST_ROWS or y.ndim > 1:
        return []
    codes = y if numbers else np.unique(y, return_inverse=True)[1]
    found, rows = [], X[::step]
    for part, (name, features) in zip(preparation.parts, preparation.spans()):
        values = np.asarray(rows[:, features], dtype=np.float64)
        if part.indicators:
            left = left_by_groups(values.argmax(axis=1), codes, numbers)
        else:  # of a moment, the elapsed time; where all values are equal, whether there is one
            left = left_by_numbers(values[:, 0], codes, numbers)
        if left < UNEXPLAINED:
            found.append(name)
    return found


def leak_note(names: list[str], target: str) -> str:
    """What to do about them."""
    quoted = listing(names)
    alone = "each alone predict" if len(names) > 1 else "alone predicts"
    return (
        f"{quoted} {alone} {target} almost perfectly; drop {'them' if len(names) > 1 else 'it'} if not "
        "known when predictions are made"
    )
