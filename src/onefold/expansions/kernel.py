r"""f(x) = Σ_j c_j k(x, z_j) + b: everything prediction, saving and export need, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import kernel_product
from onefold.linalg import Array, double, is_foreign, is_sparse, like, to_numpy
from onefold.machine.threads import use_threads


@dataclass(frozen=True)
class Expansion:
    r"""A fitted kernel expansion.

    Attributes
    ----------
    kernel : Kernel
    centres : array or CSR matrix (m, d), or None
        The rows z_j; None with a precomputed kernel, where X holds the kernel values themselves.
    coef : array (m, targets)
    intercept : array (targets,)
        Zero for a model without an intercept.
    """

    kernel: Kernel
    centres: Any
    coef: Any
    intercept: Any

    def __post_init__(self) -> None:
        coef, intercept = self.coef, self.intercept
        if coef.ndim != 2 or intercept.ndim != 1 or coef.shape[1] != intercept.shape[0]:
            raise ValueError(
                f"coef must be (centres, targets) and intercept (targets,); "
                f"got {tuple(coef.shape)} and {tuple(intercept.shape)}."
            )
        if self.centres is not None and self.centres.shape[0] != coef.shape[0]:
            raise ValueError(
                f"{self.centres.shape[0]} centres do not match {coef.shape[0]} coefficients."
            )

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """F at every row of X, shape (rows, targets), in X's array library.

        O(rows · m · (d + targets)) time. Scratch memory stays within scikit-learn's
        ``working_memory`` setting however many rows there are.
        """
        coef, intercept, centres = self.coef, self.intercept, self.centres
        if is_foreign(coef) != is_foreign(X):  # a model fitted in one library, rows from another
            coef, intercept = like(to_numpy(coef), X), like(to_numpy(intercept), X)
            if centres is not None and not is_sparse(centres):
                centres = like(to_numpy(centres), X)
        if isinstance(self.kernel, Precomputed):
            return double(X) @ coef + intercept[None, :]
        with use_threads(n_jobs):
            values = kernel_product(self.kernel, X, centres, coef)
        values += intercept[None, :]
        return values

    @property
    def n_centres(self) -> int:
        """Number of terms in the sum."""
        return int(self.coef.shape[0])

    def on_host(self) -> Expansion:
        """The same expansion with NumPy arrays."""
        centres = None if self.centres is None else to_numpy(self.centres)
        return Expansion(self.kernel, centres, to_numpy(self.coef), to_numpy(self.intercept))
