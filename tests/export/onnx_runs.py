"""Graphs run by ONNX Runtime, and expansions in extended precision to compare them with."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.expansions import Expansion
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial, PowerExponential, Product, Sum

onnx = pytest.importorskip("onnx")
pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

WIDE = np.longdouble
EPS = {"float32": np.finfo(np.float32).eps, "float64": np.finfo(np.float64).eps}

SQUARE = np.array([[1.0, 0.3, -0.2], [0.0, 0.7, 0.4], [0.2, 0.0, 1.3]])
KERNELS = [
    RBF(0.5),
    RBF(300.0),
    RBF([0.1, 2.0, 0.0]),
    RBF(0.7, metric=SQUARE),
    Laplacian(0.3),
    Laplacian(40.0, metric=[1.0, 0.0, 0.2]),
    Matern(0.5, nu=0.5),
    Matern(2000.0, nu=0.5),
    Matern(0.5, nu=1.5, metric=[0.5, 1.0, 2.0]),
    Matern(0.5, nu=2.5, metric=SQUARE),
    PowerExponential(0.5),
    PowerExponential(2.0, power=0.8, metric=SQUARE),
    Polynomial(0.3, degree=3),
    Polynomial(0.2, degree=2, coef0=0.5, metric=SQUARE),
    Linear(),
    RBF(0.5) + Linear(),
    RBF(0.2) * Polynomial(0.1, degree=2) + Laplacian(0.1),
]


def names_of(kernel) -> str:
    return f"{kernel!r:.48}"


def session(model):
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def run(model, X) -> dict:
    """Every output by its name."""
    running = session(model)
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(None, {running.get_inputs()[0].name: X})))


def wide_kernel(kernel, A, B):
    """K(A, B) literally, in extended precision."""
    A = np.asarray(A, dtype=WIDE)
    B = np.asarray(B, dtype=WIDE)
    if isinstance(kernel, Sum):
        return wide_kernel(kernel.left, A, B) + wide_kernel(kernel.right, A, B)
    if isinstance(kernel, Product):
        return wide_kernel(kernel.left, A, B) * wide_kernel(kernel.right, A, B)
    if isinstance(kernel, Linear):
        return A @ B.T
    S = np.eye(A.shape[1]) if kernel.metric is None else kernel.metric.values
    S = (S if S.ndim == 2 else np.diag(S)).astype(WIDE)
    gamma = WIDE(kernel.gamma)
    if isinstance(kernel, Polynomial):
        return (gamma * (A @ S.T) @ (B @ S.T).T + kernel.coef0) ** kernel.degree
    differences = (A[:, None, :] - B[None, :, :]) @ S.T
    if isinstance(kernel, Laplacian):
        return np.exp(-gamma * np.abs(differences).sum(axis=2))
    q = gamma * (differences**2).sum(axis=2)
    if isinstance(kernel, RBF):
        return np.exp(-q)
    if isinstance(kernel, PowerExponential):
        return np.exp(-(q ** (WIDE(kernel.power) / 2)))
    s = np.sqrt(4 * kernel.nu * q)
    return {0.5: 1, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[kernel.nu] * np.exp(-s)


def rounding_share(kernel, Z) -> float:
    """What kernel values may be wrong by: rows are rounded, in units of the kernel's width."""
    if not isinstance(kernel, Matern):  # of others the slope at short distances is 0, or widths small
        return 2e-13
    about = np.asarray(kernel.transform(Z)(Z - Z.mean(axis=0)))
    return 2e-13 + 1e-14 * float(np.sqrt(kernel.unit * np.max(np.sum(about**2, axis=1))))


def wide_values(expansion: Expansion, X):
    """F in extended precision, and Σ_j |c_j k(x, z_j)|, which rounding is a share of."""
    K = wide_kernel(expansion.kernel, X, expansion.centres)
    size = np.abs(K) @ np.abs(expansion.coef) + np.abs(expansion.intercept)
    return K @ expansion.coef.astype(WIDE) + expansion.intercept, size.astype(float)
