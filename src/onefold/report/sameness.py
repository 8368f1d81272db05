"""Whether rows are those that a model was fitted on, found out from what the model remembers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import is_sparse, to_numpy
from onefold.report.duplicates import row_groups
from onefold.report.words import counted

_SAMPLE = 400
_MOST_CENTRES = 0.5  # among the rows: they are those of the fit
_SHUFFLES = 19  # the right order beats all of them: one in twenty by chance


def which_rows(estimator: Any, matrix: Any) -> tuple[bool, str]:
    """Whether the rows are new to the model, and what that rests on, in words."""
    kept, n = getattr(estimator, "heldout_prediction_", None), int(matrix.shape[0])
    seen, share = _overlap(estimator, matrix)
    if kept is not None and len(kept) == n:
        if _paired(estimator, matrix, np.asarray(kept).reshape(n, -1)):
            why = "its held-out predictions go with them"
            return False, f"taken for the {n} rows it was fitted on: {why}"
        if seen > n // 2:
            raise ValueError(
                f"these are rows that the model was fitted on ({seen} of {n}) in another order or with "
                "others among them; give the table as it was fitted, or a table of new rows."
            )
    if kept is None and share > _MOST_CENTRES:
        return False, f"taken for rows it was fitted on: {share:.0%} of its centres are among them"
    words = f"taken for {counted(n, 'new row')}"
    if seen:
        return True, f"{words}; but {seen} of them equal rows it was fitted on, so scores flatter"
    if not _centres_are_rows(estimator):
        return True, f"{words}; that cannot be checked, as its centres are no rows"
    return True, f"{words}: none is a centre of the model"


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


def _overlap(estimator: Any, matrix: Any) -> tuple[int, float]:
    """How many rows are centres of the model, and which share of its centres are among the rows."""
    centres = getattr(estimator.expansion_.parts[0][1], "centres", None)
    if centres is None or is_sparse(centres) or is_sparse(matrix):
        return 0, 0.0
    centres = np.asarray(to_numpy(centres), dtype=np.float64)
    matrix = np.asarray(matrix, dtype=np.float64)
    if centres.shape[1] != matrix.shape[1]:
        return 0, 0.0
    groups = row_groups(np.concatenate([centres, matrix]))
    of_centres, of_rows = groups[: len(centres)], groups[len(centres) :]
    return int(np.isin(of_rows, of_centres).sum()), float(np.isin(of_centres, of_rows).mean())


def _centres_are_rows(estimator: Any) -> bool:
    """Whether an exact or a pruned machine was fitted, whose centres are rows of the fit."""
    found = estimator.approximation_
    return found.get("fitted_with", found).get("name") in ("exact", "sparse")
