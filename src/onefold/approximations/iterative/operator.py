r"""Products with the kernel matrix, K X for a few columns, without n × n float64 numbers.

The tiles of the lower triangle are kept in float32 where memory allows (n²/2 numbers, each read once
for two products), or computed again at every product. Sums are in float64 either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onefold.kernels.base import Kernel
from onefold.kernels.tiles import common_origin
from onefold.machine.threads import check_stop, map_in_order, map_threads, spans

_SIDE = 1024
_STRIP = 128  # rows of a tile that are summed in float64 at once: they stay in cache


class KernelOperator:
    """K as a linear operator on NumPy arrays (n, columns).

    Parameters
    ----------
    kernel : Kernel
    X : NumPy array (n, d)
    dtype : {float32, float64}
        Of the tiles.
    keep : bool
        Hold all tiles: n² itemsize / 2 bytes. Otherwise O(n²d) time at each product.
    """

    def __init__(self, kernel: Kernel, X: Any, *, dtype: Any, keep: bool) -> None:
        self.n = X.shape[0]
        self._threads = None if kernel.thread_safe else 1
        origin = common_origin(kernel, X)
        shifted = X if origin is None else X - origin[None, :]
        self._rows = np.asarray(shifted, dtype=dtype)
        self._parts = list(spans(self.n, _SIDE))
        self._bound = [kernel.bind(self._rows[part]) for part in self._parts]
        self._kept: list[list[Any]] | None = None
        if keep:
            numbers = range(len(self._parts))
            strips = dict(map_threads(lambda i: (i, self._strip(i)), numbers, self._threads))
            self._kept = [strips[i] for i in numbers]

    def _strip(self, i: int) -> list[Any]:
        """The tiles of block row i up to the diagonal."""
        left = self._rows[self._parts[i]]
        return [tile(left) for tile in self._bound[: i + 1]]

    def product(self, V: Any, *, rough: bool = False) -> Any:
        """K V for V of shape (n, columns), float64.

        `rough` multiplies in the dtype of the tiles, which for float32 is several times faster and
        good to some five digits; sums over tiles are float64 either way.
        """
        narrow = V.astype(self._rows.dtype) if rough else V

        def work(i: int) -> Any:
            mine, out = self._parts[i], np.zeros_like(V)
            for j, tile in self._tiles(i):
                check_stop()
                part = self._parts[j]
                if rough:
                    out[mine] += tile @ narrow[part]
                    if j != i:
                        out[part] += tile.T @ narrow[mine]
                    continue
                for strip in spans(tile.shape[0], _STRIP):
                    piece = tile[strip].astype(np.float64, copy=False)
                    here = slice(mine.start + strip.start, mine.start + strip.stop)
                    out[here] += piece @ V[part]
                    if j != i:
                        out[part] += piece.T @ V[here]
            return out

        total = np.zeros_like(V)
        # Longest block rows first, so that the last ones to run are short.
        for piece in map_in_order(work, reversed(range(len(self._parts))), self._threads):
            total += piece
        return total

    def _tiles(self, i: int) -> Iterator[tuple[int, Any]]:
        """(j, tile) of block row i up to the diagonal: the kept ones, or each in the same memory."""
        if self._kept is not None:
            yield from enumerate(self._kept[i])
            return
        left = self._rows[self._parts[i]]
        buffer = np.empty((left.shape[0], _SIDE), dtype=left.dtype)
        for j in range(i + 1):
            part = self._parts[j]
            width = part.stop - part.start
            yield j, self._bound[j](left, buffer[:, :width])
