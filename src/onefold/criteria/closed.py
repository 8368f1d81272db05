r"""Criteria of the smoother as a whole: no splits, one number per μ.

With r = R_b y, n rows and t targets (weights folded in):

    press     −(1/nt) Σ e_i²                      e the leave-one-out residuals
    gcv       −(1/nt) ‖r‖² / (tr R_b / n)²        generalised cross-validation
    evidence  −½ Σ_targets [ m log(yᵀR_b y/(mμ)) + log det G + m (1 + log 2π) ]

The evidence is that of a Gaussian process with noise-to-signal ratio μ whose scale is set to its
best value; with an intercept it is the restricted likelihood, m = n − 1, otherwise m = n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, SmoothingModel
from onefold.arrays import to_numpy
from onefold.criteria.base import ModelCriterion


def _smoothing(model: Model, name: str) -> SmoothingModel:
    if not isinstance(model, SmoothingModel):
        raise ValueError(
            f'criterion="{name}" needs the whole smoother, which this approximation does not have; '
            'use "mse" or "error".'
        )
    return model


class Press(ModelCriterion):
    """−mean squared leave-one-out residual, in closed form."""

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        Y, predictions = to_numpy(problem.Y), to_numpy(model.leave_one_out(alphas))
        return -np.array([np.mean((Y - values) ** 2) for values in predictions])


class GeneralisedCV(ModelCriterion):
    """−(1/nt) ‖R_b y‖² / (tr R_b / n)²."""

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        smoother = _smoothing(model, "gcv").smoother
        residuals = to_numpy(smoother.residuals(problem.scaled_targets(), alphas))
        share = smoother.trace(alphas) / problem.n
        return -np.mean(residuals**2, axis=(1, 2)) / share**2


class Evidence(ModelCriterion):
    """The profiled log marginal likelihood, summed over targets."""

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        smoother = _smoothing(model, "evidence").smoother
        Y = problem.scaled_targets()
        fit = np.einsum("nt,ant->at", to_numpy(Y), to_numpy(smoother.residuals(Y, alphas)))
        fit = fit / np.asarray(alphas, dtype=float)[:, None]
        m = problem.n - int(problem.fit_intercept)
        logdet = smoother.logdet(alphas)[:, None]
        if problem.root_weight is not None:
            logdet = logdet - 2 * np.sum(np.log(to_numpy(problem.root_weight)))
        # A target that the intercept fits exactly has no likelihood to maximise.
        fit = np.maximum(fit, np.finfo(float).tiny)
        return np.sum(-0.5 * (m * np.log(fit / m) + logdet + m * (1 + np.log(2 * np.pi))), axis=1)
