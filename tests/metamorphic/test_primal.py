"""A kernel of few features is a linear model in them, however large they are against the ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVR
from onefold.approximations import ConjugateGradients, Nystroem

ALPHA = 1e-3


def features(X: Any, kernel: str) -> Any:
    """φ(x) with φ(x)·φ(z) = x·z, or (x·z + 1)²."""
    if kernel == "linear":
        return X
    a, b = X.T
    root = np.sqrt(2.0)
    return np.column_stack([np.ones(len(X)), root * X, X**2, root * a * b])


def primal(Phi: Any, y: Any, alpha: float, intercept: bool) -> Any:
    """The fit of min ‖y − Φw − b‖² + α‖w‖², by least squares in columns of length one."""
    length = np.linalg.norm(Phi, axis=0)
    ridge = np.diag(np.sqrt(alpha) / length)
    system = np.vstack([Phi / length, ridge])
    if intercept:
        system = np.column_stack([system, np.r_[np.ones(len(y)), np.zeros(len(length))]])
    solved = np.linalg.lstsq(system, np.r_[y, np.zeros(len(length))], rcond=None)[0]
    return system[: len(y)] @ solved


@pytest.mark.parametrize("power", range(5))
@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *((kind, "exact") for kind in (LSSVR, KernelRidge, LSSVRCV, KernelRidgeCV, SparseLSSVR)),
        *((kind, "nystroem") for kind in (LSSVR, KernelRidge, LSSVRCV, KernelRidgeCV)),
        *((kind, ConjugateGradients(tolerance=1e-9)) for kind in (LSSVR, KernelRidge)),
    ],
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_kernel_far_above_the_ridge(kind, way, kernel, power) -> None:
    """Right, or refused in words: rounding of K that exceeds the ridge is never taken for data."""
    rng = np.random.default_rng(1)
    X = 10.0**power * rng.normal(size=(40, 2))
    y = np.sin(X[:, 0] / 10.0**power) + 0.1 * rng.normal(size=40)
    settings = {"alpha": ALPHA, "gamma": 1.0}
    if kind in (LSSVRCV, KernelRidgeCV, SparseLSSVR):
        settings = {"alphas": [ALPHA]} | ({"gammas": [1.0]} if kernel == "polynomial" else {})
    if kind is SparseLSSVR:
        settings["n_centres"] = 40
    else:
        settings["approximation"] = Nystroem(X[:12].copy()) if way == "nystroem" else way
    try:
        model = kind(kernel, degree=2, **settings).fit(X, y)
    except (ValueError, UserWarning):
        return
    Phi = features(X, kernel)
    expected = primal(Phi, y, ALPHA, kind not in (KernelRidge, KernelRidgeCV))
    # K holds its small features to this many digits; what it lost altogether may still not blow up.
    lost = 400 * np.finfo(float).eps * (Phi**2).sum(axis=1).max() if kernel == "polynomial" else 0.0
    assert_allclose(model.predict(X), expected, rtol=0, atol=min(1e-3 + lost, 2.0))
