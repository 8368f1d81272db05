r"""The span rule: leave-one-out errors through the geometry of the rows.

The span S_i of row i is its distance, in the space of K̃ = K + μV⁻¹, from the affine hull of all others
(from their linear hull without an intercept). With M the bordered matrix of K̃ and α = R_b y / μ,

    S_i² = 1 / (M⁻¹)_ii = μ / (R_b)_ii    ⇒    α_i S_i² = (R_b y)_i / (R_b)_ii = y_i − f₋ᵢ(x_i)

with f₋ᵢ trained without row i. For a support vector machine this holds while its support vectors stay
the same; for least squares, where every row is one, it always does. So the span rule costs what
leave-one-out predictions cost:

    classification   −Σ v_i Ψ(y_i α_i S_i² − 1) / Σ v_i,    Ψ(z) = 1/(1 + exp(−5z))
    regression       −Σ v_i |α_i| S_i² / Σ v_i              the mean absolute leave-one-out error

y_i α_i S_i² − 1 = −y_i f₋ᵢ(x_i) is positive where row i is misclassified. A step in place of Ψ would
count errors; Ψ with the slope of Chapelle, Vapnik, Bousquet and Mukherjee (2002) ties less, and has
gradients. The rule for regression is that of Chang and Lin (2005) without a tube. Several targets, and
the one-vs-rest columns of several classes, are averaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.criteria.base import Task
from onefold.criteria.closed import LeaveOneOutMean
from onefold.criteria.sums import SumCriterion
from onefold.linalg import Array, like, namespace

_SLOPE = 5.0


class SmoothStep(SumCriterion):
    """−mean Ψ(−y f) over rows and targets ±1."""

    def truth(self, problem: Problem, task: Task) -> Array:
        xp, Y = namespace(problem.Y), problem.Y
        offset = np.zeros(Y.shape[1]) if problem.offset is None else problem.offset
        given = xp.zeros_like(Y) + like(offset, Y)
        return xp.concat([xp.sign(Y + given), given], axis=1)

    def terms(self, predictions: Array, truth: Array) -> Array:
        xp, t = namespace(predictions), predictions.shape[2]
        margins = truth[None, :, :t] * (predictions + truth[None, :, t:])
        return (1.0 - xp.tanh(margins * (_SLOPE / 2))) / 2  # Ψ without an exponential that overflows

    def from_means(self, means: Any) -> Any:
        return -np.mean(means, axis=-1)


class AbsoluteError(SumCriterion):
    """−mean |y − f| over rows and targets."""

    def truth(self, problem: Problem, task: Task) -> Array:
        return problem.Y

    def terms(self, predictions: Array, truth: Array) -> Array:
        return namespace(predictions).abs(predictions - truth[None, ...])

    def from_means(self, means: Any) -> Any:
        return -np.mean(means, axis=-1)


class ClassifierSpan(LeaveOneOutMean):
    """−weighted mean of Ψ(y_i α_i S_i² − 1)."""

    of_rows = SmoothStep()


class RegressorSpan(LeaveOneOutMean):
    """−weighted mean of |α_i| S_i²."""

    of_rows = AbsoluteError()
