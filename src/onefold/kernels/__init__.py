"""Kernels: functions of two row blocks, their widths, their sums and products."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from onefold.kernels.base import NAMED, CallableKernel, Kernel, Precomputed, Product, Sum, listed
from onefold.kernels.metric import Metric
from onefold.kernels.named import RBF, Laplacian, Linear, Matern, Polynomial, PowerExponential, Radial
from onefold.linalg import as_float64, is_sparse, namespace
from onefold.rows import is_remote

__all__ = [
    "RBF",
    "CallableKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Metric",
    "Polynomial",
    "PowerExponential",
    "Precomputed",
    "Product",
    "Radial",
    "Sum",
    "kernel_name",
    "listed",
    "resolve_gamma",
    "resolve_kernel",
]

# The names of kernels: those that users may write, that messages list, and that tables show.
NAMED.update(
    {
        "rbf": (RBF, {}),
        "laplacian": (Laplacian, {}),
        "matern": (Matern, {}),
        "matern12": (Matern, {"nu": 0.5}),
        "matern32": (Matern, {"nu": 1.5}),
        "matern52": (Matern, {"nu": 2.5}),
        "powexp": (PowerExponential, {}),
        "polynomial": (Polynomial, {}),
        "poly": (Polynomial, {}),
        "linear": (Linear, {}),
        "precomputed": (Precomputed, {}),
    }
)


def resolve_gamma(gamma: Any, X: Any) -> Any:
    """The number behind ``None`` (1 / n_features) and ``"scale"`` (1 / (n_features · X.var()))."""
    if gamma is None:
        return 1.0 / X.shape[1]
    if isinstance(gamma, str):
        if gamma != "scale":
            raise ValueError(f'gamma must be a number, one per feature, None or "scale"; got {gamma!r}.')
        if is_remote(X):
            variance = X.variance()
        else:
            variance = _sparse_variance(X) if is_sparse(X) else float(namespace(X).var(as_float64(X)))
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    return gamma


def _sparse_variance(X: Any) -> float:
    """The variance of all entries, about their mean: mean(x²) − mean(x)² would lose its digits."""
    entries = X.astype(np.float64)  # a copy
    entries.sum_duplicates()
    size = math.prod(X.shape)
    mean = entries.mean()
    squared_deviations = np.sum((entries.data - mean) ** 2) + (size - entries.nnz) * mean**2
    return float(squared_deviations) / size


def resolve_kernel(kernel: Any, gamma: Any, degree: float, coef0: float) -> Kernel:
    """The Kernel behind a name, a function or a Kernel; the latter keeps its own parameters."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in NAMED:
            names = ", ".join(repr(name) for name in NAMED)
            raise ValueError(f"unknown kernel {kernel!r}; use one of {names}, a Kernel or a function.")
        kind: Any
        kind, fixed = NAMED[kernel]
        parameters = {"gamma": gamma, "degree": degree, "coef0": coef0}
        chosen = {item.name: parameters[item.name] for item in fields(kind) if item.name in parameters}
        return kind(**chosen, **fixed)
    if callable(kernel):
        return CallableKernel(kernel)
    raise ValueError(f"kernel must be a name, a Kernel or a function of two row blocks; got {kernel!r}.")


def kernel_name(kernel: Kernel) -> str | None:
    """The name under which :func:`resolve_kernel` makes such a kernel; None for one without a name."""
    fitting = [
        (name, parameters)
        for name, (kind, parameters) in NAMED.items()
        if type(kernel) is kind
        and all(getattr(kernel, key) == value for key, value in parameters.items())
    ]
    return max(fitting, key=lambda match: len(match[1]))[0] if fitting else None
