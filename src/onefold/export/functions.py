r"""f(x) = b + Σ_i w_i f_i(x) as nodes of a graph: an expansion, one over a grid, or a blend of them.

Inside its grid an expansion over grid points is Σ_g w_g(x) u_g, outside it the sum over all points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.expansions import FittedFunction, GridExpansion
from onefold.expansions.grid import Lattice
from onefold.export.graph import Graph, Node, need
from onefold.export.kernels import check_kernel, kernel_matrix
from onefold.kernels import Kernel, Linear
from onefold.linalg import is_sparse

# Keys' weights of the four points around t in [0, 1]: coefficients of t, t², t³ and, at last, of 1.
_KEYS = np.array(
    [[-0.5, 0.0, 0.5, 0.0], [1.0, -2.5, 2.0, -0.5], [-0.5, 1.5, -1.5, 0.5], [0.0, 1.0, 0.0, 0.0]]
)


def check_function(f: FittedFunction) -> None:
    """Raise if a fitted function has no place in a graph."""
    for _, part in f.parts:
        check_kernel(part.kernel)


def decision_values(graph: Graph, f: FittedFunction, rows: Node) -> Node:
    """f at every row, float64 (rows, targets), of a function whose arrays are NumPy's.

    O(rows · m · d) time; ONNX Runtime holds some rows × m arrays of float64 at once.
    """
    values, *others = (_part(graph, part, weight, rows) for weight, part in f.parts)
    for term in others:
        values = graph.node("Add", values, term)
    return graph.node("Add", values, graph.constant(f.intercept[None, :]))


def _part(graph: Graph, part: Any, weight: float, rows: Node) -> Node:
    """Weight · (f_i − b_i)."""
    # Dense float64 also where the centres were sparse: a graph has no place for these.
    centres = part.centres.toarray() if is_sparse(part.centres) else part.centres
    centres, coef = np.asarray(centres, dtype=np.float64), weight * part.coef

    def summed(some: Node) -> Node:
        return _sum(graph, part.kernel, some, centres, coef)

    if not isinstance(part, GridExpansion):
        return summed(rows)
    return _interpolated(graph, part.lattice, weight * part.values, rows, summed)


def _sum(graph: Graph, kernel: Kernel, rows: Node, centres: Any, coef: Any) -> Node:
    """Σ_j c_j k(x, z_j); of the linear kernel x · Σ_j c_j z_j."""
    if isinstance(kernel, Linear):
        return graph.product(rows, centres.T @ coef)
    return graph.product(kernel_matrix(graph, kernel, rows, centres), coef)


def _interpolated(
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
