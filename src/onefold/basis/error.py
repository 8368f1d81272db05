r"""How far the low-rank kernel matrix is from the true one, and what ding2012 makes of it.

With J a uniform sample of s of the n rows,

    ‖K − K̃‖₂ ≈ (n/s) ‖(K − K̃)_JJ‖₂                                                               (1)

by Lanczos' method (K − K̃ is positive semi-definite, and a Ritz value is at most an eigenvalue). For
n ≤ s it is the norm itself. ding2012 then bounds the change of the decision function, when both models
predict with the true kernel over all rows and share b:

    |f̃(x) − f(x)| ≤ κ √n (‖y‖ + |b| √n) ‖K − K̃‖₂ / μ²,    κ = max k(x, x)

for equal weights. Weights v, S = diag(√v_i), make it the same statement on SKS, SK̃S, Sy, √v b and the
values √v_i k(x, x_i), and ‖S(K − K̃)S‖₂ ≤ max v ‖K − K̃‖₂:

    |f̃(x) − f(x)| ≤ κ √Σv (‖Sy‖ + |b| √Σv) max v ‖K − K̃‖₂ / μ²                                    (2)

It is a worst case, and usually far above the change itself.

The change itself is close to what `decision_change` estimates. With R_b of the true kernel, the
coefficients α̃ of the low-rank model and r = (K − K̃) α̃, the two functions that α̃ gives differ from f at
the training rows by

    f̃ − f = (I − R_b) r  with the true kernel,    f̃ − f = −R_b r  with the landmarks              (3)

R_b has its eigenvalues in [0, 1], so neither is longer than r; with weights the same holds for S r. The
root mean square of r over a sample of the rows is an estimate of that bound. It is also how far the
predictions of both forms are from each other: no system with K is solved, and no norm is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onefold.basis.statistics import Design
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import Array, HostArray, asarray_like, host_array, namespace, zeros
from onefold.rows import Block, Rows

# Rows of which the norm of K − K̃ is estimated: their kernel takes 32 MiB.
SAMPLE = 2048
# Rows at which the change of f is estimated.
_CHANGE_ROWS = 256
# Of Lanczos' method: as close as 40 power iterations or more.
_STEPS = 12
# The smallest normal number of float64.
_TINY = float(np.finfo(float).tiny)
# Of a vector's length: a vector that is shorter after orthogonalisation is rounding.
_NO_DIRECTION = 1e-12


class KernelError(NamedTuple):
    """The error of a low-rank kernel matrix."""

    norm: float  # ‖K − K̃‖₂
    rows: int  # from which it was estimated
    largest_diagonal: float  # κ


def kernel_error(design: Design, T: Array | None, source: Rows, *, seed: int) -> KernelError:
    """(1): O(s² d + s m d) for a sample of s ≤ 2048 rows, K̃ not formed."""
    n = source.n
    rng = np.random.default_rng(seed)
    size = min(n, SAMPLE)
    rows = source.sample(np.sort(rng.choice(n, size, replace=False)) if size < n else np.arange(n))
    K = gram(design.kernel, rows)
    features = design.times(rows)

    def difference(vector: Array) -> Array:
        inner = features.T @ vector
        return K @ vector - features @ (inner if T is None else T @ (T.T @ inner))

    norm = (n / size) * largest_eigenvalue(difference, asarray_like(rng.standard_normal(size), K))
    largest = float(namespace(K).max(namespace(K).linalg.diagonal(K)))
    return KernelError(norm, size, largest)


@dataclass(frozen=True)
class _TrueProduct:
    """Block → K(sample, block) · v (y − f̃) of the block's rows, (sample, targets)."""

    design: Design
    sample: Array  # rows of X
    coef: Array  # (features, targets)
    intercept: Array  # (targets,)

    def __call__(self, block: Block) -> Array:
        residual = block.Y - self.design.times(block.X, self.coef) - self.intercept[None, :]
        if block.root is not None:
            residual = residual * (block.root**2)[:, None]
        return kernel_product(self.design.kernel, self.sample, block.X, residual)

    def zero(self, targets: int, reference: Array) -> Array:
        return zeros((self.sample.shape[0], targets), reference)

    def placed(self, place: Callable[[Any], Any]) -> _TrueProduct:
        return _TrueProduct(
            self.design.placed(place), place(self.sample), place(self.coef), place(self.intercept)
        )


def decision_change(
    design: Design,
    source: Rows,
    weight: HostArray | None,
    coef: Array,
    intercept: Array,
    alpha: ArrayLike,
    *,
    seed: int,
) -> float:
    """The root mean square of (K − K̃) α̃ over a sample of the rows, the largest over targets.

    `coef` (features, targets) and `intercept` are the low-rank model's. One pass of O(n (m + s)) kernel
    values for a sample of s ≤ 256 rows.
    """
    n = source.n
    rng = np.random.default_rng(seed)
    size = min(n, _CHANGE_ROWS)
    rows = np.sort(rng.choice(n, size, replace=False)) if size < n else np.arange(n)
    sample = source.sample(rows)
    [total] = source.sums(_TrueProduct(design, sample, coef, intercept), at_most=design.threads)
    fitted = host_array(design.times(sample, coef))
    weight_of_sample = None if weight is None else weight[rows]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite where it leaves the range of float64
        residual = host_array(total) / np.asarray(alpha, dtype=float) - fitted
        squares = np.average(residual**2, axis=0, weights=weight_of_sample)
        return float(np.nan_to_num(np.sqrt(np.max(squares)), nan=np.inf, posinf=np.inf))


def largest_eigenvalue(product: Callable[[Array], Array], start: Array) -> float:
    """Of a positive semi-definite operator, by Lanczos' method: a lower bound, close to it."""
    xp = namespace(start)
    vector = start
    vectors: list[Array] = []
    images: list[Array] = []
    for _ in range(_STEPS):
        # Divided by its largest entry first: the squares of a kernel's values may overflow.
        vector = vector / xp.clip(xp.max(xp.abs(vector)), _TINY, None)
        size = xp.sqrt(vector @ vector)
        if vectors:
            basis = xp.stack(vectors)
            for _ in range(2):  # the first time leaves rounding errors of what is subtracted
                vector = vector - basis.T @ (basis @ vector)
        length = xp.sqrt(vector @ vector)
        if not float(length) > _NO_DIRECTION * float(size):  # the vectors span the whole space
            break
        vectors.append(vector / length)
        images.append(product(vectors[-1]))
        vector = images[-1]
    inner = host_array(xp.stack(vectors) @ xp.stack(images).T)
    return max(0.0, float(np.linalg.eigvalsh(inner)[-1]))


def decision_bound(
    error: KernelError,
    Y: HostArray,
    weight: HostArray | None,
    intercept: HostArray,
    alpha: ArrayLike,
) -> float:
    """(2), the largest over targets."""
    v = np.ones(Y.shape[0]) if weight is None else weight
    root = np.sqrt(v.sum())
    length = np.linalg.norm(np.sqrt(v)[:, None] * Y, axis=0) + np.abs(intercept) * root
    with np.errstate(over="ignore", invalid="ignore"):  # a bound of infinity is one
        worst = np.max(length / np.asarray(alpha, dtype=float) ** 2) * v.max()
        return float(error.largest_diagonal * root * worst * error.norm)
