r"""Rows to features of a basis model, tile by tile: φ(x) = [k(x, z_1) … k(x, z_m)].

A tile of rows × landmarks is computed in X's dtype, small enough to stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from onefold.basis.whitening import Precision
from onefold.kernels import Kernel
from onefold.kernels.base import Tile
from onefold.kernels.tiles import common_origin, device_rows
from onefold.linalg import Array, double, is_foreign, is_sparse, namespace, zeros
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import UnsolvableError

_NOTHING = 1e-140  # of the largest entry of a kernel matrix: its square is still a normal number
_TILE_BYTES = 2 * 2**20  # of a tile: it should stay in a core's cache


def finite_kernel(values: Any) -> Any:
    """The values, or several arrays of them, if all are finite; raise before they spoil what follows."""
    arrays = values if isinstance(values, list) else [values]
    # A sum passes on what is not finite, without a second array.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(sum(namespace(array).sum(array) for array in arrays))
    if not np.isfinite(total):
        raise UnsolvableError(
            "the kernel has NaN or infinite values on these rows; scale the features, or check the "
            "kernel."
        )
    return values


@dataclass(frozen=True)
class Design:
    """A kernel and its landmarks: rows → features."""

    kernel: Kernel
    landmarks: Any  # array or CSR matrix (m, d), in the dtype of the rows
    precision: Precision = "double"  # of float32 rows; float64 rows are always "double"
    leading: Any | None = None  # (m, q) orthonormal directions that "single" sums apart, in float64
    mix: Any | None = None  # (m, r): the features are φ(x)·mix, for precision "double" only

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: what was computed from them is computed again where it is needed."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def placed(self, place: Callable[[Any], Any]) -> Design:
        """The same with its arrays moved by `place`."""
        arrays = {name: getattr(self, name) for name in ("landmarks", "leading", "mix")}
        return replace(self, **{name: place(a) for name, a in arrays.items() if a is not None})

    @property
    def size(self) -> int:
        """Number of features."""
        return int((self.landmarks if self.mix is None else self.mix.T).shape[0])

    @property
    def threads(self) -> int | None:
        """How many threads may evaluate the kernel: one, or as many as there are (None)."""
        return 1 if not self.kernel.thread_safe or is_foreign(self.landmarks) else None

    @cached_property
    def unit(self) -> float:
        """The size of a feature at its landmark: k(z, z), or its root where features are whitened."""
        largest = float(namespace(self.landmarks).max(self.kernel.diagonal(self.landmarks)))
        return largest if self.mix is None else float(np.sqrt(largest))

    @cached_property
    def _bound(self) -> tuple[Tile, Array | None]:
        """The tile function of the landmarks about their common origin, and that origin."""
        landmarks = double(self.landmarks) if self.precision == "double" else self.landmarks
        origin = common_origin(self.kernel, landmarks)
        if origin is None:
            return self.kernel.bind(landmarks), None
        origin = namespace(origin).astype(origin, landmarks.dtype)
        return self.kernel.bind(landmarks - origin[None, :]), origin

    def inner(self) -> Array:
        """The landmark kernel W, float64, where the landmarks are."""
        rows = double(self.landmarks)
        origin = common_origin(self.kernel, rows)
        rows = rows if origin is None else rows - origin[None, :]
        W = finite_kernel(double(self.kernel(rows, rows)))
        xp = namespace(W)
        size = xp.abs(W)
        # Products of subnormal numbers take a processor a hundred times longer.
        return xp.where(size < _NOTHING * xp.max(size), 0.0 * W, W)

    def tiles(self, rows: Array, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """Feature tiles of consecutive rows in `dtype`; each is overwritten by the next."""
        bound, origin = self._bound
        m, dense = int(self.landmarks.shape[0]), not (is_sparse(rows) or is_foreign(rows))
        step = device_rows(m) if is_foreign(rows) else max(16, _TILE_BYTES // (4 * max(1, m)))
        step = min(step, max(1, rows.shape[0]))
        if dense:
            buffer = np.empty((step, m), dtype=np.float64 if self.precision == "double" else rows.dtype)
            cast = buffer if dtype == buffer.dtype else np.empty_like(buffer, dtype=dtype)
        for part in spans(rows.shape[0], step):
            check_stop()
            some = rows[part] if is_sparse(rows) else rows[part, :]
            some = double(some) if self.precision == "double" else some
            some = some if origin is None else some - origin[None, :]
            count = part.stop - part.start
            tile = bound(some, buffer[:count]) if dense else double(bound(some))
            if dense and tile.dtype != dtype:
                np.copyto(cast[:count], tile)
                tile = cast[:count]
            yield part, tile if self.mix is None else tile @ self.mix

    def times(self, rows: Array, matrix: Array | None = None) -> Array:
        """Φ·matrix for a float64 matrix (features, columns), or Φ itself, tile by tile."""
        columns = self.size if matrix is None else int(matrix.shape[1])
        out = zeros((rows.shape[0], columns), self.landmarks)
        for part, tile in self.tiles(rows, np.dtype(np.float64)):
            out[part, ...] = tile if matrix is None else tile @ matrix
        return out
