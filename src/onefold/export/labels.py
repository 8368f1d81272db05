"""Labels of a classifier in a graph: whole numbers or text, as ONNX knows no others."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.export.extra import need
from onefold.export.graph import Graph, Node


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
