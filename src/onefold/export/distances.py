r"""Distances between rows in a graph and centres that are known, about the mean of the centres.

Squared distances come from products of matrices. With u = u₁ + u₂, u₁ a multiple of g and u₂ one of h,

    ‖u − z‖² = ‖Δ₁‖² + 2 Δ₁·Δ₂ + ‖Δ₂‖²,    Δ = u₁ − z₁ + u₂ − z₂.

g and h are powers of two such that each of the three terms, written out in u·u, z·z and u·z, is a sum
of whole multiples of g², g·h or h² below 2⁵³: float64 adds them without rounding. Rows that equal a
centre have the distance 0, nearly equal ones keep their digits, and no array is larger than rows ×
centres. What u₂ leaves out of u is about as much as the rounding of u. Rows that are far from all
centres may be rounded: they have no digits to lose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onefold.export.extra import need
from onefold.export.graph import Graph, Node
from onefold.kernels.distance import HARMLESS_NORM
from onefold.kernels.metric import Transform, WidthKernel, squared_norms

_REACH = 2.0  # rows up to so many norms of the furthest centre lose no digit; others are far from it
_BITS = 25  # of u₁ and u₂: (‖u₁‖ + ‖z₁‖)² stays below 2⁵³ g²


def moved(
    graph: Graph, kernel: WidthKernel, rows: Node, centres: Any, factor: float = 1.0
) -> tuple[Node, Any]:
    """Rows and centres x → factor · γ^p S (x − c), c being the mean of the centres."""
    origin = np.mean(centres, axis=0)
    width = factor * kernel.gamma**kernel.width_power
    transform = Transform(width, kernel.metric, centres)
    about = graph.node("Sub", rows, graph.constant(origin[None, :]))
    return _transformed(graph, about, width, kernel.metric), transform(centres - origin)


def _transformed(graph: Graph, rows: Node, width: float, metric: Any | None) -> Node:
    """X → width · S x, as :class:`onefold.kernels.metric.Transform` has it."""
    if metric is None:
        return graph.node("Mul", rows, graph.constant(float(width)))
    weights = width * metric.values
    if metric.values.ndim == 2:
        return graph.product(rows, weights.T)
    return graph.node("Mul", rows, graph.constant(weights[None, :]))


def squared_distances(graph: Graph, U: Node, Z: Any, sign: float, *, smooth: bool) -> Node:
    """Sign · ‖u − z‖², never of the wrong sign.

    Parameters
    ----------
    sign : {1.0, −1.0}
    smooth : bool
        Whether the profile is smooth at 0: where norms are small too, the plain product will do.
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


def negative_l1_distances(graph: Graph, U: Node, Z: Any) -> Node:
    """−Σ_j |u_j − z_j|, one feature after another: nothing larger than rows × centres is made."""
    start = graph.node("Expand", graph.constant([[0.0]]), _shape(graph, U, len(Z)))
    columns = graph.node("Unsqueeze", graph.node("Transpose", U, perm=[1, 0]), graph.constant([2]))
    others = graph.constant(Z.T[:, None, :])
    return graph.node("Scan", start, columns, others, body=_one_feature(), num_scan_inputs=2)


def _one_feature() -> Any:
    """The sum so far, less |u_j − z_j|."""
    helper, double = need("onnx.helper"), need("onnx").TensorProto.DOUBLE

    def value(name: str, *shape: str | int) -> Any:
        return helper.make_tensor_value_info(name, double, list(shape))

    return helper.make_graph(
        [
            helper.make_node("Sub", ["row", "centre"], ["difference"]),
            helper.make_node("Abs", ["difference"], ["distance"]),
            helper.make_node("Sub", ["so_far", "distance"], ["sum"]),
        ],
        "one_feature",
        [value("so_far", "n", "m"), value("row", "n", 1), value("centre", 1, "m")],
        [value("sum", "n", "m")],
    )
