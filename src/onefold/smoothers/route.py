r"""Which factorisation is cheaper: one eigendecomposition, or one Cholesky per μ.

Costs in units of n³ multiply-adds at the speed of a large matrix product, measured on a 2-core
AVX-512 machine with OpenBLAS:

                        n ≤ 4096    n > 4096
    eigendecomposition  12          12          whatever the number of μ
    Cholesky            0.6         0.45        per μ; enough for coefficients and residuals
    inverse of L        0.6         0.45        per μ; needed for the diagonal, blocks and the trace

On a GPU a symmetric eigendecomposition costs 30 to 80 Cholesky factorisations instead of 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Need = Literal["coefficients", "heldout"]

EIGEN_COST = {"cpu": 12.0, "gpu": 36.0}
TRIANGLE_COST = {"small": 0.6, "large": 0.45}  # a factorisation, and as much for its inverse
LARGE = 4096


@dataclass(frozen=True)
class Route:
    """The factorisation to use, its cost and the alternative's, in n³ multiply-adds, and why."""

    name: Literal["eigen", "cholesky"]
    eigen_cost: float
    cholesky_cost: float
    reason: str


def choose_route(n: int, n_alphas: int, need: Need, *, gpu: bool = False) -> Route:
    """The cheaper route for `n_alphas` ridge values.

    Parameters
    ----------
    n : int
        Number of rows.
    n_alphas : int
        How many μ are asked for with this kernel.
    need : {"coefficients", "heldout"}
        Whether solving is enough, or the diagonal or blocks of R are wanted too.
    gpu : bool
        Whether the matrix lies on a GPU.
    """
    eigen = EIGEN_COST["gpu" if gpu else "cpu"]
    triangles = 2 if need == "heldout" else 1
    cholesky = n_alphas * triangles * TRIANGLE_COST["large" if n > LARGE else "small"]
    name: Literal["eigen", "cholesky"] = "cholesky" if cholesky < eigen else "eigen"
    reason = (
        f"{n_alphas} ridge value{'s' if n_alphas != 1 else ''}: Cholesky {cholesky:.1f} n³ "
        f"against {eigen:.1f} n³ for one eigendecomposition"
    )
    return Route(name, eigen, cholesky, reason)
