r"""The tile exp(−Σ_f |a_f − b_f|) of torch tensors on CUDA, by Triton.

Imported only where it is called; PyTorch brings Triton along with its builds for CUDA. Triton keeps the
compiled kernels on disk: one for each dtype, and for columns that are or are not a multiple of 16.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# The part of a tile that a block of threads holds in registers. With one warp for 32 rows a row's number
# is read once per warp and shared out, so that of 20 instructions 17 are the differences and sums.
ROWS = 32
COLUMNS = 64
WARPS = 1


@triton.jit(do_not_specialize=["n", "d"])
def _fill(left, right, out, n, m, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    here = i < n
    there = j < m
    total = tl.zeros((ROWS, COLUMNS), dtype=out.dtype.element_ty)
    at_row = left + i * d
    at_column = right + j
    for _ in range(d):
        a = tl.load(at_row, mask=here, other=0.0)
        b = tl.load(at_column, mask=there, other=0.0)
        total -= tl.abs(a[:, None] - b[None, :])
        at_row += 1
        at_column += m
    place = out + i[:, None] * m + j[None, :]
    tl.store(place, tl.exp(total), mask=here[:, None] & there[None, :])


def exponentials(left: Any, right: Any, out: Any | None) -> Any:
    """[exp(−Σ_f |left_if − right_fj|)] for `left` (n, d) and `right` (d, m), in `out` where it fits."""
    n, d = left.shape
    m = right.shape[1]
    dtype = torch.promote_types(left.dtype, right.dtype)
    if out is None or out.dtype != dtype or not out.is_contiguous():
        out = torch.empty((n, m), dtype=dtype, device=left.device)
    if out.numel():
        left = left.to(dtype).contiguous()
        right = right.to(dtype).contiguous()
        blocks = triton.cdiv(n, ROWS), triton.cdiv(m, COLUMNS)
        with torch.cuda.device_of(left):  # type: ignore[no-untyped-call]
            _fill[blocks](left, right, out, n, m, d, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=WARPS)
    return out


def try_out() -> None:
    """A small tile, so that what is missing is found out here."""
    some = torch.zeros((16, 16), device="cuda")
    exponentials(some, some, None)
