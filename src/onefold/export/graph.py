r"""Nodes and constants of a graph under construction, written into a container of skl2onnx.

Everything between the rows that come in and the values that go out is float64, also where these are
float32: coefficients of a small ridge are large and cancel, and float32 sums would keep few of their
digits.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

import numpy as np

from onefold.machine.extras import pip_install

Node: TypeAlias = str
"""The name of a node's output."""

# Bytes of constants: protobuf's limit of 2 GiB for a message, less 1 MiB for the nodes.
_LARGEST = 2**31 - 2**20


def import_optional(name: str) -> Any:
    """A module of the extra ``onnx``, imported when something is exported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"export to ONNX needs {name.partition('.')[0]}, which cannot be imported ({error}); "
            f"{pip_install('onnx')}."
        ) from error


class Graph:
    """A graph under construction, in which every node has a unique name."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope = scope
        self._container = container
        self._bytes = 0

    def node(self, kind: str, *inputs: Node, **attributes: Any) -> Node:
        """Add a node of one of ONNX's operators; return the name of its output."""
        name: str = self._scope.get_unique_variable_name(kind.lower())
        self.node_as(name, kind, *inputs, **attributes)
        return name

    def node_as(self, output: Node, kind: str, *inputs: Node, **attributes: Any) -> None:
        """Add a node whose output has a given name."""
        operator = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, list(inputs), output, name=operator, **attributes)

    def constant(self, values: Any) -> Node:
        """Numbers or text; Python's floats are float64, its integers int64."""
        array = np.asarray(values)
        self._bytes += array.nbytes
        if self._bytes > _LARGEST:
            raise ValueError(
                "the graph would exceed the 2 GiB limit of ONNX models; fit fewer centres with "
                'approximation="nystroem", SparseLSSVC or SparseLSSVR.'
            )
        name: str = self._scope.get_unique_variable_name("constant")
        if array.dtype.kind in "UO":
            kind = import_optional("onnx").TensorProto.STRING
            text = [str(item).encode() for item in array]
            self._container.add_initializer(name, kind, list(array.shape), text)
        else:
            content = import_optional("onnx.numpy_helper").from_array(array)
            self._container.add_initializer(name, None, None, content)
        return name

    def as_float64(self, value: Node) -> Node:
        """The same numbers as float64."""
        return self.node("Cast", value, to=import_optional("onnx").TensorProto.DOUBLE)

    def as_int64(self, value: Node) -> Node:
        """The same numbers as int64."""
        return self.node("Cast", value, to=import_optional("onnx").TensorProto.INT64)

    def product(self, value: Node, matrix: Any) -> Node:
        """The product with a matrix of constants."""
        # Gemm, because ONNX Runtime fuses factors around a MatMul into it, in float32.
        return self.node("Gemm", value, self.constant(matrix))

    def sum_columns(self, value: Node, keepdims: int = 1) -> Node:
        """Σ_j v_ij as one column."""
        return self.node("ReduceSum", value, self.constant([1]), keepdims=keepdims)
