r"""Tiles of kernels of a distance, of torch tensors on CUDA, by Triton: in one pass over the tile.

    exponentials        exp(−Σ_f |a_f − b_f|)
    power_exponentials  exp(−(Σ_f (a_f − b_f)²)^p)

Distances are sums of differences, and thus right to the last digits also for rows that are nearly equal
and far from 0, in float32 too, where a matrix product would lose them.

Imported only where it is called; PyTorch brings Triton along with its builds for CUDA. Triton keeps the
compiled kernels on disk: one for each dtype, and for columns that are or are not a multiple of 16.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Rows of the part of a tile that a block of threads holds in registers.
ROWS = 32
# Columns of that part.
COLUMNS = 64
# Warps of a block: with one warp for 32 rows, each number of a row is read once and shared, so that 17
# of 20 instructions are differences and sums.
WARPS = 1


@triton.jit(do_not_specialize=["n", "d", "power"])
def _fill(  # type: ignore[no-untyped-def]
    rows,
    landmarks,
    out,
    n,
    m,
    d,
    power,
    SQUARES: tl.constexpr,
    PROFILE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    row_mask = i < n
    column_mask = j < m
    total = tl.zeros((ROWS, COLUMNS), dtype=out.dtype.element_ty)
    at_row = rows + i * d
    at_column = landmarks + j
    for _ in range(d):
        a = tl.load(at_row, mask=row_mask, other=0.0)
        b = tl.load(at_column, mask=column_mask, other=0.0)
        difference = a[:, None] - b[None, :]
        if SQUARES:
            total += difference * difference
        else:
            total += tl.abs(difference)
        at_row += 1
        at_column += m
    if PROFILE == "root":
        total = tl.sqrt(total)
    if PROFILE == "power":
        # The logarithm of 0 is −∞, whose power of 2 is 0 again.
        total = tl.exp2(power * tl.log2(total))
    place = out + i[:, None] * m + j[None, :]
    tl.store(place, tl.exp(-total), mask=row_mask[:, None] & column_mask[None, :])


def exponentials(rows: Any, landmarks: Any, out: Any | None) -> Any:
    """[exp(−Σ_f |rows_if − landmarks_fj|)] for `rows` (n, d) and `landmarks` (d, m).

    In `out` if it has the right dtype and is contiguous.
    """
    return _filled(rows, landmarks, out, power=1.0, squares=False)


def power_exponentials(rows: Any, landmarks: Any, power: float, out: Any | None) -> Any:
    """[exp(−q_ij^power)], q_ij = Σ_f (rows_if − landmarks_fj)², as :func:`exponentials`."""
    return _filled(rows, landmarks, out, power=power, squares=True)


def _filled(rows: Any, landmarks: Any, out: Any | None, *, power: float, squares: bool) -> Any:
    n, d = rows.shape
    m = landmarks.shape[1]
    dtype = torch.promote_types(rows.dtype, landmarks.dtype)
    if out is None or out.dtype != dtype or not out.is_contiguous():
        out = torch.empty((n, m), dtype=dtype, device=rows.device)
    if out.numel():
        rows = rows.to(dtype).contiguous()
        landmarks = landmarks.to(dtype).contiguous()
        blocks = triton.cdiv(n, ROWS), triton.cdiv(m, COLUMNS)
        profile = {1.0: "none", 0.5: "root"}.get(power, "power")
        settings = {"SQUARES": squares, "PROFILE": profile, "ROWS": ROWS, "COLUMNS": COLUMNS}
        with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
            _fill[blocks](rows, landmarks, out, n, m, d, power, **settings, num_warps=WARPS)
    return out


def try_out() -> None:
    """Make small tiles; raise if Triton lacks something that it needs."""
    zeros = torch.zeros((16, 16), device="cuda")
    exponentials(zeros, zeros, None)
    power_exponentials(zeros, zeros, 0.7, None)
