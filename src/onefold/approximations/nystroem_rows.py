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

from onefold.approximations.base import Model
from onefold.approximations.nystroem_models import BasisModel
from onefold.approximations.problem import target_ridges
from onefold.expansions import Expansion, FoldModels
from onefold.kernels.tiles import kernel_product
from onefold.linalg import Array, like, take_rows, to_numpy
from onefold.machine.threads import limit_blas


class RowsModel(Model):
    """The landmarks train, all rows predict."""

    keep = True

    def __init__(self, landmarks: BasisModel) -> None:
        self._landmarks, self.problem, self.report = landmarks, landmarks.problem, landmarks.report

    def leave_one_out(self, alphas: Any) -> Array:
        raise ValueError(
            'leave-one-out has no closed form with predict="rows"; use k-fold cross-validation, or '
            'predict="landmarks".'
        )

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        return self._left_out_in_fifths(self.problem.n, some, alpha)

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        """Train without J, then K[J, rest] α. O(n²) kernel values for a partition."""
        mu, X = np.asarray(alphas, dtype=np.float64).reshape(-1), self.problem.X
        predictions = []
        with limit_blas(1):
            for solution, rows in zip(self._landmarks.solve_without(parts, mu), parts):
                beta, intercept = (to_numpy(array) for array in solution)
                rest = np.delete(np.arange(self.problem.n), rows)
                dual = self._dual(beta, intercept, mu[:, None], rest)
                values = self._product(take_rows(X, rows), take_rows(X, rest), dual)
                predictions.append(values.transpose(1, 0, 2) + intercept[:, None, :])
        return predictions

    def _product(self, rows: Any, centres: Any, coef: Any) -> Any:
        """[k(x_i, z_j)] · coef for coef (centres, μ, targets), NumPy."""
        design = self._landmarks.design
        flat = like(coef.reshape(coef.shape[0], -1), self.problem.X)
        values = kernel_product(design.kernel, rows, centres, flat)
        return to_numpy(values).reshape(-1, *coef.shape[1:])

    def _dual(self, beta: Any, intercept: Any, mu: Any, rows: Any) -> Any:
        """α (rows, μ, targets) of the landmark models β (m, μ, targets): weighted residuals over μ.

        `mu` is (μ, 1), or (1, targets) for one of its own per target.
        """
        model = self._landmarks
        fitted = self._product(take_rows(self.problem.X, rows), model.design.landmarks, beta)
        residual = to_numpy(self.problem.Y)[rows][:, None, :] - fitted - intercept[None]
        weight = self.problem.weight
        return (1.0 if weight is None else weight[rows, None, None]) * residual / mu[None]

    def expansion(self, alpha: Any) -> Expansion:
        problem, model = self.problem, self._landmarks
        mu = target_ridges(alpha, int(problem.Y.shape[1])).each
        with limit_blas(1):
            beta, intercept = (to_numpy(array) for array in model.solve_each(alpha))
            everything = np.arange(problem.n)
            coef = self._dual(beta[:, None], intercept[None], mu[None, :], everything)[:, 0]
        X = problem.X
        return Expansion(model.design.kernel, X, like(coef, X), like(intercept, X))

    def final_report(self, alpha: Any, expansion: Expansion) -> dict[str, Any]:
        return self._landmarks.final_report(alpha, expansion)

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels | None:
        """Coefficients of all rows without each part, 0 for its own."""
        if not self._landmarks.trains_without(parts):
            return None
        problem, model = self.problem, self._landmarks
        n, t, X = problem.n, int(problem.Y.shape[1]), problem.X
        ridges = target_ridges(alpha, t)
        coef, intercepts = np.zeros((n, len(parts), t)), np.zeros((len(parts), t))
        with limit_blas(1):
            found = model.solve_without(parts, ridges.distinct)
            for number, ((beta, intercept), rows) in enumerate(zip(found, parts)):
                own = ridges.own(to_numpy(beta).transpose(1, 0, 2))
                intercepts[number] = ridges.own(to_numpy(intercept))
                rest, mu = np.delete(np.arange(n), rows), ridges.each[None, :]
                dual = self._dual(own[:, None], intercepts[number][None], mu, rest)
                coef[rest, number] = dual[:, 0]
        arrays = (like(array, X) for array in (coef.reshape(n, -1), intercepts.reshape(-1)))
        return FoldModels.of(Expansion(model.design.kernel, X, *arrays), len(parts))
