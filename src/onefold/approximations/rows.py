r"""ding2012, Algorithm 1: train with the low-rank matrix, predict with the true kernel over all rows.

    V = C U_k Σ_k^{-1/2},   K̃ = V Vᵀ
    for z in {1, y}:  t = (μI + VᵀV)⁻¹ Vᵀz,   (K̃ + μI)⁻¹ z = (z − V t) / μ
    b = 1ᵀν / 1ᵀρ,   α = ν − ρ b,   f(x) = Σ_i α_i k(x, x_i) + b

Since (K̃ + μI) α = y − b, the coefficient of a row is its residual in the landmark model over μ:
α_i = v_i (y_i − V_i·θ − b) / μ with that model's θ and b. Nothing else is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.approximations.basis import BasisModel
from onefold.arrays import Array, like, take_rows, to_numpy
from onefold.expansion import Expansion
from onefold.kernels.tiles import kernel_product
from onefold.statistics import predict_groups


class RowsModel(BasisModel):
    """The landmarks train, all rows predict."""

    def leave_one_out(self, alphas: Any) -> Array:
        raise ValueError(
            'leave-one-out has no closed form with predict="rows"; use k-fold cross-validation, or '
            'predict="landmarks".'
        )

    def heldout_squared_error(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any
    ) -> Any | None:
        return None

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        """Train without J by subtraction, then K[J, rest] α. O(n²) kernel values for a partition."""
        _, paths, _ = self._paths(parts)
        return [self._from_rows(path, rows, alphas) for path, rows in zip(paths, parts)]

    def _from_rows(self, path: Any, rows: Any, alphas: Any) -> Any:
        problem = self.problem
        theta, intercept = path.coefficients(alphas)
        rest = np.delete(np.arange(problem.n), rows)
        mu = np.asarray(alphas, dtype=float).reshape(-1)
        dual = self._dual(self._flat(theta, self._fold_T()), intercept, mu, rest)
        values = kernel_product(
            self.design.kernel,
            take_rows(problem.X, rows),
            take_rows(problem.X, rest),
            like(dual.reshape(rest.size, -1), problem.X),
            workers=self.design.threads(self.workers),
        )
        shape = (len(rows), theta.shape[0], theta.shape[2])
        return (
            to_numpy(values).reshape(shape).transpose(1, 0, 2)
            + (intercept + self.offset[None, :])[:, None, :]
        )

    def _dual(self, beta: Any, intercept: Any, mu: Any, rows: Any) -> Any:
        """α (rows, μ, targets) of the landmark models β (m, μ·targets): weighted residuals over μ."""
        X, y = take_rows(self.problem.X, rows), to_numpy(self._Y)[rows]
        fitted = np.empty((y.shape[0], beta.shape[1]))
        for _, part, values in predict_groups(self.design, X, [beta], workers=self.workers):
            fitted[part] = values
        fitted = fitted.reshape(y.shape[0], mu.size, -1)
        residual = y[:, None, :] - fitted - intercept[None]
        return self._root_of(rows)[:, None, None] ** 2 * residual / mu[None, :, None]

    def expansion(self, alpha: Any) -> Expansion:
        problem = self.problem
        t = problem.Y.shape[1]
        mu = np.broadcast_to(np.asarray(alpha, dtype=np.float64).reshape(-1), t)
        values, which = np.unique(mu, return_inverse=True)
        theta, intercept = self._path().coefficients(values)
        beta = self._flat(theta, self.coordinates.T)
        dual = self._dual(beta, intercept, values, np.arange(problem.n))
        coef = dual[:, which, np.arange(t)]
        constant = intercept[which, np.arange(t)] + self.offset
        self._report_error(mu, constant)
        return Expansion(self.design.kernel, problem.X, like(coef, problem.X), like(constant, problem.X))
