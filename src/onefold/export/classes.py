r"""Labels and probabilities from decision values as nodes of a graph, one writer for every calibration.

Labels are whole numbers or text, as ONNX knows no others. Probabilities of rows with NaN are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.export.graph import Graph, Node, need


def label_values(classes: Any) -> Any:
    """The sorted labels as int64 or as text; raise where they are neither."""
    labels = np.asarray(classes).tolist()
    if all(isinstance(label, str) for label in labels):
        return np.array(labels)
    if all(isinstance(label, int | float) and label % 1 == 0 for label in labels) and (
        -(2**63) <= min(labels) <= max(labels) < 2**63
    ):
        return np.array([int(label) for label in labels], dtype=np.int64)
    raise ValueError(
        f"labels of ONNX are whole numbers of 64 bits or text, and the classes are {labels!r:.60}; "
        "encode y before fitting, with LabelEncoder of scikit-learn say."
    )


def write_labels(graph: Graph, decision: Node, classes: Any, output: Node) -> None:
    """The label of each row; a decision value of exactly 0 is the first class."""
    if len(classes) == 2:
        above = graph.node("Greater", decision, graph.constant(0.0))
        whole = graph.cast(above, need("onnx").TensorProto.INT64)
        index = graph.node("Squeeze", whole, graph.constant([1]))
    else:
        index = graph.node("ArgMax", decision, axis=1, keepdims=0)
    graph.node_as(output, "Gather", graph.constant(label_values(classes)), index)


def class_values(graph: Graph, decision: Node, n_classes: int) -> Node:
    """Decision values, one column per class: (−f, f) of two classes, whose larger one is the label's."""
    if n_classes > 2:
        return decision
    return graph.node("Concat", graph.node("Neg", decision), decision, axis=1)


def probabilities(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """Probabilities (rows, classes) of decision values (rows, t), t = 1 for two classes."""
    if calibrator.name not in _WRITERS:
        raise ValueError(
            f"the calibration {calibrator.name!r} cannot be written to ONNX; fit with calibration="
            '"temperature", "sigmoid" or "isotonic", or with None for decision values.'
        )
    return _WRITERS[calibrator.name](graph, calibrator, decision, n_classes)


def _temperature(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """exp(β f) over the sum of all classes."""
    values = class_values(graph, decision, n_classes)
    return graph.node("Softmax", graph.node("Mul", values, graph.constant(calibrator.slope)), axis=1)


def _sigmoid(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """1 / (1 + exp(−(a f + b))) of every column, and what they say together."""
    steep = graph.node("Mul", decision, graph.constant(calibrator.slope[None, :]))
    logits = graph.node("Add", steep, graph.constant(calibrator.intercept[None, :]))
    # ONNX Runtime's Sigmoid has no digits left of small values, and small ones are divided by their sum.
    one = graph.constant(1.0)
    others = graph.node("Exp", graph.node("Neg", logits))
    shares = graph.node("Div", one, graph.node("Add", one, others))
    return _one_against_rest(graph, shares, n_classes)


def _isotonic(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """Straight lines between the corners x_i of every column, constant beyond them.

    The last corner x_i ≤ f is found by halving: log₂(corners) steps, no rows × corners array. The
    corners of all columns are in one table, each column's filled up to a power of two with corners that
    are never reached.
    """
    steps = max(1, *((len(x) - 1).bit_length() for x in calibrator.inputs))
    length = 2**steps
    x, p, slope = (
        np.concatenate([_filled(part, length, fill) for part in parts])
        for parts, fill in (
            (calibrator.inputs, np.inf),
            (calibrator.outputs, 0.0),
            ([np.diff(p) / np.diff(x) for x, p in zip(calibrator.inputs, calibrator.outputs)], 0.0),
        )
    )
    ends = [np.array([[inputs[end] for inputs in calibrator.inputs]]) for end in (0, -1)]
    within = graph.node("Min", decision, graph.constant(ends[1]))
    within = graph.node("Max", within, graph.constant(ends[0]))
    table = graph.constant(x)
    place = graph.constant(length * np.arange(len(calibrator.inputs))[None, :])
    for step in reversed(range(steps)):
        further = graph.node("Add", place, graph.constant(2**step))
        reached = graph.node("LessOrEqual", graph.node("Gather", table, further), within)
        place = graph.node("Where", reached, further, place)
    beyond = graph.node("Sub", within, graph.node("Gather", table, place))
    rise = graph.node("Mul", beyond, graph.node("Gather", graph.constant(slope), place))
    shares = graph.node("Add", graph.node("Gather", graph.constant(p), place), rise)
    return _one_against_rest(graph, shares, n_classes)


def _filled(values: Any, length: int, fill: float) -> Any:
    return np.concatenate([values, np.full(length - len(values), fill)])


def _one_against_rest(graph: Graph, shares: Node, n_classes: int) -> Node:
    """A single column is that of the second class; several are divided by their sum."""
    if n_classes == 2:
        first = graph.node("Sub", graph.constant(1.0), shares)
        return graph.node("Concat", first, shares, axis=1)
    total = graph.sum_columns(shares)
    none = graph.node("Equal", total, graph.constant(0.0))  # false of NaN, which the shares pass on
    return graph.node("Where", none, graph.constant(1.0 / n_classes), graph.node("Div", shares, total))


_WRITERS: dict[str, Callable[[Graph, Any, Node, int], Node]] = {
    "temperature": _temperature,
    "sigmoid": _sigmoid,
    "isotonic": _isotonic,
}
