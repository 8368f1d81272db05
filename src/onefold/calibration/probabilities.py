r"""Calibrators: decision values to probabilities, fitted to held-out rows.

**(1) Log-odds.** Least squares make f an estimate of 2p − 1, so that (1 + f)/2 is nearly a probability.
From 0.9 to 0.99 its log-odds z grow as much as from 0.5 to 0.9, f by a quarter as much; beyond 0.99 z is
constant, and f alone tells estimates apart. Two numbers for all classes:

    p ∝ exp(β f + δ z),    z = log(c / (1 − c)),  c = (1 + f)/2 held within 0.01 and 0.99
    β, δ ≥ 0 = argmin Σ_i v_i log(1 + Σ_{j ≠ y_i} exp(β d_ij + δ e_ij)) + λ/2 (β² + δ²)

with d_ij as in (2), e_ij the same differences of z, both in units of their mean size, and λ = 0.1, which
keeps the minimum finite where every row is right. The largest f stays the most likely class. The
minimum is found by damped Newton steps within the bounds. A model whose classes were given weights w_c
estimates shares ∝ w_c p_c: they are divided by w_c, p ∝ exp(β f + δ z − log w), in the fit too, so that
probabilities are those of the rows as they come, and the largest f is that of the weighted classes.

**(2) Temperature.** One number for all classes: p ∝ exp(β f), with f = (−f, f) for two classes.

    β = argmin Σ_i v_i log(1 + Σ_{j ≠ y_i} exp(β d_ij)),    d_ij = f_j(x_i) − f_{y_i}(x_i)

A convex function of β. Its derivative is brought to 0 by Newton's steps within a bracket, in units of
the typical size of d: about ten passes over the rows. The likelihood has no maximum where every row is
right: it rises with β for ever. There β is such that the losses of all rows together are ½, or half the
mean weight where that is less than 1: of n rows without an error the expected rate of errors is
(0 + ½)/(n + 1) by Jeffreys' rule. Where decision values tell nothing the best β would be 0 or less: it
is e⁻¹⁰ over the typical size, so that the classes are nearly equally likely and still in their order.

**(3) Sigmoid.** Platt's, for each class against the rest: p = 1 / (1 + exp(−(a f + b))).

    a, b = argmin Σ_i v_i [ log(1 + exp(a f_i + b)) − T_i (a f_i + b) ]
    T = (N₁ + 1)/(N₁ + 2) for rows of the class, 1/(N₀ + 2) for others,   N the sums of their weights

The targets T keep the minimum finite also where the classes are separable. They count every row as one:
weights of a mean below 1 are brought to 1 first, or those that add up to 1 would leave T at ½. The
minimum is found by damped Newton steps, on values in units of their typical size and about their mean.

**(4) Isotonic.** A rising staircase for each class against the rest, linear between its corners,

    min Σ_i v_i (1[y_i = k] − g(f_i))²   over all non-decreasing g

by scikit-learn's pool-adjacent-violators, O(n log n); constant beyond the values seen. The choice for
about a thousand rows and more: with few it overfits, and gives 0 and 1 where it saw no other.

**(5) Cross-fitting.** The decision value of a held-out row comes from a model that was not fitted on it;
were its label among those that the calibration is fitted to, its probability would still be too good. So
the rows of a split are calibrated by the tested rows of all others:

    p(x_i) = c_f(f(x_i)),   i in split f,    c_f fitted on the tested rows that are not in split f

A row that several splits test counts once for each. Rows that are each left out alone, or all in one
split, go into five parts by their order, each of which takes the place of a split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from onefold.heldout import Splits
from onefold.machine.threads import spans
from onefold.rows import interleaved_fifths

# Largest decision value in units of the typical one: products of two of these are still finite.
_LARGEST = 1e100

# Newton steps, at most; about ten are usual.
_STEPS = 100

# How often a Newton step is halved, at most: 2⁻⁴⁰ of a step changes a float64 hardly any more.
_HALVINGS = 40

# By how much a step may raise the loss and still count as no rise, as a share of the loss: its rounding.
_ROUNDING = 1e-14

# Relative length of the last step for β and δ; the error after it is of the order of its square.
_CLOSE_SLOPE = 1e-8

# Relative length of the last step for Platt's a and b, which agree with scikit-learn to this.
_CLOSE_SIGMOID = 1e-12

# β in units of the typical difference: the range of scikit-learn's temperature scaling.
_LEAST_SLOPE = np.exp(-10.0)
_MOST_SLOPE = np.exp(10.0)

# β in the same units at which the typical row is certain to the last digit of a float64.
_CERTAIN = -np.log(np.finfo(float).eps)

# β in units of the decision values: within the range of float64.
_SLOPES = 1e-307, 1e307

# Share of the spread of decision values that rounding leaves of it, where no row counts any more.
_NO_SPREAD = 1e-14

# Nearest that an estimated probability comes to 0 or 1 before its log-odds are taken.
CERTAINTY = 0.01

# λ of the log-odds (1).
_PENALTY = 0.1

# Decision values of all models that are calibrated together: what they take stays within some 100 MiB.
_AT_ONCE = 2**20


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


def _same_length(*arrays: Any) -> bool:
    """Whether all are arrays (t,) of finite float64 numbers, with t at least 1 and the same for all."""
    vectors = all(isinstance(a, np.ndarray) and a.dtype == float and a.ndim == 1 for a in arrays)
    same = vectors and arrays[0].size > 0 and len({a.size for a in arrays}) == 1
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


def _at_least_one(weight: Any) -> Any:
    """Weights (rows,), brought to the mean 1 where theirs is smaller."""
    return weight / min(1.0, float(weight.mean()))


def _log_softmax(x: Any) -> Any:
    """Logarithms of probabilities ∝ exp(x) (rows, classes), x = (−x, x) for a single column."""
    if x.shape[1] == 1:
        return -np.logaddexp(0.0, np.concatenate([2.0 * x, -2.0 * x], axis=1))
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _differences(values: Any, index: Any) -> Any:
    """d_ij: values (…, rows, t) of the other classes less that of the right one, (…, rows, others)."""
    columns = values.shape[-1]
    if columns == 1:
        return values * np.where(index == 1, -2.0, 2.0)[:, None]
    right = is_class(index, columns)
    wrong = values[..., ~right].reshape(*values.shape[:-1], columns - 1)
    return wrong - values[..., right][..., None]


def _other_shares(x: Any) -> tuple[Any, Any]:
    """Probabilities ∝ exp(x) and log losses of x (models, rows, other classes), 0 for the right one."""
    top = np.maximum(x.max(axis=2), 0.0)
    p = np.exp(x - top[:, :, None])
    total = p.sum(axis=2)
    p /= (total + np.exp(-top))[:, :, None]
    return p, np.where(top > 0, top + np.log(total + np.exp(-top)), np.log1p(total))


# -- Newton's method -----------------------------------------------------------------------------------


def damped_newton(
    loss: Callable[[Any], tuple[Any, Any]],
    step: Callable[[Any, Any], Any],
    start: Any,
    *,
    least: Any = -np.inf,
    tolerance: float,
    norm: Literal["sum", "max"],
) -> Any:
    """The minima (models, k) of convex functions, one for each model, over parameters ≥ `least`.

    ``loss(t)`` gives their values (models,) and what ``step(t, terms)`` needs for Newton's steps. A step
    is halved while it leads upwards. Steps end where all are at most `tolerance` times 1 + ‖t‖.
    """
    size = np.sum if norm == "sum" else np.max
    t = start
    value, terms = loss(t)
    for _ in range(_STEPS):
        direction = step(t, terms)
        share = np.ones(len(t))
        for _ in range(_HALVINGS):
            tried = np.maximum(t + share[:, None] * direction, least)
            tried_value, terms = loss(tried)
            worse = ~(tried_value <= value + _ROUNDING * np.abs(value))
            if not worse.any():
                break
            share = np.where(worse, share / 2, share)
        if worse.any():  # these are at their minimum up to rounding
            tried = np.where(worse[:, None], t, tried)
            tried_value, terms = loss(tried)
        moved = size(np.abs(tried - t), axis=1)
        t = tried
        value = tried_value
        if np.all(moved <= tolerance * (1.0 + size(np.abs(t), axis=1))):
            break
    return t


def bracketed_newton(function: Callable[[Any], tuple[Any, Any]], count: int, most: float) -> Any:
    """Where increasing functions are 0, between the least slope and `most`; or the nearer end.

    ``function(x)`` gives values and derivatives (count,). Where Newton's step leaves the bracket, the
    geometric mean of its ends takes its place.
    """
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


# -- the calibrators -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LogOdds(Calibrator):
    """Probabilities ∝ exp(slope · f + odds · z(f) − shift); without it the largest stays the largest."""

    slope: float  # β ≥ 0
    odds: float  # δ ≥ 0
    shift: Any = None  # (classes,): log w; None for classes of the same weight

    name = "log_odds"

    def __post_init__(self) -> None:
        both = (self.slope, self.odds)
        numbers = all(isinstance(number, float) and 0.0 <= number < np.inf for number in both)
        if not numbers or not any(both):
            raise ValueError(f"slope and odds must be at least 0, and one of them greater; got {both}.")
        if self.shift is not None and (not _same_length(self.shift) or self.shift.size < 2):
            raise ValueError("shift must be None, or finite numbers for at least two classes.")
        if self.shift is not None:
            object.__setattr__(self, "columns", 1 if self.shift.size == 2 else self.shift.size)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        rows, columns = decision.shape[1:]
        values = np.stack([decision, _log_odds(decision)])
        size = np.abs(values)
        share = weight / weight.sum() / columns
        # In units of the largest, sums do not overflow.
        largest = np.maximum(size.max(axis=(2, 3)), np.finfo(float).tiny)
        units = np.einsum("amic,i->am", size / largest[:, :, None, None], share) * largest
        units[units == 0] = 1.0
        values = np.stack([_in_units(v, unit) for v, unit in zip(values, units)], axis=1)
        differences = _differences(values, index)
        offsets = np.zeros((rows, max(1, columns - 1)))
        if shift is not None:  # that of the row's own class, less those of all others
            if columns > 1:
                other_classes = ~is_class(index, columns)
            else:
                other_classes = (index == np.array([[1], [0]])).T
            of_others = np.broadcast_to(shift, (rows, shift.size))[other_classes].reshape(rows, -1)
            offsets = shift[index][:, None] - of_others
        with np.errstate(over="ignore", under="ignore"):
            slopes = _two_slopes(differences, _at_least_one(weight), offsets) / units.T
        betas = np.clip(slopes[:, 0], *_SLOPES)
        return [cls(float(beta), float(delta), shift) for beta, delta in zip(betas, slopes[:, 1])]

    def probabilities(self, decision: Any) -> Any:
        return np.exp(self.log_probabilities(decision))

    def log_probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            x = np.clip(self.slope * decision, -_LARGEST, _LARGEST) + self.odds * _log_odds(decision)
            if self.shift is not None:
                x = x - (np.diff(self.shift) / 2 if x.shape[1] == 1 else self.shift)
            return _log_softmax(x)


def _log_odds(decision: Any) -> Any:
    """z of (1): log-odds of the probability that a decision value estimates, which has its limits."""
    share = np.clip((1.0 + decision) / 2, CERTAINTY, 1.0 - CERTAINTY)
    return np.log(share / (1.0 - share))


def _two_slopes(d: Any, v: Any, offsets: Any) -> Any:
    """The minimum (models, 2) of (1) over β ≥ e⁻¹⁰, δ ≥ 0, d and e in `d` (models, 2, rows, others).

    `offsets` (rows, others) are added to β d + δ e.
    """
    least = np.array([_LEAST_SLOPE, 0.0])

    def loss(t: Any) -> tuple[Any, Any]:
        p, losses = _other_shares(np.einsum("ma,maij->mij", t, d) + offsets)
        return losses @ v + _PENALTY / 2 * np.sum(t**2, axis=1), p

    def step(t: Any, p: Any) -> Any:
        means = np.einsum("mij,maij->mai", p, d)
        gradient = means @ v + _PENALTY * t
        hessian = np.einsum("mij,maij,mbij,i->mab", p, d, d, v, optimize=True)
        hessian -= np.einsum("mai,mbi,i->mab", means, means, v) - _PENALTY * np.eye(2)
        bound = (t <= least) & (gradient > 0)  # parameters that a step would take below their bound
        hessian[bound] = 0.0
        hessian += bound[:, :, None] * np.eye(2)
        return -np.linalg.solve(hessian, np.where(bound, 0.0, gradient)[..., None])[..., 0]

    start = np.full((len(d), 2), 0.5)
    return damped_newton(loss, step, start, least=least, tolerance=_CLOSE_SLOPE, norm="max")


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
        differences = _differences(decision, index)
        unit = _typical_size(np.abs(differences).max(axis=2))
        d = _in_units(differences, unit)
        v = _at_least_one(weight)
        no_errors = np.all(d < 0, axis=(1, 2))
        equations = ((~no_errors, _gradient_ratio, _MOST_SLOPE), (no_errors, _below_half, _CERTAIN))
        slopes = np.empty(len(decision))
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            for models, equation, most in equations:
                if models.any():
                    function = partial(equation, d[models], v)
                    slopes[models] = bracketed_newton(function, int(models.sum()), most)
            return [cls(float(slope)) for slope in np.clip(slopes / unit, *_SLOPES)]

    def probabilities(self, decision: Any) -> Any:
        return np.exp(self.log_probabilities(decision))

    def log_probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            if decision.shape[1] > 1:  # no value above 0: products with a large slope may be −inf only
                decision = decision - decision.max(axis=1, keepdims=True)
            return _log_softmax(self.slope * decision)


def _gradient_ratio(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """Logarithm of P / N, the two parts of the gradient P − N of (2), and its derivative: (models,).

    P = Σ v p d⁺ is the part of the classes that are likelier than the right one, N that of all others.
    Both fall off exponentially, so that their logarithms are nearly straight lines.
    """
    p, _ = _other_shares(beta[:, None, None] * d)
    p *= d
    mean = p.sum(axis=2)
    positive = np.maximum(p, 0.0)
    deviation = d - mean[:, :, None]
    P = positive.sum(axis=2) @ v
    N = (positive - p).sum(axis=2) @ v
    dP = np.einsum("mij,mij,i->m", positive, deviation, v)
    dN = dP - np.einsum("mij,mij,i->m", p, deviation, v)
    return np.log(P / N), dP / P - dN / N


def _below_half(d: Any, v: Any, beta: Any) -> tuple[Any, Any]:
    """How far the loss of (2) is below ½, in logarithms, and the derivative of that: (models,)."""
    p, losses = _other_shares(beta[:, None, None] * d)
    total = losses @ v
    return np.log(0.5 / total), -(np.sum(p * d, axis=2) @ v) / total


@dataclass(frozen=True, eq=False)
class Sigmoid(Calibrator):
    """A sigmoid for each column, divided by their sum for more than two classes."""

    slope: Any  # a (t,)
    intercept: Any  # b (t,)

    name = "sigmoid"

    def __post_init__(self) -> None:
        if not _same_length(self.slope, self.intercept) or self.slope.size == 2:
            raise ValueError(
                "slope and intercept must be finite and of the same length, 1 or at least 3."
            )
        object.__setattr__(self, "columns", self.slope.size)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any, shift: Any) -> list[Self]:
        columns = decision.shape[2]
        positive = is_class(index, columns)
        pairs = [_platt(decision[:, :, t], positive[:, t], weight) for t in range(columns)]
        slopes, intercepts = (np.stack(numbers, axis=1) for numbers in zip(*pairs))
        return [cls(slope, intercept) for slope, intercept in zip(slopes, intercepts)]

    def probabilities(self, decision: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return _one_against_rest(expit(self.slope * decision + self.intercept))


def _platt(values: Any, positive: Any, weight: Any) -> tuple[Any, Any]:
    """a and b (models,) of (3) for values (models, rows) of rows that are of the class or not."""
    weight = _at_least_one(weight)
    of_class = float(weight[positive].sum())
    of_others = float(weight[~positive].sum())
    target = np.where(positive, (of_class + 1.0) / (of_class + 2.0), 1.0 / (of_others + 2.0))
    unit = _typical_size(values)
    F = _in_units(values, unit)
    middle = F @ (weight / weight.sum())
    F = F - middle[:, None]

    def loss(t: Any) -> tuple[Any, Any]:
        x = t[:, :1] * F + t[:, 1:]
        return (np.logaddexp(0.0, x) - target * x) @ weight, x

    def step(_: Any, x: Any) -> Any:
        p = expit(x)
        g = (target - p) * weight
        h = p * (1.0 - p) * weight
        ga = np.sum(g * F, axis=1)
        gb = g.sum(axis=1)
        haa = np.sum(h * F * F, axis=1)
        hab = np.sum(h * F, axis=1)
        hbb = h.sum(axis=1)
        complement = haa - hab**2 / hbb  # Schur's: the spread of the values that still count
        da = np.where(complement > _NO_SPREAD * haa, (ga - hab * gb / hbb) / complement, 0.0)
        db = (gb - hab * da) / hbb
        return np.nan_to_num(np.stack([da, db], axis=1), posinf=0.0, neginf=0.0)

    start = np.zeros((len(F), 2))
    start[:, 1] = np.log((of_class + 1.0) / (of_others + 1.0))
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        t = damped_newton(loss, step, start, tolerance=_CLOSE_SIGMOID, norm="sum")
        a = t[:, 0]
        return a / unit, t[:, 1] - a * middle


@dataclass(frozen=True, eq=False)
class Isotonic(Calibrator):
    """A staircase for each column, divided by their sum for more than two classes."""

    inputs: tuple[Any, ...]  # increasing decision values at the corners of each column
    outputs: tuple[Any, ...]  # probabilities there, which do not fall

    name = "isotonic"

    def __repr__(self) -> str:
        return f"Isotonic(corners={[len(x) for x in self.inputs]})"

    def __post_init__(self) -> None:
        tuples = isinstance(self.inputs, tuple) and isinstance(self.outputs, tuple)
        if not tuples or len(self.inputs) != len(self.outputs) or len(self.inputs) in (0, 2):
            raise ValueError("inputs and outputs must be tuples of the same length, 1 or at least 3.")
        for x, p in zip(self.inputs, self.outputs):
            if not _same_length(x, p):
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
        models = [
            [_staircase(column, rows, weight) for column, rows in zip(values.T, positive.T)]
            for values in decision
        ]
        return [cls(*zip(*stairs)) for stairs in models]

    def probabilities(self, decision: Any) -> Any:
        columns = zip(decision.T, self.inputs, self.outputs)
        shares = [np.interp(values, inputs, outputs) for values, inputs, outputs in columns]
        return _one_against_rest(np.stack(shares, axis=1))


def _staircase(values: Any, positive: Any, weight: Any) -> tuple[Any, Any]:
    """The corners of one column; in units of a power of 2: scikit-learn joins values within 1e-15."""
    unit = np.exp2(np.round(np.log2(_typical_size(values[None]))))
    scaled = _in_units(values[None], unit)[0]
    stairs = IsotonicRegression(out_of_bounds="clip").fit(scaled, positive, sample_weight=weight)
    return stairs.X_thresholds_ * unit[0], np.clip(stairs.y_thresholds_, 0.0, 1.0)


CALIBRATIONS: dict[str, type[Calibrator]] = {
    kind.name: kind for kind in (LogOdds, Temperature, Sigmoid, Isotonic)
}


def check_calibration(name: Any) -> None:
    """Raise unless `name` is that of a calibration."""
    if not (isinstance(name, str) and name in CALIBRATIONS):
        names = ", ".join(f'"{calibration}"' for calibration in CALIBRATIONS)
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
        of_class = np.asarray(class_weight, dtype=np.float64)
        logarithms = np.log(np.where(of_class > 0, of_class, 1.0))
        shift = logarithms if np.ptp(of_class[of_class > 0]) > 0 else None
    return list(CALIBRATIONS[name].fitted(decision, index, weight, shift))


# -- cross-fitting -------------------------------------------------------------------------------------


def calibration_parts(splits: Splits) -> list[tuple[Any, Any]]:
    """Positions among the N tested rows, split by split, and a mask (N,) of what calibrates them."""
    rows = np.concatenate(splits.tests)

    def calibrating(part: Any) -> Any:
        """Which of the tested rows are outside a part."""
        outside = np.ones(splits.n, dtype=bool)
        outside[rows[part]] = False
        return outside[rows]

    sizes = [rows.size] if splits.leave_one_out else [len(test) for test in splits.tests]
    parts = []
    for tested in np.split(np.arange(rows.size), np.cumsum(sizes)[:-1]):
        parts += [tested] if calibrating(tested).any() else interleaved_fifths(tested)
    pairs = [(part, calibrating(part)) for part in parts]
    if not all(keep.any() for _, keep in pairs):
        raise ValueError(
            "probabilities of held-out rows are calibrated by other held-out rows, and there is only "
            "one; use splits with more test rows."
        )
    return pairs


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
    probabilities = np.empty((models, count, max(2, columns)))
    parts = calibration_parts(splits)
    for span in spans(models, max(1, _AT_ONCE // (count * columns))):
        for part, keep in parts:
            weight_kept = None if weight is None else weight[keep]
            calibrators = fit_calibrators(
                name, decision[span][:, keep], index[keep], weight_kept, class_weight
            )
            for number, calibrator in zip(range(span.start, span.stop), calibrators):
                probabilities[number, part] = calibrator.probabilities(decision[number, part])
    return probabilities
