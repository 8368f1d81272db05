"""Products with the kernel matrix of many rows, which is never in memory as a whole.

K is symmetric: every tile below the diagonal serves twice, as itself and transposed. Tiles are made anew
for each product, or kept where there is room (on a host). A *rough* operator computes kernel values and
products in float32, to about five digits relative to the numbers multiplied; an exact one computes both
in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from onefold import linalg
from onefold.kernels import Kernel
from onefold.kernels.tiles import common_origin
from onefold.linalg import Array, HostArray, as_float64, namespace, zeros
from onefold.machine.threads import check_stop, map_in_order, spans

# Rows of a tile on a host: 4 MB of float32, which stay in cache.
_SIDE = 1024
# Rows of a tile on a GPU: half a gigabyte of float64, which keep it busy.
_GPU_SIDE = 8192
# Rows of a tile that are summed in float64 at once: they stay in cache.
_STRIP = 128


class Operator(Protocol):
    """K as a linear operator."""

    keep: bool  # whether tiles are kept

    def product(self, V: Any) -> Any:
        """K V (n, columns), float64."""


class HostOperator:
    """K from tiles of its lower triangle on threads, kept or made each time."""

    def __init__(self, kernel: Kernel, X: Any, *, rough: bool, keep: bool) -> None:
        self.keep = keep
        self._dtype = np.dtype(np.float32 if rough else np.float64)
        self._height = _SIDE if rough else _STRIP
        self._threads = None if kernel.thread_safe else 1
        origin = common_origin(kernel, X)
        self._rows = np.asarray(X if origin is None else X - origin[None, :], dtype=self._dtype)
        self._parts = list(spans(X.shape[0], _SIDE))
        self._bound = [kernel.bind(self._rows[part]) for part in self._parts]
        self._kept: list[list[HostArray]] | None = None
        if keep:

            def block_row(i: int) -> list[HostArray]:
                rows = self._rows[self._parts[i]]
                return [tile(rows) for tile in self._bound[: i + 1]]

            self._kept = list(map_in_order(block_row, range(len(self._parts)), self._threads))

    def product(self, V: HostArray) -> HostArray:
        """As in `Operator`."""
        narrow = V.astype(self._dtype, copy=False)

        def block_row_products(i: int) -> HostArray:
            start = self._parts[i].start
            out = np.zeros((self._parts[i].stop, V.shape[1]))
            for j, tile in self._tiles(i):
                check_stop()
                part = self._parts[j]
                for strip in spans(tile.shape[0], self._height):
                    piece = tile[strip].astype(self._dtype, copy=False)
                    rows = slice(start + strip.start, start + strip.stop)
                    out[rows] += piece @ narrow[part]
                    if j != i:
                        out[part] += piece.T @ narrow[rows]
            return out

        total = np.zeros_like(V)
        # Longest block rows first, so that the last ones to run are short.
        for piece in map_in_order(block_row_products, reversed(range(len(self._parts))), self._threads):
            total[: len(piece)] += piece
        return total

    def _tiles(self, i: int) -> Iterator[tuple[int, HostArray]]:
        """(j, tile) of block row i up to the diagonal: the kept ones, or each in the same memory."""
        if self._kept is not None:
            yield from enumerate(self._kept[i])
            return
        rows = self._rows[self._parts[i]]
        buffer = np.empty((rows.shape[0], _SIDE), dtype=rows.dtype)
        for j, part in enumerate(self._parts[: i + 1]):
            yield j, self._bound[j](rows, buffer[:, : part.stop - part.start])


class DeviceOperator:
    """K from square tiles of its lower triangle, each large enough to keep a device busy.

    Rows are in float64 for both kinds: rough tiles are rounded after their distances are known.
    """

    keep = False

    def __init__(self, kernel: Kernel, X: Array, *, rough: bool) -> None:
        origin = common_origin(kernel, X)
        rows = as_float64(X) if origin is None else as_float64(X) - origin[None, :]
        side = _GPU_SIDE if linalg.on_accelerator(X) else _SIDE
        bind = kernel.bind_rounded if rough else kernel.bind
        xp = namespace(X)
        self._dtype = xp.float32 if rough else xp.float64
        self._kernel = kernel
        self._parts = list(spans(X.shape[0], side))
        self._rows = [rows[part, :] for part in self._parts]
        self._bound = [bind(part_rows) for part_rows in self._rows]

    def product(self, V: Array) -> Array:
        """As in `Operator`."""
        xp = namespace(V)
        out = zeros(V.shape, V)
        narrow = xp.astype(V, self._dtype, copy=False)
        for i, rows in enumerate(self._rows):
            part = self._parts[i]
            for j, columns in enumerate(self._parts[: i + 1]):
                check_stop()
                # The kernel puts the distance of a row from itself at 0.
                tile = self._kernel(rows, rows) if i == j else self._bound[j](rows)
                tile = xp.astype(tile, self._dtype, copy=False)
                out[part, :] += tile @ narrow[columns, :]
                if i != j:
                    out[columns, :] += tile.T @ narrow[part, :]
                del tile  # before the next one needs its memory
        return out
