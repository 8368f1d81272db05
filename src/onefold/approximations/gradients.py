r"""Conjugate gradients for several right-hand sides at once, and their preconditioner.

With the whitened features Ψ (n, r) of a landmark model, weights folded in, and M = ΨᵀΨ = Q D Qᵀ,

    (ΨΨᵀ + μI)⁻¹ z = (z − Ψ Q (D + μ)⁻¹ Qᵀ Ψᵀ z) / μ

Ψ, n r numbers, is held in float32 where it is large; M is that of the rounded Ψ, and products are in
float64: what is applied is then exactly symmetric and positive, which conjugate gradients rely on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.kernels.tiles import spans
from onefold.rank_update import add_gram, mirror
from onefold.statistics import Design, Whitening, predict_groups
from onefold.threads import limit_blas, map_threads

_BLOCK = 256
_LARGE = 2**29  # bytes
_DIGITS = 1e-3  # by which the recurrence may lower the residual before it is computed anew


class LowRankPreconditioner:
    """(K̃ + μI)⁻¹ for any μ; O(n m²) to set up, O(n r) to apply."""

    def __init__(self, design: Design, X: Any, root: Any, *, workers: int) -> None:
        with limit_blas(1):
            T = Whitening.of(design.inner(), rows=X.shape[0]).T
        self.rank, self._workers = T.shape[1], workers
        large = 8 * X.shape[0] * self.rank > _LARGE
        self._features = np.empty((X.shape[0], self.rank), dtype=np.float32 if large else np.float64)
        for _, rows, values in predict_groups(design, X, [T], workers=workers):
            self._features[rows] = values * root[rows, None]
        self._parts = list(spans(X.shape[0], _BLOCK))
        gram = np.zeros((self.rank, self.rank))
        for piece in map_threads(self._gram, _shares(self._parts, workers), workers):
            gram += piece
        with limit_blas(1):
            values, self._vectors = np.linalg.eigh(gram)
        self._values = np.maximum(values, 0.0)

    def _gram(self, parts: list[slice]) -> Any:
        total = np.zeros((self.rank, self.rank))
        for part in parts:
            add_gram(total, self._features[part].astype(np.float64, copy=False))
        return mirror(total)

    def solver(self, mu: float) -> Callable[[Any], Any]:
        """The function z ↦ (K̃ + μI)⁻¹ z for z of shape (n, columns)."""
        inner = (self._vectors / (self._values + mu)[None, :]) @ self._vectors.T
        shares = _shares(self._parts, self._workers)

        def solve(Z: Any) -> Any:
            out = np.empty_like(Z)

            def project(parts: list[slice]) -> Any:
                small = np.zeros((self.rank, Z.shape[1]))
                for part in parts:
                    small += self._features[part].astype(np.float64, copy=False).T @ Z[part]
                return small

            small = inner @ sum(map_threads(project, shares, self._workers))

            def correct(parts: list[slice]) -> None:
                for part in parts:
                    piece = self._features[part].astype(np.float64, copy=False)
                    out[part] = (Z[part] - piece @ small) / mu

            for _ in map_threads(correct, shares, self._workers):
                pass
            return out

        return solve


def _shares(parts: list[slice], workers: int) -> list[list[slice]]:
    return [parts[i::workers] for i in range(workers) if parts[i::workers]]


def conjugate_gradients(
    apply: Callable[[Any], Any],
    rough: Callable[[Any], Any],
    precondition: Callable[[Any], Any],
    rhs: Any,
    *,
    tolerance: float,
    max_iterations: int,
) -> tuple[Any, dict[str, Any]]:
    """Solve A x = rhs for every column, until ‖rhs − A x‖ ≤ tolerance · ‖rhs‖ in each.

    `rough` is a cheaper, less exact `apply`: it carries the recurrence along, three digits at a time,
    and the residual that decides is then computed from x itself by `apply`.
    Returns x and a report: iterations, the largest relative residual, and whether it converged.
    """
    scale = np.maximum(np.linalg.norm(rhs, axis=0), np.finfo(float).tiny)
    x, residual = np.zeros_like(rhs), rhs.copy()
    relative, best, iterations = np.ones(rhs.shape[1]), np.inf, 0
    while iterations < max_iterations and tolerance < relative.max() <= 0.5 * best:
        best = float(relative.max())
        # A rough product is relative to what it multiplies: a correction needs fewer digits than x.
        goal = np.maximum(0.5 * tolerance, _DIGITS * relative)
        z = precondition(residual)
        direction, rz = z, np.einsum("ij,ij->j", residual, z)
        while iterations < max_iterations:
            image = rough(direction)
            curvature = np.einsum("ij,ij->j", direction, image)
            step = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1.0), 0.0)
            x += step[None, :] * direction
            residual -= step[None, :] * image
            iterations += 1
            if np.all(np.linalg.norm(residual, axis=0) / scale <= goal):
                break
            z = precondition(residual)
            fresh = np.einsum("ij,ij->j", residual, z)
            ratio = np.where(rz > 0, fresh / np.where(rz > 0, rz, 1.0), 0.0)
            direction, rz = z + ratio[None, :] * direction, fresh
        # Rounding parts the carried residual from the true one: start again from the latter, as long
        # as that still halves it.
        residual = rhs - apply(x)
        relative = np.linalg.norm(residual, axis=0) / scale
    return x, {
        "iterations": iterations,
        "residual": float(relative.max()),
        "converged": bool(relative.max() <= tolerance),
    }
