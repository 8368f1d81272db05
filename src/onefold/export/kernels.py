r"""Kernel matrices k(x_i, z_j) as nodes of a graph, one writer for every kernel of onefold.kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onefold.export.distances import moved, negative_l1_distances, squared_distances
from onefold.export.graph import Graph, Node
from onefold.kernels import (
    RBF,
    CallableKernel,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    Product,
    Sum,
)
from onefold.kernels.metric import Transform


def check_kernel(kernel: Kernel) -> None:
    """Raise if a kernel, or a part of it, has no place in a graph."""
    if isinstance(kernel, Precomputed):
        raise ValueError(
            "a machine fitted to a precomputed kernel matrix knows no rows to compare with; fit it with "
            "rows and a kernel to export it."
        )
    if isinstance(kernel, CallableKernel):
        raise ValueError(
            "a kernel that is a Python function cannot be written to ONNX; fit with a kernel of "
            "onefold.kernels, a sum or a product of them."
        )
    if type(kernel) not in _WRITERS:  # one derived from a kernel of ours may have another formula
        raise ValueError(
            f"{type(kernel).__name__} cannot be written to ONNX; fit with a kernel of onefold.kernels "
            "itself, a sum or a product of them."
        )
    if isinstance(kernel, Sum | Product):
        check_kernel(kernel.left)
        check_kernel(kernel.right)


def kernel_matrix(graph: Graph, kernel: Kernel, rows: Node, centres: Any) -> Node:
    """[k(x_i, z_j)] of shape (rows, m), of a kernel that :func:`check_kernel` has let pass.

    Parameters
    ----------
    rows : node, float64 (rows, d)
    centres : array, float64 (m, d)
    """
    return _WRITERS[type(kernel)](graph, kernel, rows, centres)


def _rbf(graph: Graph, kernel: RBF, rows: Node, centres: Any) -> Node:
    U, Z = moved(graph, kernel, rows, centres)
    return graph.node("Exp", squared_distances(graph, U, Z, -1.0, smooth=True))


def _matern(graph: Graph, kernel: Matern, rows: Node, centres: Any) -> Node:
    U, Z = moved(graph, kernel, rows, centres, math.sqrt(kernel.unit))
    squares = squared_distances(graph, U, Z, 1.0, smooth=False)
    s = graph.node("Sqrt", squares)
    values = graph.node("Exp", graph.node("Neg", s))
    if kernel.nu == 0.5:
        return values
    factor = graph.node("Add", s, graph.constant(1.0))
    if kernel.nu == 2.5:
        factor = graph.node("Add", factor, graph.node("Div", squares, graph.constant(3.0)))
    return graph.node("Mul", factor, values)


def _laplacian(graph: Graph, kernel: Laplacian, rows: Node, centres: Any) -> Node:
    U, Z = moved(graph, kernel, rows, centres)
    return graph.node("Exp", negative_l1_distances(graph, U, Z))


def _linear(graph: Graph, kernel: Linear, rows: Node, centres: Any) -> Node:
    return graph.product(rows, centres.T)


def _polynomial(graph: Graph, kernel: Polynomial, rows: Node, centres: Any) -> Node:
    twice = Transform(kernel.gamma, kernel.metric, centres)(centres)
    others = twice if kernel.metric is None else Transform(1.0, kernel.metric, centres).pull_back(twice)
    base = graph.node("Add", graph.product(rows, others.T), graph.constant(float(kernel.coef0)))
    return graph.node("Pow", base, graph.constant(float(kernel.degree)))


def _pair(kind: str) -> Callable[[Graph, Any, Node, Any], Node]:
    def both(graph: Graph, kernel: Sum | Product, rows: Node, centres: Any) -> Node:
        left = kernel_matrix(graph, kernel.left, rows, centres)
        return graph.node(kind, left, kernel_matrix(graph, kernel.right, rows, centres))

    return both


_WRITERS: dict[type, Callable[[Graph, Any, Node, Any], Node]] = {
    RBF: _rbf,
    Matern: _matern,
    Laplacian: _laplacian,
    Linear: _linear,
    Polynomial: _polynomial,
    Sum: _pair("Add"),
    Product: _pair("Mul"),
}
