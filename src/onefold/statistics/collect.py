r"""The pass over row blocks: block → statistics, a pure function; their sum, group by group.

Blocks are added in the order of the rows: the sums have the same digits whatever ran side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onefold.linalg import Array, is_foreign, namespace, ones
from onefold.machine.threads import limit_blas
from onefold.rows import Block, Groups, Rows
from onefold.statistics.base import Statistics
from onefold.statistics.design import Design
from onefold.statistics.finite import finite_kernel
from onefold.statistics.sums import double_sums, single_sums


def block_statistics(design: Design, block: Block) -> Statistics:
    """The statistics of one block of rows. O(rows · m²) time."""
    Y, root, size = block.Y, block.root, int(block.X.shape[0])
    xp, t = namespace(Y), int(Y.shape[1])
    # One more target, the constant 1, gives the border.
    wanted = xp.concat([Y, ones(size, Y)[:, None]], axis=1)
    if root is not None:
        wanted = wanted * root[:, None]
    sums = single_sums if design.precision == "single" and not is_foreign(Y) else double_sums
    gram, small = sums(design, block.X, wanted, root)
    weighted = wanted[:, :t]
    return Statistics(
        gram,
        small[:, :t],
        small[:, t],
        float(size) if root is None else root @ root,
        xp.sum(weighted if root is None else root[:, None] * weighted, axis=0),
        xp.sum(weighted * weighted, axis=0),
        size,
    )


@dataclass(frozen=True)
class BlockStatistics:
    """Block → statistics, wherever blocks are worked on."""

    design: Design

    def __call__(self, block: Block) -> Statistics:
        return block_statistics(self.design, block)

    def zero(self, targets: int, reference: Array) -> Statistics:
        """The statistics of no rows."""
        return Statistics.zero(self.design.size, targets, reference)

    def placed(self, place: Callable[[Any], Any]) -> BlockStatistics:
        """The same with its landmarks moved."""
        return BlockStatistics(self.design.placed(place))


@dataclass(frozen=True)
class BlockPredictions:
    """Block → Φ·coefficients of its group."""

    design: Design
    coefficients: Sequence[Any]

    def __call__(self, block: Block) -> Any:
        return self.design.times(block.X, self.coefficients[block.group])

    def placed(self, place: Callable[[Any], Any]) -> BlockPredictions:
        """The same with landmarks and coefficients moved."""
        moved = [None if matrix is None else place(matrix) for matrix in self.coefficients]
        return BlockPredictions(self.design.placed(place), moved)


def collect(design: Design, rows: Rows, groups: Groups | None = None) -> list[Statistics]:
    """The statistics of each group of rows, in one pass; of all rows where there are no groups.

    O(n m²) time; memory for count + 3 · threads Gram matrices, whatever n.
    """
    with limit_blas(1):
        totals = rows.sums(BlockStatistics(design), groups, at_most=design.threads)
    finite_kernel([total.gram for total in totals])
    return totals


def predict_groups(
    design: Design, rows: Rows, coefficients: Sequence[Any], groups: Groups | None = None
) -> Iterator[tuple[int, Any, Any]]:
    """Yield (group, rows, Φ·coefficients[group]) block by block.

    `coefficients` holds a float64 array (m, columns) per group, or None to skip the group; `rows` is a
    slice or row numbers; the values (rows, columns) lie where the rows were worked on.
    """
    wanted = {group for group, matrix in enumerate(coefficients) if matrix is not None}
    function = BlockPredictions(design, coefficients)
    yield from rows.map(function, groups, wanted=wanted, at_most=design.threads)
