"""Whether rows are those that a model was fitted on, found out from what the model remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.facts.words import counted
from onefold.linalg import is_sparse, to_numpy
from onefold.report.duplicates import row_groups

_SAMPLE = 400
_MOST_CENTRES = 0.5  # among the rows: they are those of the fit
_ROUNDING = 1e-5  # of targets that were float32 once
_BY_CHANCE = 0.7  # of how far conformity scores lie from those of mixed targets
_SHUFFLES = 19  # the right order beats all of them: one in twenty by chance


@dataclass(frozen=True)
class Sameness:
    """What is known of the rows.

    Attributes
    ----------
    new : bool
        They are taken to be new to the model.
    words : str
        What that rests on.
    flatters : bool
        Some of them the model knows, so that scores flatter.
    """

    new: bool
    words: str
    flatters: bool = False


def which_rows(estimator: Any, matrix: Any) -> Sameness:
    """Whether the rows are those of the fit; raise if they are in another order."""
    kept, n = getattr(estimator, "heldout_prediction_", None), int(matrix.shape[0])
    seen, share, in_order = _overlap(estimator, matrix)
    if kept is not None and len(kept) == n:
        refuse_order(estimator, matrix)
        why = "its centres are these rows in their order"
        if not in_order:
            why = "its held-out predictions go with them"
        if in_order or _paired(estimator, matrix, np.asarray(kept).reshape(n, -1)):
            return Sameness(False, f"taken for the {n} rows it was fitted on: {why}")
    if kept is None and share > _MOST_CENTRES:
        words = f"taken for rows it was fitted on: {share:.0%} of its centres are among them"
        return Sameness(False, words)
    if seen:
        return known_among(estimator, matrix)
    words = f"taken for {counted(n, 'new row')}"
    if kept is not None and len(kept) == n:
        words += ", as many as the fit had, but its held-out predictions do not go with them"
        return Sameness(True, words)
    if not _centres_are_rows(estimator):
        return Sameness(True, f"{words}; that cannot be checked, as its centres are no rows")
    return Sameness(True, f"{words}: none is a centre of the model")


def known_among(estimator: Any, matrix: Any) -> Sameness:
    """Rows that are said to be new, with how many of them the model remembers."""
    n, seen = int(matrix.shape[0]), _overlap(estimator, matrix)[0]
    if not seen:
        return Sameness(True, "")
    words = f"taken for {counted(n, 'new row')}; but {seen} of them equal rows it was fitted on, so"
    return Sameness(True, f"{words} scores flatter", flatters=True)


def refuse_targets(estimator: Any, y: np.ndarray) -> None:
    """Raise if the targets are not those of the fit, where its conformity scores tell."""
    scores = getattr(estimator, "conformity_scores_", None)
    kept = getattr(estimator, "heldout_prediction_", None)
    if scores is None or kept is None or hasattr(estimator, "classes_"):
        return
    n = len(y)
    scores, kept, y = (np.asarray(one, dtype=np.float64).reshape(n, -1) for one in (scores, kept, y))
    told = (np.isfinite(scores) & np.isfinite(kept)).all(axis=1)
    scores, kept, y = scores[told], kept[told], y[told]
    # Some intervals come from other folds than the held-out predictions: near is enough.
    own = float(np.abs(np.abs(y - kept) - scores).mean()) if len(y) else 0.0
    mixed = np.random.default_rng(0).permutation(y)
    by_chance = float(np.abs(np.abs(mixed - kept) - scores).mean()) if len(y) else 0.0
    if own > _ROUNDING * np.abs(scores).max(initial=0.0) and own > _BY_CHANCE * by_chance:
        raise ValueError(
            "y is not the y that the model was fitted on, or in another order; give its own, or "
            "new_rows=True for the scores of a test."
        )


def refuse_order(estimator: Any, matrix: Any) -> None:
    """Raise if these are, mostly, the rows that are the centres of the model, in another order."""
    n = int(matrix.shape[0])
    seen, share, in_order = _overlap(estimator, matrix)
    kept = getattr(estimator, "heldout_prediction_", None)
    if (
        kept is not None
        and len(kept) == n
        and _paired(estimator, matrix, np.asarray(kept).reshape(n, -1))
    ):
        return  # centres may lie in another order: searches of metrics sort the rows by their folds
    if not in_order and share > _MOST_CENTRES and seen > n // 2 and _centres_of(estimator) == n:
        raise ValueError(
            f"these are rows that the model was fitted on ({seen} of {n}) in another order or with "
            "others among them; give the rows as they were fitted, or new rows."
        )


def _paired(estimator: Any, matrix: Any, kept: np.ndarray) -> bool:
    """Whether held-out predictions are nearer to the model's own in this order than in others."""
    rows = np.flatnonzero(np.isfinite(kept).all(axis=1))
    generator = np.random.default_rng(0)
    if len(rows) > _SAMPLE:
        rows = np.sort(generator.choice(rows, _SAMPLE, replace=False))
    answer = getattr(estimator, "decision_function", estimator.predict)
    fitted = np.asarray(to_numpy(answer(matrix[rows]))).reshape(len(rows), -1)
    own = float(np.abs(kept[rows] - fitted).mean())
    others = [np.abs(kept[generator.permutation(rows)] - fitted).mean() for _ in range(_SHUFFLES)]
    return own < min(others)


def _overlap(estimator: Any, matrix: Any) -> tuple[int, float, bool]:
    """How many rows are centres, which share of the centres are rows, and whether both are the same."""
    centres = getattr(estimator.expansion_.parts[0][1], "centres", None)
    if centres is None or is_sparse(centres) or is_sparse(matrix):
        return 0, 0.0, False
    centres = np.asarray(to_numpy(centres), dtype=np.float64)
    matrix = np.asarray(matrix, dtype=np.float64)
    if centres.shape[1] != matrix.shape[1]:
        return 0, 0.0, False
    groups = row_groups(np.concatenate([centres, matrix]))
    of_centres, of_rows = groups[: len(centres)], groups[len(centres) :]
    seen, share = np.isin(of_rows, of_centres).sum(), np.isin(of_centres, of_rows).mean()
    return int(seen), float(share), bool(np.array_equal(of_centres, of_rows))


def _centres_of(estimator: Any) -> int:
    return int(estimator.expansion_.parts[0][1].n_centres)


def _centres_are_rows(estimator: Any) -> bool:
    """Whether an exact or a pruned machine was fitted, whose centres are rows of the fit."""
    found = estimator.approximation_
    return found.get("fitted_with", found).get("name") in ("exact", "sparse")
