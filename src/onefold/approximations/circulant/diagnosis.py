r"""How far the circulant matrix is from the kernel matrix, without forming either."""

from __future__ import annotations

import math

import numpy as np

from onefold.approximations.circulant.model import Layout
from onefold.approximations.circulant.row import first_row
from onefold.approximations.problem import Problem
from onefold.kernels import Kernel
from onefold.linalg import double, is_sparse, namespace, take_rows, to_numpy

_SIDE = 128


def relative_error(kernel: Kernel, problem: Problem, layout: Layout) -> float:
    """‖K − U‖ / ‖K‖ in the Frobenius norm, estimated from 128 × 128 sampled pairs of rows.

    The diagonal, the same everywhere, is counted exactly; the sample stands for the rest.
    """
    n = problem.n
    rng = np.random.default_rng(0)
    cells = [np.sort(rng.choice(n, min(n, _SIDE), replace=False)) for _ in range(2)]
    rows = [part if layout.order is None else layout.order[part] for part in cells]
    left, right = (double(take_rows(problem.X, part)) for part in rows)
    if not is_sparse(left):
        middle = namespace(left).mean(left, axis=0)[None, :]  # saves the digits of rows far from 0
        left, right = left - middle, right - middle
    K = np.asarray(to_numpy(kernel(left, right)))
    u = np.asarray(to_numpy(first_row(kernel, layout.shape, layout.spacing, problem.Y)))
    grids = [np.unravel_index(part, layout.shape) for part in cells]
    U = u[tuple((b[None, :] - a[:, None]) % size for a, b, size in zip(*grids, layout.shape))]
    apart = cells[0][:, None] != cells[1][None, :]
    diagonal = float(to_numpy(kernel.diagonal(left[:1, :]))[0])
    others = n * (n - 1) / max(1, int(apart.sum()))
    error = n * (diagonal - float(u.flat[0])) ** 2 + others * np.sum((K - U)[apart] ** 2)
    return math.sqrt(error / (n * diagonal**2 + others * np.sum(K[apart] ** 2)))
