r"""One number for all classes: p ∝ exp(β f), β the inverse temperature.

    β = argmin Σ_i v_i log(1 + Σ_{j ≠ y_i} exp(β d_ij)),    d_ij = f_j(x_i) − f_{y_i}(x_i)

A convex function of β, with f = (−f, f) for two classes. Its derivative is brought to 0 by Newton's
steps within a bracket, in units of the typical size of d: some ten passes over the rows.

The likelihood has no maximum where every row is right: it rises with β for ever. There β is such that
the losses of all rows together are ½, or half the mean weight where that is less than 1: of n rows
without an error the expected rate of errors is (0 + ½)/(n + 1) by Jeffreys' rule. Where decision
values tell nothing the best β would be 0 or less: it is e⁻¹⁰ over the typical size, so that the classes
are nearly equally likely and still in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from onefold.calibration.base import Calibrator, in_units, typical_size

_LEAST, _MOST = np.exp(-10.0), np.exp(10.0)  # of β in units of its own, as in scikit-learn
_CERTAIN = -np.log(np.finfo(float).eps)  # of β: the typical row is certain to the last digit
_STEPS, _CLOSE = 100, 1e-8  # steps at most; the last one is squared in what is left to go
_SMALLEST, _LARGEST = 1e-307, 1e307  # of β


@dataclass(frozen=True)
class Temperature(Calibrator):
    """Probabilities ∝ exp(slope · f), f = (−f, f) for two classes; the largest stays the largest.

    Attributes
    ----------
    slope : float
        β > 0.
    """

    slope: float

    name = "temperature"

    def __post_init__(self) -> None:
        if not (isinstance(self.slope, float) and 0.0 < self.slope < np.inf):
            raise ValueError(f"the slope must be a positive number; got {self.slope!r}.")

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any) -> list[Self]:
        return [cls(float(slope)) for slope in best_slopes(_differences(decision, index), weight)]

    def probabilities(self, decision: Any) -> Any:
        return np.exp(self.log_probabilities(decision))

    def log_probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            if decision.shape[1] == 1:
                x = 2.0 * self.slope * decision
                return -np.logaddexp(0.0, np.concatenate([x, -x], axis=1))
            x = self.slope * (decision - decision.max(axis=1, keepdims=True))
            return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _differences(decision: Any, index: Any) -> Any:
    """The numbers d (models, rows, other classes)."""
    models, rows, columns = decision.shape
    if columns == 1:
        return decision * np.where(index == 1, -2.0, 2.0)[None, :, None]
    own = np.arange(columns)[None, :] == index[:, None]
    others = decision[:, ~own].reshape(models, rows, columns - 1)
    return others - decision[:, own][:, :, None]


def best_slopes(differences: Any, weight: Any) -> Any:
    """The slope β (models,) of each model, from its differences (models, rows, other classes)."""
    unit = typical_size(np.abs(differences).max(axis=2))
    d, v = in_units(differences, unit), weight / min(1.0, float(weight.mean()))
    right, found = np.all(d < 0, axis=(1, 2)), np.empty(len(d))
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        for some, function, most in ((~right, _pull, _MOST), (right, _gone, _CERTAIN)):
            if some.any():
                found[some] = _roots(partial(function, d[some], v), int(some.sum()), most)
        return np.clip(found / unit, _SMALLEST, _LARGEST)


def _pull(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """What pulls β (models,) down over what pulls it up, in logarithms, and the derivative of that.

    Down do the classes that are likelier than the right one, Σ v p d⁺, up all others: their difference
    is the derivative of the loss. It falls off exponentially, its logarithms are nearly straight lines.
    """
    p, _ = _shares(d, beta)
    p *= d
    mean, down = p.sum(axis=2), np.maximum(p, 0.0)
    moved = d - mean[:, :, None]
    P, N = down.sum(axis=2) @ v, (down - p).sum(axis=2) @ v
    dP = np.einsum("mij,mij,i->m", down, moved, v)
    dN = dP - np.einsum("mij,mij,i->m", p, moved, v)
    return np.log(P / N), dP / P - dN / N


def _gone(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """How far the loss is below ½, in logarithms, and the derivative of that."""
    p, losses = _shares(d, beta)
    total = losses @ v
    return np.log(0.5 / total), -(np.sum(p * d, axis=2) @ v) / total


def _shares(d: Any, beta: Any) -> tuple[Any, Any]:
    """Probabilities (models, rows, other classes) of all classes but the right one, and losses."""
    x = beta[:, None, None] * d
    top = np.maximum(x.max(axis=2), 0.0)
    p = np.exp(x - top[:, :, None])
    total = p.sum(axis=2)
    p /= (total + np.exp(-top))[:, :, None]
    return p, np.where(top > 0, top + np.log(total + np.exp(-top)), np.log1p(total))


def _roots(function: Callable[[Any], tuple[Any, Any]], count: int, most: float) -> Any:
    """Where increasing functions are 0, between the least slope and `most`; or the nearer end."""
    low, high = np.full(count, _LEAST), np.full(count, float(most))
    below, above = ~(function(low)[0] < 0), function(high)[0] <= 0  # NaN: nothing pulls at all
    x = np.ones(count)
    for _ in range(_STEPS):
        value, slope = function(x)
        low, high = np.where(value <= 0, x, low), np.where(value > 0, x, high)
        step = x - value / slope
        step = np.where((low <= step) & (step <= high), step, np.sqrt(low * high))
        done = np.abs(step - x) <= _CLOSE * x
        x = step
        if np.all(done | below | above):
            break
    return np.where(below, _LEAST, np.where(above, most, x))
