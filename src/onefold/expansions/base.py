r"""f(x) = b + Σ_i w_i f_i(x): what every fitted function tells of itself, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from onefold.linalg import Array


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
        """F at every row of X, shape (rows, targets), in X's array library."""

    @abstractmethod
    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇f at every row of X, shape (rows, d, targets), in X's array library."""

    @abstractmethod
    def on_host(self) -> Self:
        """The same function with NumPy arrays."""
