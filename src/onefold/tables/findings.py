"""What a fit found, as plain values: the source of ``report_``, the text, the JSON and ``inspect``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onefold.facts.criteria import criterion_of
from onefold.facts.data import FEWEST_ROWS, MOST_VALUES, UNEXPLAINED, left_by_groups, left_by_numbers
from onefold.facts.scores import flat_scores, heldout_predictions, score_notes, scores_of
from onefold.search.ledger import edges
from onefold.tables.errors import listing
from onefold.tables.training import Training

_MOST_COLUMNS = 50  # whose importance is kept
_NAMED = 6  # candidates that were not tried are named, if they are no more


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
