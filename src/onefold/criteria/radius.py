r"""The radius-margin quantity of the machine as one without errors in a larger space.

    −(1/nt) R̃² Σ_targets ‖w̃‖²,    K̃ = K + μV⁻¹,    ‖w̃‖² = αᵀK̃α = yᵀR_b y / μ

Squared errors with the ridge μ are a hard margin in the space of K̃, where every row has a direction of
its own; ‖w̃‖² is the inverse square of that margin, and R̃ the radius of the smallest ball around the rows
(:mod:`onefold.criteria.ball`). For support vector machines R̃²‖w̃‖²/n bounds the expected error (Vapnik;
Chapelle, Vapnik, Bousquet and Mukherjee 2002). In least squares rows beyond the margin pull back,
y_i α_i < 0, so that it is that formula and no bound, and for regression it has no more behind it than
S_i ≤ 2R̃ for the spans (:mod:`onefold.criteria.span`). What it is worth: ``docs/criteria.md``.

Beside the factorisation O(n²) for each μ. A row of little weight lies far from all others, and alone
makes the ball large: for weights of like size.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from onefold.approximations import Model, Problem
from onefold.approximations.exact import ExactModel
from onefold.criteria.ball import squared_radii
from onefold.criteria.closed import ModelCriterion, known_quadratic
from onefold.linalg import to_numpy


class RadiusMargin(ModelCriterion):
    """−(1/nt) R̃² ‖w̃‖², summed over targets."""

    needs = "matrix"

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        exact, mu = cast(ExactModel, model), np.asarray(alphas, dtype=np.float64)
        norms = known_quadratic(exact.smoother, problem, mu).sum(axis=1) / mu
        root = problem.root_weight
        share = np.ones(problem.n) if root is None else to_numpy(root) ** -2.0
        radii = squared_radii(to_numpy(exact.kernel_matrix()), mu[:, None] * share[None, :])
        return -radii * norms / (problem.n * problem.Y.shape[1])
