r"""Gradients of press, gcv and the evidence in the kernel matrix and in the ridge.

With G = K̃ + μI, K̃ = SKS, and R_b = μ (G⁻¹ − G⁻¹ssᵀG⁻¹ / sᵀG⁻¹s), which is μ times the inverse of G on
the complement of the border s,

    d(R_b/μ) = −(R_b/μ) dG (R_b/μ)

Let r = R_b ỹ, h = diag R_b, e = r/h row by row, T = tr R_b, t targets, m = n − 1 with an intercept.
Every score is a function of R_b/μ, so that its differential is tr(M dG)/μ for a symmetric M:

    press     −(1/nt) Σ e²              M = (2/nt) [ sym(r (R_b (e/h))ᵀ) − R_b diag(Σ_t e²/h) R_b ]
    gcv       −(n/t) ‖r‖²/T²            M = (2n/tT²) [ sym(r (R_b r)ᵀ) − (‖r‖²/T) R_b² ]
    evidence  −½ Σ [m log(ỹᵀr/μ) + …]   M = ½ m Σ_t r_t r_tᵀ / (ỹ_tᵀr_t) − (t/2) R_b

where sym(A) = (A + Aᵀ)/2. Hence, whatever parameter the kernel has,

    ∂score/∂ log μ = tr M,     ∂score/∂θ = Σ_ij W_ij ∂K_ij/∂θ,     W = S M S / μ

One factorisation, R_b and one symmetric product at most: about 2 n³ multiply-adds, and five arrays of
n × n. Every parameter of the kernel comes on top at O(n²).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from onefold.approximations import Problem, SmoothingModel
from onefold.criteria.base import Criterion
from onefold.criteria.closed import Evidence, GeneralisedCV, Press
from onefold.linalg import Array, namespace
from onefold.smoothers import DenseSmoother


class ScoreSlopes(NamedTuple):
    """The gradient of a score.

    Attributes
    ----------
    ridge : float
        In log μ.
    kernel : array (n, n)
        W: in every entry of the kernel matrix.
    """

    ridge: float
    kernel: Array


def has_slopes(criterion: Criterion) -> bool:
    """Whether a criterion has a gradient here."""
    return type(criterion) in _OF_CRITERION


def score_slopes(
    criterion: Criterion, model: SmoothingModel, problem: Problem, mu: float
) -> ScoreSlopes:
    """The gradient of a criterion's score at one μ, for a model with a dense smoother."""
    smoother, Y = cast(DenseSmoother, model.smoother), problem.scaled_targets()
    residuals, R = smoother.matrix(Y, mu)
    M = _OF_CRITERION[type(criterion)](R, residuals, Y, problem)
    xp = namespace(M)
    ridge = float(xp.sum(xp.linalg.diagonal(M)))
    M /= mu
    if problem.root_weight is not None:
        M *= problem.root_weight[:, None]
        M *= problem.root_weight[None, :]
    return ScoreSlopes(ridge, M)


def _of_press(R: Array, r: Array, Y: Array, problem: Problem) -> Array:
    xp = namespace(R)
    h = xp.linalg.diagonal(R)[:, None]
    e = r / h
    scaled = R * xp.sqrt(xp.sum(e**2, axis=1)[:, None] / h)
    # A product of a matrix with its own transpose: NumPy computes one triangle of it.
    root = problem.root_weight
    weight = problem.n if root is None else float(root @ root)  # n, but for rounding
    return _with_outer(scaled.T @ scaled, r, R @ (e / h), 2 / (weight * Y.shape[1]))


def _of_gcv(R: Array, r: Array, Y: Array, problem: Problem) -> Array:
    xp = namespace(R)
    trace = xp.sum(xp.linalg.diagonal(R))
    square = R @ R.T
    square *= xp.sum(r**2) / trace
    return _with_outer(square, r, R @ r, 2 * problem.n / (Y.shape[1] * float(trace) ** 2))


def _of_evidence(R: Array, r: Array, Y: Array, problem: Problem) -> Array:
    xp, m = namespace(R), problem.n - int(problem.fit_intercept)
    fits, heard = xp.sum(Y * r, axis=0), xp.sum(Y**2, axis=0) > 0  # a target that is 0 has no say
    shares = m / xp.where(heard, fits, xp.ones_like(fits))
    M = (r * shares[None, :]) @ r.T
    M -= float(xp.sum(xp.astype(heard, R.dtype))) * R
    M *= 0.5
    return M


def _with_outer(square: Array, r: Array, q: Array, unit: float) -> Array:
    """Unit · [sym(r qᵀ) − square], over `square`."""
    half = r @ q.T
    half *= 0.5
    square *= -1.0
    square += half
    square += half.T
    square *= unit
    return square


_OF_CRITERION: dict[type[Criterion], Callable[[Array, Array, Array, Problem], Any]] = {
    Press: _of_press,
    GeneralisedCV: _of_gcv,
    Evidence: _of_evidence,
}
