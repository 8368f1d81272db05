r"""A fitted machine as an ONNX graph, for ONNX Runtime and whatever else reads one.

The extra ``onefold[onnx]`` brings what it needs; nothing of it is imported before it is used.
"""

from onefold.export.model import to_onnx
from onefold.export.registration import register_converters

__all__ = ["register_converters", "to_onnx"]
