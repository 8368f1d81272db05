r"""A low-rank preconditioner, and conjugate gradients refined by true residuals.

With the whitened features Ψ (n, r) of a landmark model, weights folded in, and M = ΨᵀΨ = Q D Qᵀ,

    (ΨΨᵀ + μI)⁻¹ z = (z − Ψ Q (D + μ)⁻¹ Qᵀ Ψᵀ z) / μ

Ψ, n r numbers, is held in float32 where it is large; M is that of the rounded Ψ, and products are in
float64: what is applied is then exactly symmetric and positive, which conjugate gradients rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.linalg.dense import add_gram, mirror
from onefold.linalg.iterate import Map, conjugate_gradients
from onefold.machine.threads import map_in_order, map_threads, spans
from onefold.rows import rows_of
from onefold.statistics import Design, Whitening, predict_groups
from onefold.statistics.finite import finite_kernel

_BLOCK = 256
_RUN = 8  # blocks that one thread takes at a time, whatever the number of threads
_LARGE = 2**29  # bytes
_DIGITS = 1e-3  # by which the recurrence may lower the residual before it is computed anew


class LowRankPreconditioner:
    """(K̃ + μI)⁻¹ for any μ; O(n m²) to set up, O(n r) to apply."""

    def __init__(self, design: Design, X: Any, root: Any) -> None:
        T = Whitening.of(design.inner(), rows=X.shape[0]).T
        self.rank = T.shape[1]
        large = 8 * X.shape[0] * self.rank > _LARGE
        self._features = np.empty((X.shape[0], self.rank), dtype=np.float32 if large else np.float64)
        for _, rows, values in predict_groups(design, rows_of(X), [T]):
            self._features[rows] = values * root[rows, None]
        parts = list(spans(X.shape[0], _BLOCK))
        self._runs = [parts[i : i + _RUN] for i in range(0, len(parts), _RUN)]
        gram = np.zeros((self.rank, self.rank))
        for piece in map_in_order(self._gram, self._runs):
            gram += piece
        values, self._vectors = np.linalg.eigh(finite_kernel(gram))
        self._values = np.maximum(values, 0.0)

    def _gram(self, parts: list[slice]) -> Any:
        total = np.zeros((self.rank, self.rank))
        for part in parts:
            add_gram(total, self._features[part].astype(np.float64, copy=False))
        return mirror(total)

    def solver(self, mu: float) -> Map:
        """The function z ↦ (K̃ + μI)⁻¹ z for z of shape (n, columns)."""
        inner = (self._vectors / (self._values + mu)[None, :]) @ self._vectors.T

        def solve(Z: Any) -> Any:
            out = np.empty_like(Z)

            def project(parts: list[slice]) -> Any:
                small = np.zeros((self.rank, Z.shape[1]))
                for part in parts:
                    small += self._features[part].astype(np.float64, copy=False).T @ Z[part]
                return small

            small = inner @ sum(map_in_order(project, self._runs))

            def correct(parts: list[slice]) -> None:
                for part in parts:
                    piece = self._features[part].astype(np.float64, copy=False)
                    out[part] = (Z[part] - piece @ small) / mu

            for _ in map_threads(correct, self._runs):
                pass
            return out

        return solve


def solve_refined(
    apply: Map,
    roughs: Sequence[Map],
    precondition: Map,
    Y: Any,
    root: Any,
    *,
    fit_intercept: bool,
    tolerance: float,
    max_iterations: int,
) -> tuple[Any, Any, dict[str, Any]]:
    r"""A a + s b = Y, sᵀa = 0, until ‖S⁻¹ (Y − s b − A a)‖ ≤ `tolerance` · ‖S⁻¹ Y‖ in each column.

    s holds √weights, S = diag s; without an intercept b = 0. The residual is computed from a and b by
    `apply`. What it leaves is solved for, three digits at a time, with the first of `roughs`: cheaper
    and less exact products. Where that no longer halves the residual, the next one takes over.
    Returns a, b and a report: iterations, the largest relative residual, and whether it converged.
    """

    def norm(R: Any) -> Any:
        return np.linalg.norm(R / root[:, None], axis=0)

    a, b, residual = np.zeros_like(Y), np.zeros(Y.shape[1]), Y
    scale = np.maximum(norm(Y), np.finfo(float).tiny)
    relative, best, iterations = norm(Y) / scale, np.inf, 0
    rho, rough = None, 0
    while iterations < max_iterations and relative.max() > tolerance:
        if relative.max() > 0.5 * best:
            rough += 1
            if rough == len(roughs):
                break
        best = float(relative.max())
        # A rough product is relative to what it multiplies: a correction needs fewer digits than a.
        goal = np.maximum(0.3 * tolerance, _DIGITS * relative) * scale
        rhs = residual
        if fit_intercept and rho is None:
            # Whatever is wrong with ρ = A⁻¹s shows in the next residual, and is put right with it.
            rhs, goal = np.hstack([root[:, None], rhs]), np.append(_DIGITS * norm(root[:, None]), goal)
        # Rounding parts the residual that is carried along from the true one, computed below.
        found = conjugate_gradients(
            roughs[rough], precondition, rhs.copy(), norm, goal, limit=max_iterations - iterations
        )
        step, iterations = found.X, iterations + found.iterations
        if not (np.all(np.isfinite(step)) and step.any()):  # beyond the range of the rough product
            best = 0.0
            continue
        shift = np.zeros_like(b)
        if fit_intercept:
            if rho is None:
                rho, step = step[:, :1], step[:, 1:]
            shift = (root @ step) / float(root @ rho[:, 0])
            step = step - rho * shift[None, :]
        left = Y - root[:, None] * (b + shift)[None, :] - apply(a + step)
        # A step in the wrong direction, as of a matrix whose rounding exceeds μ, is not taken.
        better = norm(left) / scale < relative
        a, b = a + np.where(better, step, 0.0), b + np.where(better, shift, 0.0)
        residual = np.where(better, left, residual)
        relative = norm(residual) / scale
    return a, b, {
        "iterations": iterations,
        "residual": float(relative.max(initial=0.0)),
        "converged": bool(relative.max(initial=0.0) <= tolerance),
    }  # fmt: skip
