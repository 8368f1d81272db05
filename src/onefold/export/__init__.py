r"""A fitted estimator as an ONNX graph, for ONNX Runtime and other programs, or as one C file.

The extra ``onefold[onnx]`` brings what ONNX needs; nothing of it is imported before it is used.
"""

from onefold.export.c import to_c
from onefold.export.model import register_converters, to_onnx

__all__ = ["register_converters", "to_c", "to_onnx"]
