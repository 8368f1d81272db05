r"""f(x) = Σ_j c_j k(x, z_j) + b: everything prediction, saving and export need, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from onefold import linalg
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import block_rows, gradient_product, kernel_product
from onefold.linalg import (
    Array,
    HostArray,
    asarray_like,
    host_array,
    is_sparse,
    namespace,
    on_accelerator,
)
from onefold.machine.threads import check_stop, even_spans, inherit_threads, limit_blas, spans
from onefold.rows import to_host

# Rows that are moved to a device at a time.
_BLOCK = 2**16


class FittedFunction(ABC):
    """What an expansion, or a blend of several, offers to prediction, saving and reports."""

    arrays: ClassVar[tuple[str, ...]] = ("coef", "intercept")  # those with a column for every target
    intercept: Any  # (targets,)

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
    def n_centres(self) -> int:
        """Number of kernel terms in the sum: the kernel values that predicting a row takes."""
        return sum(int(part.coef.shape[0]) for _, part in self.parts)

    @property
    def accepts_sparse(self) -> bool:
        """Whether CSR rows may be given: every kernel takes them beside centres that are CSR, too."""
        return all(
            part.kernel.accepts_sparse or is_sparse(getattr(part, "centres", None))
            for _, part in self.parts
        )

    @property
    def finite(self) -> bool:
        """Whether no coefficient and no intercept is infinite or undefined."""
        arrays = [getattr(part, name) for _, part in self.parts for name in part.arrays]
        return all(linalg.all_finite(array) for array in (self.intercept, *arrays))

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
    """A fitted kernel expansion."""

    kernel: Kernel
    centres: Any  # array or CSR matrix (m, d); None with a precomputed kernel, as X has its values
    coef: Any  # array (m, targets)
    intercept: Any  # array (targets,), zero for a model without an intercept

    def __post_init__(self) -> None:
        coef = tuple(self.coef.shape)
        intercept = tuple(self.intercept.shape)
        if len(coef) != 2 or coef[1:] != intercept:
            raise ValueError(
                f"coef must be (centres, targets) and intercept (targets,); got {coef} and {intercept}."
            )
        if self.centres is not None and self.centres.shape[0] != coef[0]:
            raise ValueError(f"{self.centres.shape[0]} centres do not match {coef[0]} coefficients.")

    def __repr__(self) -> str:
        return f"Expansion({self.kernel}, {self.size})"

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library.

        O(rows · m · (d + targets)) time. Scratch memory stays within scikit-learn's
        ``working_memory`` setting for any number of rows. NumPy rows are moved, block by block, to the
        device of an expansion that lies on an accelerator; otherwise the expansion is moved to X.
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
            return linalg.as_float64(X) @ self.coef + self.intercept[None, :]
        values = kernel_product(self.kernel, X, self.centres, self.coef)
        values += self.intercept[None, :]
        return values

    def _gradients(self, X: Array) -> Array:
        if isinstance(self.kernel, Precomputed):
            raise ValueError(
                "a model with a precomputed kernel has no gradient, because the features are unknown; "
                "fit with rows and a kernel."
            )
        return gradient_product(self.kernel, X, self.centres, self.coef)

    def _computed(
        self, X: Array, n_jobs: int | None, values: Callable[[Expansion, Array], Array]
    ) -> Array:
        """`values` of every row, on the accelerator of the expansion if it has one, else where X is."""
        with inherit_threads(n_jobs):
            if linalg.prefers_large_calls(X) or not on_accelerator(self.coef):
                return values(self._moved_to(X), X)
            blocks = [X[part] for part in spans(X.shape[0], _BLOCK)] or [X]
            moved = (asarray_like(host_array(block), self.coef) for block in blocks)
            return np.concatenate([host_array(values(self, rows)) for rows in moved])

    def _moved_to(self, X: Array) -> Expansion:
        """The same expansion in the library and on the device of X."""
        if linalg.same_place(self.coef, X):
            return self
        # Other libraries have no sparse arrays.
        centres = self.centres.toarray() if is_sparse(self.centres) else self.centres
        arrays = (centres, self.coef, self.intercept)
        return Expansion(self.kernel, *(None if a is None else asarray_like(a, X) for a in arrays))

    @property
    def n_features(self) -> int | None:
        return None if self.centres is None else int(self.centres.shape[1])

    def on_host(self) -> Self:
        return type(self)(self.kernel, *map(to_host, (self.centres, self.coef, self.intercept)))


def outer_gradients(
    expansion: FittedFunction, X: Array, weight: Any | None = None, *, diagonal: bool
) -> HostArray:
    r"""M = Σ_i v_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ / Σ_i v_i: the average outer product of gradients.

    A NumPy float64 array (d, d), or its diagonal (d,), which is all that sparse rows may ask for. The
    gradients of one block of rows are held at a time, within scikit-learn's ``working_memory``.
    """
    n, d = X.shape
    total = float(n) if weight is None else float(np.sum(weight))
    if not total > 0:
        raise ValueError(
            "the average outer product of gradients needs a row of positive weight; give some rows a "
            "positive weight."
        )
    if is_sparse(X) and not diagonal:
        raise ValueError(
            "a full metric mixes all features, which would make sparse rows dense; use "
            'metric="diagonal", or dense rows.'
        )
    root = None if weight is None else np.sqrt(np.asarray(weight, dtype=np.float64))
    moment: Any = 0.0
    for part in even_spans(n, block_rows(d * expansion.n_targets)):
        check_stop()
        gradients = expansion.gradient(X[part] if is_sparse(X) else X[part, :])
        if root is not None:
            gradients = gradients * asarray_like(root[part], gradients)[:, None, None]
        xp = namespace(gradients)
        if diagonal:
            moment = moment + xp.sum(gradients * gradients, axis=(0, 2))
            continue
        flat = xp.reshape(xp.permute_dims(gradients, (0, 2, 1)), (-1, d))
        with limit_blas(1):  # the same digits for any number of threads
            moment = moment + flat.T @ flat
    return host_array(moment) / total
