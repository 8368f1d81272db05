r"""ΦᵀΦ and Φᵀ·targets over a block of rows, each tile added while it is in cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import Array, is_numpy, zeros
from onefold.linalg.dense import add_gram, add_lower, mirror, subtract_product
from onefold.statistics.design import Design

_FLUSH_ROWS = 2048  # float32 sums are moved to float64 this often
_UNSEEN = 2.0**-30  # of the features' unit: rows below add at most n · 2⁻⁶⁰ to any entry of ΦᵀΦ


def double_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    """ΦᵀΦ and Φᵀ·wanted in float64, the rows of Φ times `root`, in any array library."""
    m = design.size
    gram, small = zeros((m, m), wanted), zeros((m, wanted.shape[1]), wanted)
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        if root is not None:
            tile *= root[part][:, None]
        small += tile.T @ wanted[part, :]
        if is_numpy(tile):  # elsewhere, to find such rows takes longer than to add them
            unit = design.unit if root is None else design.unit * root[part]
            tile = _without_unseen(np.ascontiguousarray(tile), unit)
        add_gram(gram, tile)
    return mirror(gram), small


def single_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    r"""The same, summed in float32 over short runs.

    With leading directions U, Φ = Φ' + P Uᵀ, P = Φ U: only Φ' of small entries is summed in float32,
    ΦᵀΦ = Φ'ᵀΦ' + U (PᵀΦ') + (PᵀΦ')ᵀ Uᵀ + U (PᵀP) Uᵀ.
    """
    m, single = design.size, np.dtype(np.float32)
    gram, run = np.zeros((m, m)), np.zeros((m, m), dtype=single)
    small = np.zeros((m, wanted.shape[1]))
    narrow = wanted.astype(single)
    U = np.zeros((m, 0), dtype=single) if design.leading is None else design.leading
    q = U.shape[1]
    across, corner, apart = np.zeros((q, m)), np.zeros((q, q)), np.zeros((q, wanted.shape[1]))
    pending, unit = 0, design.unit
    for part, tile in design.tiles(rows, single):
        if root is not None:
            tile *= root[part, None].astype(single)
        tile = np.ascontiguousarray(tile)
        if q:
            P = tile @ U
            subtract_product(tile, P, U)
            across += P.T @ tile
            wide = P.astype(np.float64)
            corner += wide.T @ wide
            apart += wide.T @ wanted[part]
        small += tile.T @ narrow[part]
        tile = _without_unseen(tile, unit if root is None else unit * root[part])
        if not tile.shape[0]:
            continue
        add_gram(run, tile, fresh=pending == 0)
        pending += tile.shape[0]
        if pending >= _FLUSH_ROWS:
            add_lower(gram, run)
            pending = 0
    if pending:
        add_lower(gram, run)
    mirror(gram)
    if q:
        wide_U = U.astype(np.float64)
        mixed = wide_U @ (across + 0.5 * corner @ wide_U.T)
        gram += mixed
        gram += mixed.T
        small += wide_U @ apart
    return gram, small


def _without_unseen(tile: Any, unit: Any) -> Any:
    """The tile without rows that no landmark sees, where they are many: with a narrow kernel most are.

    `unit` is the size of a feature that a landmark sees in full, times √weight of each row: a row is
    unseen by what it is, not by what it weighs.
    """
    unseen = tile.max(axis=1, initial=0.0) <= _UNSEEN * unit
    if np.count_nonzero(unseen) < tile.shape[0] / 8:
        return tile
    unseen &= tile.min(axis=1, initial=0.0) >= -_UNSEEN * unit
    return tile[~unseen]
