r"""The range that a target can have, and predictions that are kept within it.

Least squares knows no range: it predicts negative counts, and scores of 101.8 out of 100. The range is a
property of the training targets alone. Of n values of one target,

    low = 0           if no value is negative                                            (1)
    high = 0          if no value is positive                                            (2)
    high = 1 or 100   if no value is negative or larger, and 10 or more values are
                      within 1 % of it                                                   (3)
    low, high = the least, the largest value, if c₁ values are exactly that, c₂ are
                      the next one inward, c₁ ≥ max(10, 0.005 n), and c₁² ≥ 10 c₂        (4)

Where the numbers of rows on the last values of a tail fall by a constant factor, c₁²/c₂ rows are
expected on the next value outward. By (4) there would be ten, and there are none: the tail ends there.
Temperatures, differences and logarithms usually have no range.

For targets within [low, high], clipping a prediction f never increases its error, since the interval is
convex:

    |min(max(f, low), high) − y| ≤ |f − y|                                               (5)

and an interval or quantile that is clipped holds y exactly if it did before.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

Clip: TypeAlias = Literal["auto"] | tuple[float | None, float | None] | None
"""The parameter: whether to notice the range of a target, or what it is."""

# Upper bounds of shares, as fractions and in per cent.
_SHARES = (1.0, 100.0)
# How near to such a bound values have to come, relative to it, to say that it is one.
_NEAR = 0.01
# Values on a bound, and values that are expected beyond it: chance leaves out ten once in 20,000 times.
_ENOUGH = 10
# The share of the values that are at least on a bound which is no natural one: few are round numbers.
_LEAST_SHARE = 0.005


class TargetRange(NamedTuple):
    """The range of one target, infinite where there is no bound, and why."""

    low: float = -np.inf
    high: float = np.inf
    reason: str = ""

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound."""
        return self.low > -np.inf or self.high < np.inf

    def words(self) -> str:
        """The range in words."""
        low = _number(self.low)
        high = _number(self.high)
        if self.high == np.inf:
            return f"at {low} or above"
        return f"at {high} or below" if self.low == -np.inf else f"within {low} to {high}"


def _number(value: float) -> str:
    """A bound as people write it."""
    return f"{value + 0.0:,.10g}"


def check_clip(clip: Any) -> None:
    """Raise for what is not a range."""
    if clip is None or (isinstance(clip, str) and clip == "auto"):
        return
    is_pair = isinstance(clip, tuple | list) and len(clip) == 2
    is_pair = is_pair and any(bound is not None for bound in clip)
    if not is_pair or not all(_is_bound(bound) for bound in clip) or not np.less(*_numbers(clip)):
        raise ValueError(
            'clip must be "auto", None, or a pair (low, high) of numbers with low < high, of which one '
            f"may be None; got {clip!r:.60}"
        )


def _is_bound(bound: Any) -> bool:
    """Whether it is a number, or None for no bound."""
    is_number = isinstance(bound, int | float | np.integer | np.floating) and not isinstance(bound, bool)
    return bound is None or (is_number and not np.isnan(bound))


def _numbers(clip: Any) -> tuple[float, float]:
    """A pair of bounds as numbers."""
    low, high = clip
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def ranges_of(clip: Clip, y: Any, *, positive: bool = False) -> list[TargetRange]:
    """The range of every target of training rows (rows,) or (rows, targets), by the parameter `clip`.

    With `positive`, predictions are positive anyway, as exponentials are.
    """
    columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1).T
    if clip is None:
        return [TargetRange()] * len(columns)
    if not isinstance(clip, str):
        return [_requested(clip, values) for values in columns]
    return [noticed_range(values, positive=positive) for values in columns]


def noticed_range(values: np.ndarray, *, positive: bool = False) -> TargetRange:
    """The range of a target, by (1) to (4), without (1) where predictions are `positive` anyway."""
    least = float(values.min())
    largest = float(values.max())
    if least == largest:
        return TargetRange()
    low = -np.inf
    high = np.inf
    reasons = []
    if _ends_at(least, values):
        low = least
        reasons.append(_count_words(values, least, "the smallest"))
    elif least >= 0.0 and not positive:
        low = 0.0
        reasons.append("no target is negative")
    if _ends_at(largest, values):
        high = largest
        reasons.append(_count_words(values, largest, "the largest"))
    elif least >= 0.0:
        high = next((bound for bound in _SHARES if _is_share(values, bound)), np.inf)
        if high < np.inf:
            reasons.append(f"{np.sum(values >= (1.0 - _NEAR) * high):,} are near {high:g}")
    elif largest <= 0.0:
        high = 0.0
        reasons.append("no target is positive")
    return TargetRange(low, high, ", ".join(reasons))


def _ends_at(bound: float, values: np.ndarray) -> bool:
    """Whether an end of the values is a bound, by (4)."""
    count = np.count_nonzero(values == bound)
    if count < max(_ENOUGH, _LEAST_SHARE * len(values)):
        return False
    inside = values[values != bound]
    nearest = inside[np.abs(inside - bound).argmin()]
    return bool(count**2 >= _ENOUGH * np.count_nonzero(values == nearest))


def _is_share(values: np.ndarray, bound: float) -> bool:
    """Whether the values, none negative, are shares of `bound`, by (3)."""
    near = np.count_nonzero(values >= (1.0 - _NEAR) * bound)
    return bool(values.max() <= bound and near >= _ENOUGH)


def _count_words(values: np.ndarray, bound: float, which: str) -> str:
    return f"{np.sum(values == bound):,} of {len(values):,} targets are {_number(bound)}, {which}"


def _requested(clip: Any, values: np.ndarray) -> TargetRange:
    """The range that was asked for, and how many training targets are outside."""
    low, high = _numbers(clip)
    outside = int(np.sum((values < low) | (values > high)))
    reason = "as requested"
    if outside:
        reason += f", although {outside:,} of {len(values):,} targets are outside"
    return TargetRange(low, high, reason)


def bounds_of(ranges: list[TargetRange]) -> np.ndarray | None:
    """The bounds of all targets (targets, 2); None where there are none."""
    if not any(target.is_bounded for target in ranges):
        return None
    return np.array([[target.low, target.high] for target in ranges]) + 0.0  # without −0


def clipped(values: Any, bounds: np.ndarray | None) -> Any:
    """Predictions (rows,) or (rows, targets), also with an axis of quantiles behind, in their range."""
    if bounds is None:
        return values
    low, high = bounds.T
    if len(bounds) == 1:
        return np.clip(values, low[0], high[0])
    shape = (len(bounds),) + (1,) * (np.ndim(values) - 2)
    return np.clip(values, low.reshape(shape), high.reshape(shape))


def clip_facts(ranges: list[TargetRange], predictions: np.ndarray | None) -> dict[str, Any] | None:
    """What is said about clipping, with the number of held-out predictions that it changes.

    `predictions` (rows, targets) are those before clipping, NaN for rows without one. The bounds of
    several targets are lists; None stands for no bound.
    """
    bounds = bounds_of(ranges)
    if bounds is None:
        return None
    words = [f"{target.words()} ({target.reason})" if target.is_bounded else "any" for target in ranges]
    sentence = words[0]
    if len(set(words)) > 1:
        sentence = "; ".join(f"target {place}: {text}" for place, text in enumerate(words, start=1))
    changed = None
    if predictions is not None:
        tested = predictions[np.isfinite(predictions).all(axis=1)]
        changed = int(np.sum(np.any(clipped(tested, bounds) != tested, axis=1)))
        sentence += f"; changes {changed:,} of {len(tested):,} held-out predictions"
    lows, highs = (
        [bound if np.isfinite(bound) else None for bound in column] for column in bounds.T.tolist()
    )
    single = len(ranges) == 1
    return {
        "low": lows[0] if single else lows,
        "high": highs[0] if single else highs,
        "changed": changed,
        "sentence": sentence,
    }
