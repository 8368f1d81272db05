r"""An expansion over grid points: Σ_g w_g(x) u_g inside the grid, the sum over all points outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.expansions.grid import Lattice
from onefold.export.extra import need
from onefold.export.graph import Graph, Node

# Keys' weights of the four points around t in [0, 1]: coefficients of t, t², t³ and, at last, of 1.
_KEYS = np.array(
    [[-0.5, 0.0, 0.5, 0.0], [1.0, -2.5, 2.0, -0.5], [-0.5, 1.5, -1.5, 0.5], [0.0, 1.0, 0.0, 0.0]]
)


def interpolated(
    graph: Graph, lattice: Lattice, values: Any, rows: Node, outside: Callable[[Node], Node]
) -> Node:
    """The values on the grid at every row; `outside` gives those of rows beyond the grid.

    O(4^d) for a row inside. The rows outside, and they alone, take the sum over all points.
    """
    shifted = graph.node("Sub", rows, graph.constant(lattice.lower[None, :]))
    place = graph.node("Div", shifted, graph.constant(lattice.step[None, :]))
    inner = _inside(graph, lattice, place)
    numbers = graph.node("Transpose", graph.node("NonZero", graph.node("Not", inner)), perm=[1, 0])
    some = graph.node("GatherND", rows, numbers)
    return graph.node("ScatterND", _inside_values(graph, lattice, values, place), numbers, outside(some))


def _inside(graph: Graph, lattice: Lattice, place: Node) -> Node:
    """Whether a row has four points around it on every axis: one truth value per row."""
    last = np.array(lattice.counts, dtype=np.float64) - 2
    above = graph.node("GreaterOrEqual", place, graph.constant(1.0))
    below = graph.node("LessOrEqual", place, graph.constant(last[None, :]))
    whole = graph.cast(graph.node("And", above, below), need("onnx").TensorProto.INT64)
    axes = graph.node("ReduceSum", whole, graph.constant([1]), keepdims=0)
    return graph.node("Equal", axes, graph.constant(len(lattice.counts)))


def _inside_values(graph: Graph, lattice: Lattice, values: Any, place: Node) -> Node:
    """Σ_g w_g(x) u_g with the 4^d points of the nearest cell: right for rows inside alone."""
    highest = np.array(lattice.counts, dtype=np.int64) - 3
    cell = graph.cast(graph.node("Floor", place), need("onnx").TensorProto.INT64)
    cell = graph.node(
        "Max", graph.node("Min", cell, graph.constant(highest[None, :])), graph.constant(1)
    )
    offset = graph.node("Sub", place, graph.cast(cell, need("onnx").TensorProto.DOUBLE))
    index, weights = graph.constant([[0]]), graph.constant([[1.0]])
    for axis, count in enumerate(lattice.counts):
        column = graph.constant([axis])
        points = graph.node("Gather", cell, column, axis=1)
        points = graph.node("Add", points, graph.constant(np.arange(-1, 3)[None, :]))
        index = _outer(graph, "Add", graph.node("Mul", index, graph.constant(count)), points, axis)
        keys = _keys(graph, graph.node("Gather", offset, column, axis=1))
        weights = _outer(graph, "Mul", weights, keys, axis)
    last = graph.constant([2])
    chosen = graph.node("Gather", graph.constant(values), index, axis=0)
    weighted = graph.node("Mul", chosen, graph.node("Unsqueeze", weights, last))
    return graph.node("ReduceSum", weighted, graph.constant([1]), keepdims=0)


def _outer(graph: Graph, kind: str, left: Node, right: Node, axis: int) -> Node:
    """Every column of `left` with every one of the four of `right`, those of `right` running fastest."""
    # The 0 of a shape stands for the number that is there already: of rows, which may be none.
    first = graph.node("Unsqueeze", left, graph.constant([2]))
    both = graph.node(kind, first, graph.node("Unsqueeze", right, graph.constant([1])))
    return graph.node("Reshape", both, graph.constant([0, 4 ** (axis + 1)]))


def _keys(graph: Graph, t: Node) -> Node:
    """The weights of four points along one axis, (rows, 4)."""
    square = graph.node("Mul", t, t)
    powers = graph.node("Concat", t, square, graph.node("Mul", square, t), axis=1)
    return graph.node("Add", graph.product(powers, _KEYS[:3]), graph.constant(_KEYS[3:]))
