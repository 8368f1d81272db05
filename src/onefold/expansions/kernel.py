r"""f(x) = Σ_j c_j k(x, z_j) + b: everything prediction, saving and export need, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import gradient_product, kernel_product
from onefold.linalg import (
    Array,
    all_finite,
    device_of,
    double,
    is_foreign,
    is_sparse,
    like,
    on_accelerator,
    to_numpy,
)
from onefold.machine.threads import keep_threads, spans

_BLOCK = 2**16  # rows that move to a device at a time


class FittedFunction(ABC):
    """What prediction, saving and reports may ask of an expansion, or of a blend of several."""

    intercept: Any

    @property
    def n_targets(self) -> int:
        """Number of values at every row."""
        return int(self.intercept.shape[0])

    @property
    def parts(self) -> tuple[tuple[float, Any], ...]:
        """The weight of every single expansion, and the expansion."""
        return ((1.0, self),)

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """Columns of the rows it takes; None where these are values of a precomputed kernel."""

    @property
    @abstractmethod
    def n_centres(self) -> int:
        """Number of kernel terms in the sum: what a row costs to predict."""

    @property
    @abstractmethod
    def accepts_sparse(self) -> bool:
        """Whether CSR rows may be given."""

    @property
    @abstractmethod
    def finite(self) -> bool:
        """Whether no coefficient and no intercept is infinite or undefined."""

    @abstractmethod
    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library."""

    @abstractmethod
    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇f at every row of X, shape (rows, d, targets), in X's array library."""

    @abstractmethod
    def on_host(self) -> Self:
        """The same function with NumPy arrays."""

    @property
    def size(self) -> str:
        """Its size, for its repr."""
        return f"centres={self.n_centres}, features={self.n_features}, targets={self.n_targets}"


@dataclass(frozen=True)
class Expansion(FittedFunction):
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

    def __repr__(self) -> str:
        return f"Expansion({self.kernel}, {self.size})"

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library.

        O(rows · m · (d + targets)) time. Scratch memory stays within scikit-learn's
        ``working_memory`` setting however many rows there are. NumPy rows go to the device of an
        expansion that lies on an accelerator, some at a time; otherwise the expansion goes to X.
        """
        return self._computed(X, n_jobs, Expansion._values)

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        r"""∇f = Σ_j c_j ∇ₓ k(x, z_j) at every row of X, shape (rows, d, targets), in X's library.

        O(rows · m · d · targets) time, scratch memory as in :meth:`predict`. Where the kernel has no
        derivative, at a centre of the Laplacian or the Matérn kernel of ν = 1/2, that term is left out.
        """
        return self._computed(X, n_jobs, Expansion._gradients)

    def _values(self, X: Array) -> Array:
        if isinstance(self.kernel, Precomputed):
            return double(X) @ self.coef + self.intercept[None, :]
        values = kernel_product(self.kernel, X, self.centres, self.coef)
        values += self.intercept[None, :]
        return values

    def _gradients(self, X: Array) -> Array:
        if isinstance(self.kernel, Precomputed):
            raise ValueError(
                "an expansion of a precomputed kernel knows no features to take a derivative in; fit "
                "with the kernel itself."
            )
        return gradient_product(self.kernel, X, self.centres, self.coef)

    def _computed(
        self, X: Array, n_jobs: int | None, values: Callable[[Expansion, Array], Array]
    ) -> Array:
        """`values` of every row, where the expansion lies if that is an accelerator, else beside X."""
        with keep_threads(n_jobs):
            if on_accelerator(self.coef) and not is_foreign(X):
                return self._by_blocks(X, values)
            return values(self._beside(X), X)

    def _by_blocks(self, X: Array, values: Callable[[Expansion, Array], Array]) -> Any:
        """`values` of NumPy or sparse rows, computed where the expansion lies, as a NumPy array."""
        blocks = [X[part] for part in spans(X.shape[0], _BLOCK)] or [X]
        moved = (block.toarray() if is_sparse(block) else block for block in blocks)
        return np.concatenate([to_numpy(values(self, like(rows, self.coef))) for rows in moved])

    def _beside(self, X: Array) -> Expansion:
        """The same expansion in the library and on the device of X."""
        foreign = is_foreign(self.coef)
        if foreign == is_foreign(X) and (not foreign or device_of(self.coef) == device_of(X)):
            return self
        # No other library has a place for sparse centres.
        centres = self.centres.toarray() if is_sparse(self.centres) else self.centres
        arrays = (centres, self.coef, self.intercept)
        return Expansion(self.kernel, *(None if a is None else like(to_numpy(a), X) for a in arrays))

    @property
    def n_features(self) -> int | None:
        return None if self.centres is None else int(self.centres.shape[1])

    @property
    def n_centres(self) -> int:
        return int(self.coef.shape[0])

    @property
    def accepts_sparse(self) -> bool:
        return self.kernel.accepts_sparse

    @property
    def finite(self) -> bool:
        return all_finite(self.coef) and all_finite(self.intercept)

    def on_host(self) -> Expansion:
        centres = None if self.centres is None else to_numpy(self.centres)
        return Expansion(self.kernel, centres, to_numpy(self.coef), to_numpy(self.intercept))
