r"""Σ_j c_j k(x, z_j) on a line for Matérn and Laplacian kernels: O(m log m) once, O(log m) for each x.

In units in which the kernel is a polynomial of the distance s times exp(−s), the points z_j ≤ x add
moments of their distances,

    (1)  M_k(x) = Σ_{z_j ≤ x} c_j (x − z_j)^k exp(−(x − z_j)),    k = 0, …, p − 1

which move from a point to the next, at the distance δ, by

    (2)  M_0 ← exp(−δ) M_0,   M_1 ← exp(−δ) (M_1 + δ M_0),   M_2 ← exp(−δ) (M_2 + 2δ M_1 + δ² M_0)

The sum is the moments of both sides times the coefficients of a polynomial, and so is its derivative:

    (3)            the sum           its derivative
    ν              k(s) exp(s)       −k'(s) exp(s)
    1/2            1                 1
    3/2            1 + s             s
    5/2            1 + s + s²/3      (s + s²)/3

Points that are equal to x count once in the sum, and not in the derivative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from onefold.kernels.base import Kernel
from onefold.kernels.named import Laplacian, Matern
from onefold.linalg import HostArray, Index
from onefold.machine.threads import map_in_order

# A distance s at which exp(−s) is 0 in float64; it stands for all larger ones.
LONGEST = 800.0
# The coefficients of the sum in (3), by the number p of moments.
_VALUES = {1: (1.0,), 2: (1.0, 1.0), 3: (1.0, 1.0, 1 / 3)}
# The coefficients of its derivative in (3).
_SLOPES = {1: (1.0,), 2: (0.0, 1.0), 3: (0.0, 1 / 3, 1 / 3)}


@cache
def _loops() -> Any | None:
    """The compiled recursion, or None without a Numba that works with this NumPy."""
    try:
        from onefold.kernels import line_loops
    except ImportError:
        return None
    return line_loops


@dataclass(frozen=True)
class LineKernel:
    """A kernel on a line: exp(−s) times a polynomial of degree p − 1 of s = rate · |x − z|."""

    dimension: int  # p
    rate: float

    def steps(self, points: HostArray) -> HostArray:
        """The distances between neighbours of ascending points."""
        return np.minimum(self.rate * np.diff(points), LONGEST)


def line_kernel(kernel: Kernel, features: int) -> LineKernel | None:
    """The line kernel that a Matérn or Laplacian kernel of one feature is; None without Numba, too."""
    if features != 1 or not isinstance(kernel, Matern | Laplacian) or _loops() is None:
        return None
    scale = abs(float(kernel.transform(np.ones((1, 1)))(np.ones((1, 1)))[0, 0]))
    if isinstance(kernel, Matern):
        return LineKernel(round(kernel.nu + 0.5), 2.0 * math.sqrt(kernel.nu) * scale)
    return LineKernel(1, scale)


class LineSums:
    """The sums over centres z (m,) with coefficients c (m, targets)."""

    def __init__(self, line: LineKernel, centres: HostArray, coef: HostArray) -> None:
        order = np.argsort(centres, kind="stable")
        self._line = line
        self._points = centres[order]
        self._coef = coef[order]

    def values(self, x: HostArray) -> HostArray:
        """Σ_j c_j k(x, z_j) at points x, by (3): (points, targets)."""
        weights = _VALUES[self._line.dimension]
        return self._sum(x, weights, strict=False, sign=1.0)

    def slopes(self, x: HostArray) -> HostArray:
        """Its derivative at points x, by (3): (points, targets)."""
        weights = _SLOPES[self._line.dimension]
        return self._line.rate * self._sum(x, weights, strict=True, sign=-1.0)

    def _sum(self, x: HostArray, weights: Sequence[float], *, strict: bool, sign: float) -> HostArray:
        """Σ over the points above x plus sign · Σ over those below.

        Points equal to x count as below, or with `strict` on neither side.
        """
        points = self._points
        line = self._line
        count_below = np.searchsorted(points, x, side="left" if strict else "right")
        count_up_to = np.searchsorted(points, x, side="right")
        sides = (
            _Side(line, points, x, count_below - 1),
            _Side(line, -points[::-1], -x, len(points) - count_up_to - 1),
        )

        def of_target(target: int) -> HostArray:
            column = self._coef[:, target]
            below = sides[0].sums(column, weights)
            above = sides[1].sums(column[::-1], weights)
            return above + sign * below

        targets = range(self._coef.shape[1])
        out = np.empty((len(x), len(targets)))
        for target, values in zip(targets, map_in_order(of_target, targets)):
            out[:, target] = values
        return out


class _Side:
    """The points on one side of every x, in ascending order towards it."""

    def __init__(self, line: LineKernel, points: HostArray, x: HostArray, nearest: Index) -> None:
        self._dimension = line.dimension
        self._steps = line.steps(points)
        self._with_points = np.flatnonzero(nearest >= 0)  # the x with a point on this side
        self._nearest = nearest[self._with_points]
        self._size = len(x)
        gap = line.rate * (x[self._with_points] - points[self._nearest])
        self._gap = np.minimum(gap, LONGEST)
        self._decay = np.exp(-self._gap)

    def sums(self, coef: HostArray, weights: Sequence[float]) -> HostArray:
        """Σ_k weights_k M_k at every x: the moments (1) of its nearest point, moved to x by (2)."""
        loops = cast(Any, _loops())
        moments = np.empty((len(coef), self._dimension))
        loops.fill_moments(self._steps, np.ascontiguousarray(coef), moments)
        near = moments[self._nearest]
        total = weights[0] * near[:, 0]
        if self._dimension > 1:
            total += weights[1] * (near[:, 1] + self._gap * near[:, 0])
        if self._dimension > 2:
            lower = 2.0 * near[:, 1] + self._gap * near[:, 0]
            total += weights[2] * (near[:, 2] + self._gap * lower)
        out = np.zeros(self._size)
        out[self._with_points] = self._decay * total
        return out
