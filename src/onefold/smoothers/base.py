r"""The linear smoother behind everything.

For a kernel matrix K, a ridge μ and, with an intercept, a border s (ones, or √weights),

    R(μ) = μ (K + μI)⁻¹,    ρ = R s,    R_b = R − ρρᵀ / (sᵀρ)

`R_b` (`R` without an intercept) maps the targets to the in-sample residuals. Its eigenvalues lie in
[0, 1], so that nothing blows up as μ → 0. A smoother gives, for a whole vector of μ at once, its
action, diagonal, trace and log-determinant, and the predictions of rows held out of training:

    y_J − f_J = (R_b)_JJ⁻¹ (R_b y)_J

is the residual on J of the model trained on all rows but J, for every set of rows J. It holds
whatever stands in y_J; with zeros there it gives f_J itself, untouched by the rounding of y_J.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg import Array, like, namespace
from onefold.smoothers.left_out import gather


class UnsolvableError(ValueError):
    """The system of a kernel and a ridge has no solution that least squares could mean."""


class Smoother(ABC):
    """R_b(μ) for any vector of μ; `border` is None for a model without an intercept."""

    def __init__(self, n: int, border: Array | None) -> None:
        self.n = n
        self.border = border

    @abstractmethod
    def residuals(self, Y: Array, alphas: Any) -> Array:
        """R_b(μ) Y of shape (μ, n, targets)."""

    @abstractmethod
    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        """Y_i − (R_b Y)_i / (R_b)_ii, shape (μ, n, targets): each row predicted from all others."""

    @abstractmethod
    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        """f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J, Y⁰ being Y with zeros on J, for each set J in `parts`.

        Shape (μ, |J|, targets) each: the rows J predicted from all other rows.
        """

    @abstractmethod
    def trace(self, alphas: Any) -> Any:
        """The trace of R_b, one number per μ; the model's degrees of freedom are n − tr R_b."""

    @abstractmethod
    def logdet(self, alphas: Any) -> Any:
        """The number log det (K + μI) for each μ.

        With a border, the determinant on the complement of s: that of the restricted likelihood. NaN
        where K + μI is not positive definite.
        """


@dataclass(frozen=True)
class BorderCorrection:
    r"""The rank-one step from R to R_b = R − ρρᵀ/σ for a vector of μ: ρ (μ, n) and σ = sᵀρ (μ,)."""

    rho: Array
    sigma: Array

    @classmethod
    def of(cls, rho: Array, border: Array) -> BorderCorrection:
        """From ρ = R s."""
        return cls(rho, rho @ border)

    def vectors(self, RY: Array, Y: Array) -> Array:
        """R Y → R_b Y, shape (μ, n, targets)."""
        return self.vectors_each(RY, Y[None, ...])

    def vectors_each(self, RY: Array, Y: Array) -> Array:
        """The same for targets (μ, n, targets) of their own at each μ."""
        b = (self.rho[:, None, :] @ Y)[:, 0, :] / self.sigma[:, None]
        return RY - self.rho[:, :, None] * b[:, None, :]

    def diagonal(self, diagonal: Array) -> Array:
        """From diag R to diag R_b, shape (μ, n)."""
        return diagonal - self.rho**2 / self.sigma[:, None]

    def block(self, block: Array, rows: Array, index: int = 0) -> Array:
        """R_JJ → (R_b)_JJ for the μ at `index`; rows (|J|,), or a stack of them."""
        part = gather(self.rho[index, :], rows)
        block -= part[..., :, None] * (part / self.sigma[index])[..., None, :]
        return block

    def trace(self, trace: Array) -> Array:
        """From tr R to tr R_b, shape (μ,)."""
        return trace - namespace(self.rho).sum(self.rho**2, axis=1) / self.sigma

    def logdet(self, logdet: Array, alphas: Array, border: Array) -> Array:
        """From log det G to that on the complement of s: + log(sᵀG⁻¹s) − log(sᵀs)."""
        xp = namespace(self.sigma)
        return logdet + xp.log(self.sigma / alphas) - xp.log(border @ border)


def as_vector(alphas: Any, reference: Array) -> Array:
    """μ as a vector beside `reference`."""
    return like(np.asarray(alphas, dtype=np.float64).reshape(-1), reference)
