r"""How large a fit with the true kernel may be, and how it is made.

    up to 10,000 rows   the dense matrix: O(n³/3) time, 8 n² bytes
    beyond              conjugate gradients, a fraction of that time and no such array
    beyond 20,000 rows  as before, but only where it is asked for: it takes minutes

Conjugate gradients need dense NumPy rows; sparse ones, a given matrix and other libraries stay dense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onefold.approximations.registry import registered
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import is_foreign, is_sparse

if TYPE_CHECKING:
    from onefold.approximations.base import Approximation
    from onefold.approximations.problem import Problem

LARGEST_DENSE = 10_000
LARGEST_UNASKED = 20_000


def fits_unasked(n: int) -> bool:
    """Whether a final model of `n` rows is trained with the true kernel without being told to."""
    return n <= LARGEST_UNASKED


def true_kernel(kernel: Kernel, problem: Problem) -> Approximation:
    """How to fit with the true kernel: densely, or by conjugate gradients for many dense rows."""
    dense_rows = not (is_sparse(problem.X) or is_foreign(problem.X) or isinstance(kernel, Precomputed))
    return registered()["cg" if dense_rows and problem.n > LARGEST_DENSE else "exact"]()
