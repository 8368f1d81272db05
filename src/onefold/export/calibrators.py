r"""Probabilities from decision values as nodes of a graph, one writer for every calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.export.graph import Graph, Node
from onefold.export.labels import class_values


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
    some = graph.node("Greater", total, graph.constant(0.0))
    return graph.node("Where", some, graph.node("Div", shares, total), graph.constant(1.0 / n_classes))


_WRITERS: dict[str, Callable[[Graph, Any, Node, int], Node]] = {
    "temperature": _temperature,
    "sigmoid": _sigmoid,
    "isotonic": _isotonic,
}
