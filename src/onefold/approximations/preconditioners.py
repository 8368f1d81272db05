r"""A preconditioner of A = S K S + μI, S = diag √weights: landmarks for what distant rows share, blocks
of near rows for what is left.

With m landmarks Z, K_ZZ = R Rᵀ, and rows in blocks i,

    (1)  Ψ = S K_nZ R⁻ᵀ                     ΨΨᵀ is the part of S K S that the landmarks explain
    (2)  B_i = A_ii − Ψ_i Ψ_iᵀ = L_i L_iᵀ   what they leave of each block, with the ridge
    (3)  V = L⁻¹ Ψ,  L = diag L_i
    (4)  P = ΨΨᵀ + B = L (I + VVᵀ) Lᵀ
    (5)  P⁻¹ = L⁻ᵀ (I − V (I + VᵀV)⁻¹ Vᵀ) L⁻¹

K_ii − Ψ_iΨ_iᵀ is a Schur complement and positive semi-definite, so that L exists for any μ > 0 but for
rounding. If a factorisation fails by rounding, 1e-7 of a bound of the block's largest eigenvalue is
added to its diagonal, then ten times as much, and so on.

P is *defined* by L and V as they are stored, in whatever precision: (5) is applied in float64, with
VᵀV of the stored V, and is therefore symmetric and positive definite to rounding, which conjugate
gradients rely on. On a device L⁻¹ is stored in place of L: a product with few columns is much faster
there than a solution. One block and no landmarks are a factor of A itself; blocks of one row and
landmarks are a low-rank model with the diagonal put right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.kernels import Kernel
from onefold.kernels.tiles import check_symmetric, common_origin, device_rows
from onefold.linalg import (
    Array,
    as_float64,
    device_of,
    namespace,
    prefers_large_calls,
    take_rows,
    zeros,
)
from onefold.linalg.dense import (
    add_gram,
    add_to_diagonal,
    cholesky,
    cholesky_solve,
    invert_lower,
    mirror,
    solve_triangle,
)
from onefold.linalg.iterate import Map
from onefold.linalg.partition import near_blocks
from onefold.machine.threads import check_stop, map_in_order, spans
from onefold.smoothers.base import UnsolvableError

# Fewest rows of a block by default: smaller ones are not worth their calls;
# chosen, not measured.
_SMALLEST_BLOCK = 1024
# Multiply-adds that take as long as a kernel value takes beyond its distance, on a host: an exponential
# and passes over a tile in cache; and on a GPU, whose products are fast and whose memory is slow. Both
# measured, to a factor of two.
_HOST_VALUE = 15
_GPU_VALUE = 300
# Products with the matrix that making a preconditioner may take as long as, on a host; measured: from 2
# to 6 the whole takes about as long. On a GPU factorisations are slower than products are.
_PRODUCTS = 2.0
_GPU_PRODUCTS = 1.0
# Most landmarks by default, because their own factor costs m³; chosen, not
# measured.
_MOST_LANDMARKS = 4000
# Share of the usable memory that the factors of the blocks may take; the remainder is for landmarks,
# tiles and iterates; chosen, not measured.
_FACTOR_SHARE = 0.6
# The same of what V may take, where the number of landmarks is a default; chosen, not measured.
_LANDMARK_SHARE = 0.3
# Added to the diagonal of the landmark kernel, in units of a bound of its largest eigenvalue: smaller
# eigenvalues are lost in the rounding of float64.
_LANDMARK_JITTER = 1e-13
# Rounding of a float32 factor that a ridge must exceed, in units of eps/2 times the root of its rows;
# chosen: where a factor fails all the same, the diagonal is raised.
_SINGLE_NOISE = 3.0
# Shares of the largest eigenvalue that are added to the diagonal if a factorisation fails: the first and
# the largest; chosen, not measured.
_JITTER = 1e-7
_LARGEST_JITTER = 1e-3
_INDEFINITE = "the kernel matrix is not positive semi-definite; use a positive semi-definite kernel."
# Bytes of V beyond which it is kept in float32; chosen, not measured.
_LARGE = 2**29
# Rows of V that one thread takes at a time: they stay in cache.
_STRIP = 256


@dataclass(frozen=True)
class PreconditionerPlan:
    """The sizes of a preconditioner."""

    blocks: int  # blocks of near rows
    landmarks: int
    single: bool  # whether factors are kept in float32

    def bytes(self, n: int) -> float:
        """Bytes of the factors, of V, and of the largest arrays while they are made."""
        rows = math.ceil(n / self.blocks)
        number = 4 if self.single else 8
        features = 4 if 8 * n * self.landmarks > _LARGE else 8
        return float(number * n * rows + features * n * self.landmarks + 8 * rows * self.landmarks)

    def operations(self, n: int, d: int) -> float:
        """Multiply-adds to make it."""
        rows = n / self.blocks
        m = self.landmarks
        return n * rows * (d + rows / 6 + m) + n * m * (d + 2 * m) + 10.0 * m**3


def product_operations(shape: tuple[int, int, int], *, systems: int, gpu: bool) -> float:
    """Multiply-adds that take as long as a product of the matrix with a column per target and system."""
    n, d, targets = shape
    value = _GPU_VALUE if gpu else _HOST_VALUE
    return float(n) ** 2 / 2 * (d + 2 * systems * targets + value)


def plan_preconditioner(
    shape: tuple[int, int, int],
    usable: float | None,
    *,
    gpu: bool = False,
    systems: int = 1,
    landmarks: int | None = None,
    block_rows: int | None = None,
    mu: float = math.inf,
) -> PreconditionerPlan:
    """The sizes for rows, features and targets, in so many usable bytes (None: unknown).

    ======================================  =======================================================
    rows of a block b and landmarks m,      n (b² / 6 + m b + m²) = two products with K, or one on a
    by default                              GPU, whose factorisations are slower; m = b, or 4000 or an
                                            eighth of the rows if that is less; b is at least 1024
    all rows are not much more than that    one block of all rows, without landmarks
    (up to 2 b)
    60 % of the memory hold the factors     in float64
    of all systems
    they do not, and the ridge exceeds      in float32
    3 times their rounding
    they do not hold those either           smaller blocks
    30 % do not hold V of all systems       fewer landmarks
    ======================================  =======================================================

    `systems` are preconditioners that exist at once: of all rows, and without each fold. Sizes follow
    from numbers of operations, not from a measured speed, so that the same rows always have the same.
    """
    n = shape[0]
    products = _GPU_PRODUCTS if gpu else _PRODUCTS
    effort = products * product_operations(shape, systems=systems, gpu=gpu) / n
    m = landmarks
    if m is None:
        m = max(1, min(int(math.sqrt(effort / (1 / 6 + 2))), _MOST_LANDMARKS, n // 8))
    rows = block_rows
    if rows is None:
        of_blocks = max(0.0, effort - m * m) / (1 / 6)
        rows = max(_SMALLEST_BLOCK, int(math.sqrt(9.0 * m * m + of_blocks) - 3 * m))
    share = math.inf if usable is None else _FACTOR_SHARE * usable / systems
    if block_rows is None and n <= 2 * rows and 8.0 * n * n <= share:
        rows = n
    rows = min(rows, n)
    noise = _SINGLE_NOISE * float(np.finfo(np.float32).eps) / 2
    single = 8.0 * n * rows > share and mu > noise * math.sqrt(rows)
    if share < math.inf:
        rows = max(1, min(rows, int(share / ((4 if single else 8) * n))))
    blocks = -(-n // rows)
    if landmarks is None and blocks == 1:
        m = 0
    if landmarks is None and usable is not None:
        room = _LANDMARK_SHARE * usable / systems
        # A V that fills the room is in float32 where it has more than 2²⁶ numbers.
        m = min(m, int(room / (4 if 2 * room > _LARGE else 8) / n))
    return PreconditionerPlan(blocks, min(m, n), single)


class LocalPreconditioner:
    """P⁻¹ of (5) for one kernel, some rows with positive weights, and one μ at a time."""

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        root: Array,
        plan: PreconditionerPlan,
        generator: np.random.Generator,
    ) -> None:
        n = int(X.shape[0])
        origin = common_origin(kernel, X)
        rows = as_float64(X)
        self._rows = rows if origin is None else rows - origin[None, :]
        if not kernel.always_psd:
            _check_symmetric(kernel, self._rows[:_STRIP, :])
        self._kernel = kernel
        self._root = root
        self._plan = plan
        self._stores_inverse = prefers_large_calls(X)  # whether L⁻¹ is stored
        self._threads = None if kernel.thread_safe and not prefers_large_calls(X) else 1
        transform = getattr(kernel, "transform", None)
        moved = self._rows if transform is None else transform(self._rows)(self._rows)
        blocks = near_blocks(moved, plan.blocks, generator) if plan.blocks > 1 else [np.arange(n)]
        self._order = np.concatenate(blocks)
        self._inverse_order = np.argsort(self._order)
        ends = np.cumsum([block.size for block in blocks])
        self._parts = [slice(int(end) - block.size, int(end)) for block, end in zip(blocks, ends)]
        self._is_permuted = len(blocks) > 1
        if self._is_permuted:
            self._rows = take_rows(self._rows, self._order)
            self._root = take_rows(root, self._order)
        self._rank = min(plan.landmarks, n)  # the plan is for all rows, and these may be fewer
        drawn = np.sort(generator.choice(n, self._rank, replace=False))
        self._landmarks = take_rows(self._rows, drawn)
        self._factors: list[Any] = []
        self._features: Any = None  # V (n, r), (3)
        self._core: Any = None  # the Cholesky factor of I + VᵀV
        self.report: dict[str, Any] = {
            "method": "factor" if len(blocks) == 1 else "landmarks and blocks",
            "blocks": len(blocks),
            "block_rows": max(block.size for block in blocks),
            "landmarks": self._rank,
            "precision": "float32" if plan.single else "float64",
        }

    def solver(self, mu: float) -> Map:
        """The function Z ↦ P⁻¹ Z for Z (n, columns) in float64, until the next μ is asked for."""
        self._factorise(mu)
        return self._solve

    def _factorise(self, mu: float) -> None:
        self._factors = []  # before the next ones need their memory
        self._features = self._core = None
        n = int(self._rows.shape[0])
        xp = namespace(self._rows)
        m = self._rank
        whitening = self._whitening() if m else None
        if m:
            dtype = xp.float32 if 8 * n * m > _LARGE else xp.float64
            self._features = xp.empty((n, m), dtype=dtype, device=device_of(self._root))

        def factorised(part: slice) -> tuple[Any, float]:
            psi = None if whitening is None else self._psi(part, whitening)
            factor, jitter = self._factor(part, mu, psi)
            if psi is not None:
                self._features[part, :] = self._solve_lower(factor, psi)
            return factor, jitter

        results = list(map_in_order(factorised, self._parts, self._threads))
        self._factors = [factor for factor, _ in results]
        if m:
            self._core = cholesky(add_to_diagonal(self._gram(m), 1.0), overwrite=True)
        jitter = max(jitter for _, jitter in results)
        self.report = self.report | {"alpha": mu, "jitter": jitter}

    def _whitening(self) -> Array:
        """R⁻ᵀ of (1)."""
        W = as_float64(self._kernel(self._landmarks, self._landmarks))
        xp = namespace(W)
        # A kernel that is 0 at all landmarks has a Ψ of 0, whatever R is.
        largest = float(xp.max(xp.sum(xp.abs(W), axis=1))) or 1.0
        jitter = _LANDMARK_JITTER
        while True:
            try:
                matrix = add_to_diagonal(xp.asarray(W, copy=True), jitter * largest)
                return invert_lower(cholesky(matrix, overwrite=True)).T
            except np.linalg.LinAlgError:
                jitter *= 10
                if jitter > _LARGEST_JITTER:
                    raise UnsolvableError(_INDEFINITE) from None

    def _psi(self, part: slice, whitening: Array) -> Array:
        """Ψ of some rows, (1)."""
        bound = self._kernel.bind(self._landmarks)
        xp = namespace(self._rows)
        strips = []
        step = device_rows(self._rank) if prefers_large_calls(whitening) else 4 * _STRIP
        for strip in spans(part.stop - part.start, step):
            strip = slice(part.start + strip.start, part.start + strip.stop)
            tile = as_float64(bound(self._rows[strip, :]))
            strips.append((tile @ whitening) * self._root[strip, None])
        return xp.concat(strips)

    def _factor(self, part: slice, mu: float, psi: Array | None) -> tuple[Any, float]:
        """L_i of (2), and what was added to its diagonal, as a share of the largest eigenvalue."""
        jitter = 0.0
        while True:
            matrix = self._block(part, mu, psi, jitter)
            try:
                factor = cholesky(matrix, overwrite=True)
            except np.linalg.LinAlgError:
                jitter = 10 * jitter or _JITTER
                if jitter > _LARGEST_JITTER:
                    raise UnsolvableError(_INDEFINITE) from None
                continue
            return (invert_lower(factor) if self._stores_inverse else factor), jitter

    def _solve_lower(self, factor: Any, rhs: Array) -> Array:
        """L⁻¹ z of a block."""
        if self._stores_inverse:
            return as_float64(factor) @ rhs
        return solve_triangle(factor, rhs, transposed=False)

    def _solve_upper(self, factor: Any, rhs: Array) -> Array:
        """L⁻ᵀ z of a block."""
        if self._stores_inverse:
            return as_float64(factor).T @ rhs
        return solve_triangle(factor, rhs, transposed=True)

    def _block(self, part: slice, mu: float, psi: Array | None, jitter: float) -> Any:
        """B_i of (2), made strip by strip in its place from float64 kernel values."""
        rows = self._rows[part, :]
        root = self._root[part]
        xp = namespace(rows)
        n = int(rows.shape[0])
        dtype = xp.float32 if self._plan.single else xp.float64
        matrix = xp.empty((n, n), dtype=dtype, device=device_of(root))
        bound = self._kernel.bind(rows)
        largest = 0.0
        for strip in spans(n, device_rows(n) if prefers_large_calls(rows) else 2 * _STRIP):
            check_stop()
            tile = as_float64(bound(rows[strip, :]))
            tile *= root[strip, None]
            tile *= root[None, :]
            # No eigenvalue is larger than the largest sum of absolute values in a row.
            largest = max(largest, float(xp.max(xp.sum(xp.abs(tile), axis=1))))
            if psi is not None:
                tile -= psi[strip, :] @ psi.T
            matrix[strip, :] = xp.astype(tile, dtype, copy=False)
            del tile
        diagonal = as_float64(self._kernel.diagonal(rows)) * root**2 + (mu + jitter * largest)
        if psi is not None:
            diagonal = diagonal - xp.sum(psi * psi, axis=1)
        xp.reshape(matrix, (-1,))[:: n + 1] = xp.astype(diagonal, dtype, copy=False)
        return matrix

    def _gram(self, rank: int) -> Array:
        """VᵀV, in float64, of V as it is stored."""
        n = int(self._rows.shape[0])

        def gram(part: slice) -> Array:
            total = zeros((rank, rank), self._root)
            add_gram(total, as_float64(self._features[part, :]))
            return mirror(total)

        step = device_rows(rank) if prefers_large_calls(self._root) else 8 * _STRIP
        total = zeros((rank, rank), self._root)
        for part_gram in map_in_order(gram, spans(n, step), self._threads):
            total += part_gram
        return total

    def _solve(self, Z: Array) -> Array:
        """P⁻¹ Z, (5)."""
        xp = namespace(Z)
        Z = take_rows(Z, self._order) if self._is_permuted else xp.asarray(Z, copy=True)
        numbers = range(len(self._parts))

        def solve_lower(number: int) -> tuple[Array, Any]:
            part = self._parts[number]
            solved = self._solve_lower(self._factors[number], Z[part, :])
            projected = None if self._core is None else as_float64(self._features[part, :]).T @ solved
            return solved, projected

        results = list(map_in_order(solve_lower, numbers, self._threads))
        shared = None
        if self._core is not None:
            shared = cholesky_solve(self._core, sum(projected for _, projected in results))

        def solve_upper(number: int) -> Array:
            solved, _ = results[number]
            if shared is not None:
                solved = solved - as_float64(self._features[self._parts[number], :]) @ shared
            return self._solve_upper(self._factors[number], solved)

        total = xp.concat(list(map_in_order(solve_upper, numbers, self._threads)))
        return take_rows(total, self._inverse_order) if self._is_permuted else total


def _check_symmetric(kernel: Kernel, rows: Array) -> None:
    """Raise where k(a, b) and k(b, a) differ: factors and products use only one of them."""
    tile = as_float64(kernel(rows, rows))
    xp = namespace(tile)
    check_symmetric(tile, tile.T, float(xp.max(xp.abs(tile))))
