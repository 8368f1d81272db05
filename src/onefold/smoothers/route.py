r"""Which factorisation is cheaper: one eigendecomposition, or one Cholesky per μ.

In units of n³ multiply-adds at the speed of a large matrix product, measured on a 2-core AVX-512 machine
with OpenBLAS:

                        n ≤ 4096    n > 4096
    eigendecomposition  12          12          whatever the number of μ
    Cholesky            0.6         0.45        per μ; enough for coefficients and residuals
    inverse of L        0.6         0.45        per μ; needed for the diagonal, blocks and the trace

On a GPU most of an eigendecomposition is not made of products, while L⁻¹ comes at their speed. In units
of one Cholesky factorisation on an H200 in float64, the first line measured at n = 1000, 10,000 and
20,000, the second an upper bound from its n³/3 multiply-adds:

                        n ≤ 4096    n ≤ 15,000  above
    eigendecomposition  24          36          77
    inverse of L        1           1           1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Need = Literal["coefficients", "heldout"]

LARGE = 4096
_HUGE = 15_000


@dataclass(frozen=True)
class _Costs:
    """Of an eigendecomposition and of a triangle: a Cholesky factorisation, or the inverse of one."""

    eigen: float
    triangle: float
    unit: str


@dataclass(frozen=True)
class Route:
    """The factorisation to use, its cost and the alternative's, and why.

    Costs are in n³ multiply-adds; on a GPU in Cholesky factorisations.
    """

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
    costs = _gpu_costs(n) if gpu else _Costs(12.0, 0.45 if n > LARGE else 0.6, "n³")
    eigen = costs.eigen
    cholesky = n_alphas * (2 if need == "heldout" else 1) * costs.triangle
    name: Literal["eigen", "cholesky"] = "cholesky" if cholesky < eigen else "eigen"
    reason = (
        f"{n_alphas} ridge value{'s' if n_alphas != 1 else ''}: Cholesky {cholesky:.1f} {costs.unit} "
        f"against {eigen:.1f} {costs.unit} for one eigendecomposition"
    )
    return Route(name, eigen, cholesky, reason)


def _gpu_costs(n: int) -> _Costs:
    eigen = 24.0 if n <= LARGE else 36.0 if n <= _HUGE else 77.0
    return _Costs(eigen, 1.0, "factorisations")
