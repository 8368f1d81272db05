r"""f(x) = b + Σ_i w_i f_i(x) as nodes of a graph: an expansion, or a blend of them.

Rows and centres lie about the mean of the centres, (1) u = x − c. Squared distances come from products
of matrices: with sums in any order

    (2)  ‖u − z‖² = ‖u‖² − 2 u·z + ‖z‖²,

which loses the digits of small distances. With u = u₁ + u₂, u₁ a multiple of g and u₂ one of h,

    (3)  ‖u − z‖² = ‖Δ₁‖² + 2 Δ₁·Δ₂ + ‖Δ₂‖²,    Δ = u₁ − z₁ + u₂ − z₂.

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

from onefold import kernels
from onefold.expansions import FittedFunction, GridExpansion
from onefold.export.exportable import check_kernel
from onefold.export.graph import Graph, Node, import_optional
from onefold.kernels.metric import Transform, WidthKernel
from onefold.linalg import is_sparse
from onefold.linalg.distances import HARMLESS_NORM, squared_norms

# Rows up to this multiple of the largest norm of a centre lose no digit; others are far from centres.
_REACH = 2.0
# Bits of u₁ and of u₂: (‖u₁‖ + ‖z₁‖)² stays below 2⁵³ g².
_BITS = 25


def check_function(f: FittedFunction) -> None:
    """Raise if a fitted function cannot be written as a graph."""
    for _, part in f.parts:
        if isinstance(part, GridExpansion):
            raise ValueError(
                "a model on a grid cannot be exported to ONNX, which has no operator for its "
                'interpolation; fit with another approximation, such as approximation="nystroem".'
            )
        check_kernel(part.kernel, "exported to ONNX")


def decision_values(graph: Graph, f: FittedFunction, rows: Node) -> Node:
    """f at every row, float64 (rows, targets), of a function whose arrays are NumPy's."""
    values, *terms = (_part(graph, part, weight, rows) for weight, part in f.parts)
    for term in terms:
        values = graph.node("Add", values, term)
    return graph.node("Add", values, graph.constant(f.intercept[None, :]))


def _part(graph: Graph, part: Any, weight: float, rows: Node) -> Node:
    """Weight · (f_i − b_i), which is Σ_j c_j k(x, z_j); of the linear kernel x · Σ_j c_j z_j."""
    # Dense float64 even if the centres are sparse, which constants of a graph cannot be.
    centres = part.centres.toarray() if is_sparse(part.centres) else part.centres
    centres = np.asarray(centres, dtype=np.float64)
    coef = weight * part.coef

    if isinstance(part.kernel, kernels.Linear):
        return graph.product(rows, centres.T @ coef)
    return graph.product(_kernel_matrix(graph, part.kernel, rows, centres), coef)


def _kernel_matrix(graph: Graph, kernel: Any, rows: Node, centres: Any) -> Node:
    """[k(x_i, z_j)], (rows, m), of a kernel that `check_function` let pass, rows and centres float64."""
    if isinstance(kernel, kernels.Sum | kernels.Product):
        factors = [_kernel_matrix(graph, part, rows, centres) for part in (kernel.left, kernel.right)]
        return graph.node("Add" if isinstance(kernel, kernels.Sum) else "Mul", *factors)
    if isinstance(kernel, kernels.Linear):
        return graph.product(rows, centres.T)
    if isinstance(kernel, kernels.Polynomial):
        moved_centres = Transform(kernel.gamma, kernel.metric, centres)(centres)
        if kernel.metric is not None:
            moved_centres = Transform(1.0, kernel.metric, centres).pull_back(moved_centres)
        base = graph.node(
            "Add", graph.product(rows, moved_centres.T), graph.constant(float(kernel.coef0))
        )
        return graph.node("Pow", base, graph.constant(float(kernel.degree)))
    matern = isinstance(kernel, kernels.Matern)
    U, Z = _moved(graph, kernel, rows, centres, math.sqrt(kernel.unit) if matern else 1.0)
    if isinstance(kernel, kernels.Laplacian):
        return graph.node("Exp", _negative_l1_distances(graph, U, Z))
    if isinstance(kernel, kernels.RBF):
        return graph.node("Exp", _squared_distances(graph, U, Z, -1.0, smooth=True))
    squares = _squared_distances(graph, U, Z, 1.0, smooth=False)
    if isinstance(kernel, kernels.PowerExponential):
        exponent = graph.node("Pow", squares, graph.constant(kernel.power / 2))
        return graph.node("Exp", graph.node("Neg", exponent))
    s = graph.node("Sqrt", squares)
    values = graph.node("Exp", graph.node("Neg", s))
    if kernel.nu == 0.5:
        return values
    factor = graph.node("Add", s, graph.constant(1.0))
    if kernel.nu == 2.5:
        factor = graph.node("Add", factor, graph.node("Div", squares, graph.constant(3.0)))
    return graph.node("Mul", factor, values)


def _moved(
    graph: Graph, kernel: WidthKernel, rows: Node, centres: Any, factor: float = 1.0
) -> tuple[Node, Any]:
    """Rows and centres x → factor · γ^p S (x − c) by (1), c being the mean of the centres."""
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
    """Sign · ‖u − z‖², never of the wrong sign."""
    largest = float(squared_norms(Z).max(initial=0.0))
    # Where the profile is smooth at 0 and norms are small, the plain product will do.
    if smooth and largest <= HARMLESS_NORM:
        values = _products(graph, U, Z, sign)
    else:
        values = _split_products(graph, U, Z, sign, math.sqrt(largest))
    return graph.node("Max" if sign > 0 else "Min", values, graph.constant(0.0))


def _products(graph: Graph, U: Node, Z: Any, sign: float) -> Node:
    """Sign · ‖u − z‖² by (2), as one product of matrices."""
    squares = graph.sum_columns(graph.node("Mul", U, U))
    factors = graph.node("Concat", U, squares, _full(graph, U, 1, 1.0), axis=1)
    constants = np.concatenate([-2.0 * Z, np.ones((len(Z), 1)), squared_norms(Z)[:, None]], axis=1)
    return graph.product(factors, sign * constants.T)


def _split_products(graph: Graph, U: Node, Z: Any, sign: float, norm: float) -> Node:
    """Sign · ‖u − z‖² by (3), without rounding errors between near rows."""
    exponent = math.frexp(_REACH * norm)[1] if norm > 0 else 0
    spare = math.frexp(math.sqrt(Z.shape[1]))[1]  # bits for the sums of d products with u₂
    units = [math.ldexp(1.0, exponent - _BITS), math.ldexp(1.0, exponent - 2 * _BITS + spare)]
    first = _multiple(graph, U, units[0])
    second = _multiple(graph, graph.node("Sub", U, first), units[1])
    Z_first = units[0] * np.round(Z / units[0])
    Z_second = units[1] * np.round((Z - Z_first) / units[1])
    first_second = graph.sum_columns(graph.node("Mul", first, second))
    factors = graph.node("Concat", first, second, first_second, _full(graph, U, 1, 1.0), axis=1)
    Z_first_second = np.sum(Z_first * Z_second, axis=1)[:, None]
    constants = 2.0 * np.concatenate(
        [-Z_second, -Z_first, np.ones_like(Z_first_second), Z_first_second], axis=1
    )
    cross = graph.product(factors, sign * constants.T)
    remainder = graph.node("Add", cross, _products(graph, second, Z_second, sign))
    return graph.node("Add", _products(graph, first, Z_first, sign), remainder)


def _multiple(graph: Graph, U: Node, unit: float) -> Node:
    """U to the nearest multiple of a power of two."""
    steps = graph.node("Round", graph.node("Mul", U, graph.constant(1.0 / unit)))
    return graph.node("Mul", steps, graph.constant(unit))


def _full(graph: Graph, U: Node, columns: int, value: float) -> Node:
    """One number everywhere, (rows, columns)."""
    length = graph.node("Gather", graph.node("Shape", U), graph.constant([0]))
    shape = graph.node("Concat", length, graph.constant([columns]), axis=0)
    return graph.node("Expand", graph.constant([[value]]), shape)


def _negative_l1_distances(graph: Graph, U: Node, Z: Any) -> Node:
    """−Σ_j |u_j − z_j|, one feature after another: nothing larger than rows × centres is made."""
    helper = import_optional("onnx.helper")
    double = import_optional("onnx").TensorProto.DOUBLE

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
    start = _full(graph, U, len(Z), 0.0)
    columns = graph.node("Unsqueeze", graph.node("Transpose", U, perm=[1, 0]), graph.constant([2]))
    return graph.node(
        "Scan", start, columns, graph.constant(Z.T[:, None, :]), body=body, num_scan_inputs=2
    )
