r"""From decision values to probabilities, by calibrators fitted to held-out rows.

*Log-odds.* Least squares make f an estimate of 2p − 1, so that (1 + f)/2 is nearly a probability. From
0.9 to 0.99 its log-odds z grow as much as from 0.5 to 0.9, f by a quarter as much; beyond 0.99 z is
constant, and f alone tells estimates apart. Two numbers for all classes:

    p ∝ exp(β f + δ z),    z = log(c / (1 − c)),  c = (1 + f)/2 held within 0.01 and 0.99
    β, δ ≥ 0 = argmin Σ_i v_i log(1 + Σ_{j ≠ y_i} exp(β d_ij + δ e_ij)) + λ/2 (β² + δ²)

with d_ij as below, e_ij the same differences of z, both in units of their mean size, and λ = 0.1, which
keeps the minimum finite where every row is right. The largest f stays the most likely class. Newton's
steps within the bounds, halved while they lead upwards. A model whose classes were given weights w_c
estimates shares ∝ w_c p_c: they are divided by w_c, p ∝ exp(β f + δ z − log w), in the fit too, so that
probabilities are those of the rows as they come, and the largest f is that of the weighted classes.

*Temperature.* One number for all classes: p ∝ exp(β f), with f = (−f, f) for two classes.

    β = argmin Σ_i v_i log(1 + Σ_{j ≠ y_i} exp(β d_ij)),    d_ij = f_j(x_i) − f_{y_i}(x_i)

A convex function of β. Its derivative is brought to 0 by Newton's steps within a bracket, in units of
the typical size of d: about ten passes over the rows. The likelihood has no maximum where every row is
right: it rises with β for ever. There β is such that the losses of all rows together are ½, or half the
mean weight where that is less than 1: of n rows without an error the expected rate of errors is
(0 + ½)/(n + 1) by Jeffreys' rule. Where decision values tell nothing the best β would be 0 or less: it
is e⁻¹⁰ over the typical size, so that the classes are nearly equally likely and still in their order.

*Sigmoid.* Platt's, for each class against the rest: p = 1 / (1 + exp(−(a f + b))).

    a, b = argmin Σ_i v_i [ log(1 + exp(a f_i + b)) − T_i (a f_i + b) ]
    T = (N₁ + 1)/(N₁ + 2) for rows of the class, 1/(N₀ + 2) for others,   N the sums of their weights

The targets T keep the minimum finite also where the classes are separable. They count every row as one:
weights of a mean below 1 are brought to 1 first, or those that add up to 1 would leave T at ½. Newton's
steps, halved while they lead upwards, on values in units of their typical size and about their mean.

*Isotonic.* A rising staircase for each class against the rest, linear between its corners,

    min Σ_i v_i (1[y_i = k] − g(f_i))²   over all non-decreasing g

by scikit-learn's pool-adjacent-violators, O(n log n); constant beyond the values seen. The choice for
about a thousand rows and more: with few it overfits, and gives 0 and 1 where it saw no other.

*Cross-fitting.* The decision value of a held-out row comes from a model that was not fitted on it; were
its label among those that the calibration is fitted to, its probability would still be too good. So the
rows of a split are calibrated by the tested rows of all others:

    p(x_i) = c_f(f(x_i)),   i in split f,    c_f fitted on the tested rows that are not in split f

A row that several splits test counts once for each. Rows that are each left out alone, or all in one
split, go into five parts by their order, each of which takes the place of a split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from onefold.heldout import Splits
from onefold.machine.threads import spans

_LARGEST = 1e100  # of decision values in units of the typical one: products of two are still numbers
_STEPS = 100  # of Newton's, at most

_LEAST_SLOPE = np.exp(-10.0)
_MOST_SLOPE = np.exp(10.0)  # of β in its own units, as in scikit-learn
_CERTAIN = -np.log(np.finfo(float).eps)  # of β: the typical row is certain to the last digit
_CLOSE_SLOPE = 1e-8  # of Newton's steps for β: the last one is squared in what is left to go
_SLOPES = 1e-307, 1e307  # of β

_HALVINGS = 40
_CLOSE = 1e-12
_ROUNDING = 1e-14  # of Newton's steps for Platt's sigmoid

CERTAINTY = 0.01  # closest that an estimated probability comes to 0 or 1 before its log-odds are taken
_PENALTY = 0.1  # λ of the two slopes

_AT_ONCE = 2**20  # decision values of all models that are cross-fitted together


class Calibrator(ABC):
    """Decision values (rows, t), t = 1 for two classes, otherwise t classes, to probabilities."""

    name: ClassVar[str]
    columns: int | None = None  # of decision values that it takes; None for any number

    @classmethod
    @abstractmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        """One calibrator for each model; arguments as in `fit_calibrators`, all weights positive.

        `shift` (classes,) are the logarithms of the classes' weights, or None.
        """

    @abstractmethod
    def probabilities(self, decision: Any) -> Any:
        """Probabilities (rows, classes) of decision values (rows, t); every row sums to 1."""

    def log_probabilities(self, decision: Any) -> Any:
        """Their logarithms; −inf where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(decision))


def _one_against_rest(shares: Any) -> Any:
    """Probabilities (rows, classes) from one per column, each class against all others."""
    if shares.shape[1] == 1:
        return np.concatenate([1.0 - shares, shares], axis=1)
    # Where all are 0 every class is as likely as any other, as in scikit-learn.
    total = shares.sum(axis=1, keepdims=True)
    equal = np.full_like(shares, 1.0 / shares.shape[1])
    return np.divide(shares, total, out=equal, where=total > 0)


def is_class(index: Any, columns: int) -> Any:
    """Whether each row is of each column's class: (rows, columns); a single one is the second class."""
    return index[:, None] == (np.array([1]) if columns == 1 else np.arange(columns))


def _alike(*arrays: Any) -> bool:
    """Whether all are arrays (t,) of finite float64 numbers, with t at least 1 and the same for all."""
    known = all(isinstance(a, np.ndarray) and a.dtype == float and a.ndim == 1 for a in arrays)
    same = known and arrays[0].size > 0 and len({a.size for a in arrays}) == 1
    return same and bool(np.isfinite(arrays).all())


def _typical_size(values: Any) -> Any:
    """The median (models,) of the sizes of values (models, rows) that are not 0; 1 where all are."""
    sizes = np.abs(values)
    return np.array([float(np.median(row[row > 0])) if row.any() else 1.0 for row in sizes])


def _in_units(values: Any, unit: Any) -> Any:
    """Values (models, …) over a unit (models,) of their own, within what can be squared."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = values / unit.reshape(-1, *[1] * (values.ndim - 1))
    return np.clip(scaled, -_LARGEST, _LARGEST)


@dataclass(frozen=True)
class Temperature(Calibrator):
    """Probabilities ∝ exp(slope · f), f = (−f, f) for two classes; the largest stays the largest."""

    slope: float  # β > 0

    name = "temperature"

    def __post_init__(self) -> None:
        if not (isinstance(self.slope, float) and 0.0 < self.slope < np.inf):
            raise ValueError(f"the slope must be a positive number; got {self.slope!r}.")

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        models, rows, columns = decision.shape
        if columns == 1:
            differences = decision * np.where(index == 1, -2.0, 2.0)[None, :, None]
        else:
            own = is_class(index, columns)
            others = decision[:, ~own].reshape(models, rows, columns - 1)
            differences = others - decision[:, own][:, :, None]
        unit = _typical_size(np.abs(differences).max(axis=2))
        d = _in_units(differences, unit)
        v = weight / min(1.0, float(weight.mean()))
        right = np.all(d < 0, axis=(1, 2))
        found = np.empty(models)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            for some, function, most in ((~right, _pull, _MOST_SLOPE), (right, _below_half, _CERTAIN)):
                if some.any():
                    found[some] = _roots(partial(function, d[some], v), int(some.sum()), most)
            return [cls(float(slope)) for slope in np.clip(found / unit, *_SLOPES)]

    def probabilities(self, decision: Any) -> Any:
        return np.exp(self.log_probabilities(decision))

    def log_probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            if decision.shape[1] == 1:
                x = 2.0 * self.slope * decision
                return -np.logaddexp(0.0, np.concatenate([x, -x], axis=1))
            x = self.slope * (decision - decision.max(axis=1, keepdims=True))
            return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _pull(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """Log ratio of the two parts of the loss's gradient in β (models,), and the derivative of that.

    The classes that are likelier than the right one, Σ v p d⁺, make β smaller, all others larger: the
    difference is the derivative of the loss. It falls off exponentially, its logarithms are nearly
    straight lines.
    """
    p, _ = _shares(beta[:, None, None] * d)
    p *= d
    mean = p.sum(axis=2)
    down = np.maximum(p, 0.0)
    moved = d - mean[:, :, None]
    P = down.sum(axis=2) @ v
    N = (down - p).sum(axis=2) @ v
    dP = np.einsum("mij,mij,i->m", down, moved, v)
    dN = dP - np.einsum("mij,mij,i->m", p, moved, v)
    return np.log(P / N), dP / P - dN / N


def _below_half(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """How far the loss is below ½, in logarithms, and the derivative of that."""
    p, losses = _shares(beta[:, None, None] * d)
    total = losses @ v
    return np.log(0.5 / total), -(np.sum(p * d, axis=2) @ v) / total


def _shares(x: Any) -> tuple[Any, Any]:
    """Probabilities (models, rows, other classes) ∝ exp(x) of all but the right class, and losses."""
    top = np.maximum(x.max(axis=2), 0.0)
    p = np.exp(x - top[:, :, None])
    total = p.sum(axis=2)
    p /= (total + np.exp(-top))[:, :, None]
    return p, np.where(top > 0, top + np.log(total + np.exp(-top)), np.log1p(total))


def _roots(function: Callable[[Any], tuple[Any, Any]], count: int, most: float) -> Any:
    """Where increasing functions are 0, between the least slope and `most`; or the nearer end."""
    low = np.full(count, _LEAST_SLOPE)
    high = np.full(count, float(most))
    below = ~(function(low)[0] < 0)
    above = function(high)[0] <= 0  # NaN: both parts of the gradient are 0
    x = np.ones(count)
    for _ in range(_STEPS):
        value, slope = function(x)
        low = np.where(value <= 0, x, low)
        high = np.where(value > 0, x, high)
        step = x - value / slope
        step = np.where((low <= step) & (step <= high), step, np.sqrt(low * high))
        done = np.abs(step - x) <= _CLOSE_SLOPE * x
        x = step
        if np.all(done | below | above):
            break
    return np.where(below, _LEAST_SLOPE, np.where(above, most, x))


@dataclass(frozen=True, eq=False)
class LogOdds(Calibrator):
    """Probabilities ∝ exp(slope · f + odds · z(f) − shift); without it the largest stays the largest."""

    slope: float  # β ≥ 0
    odds: float  # δ ≥ 0
    shift: Any = None  # (classes,): log w; None for classes of the same weight

    name = "log_odds"

    def __post_init__(self) -> None:
        both = (self.slope, self.odds)
        if not all(isinstance(one, float) and 0.0 <= one < np.inf for one in both) or not any(both):
            raise ValueError(f"slope and odds must be at least 0, and one of them greater; got {both}.")
        if self.shift is not None and (not _alike(self.shift) or self.shift.size < 2):
            raise ValueError("shift must be None, or finite numbers for at least two classes.")
        if self.shift is not None:
            object.__setattr__(self, "columns", 1 if self.shift.size == 2 else self.shift.size)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        models, rows, columns = decision.shape
        values = np.stack([decision, _log_odds(decision)])
        size = np.abs(values)
        share = weight / weight.sum() / columns
        # In units of the largest, sums do not overflow.
        largest = np.maximum(size.max(axis=(2, 3)), np.finfo(float).tiny)
        units = np.einsum("amic,i->am", size / largest[:, :, None, None], share) * largest
        units[units == 0] = 1.0
        values = np.stack([_in_units(one, unit) for one, unit in zip(values, units)], axis=1)
        if columns == 1:
            differences = values * np.where(index == 1, -2.0, 2.0)[:, None]
        else:
            own = is_class(index, columns)
            others = values[:, :, ~own].reshape(models, 2, rows, columns - 1)
            differences = others - values[:, :, own][..., None]
        known = np.zeros((rows, max(1, columns - 1)))
        if shift is not None:  # of every other class, less that of the row's own
            others = ~is_class(index, columns) if columns > 1 else (index == np.array([[1], [0]])).T
            of_others = np.broadcast_to(shift, (rows, shift.size))[others].reshape(rows, -1)
            known = shift[index][:, None] - of_others
        with np.errstate(over="ignore", under="ignore"):
            scaled = weight / min(1.0, float(weight.mean()))
            found = _two_slopes(differences, scaled, known) / units.T
        slopes = np.clip(found[:, 0], *_SLOPES)
        return [cls(float(slope), float(odds), shift) for slope, odds in zip(slopes, found[:, 1])]

    def probabilities(self, decision: Any) -> Any:
        return np.exp(self.log_probabilities(decision))

    def log_probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            x = np.clip(self.slope * decision, -_LARGEST, _LARGEST) + self.odds * _log_odds(decision)
            if self.shift is not None:
                x = x - (np.diff(self.shift) / 2 if x.shape[1] == 1 else self.shift)
            return _log_softmax(x)


def _log_odds(decision: Any) -> Any:
    """Of the probability that a decision value is an estimate of, which has its limits."""
    share = np.clip((1.0 + decision) / 2, CERTAINTY, 1.0 - CERTAINTY)
    return np.log(share / (1.0 - share))


def _log_softmax(x: Any) -> Any:
    """Logarithms of probabilities ∝ exp(x), x = (−x, x) for a single column."""
    if x.shape[1] == 1:
        return -np.logaddexp(0.0, np.concatenate([2.0 * x, -2.0 * x], axis=1))
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _two_slopes(d: Any, v: Any, known: Any) -> Any:
    """The minimum (models, 2) over β ≥ e⁻¹⁰, δ ≥ 0 for differences (models, 2, rows, other classes).

    `known` (rows, other classes) is added to what they give.
    """

    def loss(t: Any) -> tuple[Any, Any]:
        p, losses = _shares(np.einsum("ma,maij->mij", t, d) + known)
        return losses @ v + _PENALTY / 2 * np.sum(t**2, axis=1), p

    least = np.array([_LEAST_SLOPE, 0.0])
    t = np.full((len(d), 2), 0.5)
    now, p = loss(t)
    for _ in range(_STEPS):
        means = np.einsum("mij,maij->mai", p, d)
        slope = means @ v + _PENALTY * t
        curve = np.einsum("mij,maij,mbij,i->mab", p, d, d, v, optimize=True)
        curve -= np.einsum("mai,mbi,i->mab", means, means, v) - _PENALTY * np.eye(2)
        held = (t <= least) & (slope > 0)  # at its bound, which it would leave
        curve[held] = 0.0
        curve += held[:, :, None] * np.eye(2)
        step = np.linalg.solve(curve, np.where(held, 0.0, slope)[..., None])[..., 0]
        share = np.ones(len(d))
        for _ in range(_HALVINGS):
            then = np.maximum(t - share[:, None] * step, least)
            value, p = loss(then)
            worse = ~(value <= now + _ROUNDING * np.abs(now))
            if not worse.any():
                break
            share = np.where(worse, share / 2, share)
        moved = np.abs(then - t).max(axis=1)
        t = then
        now = value
        if np.all(moved <= _CLOSE_SLOPE * (1.0 + t.max(axis=1))):
            break
    return t


@dataclass(frozen=True, eq=False)
class Sigmoid(Calibrator):
    """A sigmoid for each column, divided by their sum for more than two classes."""

    slope: Any  # a (t,)
    intercept: Any  # b (t,)

    name = "sigmoid"

    def __post_init__(self) -> None:
        if not _alike(self.slope, self.intercept) or self.slope.size == 2:
            raise ValueError(
                "slope and intercept must be finite and of the same length, 1 or at least 3."
            )
        object.__setattr__(self, "columns", self.slope.size)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        positive = is_class(index, decision.shape[2])
        found = [_platt(decision[:, :, t], positive[:, t], weight) for t in range(decision.shape[2])]
        slopes, intercepts = (np.stack(numbers, axis=1) for numbers in zip(*found))
        return [cls(slope, intercept) for slope, intercept in zip(slopes, intercepts)]

    def probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return _one_against_rest(expit(self.slope * decision + self.intercept))


def _platt(values: Any, positive: Any, weight: Any) -> tuple[Any, Any]:
    """Slope and intercept (models,) of values (models, rows) for rows that are of a class or not."""
    weight = weight / min(1.0, float(weight.mean()))
    many = float(weight[~positive].sum())
    few = float(weight[positive].sum())
    target = np.where(positive, (few + 1.0) / (few + 2.0), 1.0 / (many + 2.0))
    F = _in_units(values, unit := _typical_size(values))
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
            p = expit(a[:, None] * F + b[:, None])
            g = (target - p) * weight
            h = p * (1.0 - p) * weight
            ga = np.sum(g * F, axis=1)
            gb = g.sum(axis=1)
            haa = np.sum(h * F * F, axis=1)
            hab = np.sum(h * F, axis=1)
            hbb = h.sum(axis=1)
            rest = haa - hab**2 / hbb  # Schur's complement: the spread of the values that still count
            da = np.where(rest > 1e-14 * haa, (ga - hab * gb / hbb) / rest, 0.0)
            db = (gb - hab * da) / hbb
            da, db = (np.nan_to_num(step, posinf=0.0, neginf=0.0) for step in (da, db))
            share = np.ones(len(F))
            for _ in range(_HALVINGS):
                then = loss(a + share * da, b + share * db)
                worse = ~(then <= now + _ROUNDING * np.abs(now))
                if not worse.any():
                    break
                share = np.where(worse, share / 2, share)
            share = np.where(worse, 0.0, share)
            a = a + share * da
            b = b + share * db
            now = np.where(worse, now, then)
            if np.all(share * (np.abs(da) + np.abs(db)) <= _CLOSE * (1.0 + np.abs(a) + np.abs(b))):
                break
        return a / unit, b - a * middle


@dataclass(frozen=True, eq=False)
class Isotonic(Calibrator):
    """A staircase for each column, divided by their sum for more than two classes."""

    inputs: tuple[Any, ...]  # the corners of each column: increasing decision values,
    outputs: tuple[Any, ...]  # and probabilities that do not fall

    name = "isotonic"

    def __repr__(self) -> str:
        return f"Isotonic(corners={[len(x) for x in self.inputs]})"

    def __post_init__(self) -> None:
        known = isinstance(self.inputs, tuple) and isinstance(self.outputs, tuple)
        if not known or len(self.inputs) != len(self.outputs) or len(self.inputs) in (0, 2):
            raise ValueError("inputs and outputs must be tuples of the same length, 1 or at least 3.")
        for x, p in zip(self.inputs, self.outputs):
            if not _alike(x, p):
                raise ValueError(
                    "inputs and outputs must be arrays of finite numbers of the same length."
                )
            if not (np.all(np.diff(x) > 0) and np.all(np.diff(p) >= 0) and p[0] >= 0 and p[-1] <= 1):
                raise ValueError(
                    "inputs must increase, and outputs must not decrease and lie between 0 and 1."
                )
        object.__setattr__(self, "columns", len(self.inputs))

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        positive = is_class(index, decision.shape[2]).astype(np.float64)
        columns = [[_staircase(*c, weight) for c in zip(one.T, positive.T)] for one in decision]
        return [cls(*zip(*stairs)) for stairs in columns]

    def probabilities(self, decision: Any) -> Any:
        corners = zip(decision.T, self.inputs, self.outputs)
        return _one_against_rest(np.stack([np.interp(*one) for one in corners], axis=1))


def _staircase(values: Any, positive: Any, weight: Any) -> tuple[Any, Any]:
    """The corners of one column; in units of a power of 2: scikit-learn joins values within 1e-15."""
    unit = np.exp2(np.round(np.log2(_typical_size(values[None]))))
    scaled = _in_units(values[None], unit)[0]
    stairs = IsotonicRegression(out_of_bounds="clip").fit(scaled, positive, sample_weight=weight)
    return stairs.X_thresholds_ * unit[0], np.clip(stairs.y_thresholds_, 0.0, 1.0)


CALIBRATIONS: dict[str, type[Calibrator]] = {
    c.name: c for c in (LogOdds, Temperature, Sigmoid, Isotonic)
}


def check_calibration(name: Any) -> None:
    """Raise unless `name` is that of a calibration."""
    if not (isinstance(name, str) and name in CALIBRATIONS):
        names = ", ".join(f'"{known}"' for known in CALIBRATIONS)
        raise ValueError(f"calibration must be {names}, or None for no probabilities; got {name!r:.60}.")


def fit_calibrator(
    name: str, decision: Any, index: Any, weight: Any = None, class_weight: Any = None
) -> Calibrator:
    """The calibrator of one model's decision values (rows, t), see `fit_calibrators`."""
    return fit_calibrators(name, np.asarray(decision)[None], index, weight, class_weight)[0]


def fit_calibrators(
    name: str, decision: Any, index: Any, weight: Any = None, class_weight: Any = None
) -> list[Calibrator]:
    """A calibrator for each model of (models, rows, t) decision values, by its rows' class numbers.

    `class_weight` (classes,) are the weights that the classes were trained with, and rows do not have.
    """
    check_calibration(name)
    decision = np.asarray(decision, dtype=np.float64)
    weight = np.ones(index.size) if weight is None else np.asarray(weight, dtype=np.float64)
    kept = weight > 0
    if not kept.all():
        decision = decision[:, kept]
        index = index[kept]
        weight = weight[kept]
    if not index.size or not np.isfinite(decision).all():
        raise ValueError(
            "a calibration needs finite decision values of at least one row of positive weight."
        )
    shift = None
    if class_weight is not None:  # a class of weight 0 has no rows
        given = np.asarray(class_weight, dtype=np.float64)
        logarithms = np.log(np.where(given > 0, given, 1.0))
        shift = logarithms if np.ptp(given[given > 0]) > 0 else None
    return list(CALIBRATIONS[name].fitted(decision, index, weight, shift))


def calibration_parts(splits: Splits) -> list[tuple[Any, Any]]:
    """Positions among the N tested rows, split by split, and a mask (N,) of what calibrates them."""
    rows = np.concatenate(splits.tests)

    def others(part: Any) -> Any:
        outside = np.ones(splits.n, dtype=bool)
        outside[rows[part]] = False
        return outside[rows]

    sizes = [rows.size] if splits.leave_one_out else [len(test) for test in splits.tests]
    parts = []
    for own in np.split(np.arange(rows.size), np.cumsum(sizes)[:-1]):
        alone = not others(own).any()
        parts += [own[i::5] for i in range(5) if own[i::5].size] if alone else [own]
    found = [(part, others(part)) for part in parts]
    if not all(keep.any() for _, keep in found):
        raise ValueError(
            "probabilities of held-out rows are calibrated by other held-out rows, and there is only "
            "one; use splits with more test rows."
        )
    return found


def crossfitted(
    name: str,
    decision: Any,
    index: Any,
    weight: Any | None,
    splits: Splits,
    class_weight: Any = None,
) -> Any:
    """Probabilities (models, N, classes) of decision values (models, N, t) of the N tested rows."""
    models, count, columns = decision.shape
    rows = np.concatenate(splits.tests)
    index = index[rows]
    weight = None if weight is None else weight[rows]
    found = np.empty((models, count, max(2, columns)))
    parts = calibration_parts(splits)
    for some in spans(models, max(1, _AT_ONCE // (count * columns))):
        for part, keep in parts:
            own = None if weight is None else weight[keep]
            given = index[keep], own, class_weight
            calibrators = fit_calibrators(name, decision[some][:, keep], *given)
            for number, calibrator in zip(range(some.start, some.stop), calibrators):
                found[number, part] = calibrator.probabilities(decision[number, part])
    return found
