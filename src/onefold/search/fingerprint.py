r"""What tells a search from others: of its data, its splits and its settings, each by itself.

Rows are summed up as whole numbers, modulo 2⁶⁴,

    Σ_i h_i  and  Σ_i i h_i,    h_i = mix(Σ_j c_j · fold(bits(x_ij))),    c_j odd

which add over blocks, whatever they are: it does not matter where rows live. O(n d). The bits of small
whole numbers are all at the upper end, where a product keeps little of c_j: fold(b) = b xor (b >> 32).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold._version import __version__
from onefold.heldout import Splits
from onefold.linalg import double, is_sparse, to_numpy
from onefold.rows import Block, Rows
from onefold.search.describing import described, digest
from onefold.search.setup import Setup

# Of the generator splitmix64, whose steps take near numbers far apart.
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def fingerprint(setup: Setup, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Named parts, as plain values; two searches with equal ones have equal evaluations.

    `settings` are those of the estimator that an evaluation may depend on.
    """
    problem, task = setup.problem, setup.task
    n, d, targets = problem.shape
    found = {
        "version": __version__,
        "shape": [n, d, targets],
        "rows": rows_checksum(problem.source, d),
        "targets": digest(task.y),
        "weights": digest(task.sample_weight, problem.root_weight, problem.alpha_unit),
        "splits": _of_splits(setup.scoring.splits),
        "approximation": described(setup.run.approximation),
        "random_state": setup.seed,
    }
    return found | {name: described(value) for name, value in settings.items()}


def rows_checksum(source: Rows, d: int) -> str:
    """Numbers for X, whatever the blocks that it comes in."""
    sums = [0, 0]
    for _, rows, found in source.map(_RowSums(d)):
        here, within = (int(value) for value in found)
        sums = [sums[0] + here, sums[1] + rows.start * here + within]
    return "".join(f"{value % 2**64:016x}" for value in sums)


class _RowSums:
    """Σ h_i and Σ i h_i of a block, its rows numbered from 0."""

    def __init__(self, d: int) -> None:
        self._constants = _mixed(np.arange(1, d + 1, dtype=np.uint64)) | np.uint64(1)

    def placed(self, place: Any) -> _RowSums:
        """The same: it works on the host wherever rows are."""
        return self

    def __call__(self, block: Block) -> Any:
        h = _mixed(_row_sums(block.X, self._constants))
        return np.array([h.sum(dtype=np.uint64), (h * np.arange(h.size, dtype=np.uint64)).sum()])


def _row_sums(X: Any, constants: Any) -> Any:
    """Σ_j c_j · fold(bits(x_ij)) of every row, modulo 2⁶⁴; zeros add nothing."""
    if is_sparse(X):
        X = double(X).tocsr()
        terms = _folded(np.ascontiguousarray(X.data).view(np.uint64)) * constants[X.indices]
        before = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return np.diff(before[X.indptr])
    values = np.ascontiguousarray(to_numpy(X))
    bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)
    return _folded(bits) @ constants


def _folded(bits: Any) -> Any:
    """Whole numbers of 64 bits with their upper halves in the lower ones too, each to another."""
    return bits ^ (bits >> np.uint64(32))


def _mixed(values: Any) -> Any:
    """Whole numbers of 64 bits, each to another, none near it."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _of_splits(splits: Splits | None) -> str:
    if splits is None:
        return "none"
    if splits.leave_one_out:
        return f"leave-one-out, {len(splits)} scores"
    return digest(*splits.left_out, *splits.tests)
