r"""A fitted machine as an ONNX graph, for ONNX Runtime and whatever else reads one.

The extra ``onefold[onnx]`` brings what it needs; nothing of it is imported before it is used.
"""

from onefold.export.model import register_converters, to_onnx

__all__ = ["register_converters", "to_onnx"]
