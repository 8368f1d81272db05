"""The kernels that can be exported, to ONNX and to C alike."""

from __future__ import annotations

from onefold import kernels
from onefold.kernels import Kernel

_KERNELS = (
    kernels.RBF, kernels.Matern, kernels.PowerExponential, kernels.Laplacian, kernels.Linear,
    kernels.Polynomial, kernels.Sum, kernels.Product,
)  # fmt: skip


def check_kernel(kernel: Kernel, action: str) -> None:
    """Raise if a kernel, or a part of it, cannot be ``"exported to ONNX"`` or ``"written in C"``."""
    if type(kernel) not in _KERNELS:  # a class derived from these may have another formula
        raise ValueError(
            f"a {type(kernel).__name__} kernel cannot be {action}; fit to rows with a built-in kernel "
            "of onefold.kernels, or a sum or product of these."
        )
    if isinstance(kernel, kernels.Sum | kernels.Product):
        check_kernel(kernel.left, action)
        check_kernel(kernel.right, action)
