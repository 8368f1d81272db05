r"""f(x) = b + Σ_i w_i f_i(x) as nodes of a graph: an expansion, one over a grid, or a blend of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.expansions import Blend, Expansion, FittedFunction, GridExpansion
from onefold.export.graph import Graph, Node
from onefold.export.grid import interpolated
from onefold.export.kernels import check_kernel, kernel_matrix
from onefold.kernels import Kernel, Linear
from onefold.linalg import is_sparse


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
    intercept = sum(weight * part.intercept for weight, part in f.parts)
    if isinstance(f, Blend):
        intercept = intercept + f.intercept
    return graph.node("Add", values, graph.constant(intercept[None, :]))


def _part(graph: Graph, part: Any, weight: float, rows: Node) -> Node:
    """Weight · (f_i − b_i)."""
    coef = weight * part.coef
    if not isinstance(part, GridExpansion):
        return _sum(graph, part.kernel, rows, _dense(part), coef)

    def outside(some: Node) -> Node:
        return _sum(graph, part.kernel, some, part.centres, coef)

    return interpolated(graph, part.lattice, weight * part.values, rows, outside)


def _sum(graph: Graph, kernel: Kernel, rows: Node, centres: Any, coef: Any) -> Node:
    """Σ_j c_j k(x, z_j); of the linear kernel x · Σ_j c_j z_j."""
    if isinstance(kernel, Linear):
        return graph.product(rows, centres.T @ coef)
    return graph.product(kernel_matrix(graph, kernel, rows, centres), coef)


def _dense(expansion: Expansion) -> Any:
    """The centres in float64, dense also where they were sparse: a graph has no place for these."""
    centres = expansion.centres
    return np.asarray(centres.toarray() if is_sparse(centres) else centres, dtype=np.float64)
