r"""ding2012's Algorithm 1: train with the low-rank kernel matrix, predict with the true kernel.

    V = C U_k Σ_k^{-1/2},   K̃ = V Vᵀ
    for z in {1, y}:  t = (μI + VᵀV)⁻¹ Vᵀz,   (K̃ + μI)⁻¹ z = (z − V t) / μ
    b = 1ᵀν / 1ᵀρ,   α = ν − ρ b,   f(x) = Σ_i α_i k(x, x_i) + b

Since (K̃ + μI) α = y − b, the coefficient of a row is its residual in the landmark model over μ. With
that model's θ and b,

    α_i = v_i (y_i − V_i·θ − b) / μ                                                               (1)

Nothing else is solved.

*Leave-one-out with all rows.* B = S R_b S / μ maps the targets to α, and without row i it is
α⁽ⁱ⁾ = α − e_i B_·i. Here e_i = α_i / B_ii is the leave-one-out residual of the landmark model, so that
y_i − e_i is what that model predicts. The true kernel adds E = K − K̃ applied to α⁽ⁱ⁾:

    f⁽ⁱ⁾(x_i) = y_i − e_i + (Eα)_i − e_i (EB)_ii                                                  (2)
    (EB)_ii = (v_i E_ii − v_i (Ev)_i / Σv − Σ_l √v_i U_il [λ_l/(λ_l+μ)] (E S U)_il) / μ           (3)

with R_b = I − ssᵀ/sᵀs − U [λ/(λ+μ)] Uᵀ; without an intercept the term of s is absent. E S U, E v and Eα
are products with kernel tiles: O(n² (d + r)) time, and n r numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.model import InnerWholeModel
from onefold.approximations.nystroem_models import BasisModel
from onefold.approximations.problem import Parts
from onefold.basis import Coefficients
from onefold.expansions import Expansion, FoldModels
from onefold.kernels.tiles import kernel_product
from onefold.linalg import Array, HostArray, Index, as_vector, asarray_like, host_array, take_rows
from onefold.machine.threads import limit_blas


class RowCoefficients(NamedTuple):
    """α and b of a model of some of the rows."""

    rows: Index
    dual: HostArray  # (rows, μ, targets)
    intercept: HostArray  # (μ, targets)


class RowsModel(InnerWholeModel):
    """The landmarks train, all rows predict."""

    keep = True
    one_pass = True

    _inner: BasisModel

    def __init__(self, landmarks: BasisModel) -> None:
        self._inner = landmarks
        self.problem = landmarks.problem
        self.report = landmarks.report

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """(2) for all rows. O(n² (d + r + |μ| t)) time."""
        return self._left_out_at(np.arange(self.problem.n), alphas)

    def left_out(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        return rows, self._left_out_at(rows, [alpha])[0, ...]

    @limit_blas(1)
    def _left_out_at(self, rows: Index, alphas: ArrayLike) -> Array:
        """(2) for each of these rows, predicted from all others: (μ, rows, targets)."""
        problem = self.problem
        landmarks = self._inner
        mu = as_vector(alphas)
        errors = problem.targets[None, ...] - host_array(landmarks.leave_one_out(alphas))
        V = landmarks.whitened()
        smoother = landmarks.thin_smoother()
        values = smoother.spectrum.values
        U = smoother.spectrum.vectors
        weight = np.ones(problem.n) if problem.weight is None else problem.weight
        root = np.sqrt(weight)
        X = take_rows(problem.X, rows)

        def times_difference(columns: HostArray) -> HostArray:
            """E times columns (n, number), at the rows."""
            true = self._product(X, problem.X, columns[:, :, None])[:, :, 0]
            return true - V[rows] @ (V.T @ columns)

        solutions = landmarks.landmark_coefficients(alphas)
        _, dual, _ = next(self._row_coefficients(solutions, mu[:, None], [np.arange(0)]))
        change = times_difference(dual.reshape(problem.n, -1)).reshape(rows.size, mu.size, -1)
        diagonal = as_vector(landmarks.design.kernel.diagonal(X)) - np.sum(V[rows] ** 2, axis=1)
        # (3) row by row.
        product = np.tile(weight[rows] * diagonal, (mu.size, 1))
        if problem.fit_intercept:
            product -= (weight[rows] * times_difference(weight[:, None])[:, 0] / weight.sum())[None, :]
        inner = root[rows, None] * U[rows] * times_difference(root[:, None] * U)
        product -= (values[None, :] / (values[None, :] + mu[:, None])) @ inner.T
        product /= mu[:, None]
        left_out = problem.targets[rows] - (1.0 + product[:, :, None]) * errors[:, rows]
        return asarray_like(left_out + change.transpose(1, 0, 2), problem.Y)

    @limit_blas(1)
    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Train without J, then K_JT α for the other rows T. O(n²) kernel values for a partition."""
        X = self.problem.X
        solutions = self._inner.landmark_coefficients(alphas, parts)
        trained = self._row_coefficients(solutions, np.reshape(alphas, (-1, 1)), parts)
        predictions: list[Array] = []
        for (training_rows, dual, intercept), rows in zip(trained, parts):
            values = self._product(take_rows(X, rows), take_rows(X, training_rows), dual)
            predictions.append(values.transpose(1, 0, 2) + intercept[:, None, :])
        return predictions

    def _product(self, rows: Array, centres: Array, coef: HostArray) -> HostArray:
        """[k(x_i, z_j)] · coef for coef (centres, μ, targets)."""
        columns = asarray_like(coef.reshape(coef.shape[0], -1), self.problem.X)
        values = kernel_product(self._inner.design.kernel, rows, centres, columns)
        return host_array(values).reshape(-1, *coef.shape[1:])

    def _row_coefficients(
        self, solutions: Sequence[Coefficients], mu: HostArray, parts: Parts
    ) -> Iterator[RowCoefficients]:
        """(1) for the rows outside each part, `mu` being (μ, 1) or (1, targets)."""
        problem = self.problem
        landmarks = self._inner.design.landmarks
        for solution, rows in zip(solutions, parts):
            training_rows = np.delete(np.arange(problem.n), rows)
            beta = host_array(solution.theta)
            intercept = host_array(solution.intercept)
            fitted = self._product(take_rows(problem.X, training_rows), landmarks, beta)
            residual = problem.targets[training_rows][:, None, :] - fitted - intercept[None]
            weight: Any = 1.0
            if problem.weight is not None:
                weight = problem.weight[training_rows, None, None]
            yield RowCoefficients(training_rows, weight * residual / mu[None], intercept)

    @limit_blas(1)
    def expansion(self, alpha: ArrayLike, parts: Parts | None = None) -> Expansion:
        """Coefficients of all rows without each part, 0 for those of the part."""
        n, n_targets = self.problem.Y.shape
        X = self.problem.X
        landmarks = self._inner
        solutions = [
            Coefficients(beta[:, None, :], intercept[None, :])
            for beta, intercept in landmarks.coefficients_at(alpha, parts)
        ]
        coef = np.zeros((n, len(solutions), n_targets))
        intercepts = np.zeros((len(solutions), n_targets))
        mu = np.broadcast_to(alpha, (1, n_targets))
        trained = self._row_coefficients(solutions, mu, parts or [np.arange(0)])
        for number, (training_rows, dual, intercept) in enumerate(trained):
            coef[training_rows, number] = dual[:, 0]
            intercepts[number] = intercept[0]
        return Expansion(
            landmarks.design.kernel,
            X,
            asarray_like(coef.reshape(n, -1), X),
            asarray_like(intercepts.reshape(-1), X),
        )

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        return self._inner.final_report(alpha, expansion)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        if not self._inner.trains_without(parts):
            return None
        return FoldModels.of(self.expansion(alpha, parts), len(parts))
