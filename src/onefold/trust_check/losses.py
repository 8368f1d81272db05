"""What fitted models lose on rows that they have not seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.criteria import Task

_SHARE = 0.05  # of what there is to gain
_ROUNDING = 1e-12  # of a constant prediction's loss


def loss_on(predicted: list[Any], fresh: Any, rows: Any, task: Task) -> tuple[float, float]:
    """Mean extra loss of the approximate model on fresh rows, and how much of it counts as nothing.

    `predicted` are the exact and the approximate model's predictions of them, both trained on `rows`.
    """
    y, labels = task.y[fresh], task.classes is not None
    if labels:
        kinds, counts = np.unique(task.y[rows], return_counts=True)
        constant = kinds[counts.argmax()]
    else:
        constant = task.y[rows].mean(axis=0)
    losses = [_losses(values, y, labels) for values in (*predicted, constant)]
    difference = losses[1] - losses[0]
    noise = float(difference.std(ddof=1)) / np.sqrt(len(y)) if len(y) > 1 else 0.0
    gain = max(float(np.mean(losses[2] - losses[0])), 0.0)
    loss = float(difference.mean())
    rounding = _ROUNDING * float(np.mean(losses[2]))
    return (0.0 if abs(loss) <= rounding else loss), max(noise, _SHARE * gain)


def _losses(predicted: Any, y: Any, labels: bool) -> Any:
    """0 or 1 per row, or the squared error."""
    if labels:
        return (np.broadcast_to(predicted, y.shape) != y).astype(float)
    return np.mean(((predicted - y) ** 2).reshape(len(y), -1), axis=1)
