"""Notes on the columns of a table, and what a fit to it found, as plain values for ``report_``.

Terminal, JSON and ``inspect`` read them there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.facts.criteria import criterion_of
from onefold.facts.data import MOST_VALUES, UNEXPLAINED, ColumnValues, equal_columns, explained_alone
from onefold.facts.scores import flat_scores, heldout_predictions, score_notes, scores_of
from onefold.facts.words import quoted
from onefold.search.ledger import edges
from onefold.tables.clipping import TargetRange, clip_facts
from onefold.tables.errors import listing
from onefold.tables.kinds import Preparation
from onefold.tables.learning import Learner
from onefold.tables.rows import TableRows

if TYPE_CHECKING:
    from onefold.tables.searching import Splitting
    from onefold.tables.training import Training

# Columns whose importance is kept.
_MOST_COLUMNS = 50
# Columns for which the share of the target that each explains by itself is kept.
_MOST_SHARES = 200
# Untried candidates are named if there are no more than this.
_MOST_NAMED_CANDIDATES = 6
# Copies of columns that a note names.
_MOST_NAMED_COPIES = 8
# Stretches of time whose errors are taken for independent.
_STRETCHES = 25
# Below this number of rows, columns may be equal or sorted by chance.
_FEWEST_ROWS = 20


@dataclass(frozen=True)
class ColumnFacts:
    """What the columns of a table are like, found out once, when its rows are encoded.

    Parameters
    ----------
    columns : list of ColumnValues
        As the matrix of the fit has them; of many rows, those at distances of `step`.
    step : int
    copies : list of lists of str
        Columns that say the same.
    identifiers : tuple of str
        Columns with a different value in every row, whether they are features or were left out.
    """

    columns: list[ColumnValues]
    step: int
    copies: list[list[str]]
    identifiers: tuple[str, ...]

    @classmethod
    def of(cls, preparation: Preparation, matrix: Any, row_names: Collection[str] = ()) -> ColumnFacts:
        """The facts about the columns of a matrix, of which `row_names` name its rows."""
        step = max(1, matrix.size // MOST_VALUES)
        columns = columns_of(preparation, matrix[::step])
        return cls(columns, step, duplicate_columns(columns), (*preparation.identifiers, *row_names))

    def explained_shares(self, y: np.ndarray, classifier: bool) -> dict[str, float]:
        """The share of the target that each column explains by itself, as the model sees it."""
        return explained_alone(self.columns, y[:: self.step], classifier)


def column_notes(
    rows: TableRows, preparation: Preparation, roles: Collection[str], row_names: Collection[str]
) -> tuple[str, ...]:
    """Notes on the columns of a table: features, those with `roles`, and those that name rows."""
    type_notes = {} if rows.types is None else rows.types.notes
    notes = [type_notes[name] for name in (*preparation.columns, *roles) if name in type_notes]
    if preparation.row_numbers:
        notes.append(
            "dropped unnamed columns that number the rows or are empty: "
            f"{listing(preparation.row_numbers)}"
        )
    notes += [
        f"column '{name}' has a different value in every row, like an identifier or a row number; drop "
        "it unless it is meaningful"
        for name in row_names
    ]
    return tuple(notes)


def preparation_notes(
    rows: TableRows, learner: Learner, preparation: Preparation, roles: Collection[str] = ()
) -> tuple[str, ...]:
    """What to say about a preparation: what was assumed of the file, left out, imputed or suspected.

    `rows` are those of a first block, `roles` are columns with a role other than that of a feature.
    """
    constant = preparation.constant
    identifiers = preparation.identifiers
    return (
        *rows.remarks,
        *([f"dropped constant columns: {listing(constant)}"] if constant else []),
        *(
            [f"dropped columns that look like identifiers: {listing(identifiers)}"]
            if identifiers
            else []
        ),
        *learner.notes(),
        *column_notes(rows, preparation, roles, learner.row_names(preparation.columns)),
    )


def columns_of(preparation: Preparation, matrix: Any) -> list[ColumnValues]:
    """The columns of a table as its matrix has them."""
    rows = np.asarray(matrix, dtype=np.float64)
    columns = []
    for part, (name, place) in zip(preparation.parts, preparation.spans()):
        values = rows[:, place]
        if part.indicators:
            columns.append(ColumnValues(name, values.argmax(axis=1), part.names))
        else:  # of a moment, the elapsed time; where all values are equal, whether there is one
            columns.append(ColumnValues(name, values[:, 0]))
    return columns


def duplicate_columns(columns: Sequence[ColumnValues]) -> list[list[str]]:
    """Names of columns that say the same; none of few rows, where they may do so by chance."""
    return equal_columns(columns) if columns and len(columns[0].values) >= _FEWEST_ROWS else []


def copies_note(groups: Sequence[Sequence[str]]) -> str | None:
    """A note on groups of columns that say the same as the first of them."""
    copies = [f"'{name}' duplicates '{group[0]}'" for group in groups for name in group[1:]]
    if not copies:
        return None
    words = ", ".join(copies[:_MOST_NAMED_COPIES])
    if len(copies) > _MOST_NAMED_COPIES:
        words += f" and {len(copies) - _MOST_NAMED_COPIES} more"
    return f"duplicate columns: {words}; importance is split between them, so drop the duplicates"


def findings(
    model: Any,
    training: Training,
    ranges: list[TargetRange],
    shares: dict[str, float],
    seconds: float,
) -> dict[str, Any]:
    """What the fit of a table's estimator found.

    `ranges` are those that the targets of a regression are kept within, `shares` those of the target
    that each column explains by itself.
    """
    estimator = model.estimator_
    target = training.target
    y = np.ravel(training.y) if hasattr(estimator, "classes_") else training.y  # labels may be a column
    structure = training.structure
    suspicious = leaks_among(shares, training.preparation)
    scores = None
    unclipped = None
    predictions = heldout_predictions(estimator, y)
    if predictions is not None and np.isfinite(predictions.values).all(axis=1).any():
        unclipped = model._unclipped(predictions.values)
        predictions = replace(predictions, values=model._in_target_units(predictions.values))
        clusters = clusters_of(training.splitting, training)
        scores = scores_of(estimator, predictions, training.X, y, training.sample_weight, clusters)
        # One that folds keep together misleads no more.
        misleading = structure if training.splitting.kind == "folds" else None
        scores["in_order_of"] = None if misleading is None else misleading.in_order_of
        scores["structure"] = None if misleading is None else misleading.sentence
    report: dict[str, Any] = {
        "task": model.task,
        "task_reason": "as requested" if target is None else target.reason,
        "rows": int(training.X.shape[0]),
        "features": int(training.X.shape[1]),
        "search": training.search.as_plain() | estimator.search_,
        "kernel": estimator.kernel_,
        "cv": training.splitting.description,
        "splits": training.splitting.as_plain(),
        "criterion": criterion_of(estimator),
        "class_weight": getattr(model, "class_weight", None),
        "target_transform": getattr(model, "target_transform", None),
        "intervals": estimator.approximation_.get("intervals"),
        "clip": clip_facts(ranges, unclipped),
        "best_score": float(estimator.best_score_),
        "blend": estimator.blend_,
        "blend_score": estimator.blend_score_,
        "candidates": len(estimator.cv_results_["params"]),
        "heldout": None if scores is None else flat_scores(scores),
        "scores": scores,
        "second": None if scores is None else second_scores(model, training, y),
        "importances": training.preparation.shares(estimator.feature_importances_, _MOST_COLUMNS),
        "suspicious_columns": suspicious,
        "data": {
            "alone": dict(islice(shares.items(), _MOST_SHARES)),
            "copies": training.facts.copies,
            "identifiers": list(training.facts.identifiers),
        },
        "seconds": seconds,
        "column_notes": list(training.notes),
        "structure": None if structure is None else structure.as_plain(),
        "test": None,
    }
    notes = [stopped_note(report["search"]), *score_notes(scores), edge_note(estimator)]
    if (reason := estimator.search_.get("no_importances")) is not None:
        notes.append(f"no column importances: {reason}")
    if suspicious:
        notes.append(leak_note(suspicious, "the target" if target is None else f"'{target.name}'"))
    if training.why_no_second is not None:
        notes.append(f"no second score by the noticed structure: {training.why_no_second}")
    report["notes"] = [note for note in notes if note is not None]
    return report


def second_scores(model: Any, training: Training, y: np.ndarray) -> dict[str, Any] | None:
    """The scores by the splits of a noticed structure, and what rows each of the two scores is of."""
    second = training.second
    structure = training.structure
    predictions = heldout_predictions(model.estimator_, y, second=True)
    if predictions is None or second is None or structure is None:
        return None
    if not np.isfinite(predictions.values).all(axis=1).any():
        return None
    predictions = replace(predictions, values=model._in_target_units(predictions.values))
    clusters = clusters_of(second, training)
    scores = scores_of(model.estimator_, predictions, training.X, y, training.sample_weight, clusters)
    if structure.kind == "groups":
        name = quoted(structure.columns) or "groups"
        uses = {"first_use": f"new rows of the same {name}", "use": f"rows of a new {name}"}
    else:
        uses = {"first_use": "random rows", "use": "later rows"}
    return scores | {"cv": second.description, **uses}


def clusters_of(splitting: Splitting, training: Training) -> np.ndarray | None:
    """The groups, or stretches of time, that folds keep together; None for folds of single rows."""
    codes = None if training.structure is None else training.structure.codes
    if splitting.kind == "groups":
        return codes if training.groups is None else np.asarray(training.groups)
    if splitting.kind not in ("blocks", "past"):
        return None
    ranks = np.arange(len(training.y))
    if splitting.time is not None and codes is not None:
        ranks = codes
    return np.asarray(ranks * _STRETCHES // (int(ranks.max()) + 1))


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
    at_budget = search["stopped"] == "time_budget"
    why = "stopped at its time budget" if at_budget else f"was {search['stopped']}"
    untried = []
    for candidate in search["untried"]:
        words = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in candidate.items())
        untried.append(", ".join(words))
    if not untried:
        return f"the search {why}; the remaining candidates were not tried"
    count = f"{len(untried)} candidate{'s were' if len(untried) > 1 else ' was'} not tried"
    few = len(untried) <= _MOST_NAMED_CANDIDATES
    names = f" ({'; '.join(untried)})" if few and all(untried) else ""
    return f"the search {why}, and {count}{names}"


def edge_note(estimator: Any) -> str | None:
    """A warning if the best value lies at the end of a grid, beyond which there may be better."""
    # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
    if estimator.metric is not None or estimator.search_["stopped"] is not None:
        return None
    at_edge = edges(estimator.cv_results_, estimator.best_index_)
    if not at_edge:
        return None
    in_python = " and ".join(f"{edge.parameter}s=" for edge in at_edge)
    in_shell = " and ".join(f"--{edge.parameter}s" for edge in at_edge)
    ends = " and the ".join(map(str, at_edge))
    return (
        f"the search chose the {ends} that it tried, where the scores still rise; "
        f"extend the grid ({in_python}, or {in_shell} on the command line)"
    )


def leaks_among(shares: dict[str, float], preparation: Preparation) -> list[str]:
    """Names of the columns that by themselves explain 98 % of the target."""
    return [name for name in preparation.columns if shares.get(name, 0.0) > 1.0 - UNEXPLAINED]


def leak_note(names: list[str], target: str) -> str:
    """A note on columns that explain nearly all of the target, and what to do about them."""
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
