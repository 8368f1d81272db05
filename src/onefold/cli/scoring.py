"""How good predictions are that come in blocks."""

from __future__ import annotations

import math

import numpy as np

from onefold.cli.words import decimal, percent


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
            return f"accuracy {percent(1 - self._loss / self._rows)} on {self._rows} rows"
        rmse = math.sqrt(self._loss / self._rows)
        r2 = decimal(1 - self._loss / self._spread) if self._spread > 0 else "undefined"
        return f"R2 {r2}, RMSE {rmse:.4g} on {self._rows} rows"
