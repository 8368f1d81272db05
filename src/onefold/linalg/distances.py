r"""Distances between rows and landmarks, which are prepared once.

Squared distances come from one matrix product,

    (1)  ‖a − z‖² = [−2a, ‖a‖², 1] · [z, 1, ‖z‖²]

times a constant. Its sign is part of the product: the exponent −d² of the rbf kernel needs no further
pass over the tile.

No matrix product gives sums of absolute differences, Σ_f |a_f − b_f|, or of their signs: n · m · d
differences are formed one by one, in one pass over a tile.

    NumPy           loops compiled by Numba where it is installed, SciPy's cdist in float64 otherwise
    torch on CUDA   a Triton kernel, the exponential included
    elsewhere       column by column, in place where the library can
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from onefold import linalg
from onefold.linalg import Array, Index, abs_in_place, exp_in_place, is_numpy, is_sparse, namespace
from onefold.linalg.indicators import SplitColumns, absolute_sums
from onefold.machine.threads import spans

# Numbers worked on at a time: they stay in a core's cache.
_STRIP = 2**16
# Numbers of a tile from which compiled loops serve it: loading Numba takes a third of a second.
_WORTH_COMPILING = 2**18

Pairs = tuple[Index, Index]
"""Row numbers and column numbers of pairs, in the order of the rows."""

# The sum of two squared norms, in units of the kernel's width, up to which close pairs need not be
# computed anew: ‖a‖² + ‖b‖² − 2a·b loses eps·(‖a‖² + ‖b‖²) of d².
HARMLESS_NORM = 64.0
# The squared distance, in units of the kernel's width, from which pairs need no better distance:
# exp(−50) is negligible.
_FAR = 50.0
# Of a row's squared norm: a squared distance below it has lost three digits or more to cancellation.
_LOST_DIGITS = 1e-3
# Times eps and the number of features, of ‖a‖²: how wrong the squared distance of close rows may be.
_ROUNDINGS = 4
# Features up to which differences, one by one, take less time than a product and passes over its result.
_MOST_FEATURES = 256
# Differences of close pairs that are formed at a time.
_PAIR_NUMBERS = 2**20
# Halvings of a kernel in float32 beyond which all pairs count as equally far. The square of 2⁻⁶² is
# still a normal number, and products of subnormal numbers take a processor a hundred times longer; 2⁻⁶²
# of the diagonal is negligible.
_SINGLE_HALVINGS = 62
# The same in float64, by the square of 2⁻⁵¹⁰.
_DOUBLE_HALVINGS = 510

L1Tile: TypeAlias = Callable[[Any, Any | None], Any]
"""rows, out → tile (rows, m), written to `out` if that has the right dtype and layout."""


def inner_products(A: Array, B: Array, out: Array | None = None) -> Array:
    """A Bᵀ as a dense array, in `out` where it fits."""
    if not is_sparse(A) and not is_sparse(B):
        return linalg.product_into(A, B.T, out)
    if is_sparse(A) and is_sparse(B):
        return SplitColumns(B).products(A)
    product = A @ B.T
    return product.toarray() if is_sparse(product) else product


def squared_norms(A: Array) -> Any:
    """Σ_j a_ij² of every row."""
    if is_sparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return namespace(A).sum(A * A, axis=1)


class SquaredDistances:
    """unit · ‖a − z‖² by (1) to the landmarks Z (m, d), an array or CSR matrix, for a kernel's profile.

    In NumPy they are accurate also for nearly equal rows: pairs whose distance lost digits to
    cancellation and still matters to the kernel are recomputed from their differences, unless squared
    norms are below `harmless`. In other libraries, where a device would have to wait for that, the
    squared distance of close rows has an error of eps · ‖a‖²: rows must be centred about 0.
    `reach(exponent)` is the squared distance at which the kernel falls to about exp(−exponent).
    """

    def __init__(self, Z: Array, unit: float, harmless: float, reach: Callable[[float], float]) -> None:
        self._Z = Z
        self._unit = unit
        self._harmless = harmless
        self._reach = reach
        self._norms = norms = squared_norms(Z)
        self._columns = SplitColumns(Z) if is_sparse(Z) else None
        filled = Z if self._columns is None else self._columns.filled
        xp = namespace(filled)
        self._extended_landmarks = xp.concat(
            [filled, xp.ones_like(norms)[:, None], norms[:, None]], axis=1
        ).T

    def __call__(self, A: Array, out: Array | None = None) -> tuple[Any, Pairs | None]:
        """The tile (len(A), m) and, in NumPy, the close pairs that were computed anew; else None.

        No number has the wrong sign. In NumPy, distances beyond the kernel's reach are cut to it.
        """
        if not is_numpy(A):
            return self._device_tile(A, out), None
        norms = squared_norms(A)
        sign = math.copysign(1.0, self._unit)
        if is_sparse(A) and self._columns is None:
            tile: Any = np.asarray(inner_products(A, self._Z))
            tile *= -2 * sign
            tile += sign * norms[:, None]
            tile += sign * self._norms[None, :]
        else:
            filled, remaining = (A, None) if self._columns is None else self._columns.split(A)
            extended_rows = np.empty((A.shape[0], filled.shape[1] + 2), dtype=A.dtype)
            np.multiply(filled, -2 * sign, out=extended_rows[:, :-2])
            np.multiply(norms, sign, out=extended_rows[:, -2])
            extended_rows[:, -1] = sign
            tile = linalg.product_into(extended_rows, self._extended_landmarks, out)
            if self._columns is not None:
                self._columns.add_products(tile, remaining, -2 * sign)
        close = self._close_pairs(tile, norms, sign)
        for i, j in pair_blocks(close, A.shape[1]):
            differences = A[i] - self._Z[j]
            if is_sparse(differences):
                squares = squared_norms(differences)
            else:
                squares = np.einsum("ij,ij->i", differences, differences)
            tile[i, j] = sign * squares
        halvings = _SINGLE_HALVINGS if tile.dtype == np.float32 else _DOUBLE_HALVINGS
        farthest = sign * self._reach(math.log(2.0) * halvings)  # stands for all distances beyond it
        linalg.clip_in_place(tile, min(0.0, farthest), max(0.0, farthest))
        if abs(self._unit) != 1.0:
            tile *= abs(self._unit)
        return tile, close

    def _device_tile(self, A: Array, out: Array | None) -> Array:
        """(1), without a look for close pairs: a device would have to wait for the host."""
        xp = namespace(A)
        unit = self._unit
        norms = squared_norms(A)[:, None] * unit
        extended_rows = xp.concat([A * (-2 * unit), norms, xp.full_like(norms, unit)], axis=1)
        tile = linalg.product_into(extended_rows, self._extended_landmarks, out)
        if unit > 0:
            return linalg.clip_in_place(tile, 0.0, None)
        return linalg.clip_in_place(tile, None, 0.0)

    def rounding(self, A: Array) -> Array | float:
        """The size (rows, 1) up to which a number of the tile may be that of equal rows; 0 in NumPy."""
        if is_numpy(A):
            return 0.0
        eps = float(namespace(A).finfo(A.dtype).eps)
        return squared_norms(A)[:, None] * (abs(self._unit) * _ROUNDINGS * (A.shape[1] + 2) * eps)

    def _close_pairs(self, tile: Any, norms: Any, sign: float) -> Pairs:
        """The pairs near enough to matter whose distances lost digits, from a tile of sign · d²."""
        if tile.size == 0 or not norms.max() + self._norms.max() > self._harmless:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rounding = _ROUNDINGS * (self._Z.shape[1] + 2) * float(np.finfo(tile.dtype).eps)
        threshold = np.maximum(np.minimum(_LOST_DIGITS * norms, _FAR), rounding * norms)
        signed_threshold = threshold.astype(tile.dtype) * tile.dtype.type(sign)
        is_closer = np.less if sign > 0 else np.greater
        nearest = tile.min(axis=1) if sign > 0 else tile.max(axis=1)
        row_numbers = np.flatnonzero(is_closer(nearest, signed_threshold))
        candidates = tile if row_numbers.size == len(tile) else tile[row_numbers]
        pairs = np.flatnonzero(is_closer(candidates, signed_threshold[row_numbers, None]))
        rows, columns = np.divmod(pairs, tile.shape[1])
        return row_numbers[rows], columns


def pair_blocks(pairs: Pairs, features: int) -> Iterator[Pairs]:
    """The pairs in blocks whose differences take little memory."""
    rows, columns = pairs
    for part in spans(rows.size, max(1, _PAIR_NUMBERS // max(1, features))):
        yield rows[part], columns[part]


# Sums of absolute differences


def l1_exponentials(landmarks: Array) -> L1Tile:
    """The function rows, out → [exp(−Σ_f |rows_if − landmarks_jf|)]."""
    if is_sparse(landmarks):
        return _sparse_tile(landmarks)
    if is_numpy(landmarks):
        return _host_tile(landmarks)
    xp = namespace(landmarks)
    columns = xp.asarray(landmarks.T, copy=True)
    kernel = _triton().module if _suits_triton(landmarks) else None
    if kernel is None:
        return lambda rows, out: _by_columns(rows, columns)
    return lambda rows, out: kernel.exponentials(rows, columns, out)


def power_exponentials(landmarks: Array, power: float) -> L1Tile | None:
    """The function rows, out → [exp(−q^power)], q squared distances to float32 landmarks, by Triton.

    None where there is no Triton, or so many features that products are faster.
    """
    suits = _suits_triton(landmarks) and landmarks.shape[1] <= _MOST_FEATURES
    module = _triton().module if suits else None
    if module is None:
        return None
    columns = namespace(landmarks).asarray(landmarks.T, copy=True)
    return lambda rows, out: module.power_exponentials(rows, columns, power, out)


def signed_sums(rows: Array, landmarks: Any, tile: Any, coef: Any) -> Array:
    """Σ_j tile_ij coef_jt sign(rows_if − landmarks_jf) of shape (rows, d, targets), sign(0) being 0."""
    if is_numpy(rows):
        return _host_signed_sums(rows, landmarks, tile, coef)
    xp = namespace(rows)

    def sums(feature: int) -> Array:
        signs = xp.sign(rows[:, feature][:, None] - landmarks[:, feature][None, :])
        signs *= tile
        return signs @ coef

    return xp.stack([sums(feature) for feature in range(rows.shape[1])], axis=1)


def _suits_triton(x: Array) -> bool:
    """Whether tiles of rows like `x` are made by Triton if it works: floats of torch on a GPU."""
    if not (is_torch_array(x) and linalg.on_accelerator(x)):
        return False
    xp = namespace(x)
    return x.dtype in (xp.float32, xp.float64)


class _Triton(NamedTuple):
    """The module of the Triton kernel, or the reason why there is none."""

    module: Any | None
    reason: str | None = None


@cache
def _triton() -> _Triton:
    """Without a module if Triton is not installed, or finds no C compiler for its launcher."""
    try:
        from onefold.linalg import tile_triton

        tile_triton.try_out()
    except (ImportError, RuntimeError, OSError) as error:
        return _Triton(None, f"{type(error).__name__}: {error}".splitlines()[0])
    return _Triton(tile_triton)


def without_triton(x: Array) -> str | None:
    """Why Laplacian tiles of rows like `x` on a GPU are made without Triton; None if this is not so."""
    return _triton().reason if _suits_triton(x) else None


def _by_columns(rows: Array, columns: Array) -> Array:
    total = -abs(rows[:, :1] - columns[:1, :])
    for feature in range(1, rows.shape[1]):  # no (n, m, d) array, and one of scratch
        total -= abs_in_place(rows[:, feature][:, None] - columns[feature, :][None, :])
    return exp_in_place(total)


@cache
def _numba() -> Any | None:
    """The compiled loops, or None without a Numba that works with this NumPy."""
    try:
        from onefold.linalg import l1_numba
    except ImportError:
        return None
    return l1_numba


def _compiled_for(size: int, *arrays: NDArray[Any]) -> Any | None:
    """The compiled loops where they serve a tile of `size` numbers and arrays of this kind."""
    kinds = {array.dtype for array in arrays}
    if size < _WORTH_COMPILING or kinds not in ({np.dtype(np.float32)}, {np.dtype(np.float64)}):
        return None
    return _numba()


def _host_tile(landmarks: NDArray[Any], function: np.ufunc = np.exp) -> L1Tile:
    """The tile of function(−Σ_f |rows_if − landmarks_jf|)."""
    columns = np.ascontiguousarray(landmarks.T)
    doubles = np.asarray(landmarks, dtype=np.float64)
    m = landmarks.shape[0]

    def tile(rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        n = rows.shape[0]
        dtype = np.result_type(rows, landmarks)
        values = out if out is not None and out.dtype == dtype else np.empty((n, m), dtype=dtype)
        compiled = _compiled_for(n * m, rows, landmarks)
        rows = np.ascontiguousarray(rows)
        step = max(1, _STRIP // max(1, m))
        scratch = np.empty((min(n, step), m), dtype=dtype)
        for part in spans(n, step):
            exponents = scratch[: part.stop - part.start]
            if compiled is not None:
                compiled.fill_negative_l1(rows[part], columns, exponents)
            else:
                wide = exponents if dtype == np.float64 else None
                distances = cdist(rows[part], doubles, "cityblock", out=wide)
                np.negative(distances, out=exponents, casting="same_kind")
            function(exponents, out=values[part])
        return values

    return tile


def _sparse_tile(landmarks: Any) -> L1Tile:
    """The tile of CSR landmarks: sums (2) of `onefold.linalg.indicators`."""
    columns = SplitColumns(landmarks, constant=True)
    sums = absolute_sums(columns.split(landmarks)[1])[:, None]
    # Two more columns, whose differences are the sums of R.
    extended = np.concatenate([columns.filled, np.zeros_like(sums), sums], axis=1)
    negative_distances = _host_tile(extended, np.positive)

    def tile(rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        filled, remaining = columns.split(rows)
        row_sums = absolute_sums(remaining)[:, None]
        extended_rows = np.concatenate([filled, row_sums, np.zeros_like(row_sums)], axis=1)
        values = negative_distances(extended_rows, out)
        columns.add_overlaps(values, remaining)
        np.minimum(values, 0.0, out=values)
        return np.exp(values, out=values)

    return tile


def _host_signed_sums(
    rows: NDArray[Any], landmarks: NDArray[Any], tile: NDArray[Any], coef: NDArray[Any]
) -> NDArray[Any]:
    n, d = rows.shape
    m = landmarks.shape[0]
    columns = np.ascontiguousarray(landmarks.T)
    out = np.empty((n, d, coef.shape[1]), dtype=np.result_type(tile, coef))
    compiled = _compiled_for(n * m, rows, landmarks, tile, coef)
    if compiled is not None:
        weights = np.ascontiguousarray(coef.T)
        compiled.fill_signed_sums(np.ascontiguousarray(rows), columns, tile, weights, out)
        return out
    step = max(1, _STRIP // max(1, d * m))
    above, below = np.empty((2, min(n, step), d, m), dtype=bool)
    signs = np.empty(above.shape, dtype=out.dtype)
    for part in spans(n, step):
        x = rows[part, :, None]
        chunk = slice(0, part.stop - part.start)
        # NumPy's own sign branches on every number, several times slower than two comparisons.
        more = np.greater(x, columns, out=above[chunk])
        less = np.less(x, columns, out=below[chunk])
        np.subtract(more.view(np.int8), less.view(np.int8), out=signs[chunk])
        np.matmul(signs[chunk], tile[part, :, None] * coef, out=out[part])
    return out
