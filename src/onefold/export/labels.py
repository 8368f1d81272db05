"""Labels of a classifier in a graph: whole numbers or text, as ONNX knows no others."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.export.extra import need
from onefold.export.graph import Graph, Node


def label_values(classes: Any) -> Any:
    """The sorted labels as int64 or as text; raise where they are neither."""
    values = np.asarray(classes)
    if values.dtype.kind in "UO" and all(isinstance(label, str) for label in values):
        return values.astype(str)
    numbers = values.dtype.kind in "iubf" or all(isinstance(label, int) for label in values)
    if numbers:
        with np.errstate(invalid="ignore"):  # of numbers that are not whole, or too large
            whole = values.astype(np.int64)
        if np.array_equal(whole.astype(values.dtype), values):
            return whole
    raise ValueError(
        f"labels of ONNX are whole numbers of 64 bits or text, and the classes are "
        f"{classes.tolist()!r:.60}; encode y before fitting, with LabelEncoder of scikit-learn say."
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
