"""Checks of the array API by scikit-learn; `test_array_api.py` runs them with SciPy's switch for it."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils.estimator_checks import check_array_api_input, check_array_api_mixed_inputs

from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold.approximations import ConjugateGradients

SMALL = {"gammas": [0.01, 0.1], "alphas": [0.01, 1.0], "cv": 3}
FEW = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 2}
ALL = [
    LSSVC(),
    KernelRidge(),
    LSSVC(approximation=ConjugateGradients(tolerance=1e-12)),
    KernelRidge(approximation=ConjugateGradients(tolerance=1e-12)),
    LSSVCCV(**SMALL),
    LSSVRCV(**SMALL),
    LSSVRCV(**SMALL | {"cv": "loo", "alphas": list(np.geomspace(0.01, 5, 12))}),
    KernelRidgeCV(**SMALL),
    LSSVCCV(**FEW, kernel="auto", blend=True),
    LSSVRCV(**FEW, metric="diagonal", max_rounds=1),
    SparseLSSVC(**SMALL),
    SparseLSSVR(**SMALL, weights="robust"),
]
LIBRARIES = [
    ("array_api_strict", None, "float32"),
    ("torch", "cpu", "float32"),
]


def estimator_checks() -> None:
    """Types, shapes and numbers follow X, whatever library y and the weights are in."""
    from sklearn.utils._array_api import NamespaceAndDevice

    strict = NamespaceAndDevice("array_api_strict", "device1")
    torch = NamespaceAndDevice("torch", "cpu")
    for estimator in ALL:
        name = type(estimator).__name__
        for namespace, device, dtype in LIBRARIES:
            check_array_api_input(
                name, estimator, array_namespace=namespace, device_name=device, dtype_name=dtype
            )
        for namespace in ("array_api_strict", "torch"):
            check_array_api_input(
                name, estimator, namespace, None, "float64", check_values=True, check_sample_weight=True
            )
        check_array_api_mixed_inputs(
            name, estimator, X_ns_and_device=torch, other_ns_and_device=strict, check_values=True
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # small grids end where the scores still rise
    estimator_checks()
