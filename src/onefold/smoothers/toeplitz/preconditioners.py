r"""Preconditioners for T + μI: circulant matrices, and a smooth subspace solved exactly.

*Strang's*: the circulant matrix of order n that copies the central diagonals of T. 8 to 40 iterations
where the kernel has died out at half the length of the series, whatever n.

*Deflated embedding*: a kernel that is still alive there is smooth on the scale of the series, and
Strang's copy breaks it at the seam (hundreds of iterations). Then the polynomials of low degree, which
carry its large eigenvalues, are solved exactly, and the rest by the circulant embedding of length 2n,
which has no seam inside the series: 10 to 35 iterations for the rbf kernel.

Measured at n = 20,000, residual 1e-10, μ = 3·10⁻⁵, rbf kernel, γ·(length)² from 0.03 to 30: Strang's
and T. Chan's circulants need more than 300 iterations, the embedding alone 36 to 78, deflated 10 to 13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.fft import irfft, rfft

from onefold.machine.threads import thread_budget
from onefold.smoothers.toeplitz.products import SymmetricToeplitz

_DIED_OUT = 1e-10  # of t_0, beyond half the length
_DEGREES = 24  # polynomials of degree 0 … 23

Map = Callable[[Any], Any]


class Preconditioner(Protocol):
    """An approximation of (T + μI)⁻¹ for every μ, symmetric and positive definite."""

    name: str

    def at(self, mu: float) -> Map:
        """V → M(μ)⁻¹ V on rows."""
        ...


class Strang:
    """The circulant matrix of order n with t_j for j ≤ n/2; negative eigenvalues count as 0."""

    name = "Strang's circulant"

    def __init__(self, toeplitz: SymmetricToeplitz) -> None:
        t, n = toeplitz.column, toeplitz.n
        half = n // 2 + 1
        column = t.copy()
        column[half:] = t[1 : n - half + 1][::-1]
        self._eigenvalues = rfft(column).real.copy()
        self._n = n

    def at(self, mu: float) -> Map:
        weights = 1.0 / (np.maximum(self._eigenvalues, 0.0) + mu)

        def apply(V: Any) -> Any:
            transformed = rfft(V, axis=-1, workers=thread_budget())
            transformed *= weights
            return irfft(transformed, self._n, axis=-1, workers=thread_budget(), overwrite_x=True)

        return apply


class DeflatedEmbedding:
    """Low polynomials exactly, the rest by the embedding of length 2n; `_DEGREES` arrays of n."""

    name = "polynomials and embedded circulant"

    def __init__(self, toeplitz: SymmetricToeplitz) -> None:
        self._toeplitz = toeplitz
        self._Q = orthonormal_polynomials(toeplitz.n, min(_DEGREES, toeplitz.n))
        # A row at a time: the transforms of all at once would double the memory.
        small = np.stack([self._Q @ toeplitz.product(q) for q in self._Q])
        self._small = (small + small.T) / 2

    def at(self, mu: float) -> Map:
        toeplitz, Q = self._toeplitz, self._Q
        weights = 1.0 / (np.maximum(toeplitz.spectrum, 0.0) + mu)
        values, vectors = np.linalg.eigh(self._small)
        inner = (vectors / (np.maximum(values, 0.0) + mu)) @ vectors.T

        def rest(V: Any) -> Any:
            transformed = rfft(V, toeplitz.length, axis=-1, workers=thread_budget())
            transformed *= weights
            out = irfft(transformed, toeplitz.length, axis=-1, workers=thread_budget(), overwrite_x=True)
            return out[..., : toeplitz.n]

        def apply(V: Any) -> Any:
            parts = V @ Q.T
            Z = rest(V - parts @ Q)
            return Z + (parts @ inner - Z @ Q.T) @ Q

        return apply


def choose_preconditioner(toeplitz: SymmetricToeplitz) -> Preconditioner:
    """Strang's where the kernel has died out at half the length, else the deflated embedding."""
    tail = toeplitz.column[toeplitz.n // 2 :]
    if float(np.abs(tail).max()) <= _DIED_OUT * abs(float(toeplitz.column[0])):
        return Strang(toeplitz)
    return DeflatedEmbedding(toeplitz)


def orthonormal_polynomials(n: int, count: int) -> Any:
    """Polynomials of degree 0 … count − 1, orthonormal on n equally spaced points: (count, n).

    The three-term recurrence, which stays orthonormal to rounding while count ≪ √n; for short
    series QR orthogonalises once more.
    """
    points = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
    Q = np.zeros((count, n))
    Q[0] = 1.0 / np.sqrt(n)
    length = 0.0
    for k in range(1, count):
        Q[k] = points * Q[k - 1]
        if k > 1:
            Q[k] -= length * Q[k - 2]
        length = float(np.linalg.norm(Q[k]))
        Q[k] /= length if length > 0 else 1.0
    if count * count > n // 4:
        Q = np.ascontiguousarray(np.linalg.qr(Q.T)[0].T)
    return Q
