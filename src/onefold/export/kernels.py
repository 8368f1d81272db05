r"""Kernel matrices k(x_i, z_j) as nodes of a graph, one writer for every kernel of onefold.kernels.

Rows and centres lie about the mean of the centres. Squared distances come from products of matrices.
With u = u₁ + u₂, u₁ a multiple of g and u₂ one of h,

    ‖u − z‖² = ‖Δ₁‖² + 2 Δ₁·Δ₂ + ‖Δ₂‖²,    Δ = u₁ − z₁ + u₂ − z₂.

g and h are powers of two such that each of the three terms, written out in u·u, z·z and u·z, is a sum
of whole multiples of g², g·h or h² below 2⁵³: float64 adds them without rounding. Rows that equal a
centre have the distance 0, nearly equal ones keep their digits, and no array is larger than rows ×
centres. What u₂ leaves out of u is about as much as the rounding of u. Rows that are far from all
centres may be rounded: they have no digits to lose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.export.graph import Graph, Node, need
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
from onefold.kernels.metric import Transform, WidthKernel
from onefold.linalg.distances import HARMLESS_NORM, squared_norms

_REACH = 2.0  # rows up to so many norms of the furthest centre lose no digit; others are far from it
_BITS = 25  # of u₁ and u₂: (‖u₁‖ + ‖z₁‖)² stays below 2⁵³ g²


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
    U, Z = _moved(graph, kernel, rows, centres)
    return graph.node("Exp", _squared_distances(graph, U, Z, -1.0, smooth=True))


def _matern(graph: Graph, kernel: Matern, rows: Node, centres: Any) -> Node:
    U, Z = _moved(graph, kernel, rows, centres, math.sqrt(kernel.unit))
    squares = _squared_distances(graph, U, Z, 1.0, smooth=False)
    s = graph.node("Sqrt", squares)
    values = graph.node("Exp", graph.node("Neg", s))
    if kernel.nu == 0.5:
        return values
    factor = graph.node("Add", s, graph.constant(1.0))
    if kernel.nu == 2.5:
        factor = graph.node("Add", factor, graph.node("Div", squares, graph.constant(3.0)))
    return graph.node("Mul", factor, values)


def _laplacian(graph: Graph, kernel: Laplacian, rows: Node, centres: Any) -> Node:
    U, Z = _moved(graph, kernel, rows, centres)
    return graph.node("Exp", _negative_l1_distances(graph, U, Z))


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


def _moved(
    graph: Graph, kernel: WidthKernel, rows: Node, centres: Any, factor: float = 1.0
) -> tuple[Node, Any]:
    """Rows and centres x → factor · γ^p S (x − c), c being the mean of the centres."""
    origin = np.mean(centres, axis=0)
    width = factor * kernel.gamma**kernel.width_power
    transform = Transform(width, kernel.metric, centres)
    U = graph.node("Sub", rows, graph.constant(origin[None, :]))
    S = np.ones(1) if kernel.metric is None else kernel.metric.values
    if S.ndim == 2:
        U = graph.product(U, width * S.T)
    else:
        U = graph.node("Mul", U, graph.constant((width * S)[None, :]))
    return U, transform(centres - origin)


def _squared_distances(graph: Graph, U: Node, Z: Any, sign: float, *, smooth: bool) -> Node:
    """Sign · ‖u − z‖², never of the wrong sign.

    Where the profile is `smooth` at 0 and norms are small, the plain product will do.
    """
    largest = float(squared_norms(Z).max(initial=0.0))
    if smooth and largest <= HARMLESS_NORM:
        values = _products(graph, U, Z, sign)
    else:
        values = _split_products(graph, U, Z, sign, math.sqrt(largest))
    return graph.node("Max" if sign > 0 else "Min", values, graph.constant(0.0))


def _products(graph: Graph, U: Node, Z: Any, sign: float) -> Node:
    """Sign · (‖u‖² − 2 u·z + ‖z‖²) as one product of matrices."""
    squares, one = graph.sum_products(U, U), _ones(graph, U)
    left = graph.node("Concat", U, squares, one, axis=1)
    right = np.concatenate([-2.0 * Z, np.ones((len(Z), 1)), squared_norms(Z)[:, None]], axis=1)
    return graph.product(left, sign * right.T)


def _split_products(graph: Graph, U: Node, Z: Any, sign: float, norm: float) -> Node:
    """The same from the three terms of the module's docstring."""
    exponent = math.frexp(_REACH * norm)[1] if norm > 0 else 0
    spare = math.frexp(math.sqrt(Z.shape[1]))[1]  # bits for the sums of d products with u₂
    units = [math.ldexp(1.0, exponent - _BITS), math.ldexp(1.0, exponent - 2 * _BITS + spare)]
    first = _multiple(graph, U, units[0])
    second = _multiple(graph, graph.node("Sub", U, first), units[1])
    Z_first = units[0] * np.round(Z / units[0])
    Z_second = units[1] * np.round((Z - Z_first) / units[1])
    own = graph.sum_products(first, second)
    left = graph.node("Concat", first, second, own, _ones(graph, U), axis=1)
    Z_own = np.sum(Z_first * Z_second, axis=1)[:, None]
    right = 2.0 * np.concatenate([-Z_second, -Z_first, np.ones_like(Z_own), Z_own], axis=1)
    mixed = graph.product(left, sign * right.T)
    small = graph.node("Add", mixed, _products(graph, second, Z_second, sign))
    return graph.node("Add", _products(graph, first, Z_first, sign), small)


def _multiple(graph: Graph, U: Node, unit: float) -> Node:
    """U to the nearest multiple of a power of two."""
    steps = graph.node("Round", graph.node("Mul", U, graph.constant(1.0 / unit)))
    return graph.node("Mul", steps, graph.constant(unit))


def _ones(graph: Graph, U: Node) -> Node:
    """A column of ones beside the rows."""
    return graph.node("Expand", graph.constant([[1.0]]), _shape(graph, U, 1))


def _shape(graph: Graph, U: Node, columns: int) -> Node:
    """(rows, columns) as ONNX takes a shape."""
    length = graph.node("Gather", graph.node("Shape", U), graph.constant([0]))
    return graph.node("Concat", length, graph.constant([columns]), axis=0)


def _negative_l1_distances(graph: Graph, U: Node, Z: Any) -> Node:
    """−Σ_j |u_j − z_j|, one feature after another: nothing larger than rows × centres is made."""
    helper, double = need("onnx.helper"), need("onnx").TensorProto.DOUBLE

    def value(name: str, *shape: str | int) -> Any:
        return helper.make_tensor_value_info(name, double, list(shape))

    body = helper.make_graph(
        [
            helper.make_node("Sub", ["row", "centre"], ["difference"]),
            helper.make_node("Abs", ["difference"], ["distance"]),
            helper.make_node("Sub", ["so_far", "distance"], ["sum"]),
        ],
        "one_feature",
        [value("so_far", "n", "m"), value("row", "n", 1), value("centre", 1, "m")],
        [value("sum", "n", "m")],
    )
    start = graph.node("Expand", graph.constant([[0.0]]), _shape(graph, U, len(Z)))
    columns = graph.node("Unsqueeze", graph.node("Transpose", U, perm=[1, 0]), graph.constant([2]))
    return graph.node(
        "Scan", start, columns, graph.constant(Z.T[:, None, :]), body=body, num_scan_inputs=2
    )
