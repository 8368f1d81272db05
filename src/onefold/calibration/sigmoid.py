r"""Platt's sigmoid for each class against the rest: p = 1 / (1 + exp(−(a f + b))).

    (a, b) = argmin Σ_i v_i [ log(1 + exp(a f_i + b)) − T_i (a f_i + b) ]
    T = (N₁ + 1)/(N₁ + 2) for rows of the class, 1/(N₀ + 2) for others,   N the sums of their weights

The targets T keep the minimum finite also where the classes lie apart. They count every row as one:
weights of a mean below 1 are brought to 1 first, or those that add up to 1 would leave T at ½. Newton's
steps, halved while they lead upwards, on values in units of their typical size and about their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit

from onefold.calibration.base import Calibrator, in_units, is_class, one_against_rest, typical_size

_STEPS, _HALVINGS = 100, 40
_CLOSE, _ROUNDING = 1e-12, 1e-14


@dataclass(frozen=True, eq=False)
class Sigmoid(Calibrator):
    """A sigmoid for each column, divided by their sum for more than two classes.

    Attributes
    ----------
    slope, intercept : arrays (t,)
        a and b of each column.
    """

    slope: Any
    intercept: Any

    name = "sigmoid"

    def __post_init__(self) -> None:
        arrays = (self.slope, self.intercept)
        if not all(isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype == float for a in arrays):
            raise ValueError("slope and intercept must be arrays of floating-point numbers, (t,).")
        whole = self.slope.shape == self.intercept.shape and self.slope.size not in (0, 2)
        if not whole or not all(np.isfinite(a).all() for a in arrays):
            raise ValueError("slope and intercept must be finite and of one length, 1 or 3 and more.")

    @property
    def columns(self) -> int:
        return int(self.slope.size)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any) -> list[Self]:
        positive = is_class(index, decision.shape[2])
        found = [platt(decision[:, :, t], positive[:, t], weight) for t in range(decision.shape[2])]
        slopes = np.stack([slope for slope, _ in found], axis=1)
        intercepts = np.stack([intercept for _, intercept in found], axis=1)
        return [cls(slope, intercept) for slope, intercept in zip(slopes, intercepts)]

    def probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return one_against_rest(expit(self.slope * decision + self.intercept))


def platt(values: Any, positive: Any, weight: Any) -> tuple[Any, Any]:
    """Slope and intercept (models,) of values (models, rows) for rows that are of a class or not."""
    weight = weight / min(1.0, float(weight.mean()))
    many, few = float(weight[~positive].sum()), float(weight[positive].sum())
    target = np.where(positive, (few + 1.0) / (few + 2.0), 1.0 / (many + 2.0))
    unit = typical_size(values)
    F = in_units(values, unit)
    middle = F @ (weight / weight.sum())
    F = F - middle[:, None]
    a = np.zeros(len(F))
    b = np.full(len(F), np.log((few + 1.0) / (many + 1.0)))

    def loss(a: Any, b: Any) -> Any:
        x = a[:, None] * F + b[:, None]
        return (np.logaddexp(0.0, x) - target * x) @ weight

    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        now = loss(a, b)
        for _ in range(_STEPS):
            da, db = _newton_step(F, expit(a[:, None] * F + b[:, None]), target, weight)
            share = np.ones(len(F))
            for _ in range(_HALVINGS):
                then = loss(a + share * da, b + share * db)
                worse = ~(then <= now + _ROUNDING * np.abs(now))
                if not worse.any():
                    break
                share = np.where(worse, share / 2, share)
            share = np.where(worse, 0.0, share)
            a, b, now = a + share * da, b + share * db, np.where(worse, now, then)
            size = 1.0 + np.abs(a) + np.abs(b)
            if np.all(share * (np.abs(da) + np.abs(db)) <= _CLOSE * size):
                break
        return a / unit, b - a * middle


def _newton_step(F: Any, p: Any, target: Any, weight: Any) -> tuple[Any, Any]:
    """The step (da, db) of every model; none along values that are all the same."""
    g, h = (target - p) * weight, p * (1.0 - p) * weight
    ga, gb = np.sum(g * F, axis=1), g.sum(axis=1)
    haa, hab, hbb = np.sum(h * F * F, axis=1), np.sum(h * F, axis=1), h.sum(axis=1)
    rest = haa - hab**2 / hbb  # Schur's complement: the spread of the values that still count
    da = np.where(rest > 1e-14 * haa, (ga - hab * gb / hbb) / rest, 0.0)
    db = (gb - hab * da) / hbb
    return np.nan_to_num(da, posinf=0.0, neginf=0.0), np.nan_to_num(db, posinf=0.0, neginf=0.0)
