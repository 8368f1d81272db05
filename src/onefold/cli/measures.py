"""How good predictions are, next to the best constant prediction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["RunningScore", "heldout_measures", "score_words"]


def heldout_measures(estimator: Any, y: np.ndarray) -> dict[str, Any] | None:
    """Measures of the held-out predictions of the chosen candidate, all rows counting equally.

    Returns
    -------
    dict or None
        ``accuracy`` with ``baseline_accuracy`` and ``baseline_class``, or ``r2`` and ``rmse`` with
        ``baseline_rmse``; None for criteria that hold out nothing.
    """
    decision = getattr(estimator, "heldout_prediction_", None)
    if decision is None:
        return None
    decision = np.asarray(decision)
    # Splitters may leave rows that are never held out; they can't be measured.
    held = np.isfinite(decision).reshape(len(decision), -1).all(axis=1)
    y, decision = y[held], decision[held]
    if not hasattr(estimator, "classes_"):
        error, spread = float(np.mean((y - decision.ravel()) ** 2)), float(np.var(y))
        return {
            "r2": 1.0 - error / spread,
            "rmse": math.sqrt(error),
            "baseline_rmse": math.sqrt(spread),
        }
    classes = estimator.classes_
    if decision.ndim == 1 or decision.shape[1] == 1:
        predicted = classes[(decision.ravel() > 0).astype(int)]
    else:
        predicted = classes[decision.argmax(axis=1)]
    share = [float(np.mean(y == label)) for label in classes]
    return {
        "accuracy": float(np.mean(predicted == y)),
        "baseline_accuracy": max(share),
        "baseline_class": classes[int(np.argmax(share))].item(),
    }


def score_words(criterion: str, score: float) -> str:
    """A criterion's score in words; scores are greater-is-better, errors therefore negative."""
    if criterion == "error":
        return f"{-score:.2%} error"
    if criterion == "mse":
        return f"RMSE {math.sqrt(max(-score, 0.0)):.4g}"
    return f"{criterion} {score:.4g}"


class RunningScore:
    """Accuracy, or R² and RMSE, of predictions that come in blocks."""

    def __init__(self, classification: bool) -> None:
        self._classification = classification
        self._rows = 0
        self._loss = 0.0
        self._mean = 0.0
        self._spread = 0.0

    def update(self, y: np.ndarray, predicted: np.ndarray) -> None:
        """Add a block."""
        if self._classification:
            self._loss += float((y != predicted).sum())
        else:
            self._loss += float(((y - predicted) ** 2).sum())
            # Means and squared deviations of two parts add without cancellation (Chan et al.).
            difference, total = float(y.mean()) - self._mean, self._rows + len(y)
            within = float(((y - y.mean()) ** 2).sum())
            self._spread += within + difference**2 * self._rows * len(y) / total
            self._mean += difference * len(y) / total
        self._rows += len(y)

    def words(self) -> str:
        """The score of everything so far."""
        if self._classification:
            return f"accuracy {1 - self._loss / self._rows:.2%} on {self._rows} rows"
        rmse = math.sqrt(self._loss / self._rows)
        r2 = 1 - self._loss / self._spread if self._spread > 0 else math.nan
        return f"R2 {r2:.4f}, RMSE {rmse:.4g} on {self._rows} rows"
