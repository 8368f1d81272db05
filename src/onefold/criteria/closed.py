r"""Criteria of the smoother as a whole: no splits, one number per μ.

With r = R_b y, n rows and t targets, weights v folded in and divided by their mean:

    press     −(1/nt) Σ v_i e_i²                  e the leave-one-out residuals
    gcv       −(1/nt) ‖r‖² / (tr R_b / n)²        generalised cross-validation
    cost      −(1/nt) [ yᵀR_b y + δ² tr R_b ]     equation 29 of [ding2011]_
    evidence  −½ Σ_targets [ m log(yᵀR_b y/(mμ)) + log det G + m (1 + log 2π) ]

The evidence is that of a Gaussian process with noise-to-signal ratio μ whose scale is set to its
best value; with an intercept it is the restricted likelihood, m = n − 1, otherwise m = n.

The cost is the expected minimum of the regularised least-squares functional. It falls to 0 with μ,
so that it compares kernels at one μ; a search over several μ always prefers the small ones. Its
noise variance δ² is not part of the model: here it is half the mean squared difference between the
target of a row and that of its nearest neighbour (up to 2000 rows, sampled), the same for every
kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.neighbors import NearestNeighbors

from onefold.approximations import Model, Problem
from onefold.criteria.base import Answers, Criterion, Scoring, Task
from onefold.criteria.heldout import SumCriterion
from onefold.heldout import Splits
from onefold.linalg import is_foreign, namespace, to_numpy
from onefold.smoothers import Smoother

_NOISE_ROWS = 2000
_EPS = float(np.finfo(np.float64).eps)


def _quadratic(smoother: Smoother, Y: Any, alphas: Any) -> Any:
    """yᵀR_b y of every target: (μ, targets)."""
    residuals = smoother.residuals(Y, alphas)
    Y = Y if is_foreign(residuals) else to_numpy(Y)  # some smoothers answer on the host
    return to_numpy(namespace(residuals).sum(Y[None, ...] * residuals, axis=1))


def known_quadratic(smoother: Smoother, problem: Problem, alphas: Any) -> Any:
    """The same, NaN where nothing but rounding is left of it; 0 where the intercept fits exactly."""
    Y = problem.scaled_targets()
    fit, size = _quadratic(smoother, Y, alphas), np.sum(to_numpy(Y) ** 2, axis=0)
    lost = (fit <= problem.n * _EPS * size) & (size > 0)
    return np.where(lost, np.nan, np.where(size > 0, fit, 0.0))


class ModelCriterion(Criterion):
    """A score of the model as a whole, or of its R(μ), which not every model has; it needs no splits."""

    needs: ClassVar[Literal["model", "smoother"]] = "smoother"

    @abstractmethod
    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        """One score per μ."""

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return _ModelScoring(self, problem, task, None)


class _ModelScoring(Scoring):
    def without_predictions(self, model: Model, alphas: Any) -> Answers:
        scores = self.criterion.score(model, self.problem, alphas)[:, None]
        return Answers(np.isfinite(scores).all(axis=1), [], scores)


class LeaveOneOutMean(ModelCriterion):
    """A weighted mean over rows, each predicted from all others, in closed form."""

    needs = "model"

    def __init__(self, of_rows: SumCriterion) -> None:
        self._of_rows = of_rows

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        alone, task = Splits.alone(problem.n), Task(None, None, None, problem.weight)
        answers = self._of_rows.start(problem, task, alone).answers(model, alphas)
        scores = np.full(len(alphas), np.nan)
        scores[answers.finite] = answers.scores()[0][:, 0]
        return scores


class GeneralisedCV(ModelCriterion):
    """−(1/nt) ‖R_b y‖² / (tr R_b / n)²."""

    def score(self, model: Any, problem: Problem, alphas: Any) -> Any:
        residuals = model.smoother.residuals(problem.scaled_targets(), alphas)
        squares = to_numpy(namespace(residuals).mean(residuals**2, axis=(1, 2)))
        return -squares / (model.smoother.trace(alphas) / problem.n) ** 2


class Cost(ModelCriterion):
    """−(1/nt) [yᵀR_b y + δ² tr R_b], summed over targets; δ² is found once for a search."""

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return _ModelScoring(Cost(float(np.sum(noise_variance(problem)))), problem, task, None)

    def score(self, model: Any, problem: Problem, alphas: Any) -> Any:
        fit = _quadratic(model.smoother, problem.scaled_targets(), alphas).sum(axis=1)
        noise = self._noise * model.smoother.trace(alphas)
        return -(fit + noise) / (problem.n * problem.Y.shape[1])


def noise_variance(problem: Problem) -> Any:
    """δ² of each target, from differences between nearest neighbours.

    Neighbours agree in the function and differ in the noise: E (y_i − y_j)² → 2 δ² as rows fill
    the space. O(n d) for the distances of at most 2000 sampled rows to all others.
    """
    n = problem.n
    if n < 2:
        return np.zeros(problem.Y.shape[1])
    X, Y = to_numpy(problem.X), to_numpy(problem.Y)
    rows = np.arange(n)
    if n > _NOISE_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(n, _NOISE_ROWS, replace=False))
    near = NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X[rows], return_distance=False)
    # Among duplicates a row need not come first in its own list.
    other = np.where(near[:, 0] == rows, near[:, 1], near[:, 0])
    return np.mean((Y[rows] - Y[other]) ** 2, axis=0) / 2


class Evidence(ModelCriterion):
    """The profiled log marginal likelihood, summed over targets."""

    def score(self, model: Any, problem: Problem, alphas: Any) -> Any:
        # A target that the intercept fits exactly has no likelihood, and every kernel is as good there
        # as any other: it has no say.
        fit = known_quadratic(model.smoother, problem, alphas)
        silent = fit == 0
        fit = np.where(silent, 1.0, fit / np.asarray(alphas, dtype=float)[:, None])
        m = problem.n - int(problem.fit_intercept)
        logdet = model.smoother.logdet(alphas)[:, None]
        if problem.root_weight is not None:
            logdet = logdet - 2 * np.sum(np.log(to_numpy(problem.root_weight)))
        terms = -0.5 * (m * np.log(fit / m) + logdet + m * (1 + np.log(2 * np.pi)))
        return np.sum(np.where(silent, 0.0, terms), axis=1)
