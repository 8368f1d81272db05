"""Checks of the array API by scikit-learn; `test_array_api.py` runs them with SciPy's switch for it."""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_array_api_input, check_array_api_mixed_inputs

from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR

SMALL = {"gammas": [0.01, 0.1], "alphas": [0.01, 1.0], "cv": 3}
FEW = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 2}
ALL = [
    LSSVC(),
    KernelRidge(),
    LSSVCCV(**SMALL),
    LSSVRCV(**SMALL),
    KernelRidgeCV(**SMALL),
    LSSVCCV(**FEW, kernel="auto", blend=True),
    LSSVRCV(**FEW, metric="diagonal", max_rounds=1),
    SparseLSSVC(**SMALL),
    SparseLSSVR(**SMALL, weights="robust"),
]
LIBRARIES = [
    ("array_api_strict", None, "float32"),
    ("array_api_strict", None, "float64"),
    ("torch", "cpu", "float32"),
]


def estimator_checks() -> int:
    """Types, shapes and numbers follow X, whatever library y and the weights are in; how many ran."""
    from sklearn.utils._array_api import NamespaceAndDevice

    strict = NamespaceAndDevice("array_api_strict", "device1")
    torch = NamespaceAndDevice("torch", "cpu")
    found = 0
    for estimator in ALL:
        name = type(estimator).__name__
        kinds = [
            partial(check_array_api_input, array_namespace=n, device_name=d, dtype_name=t)
            for n, d, t in LIBRARIES
        ]
        for kind in kinds:
            kind(name, estimator)
        exact = partial(check_array_api_input, dtype_name="float64", check_values=True)
        exact(name, estimator, array_namespace="torch", check_sample_weight=True)
        check_array_api_mixed_inputs(
            name, estimator, X_ns_and_device=torch, other_ns_and_device=strict, check_values=True
        )
        found += len(kinds) + 2
    return found


def in_a_pipeline() -> None:
    """A pipeline of scikit-learn hands tensors on, and gets tensors back."""
    import torch

    X = torch.asarray(np.random.default_rng(0).standard_normal((40, 3)))
    with sklearn.config_context(array_api_dispatch=True):
        pipeline = make_pipeline(StandardScaler(), LSSVRCV(**SMALL)).fit(X, torch.sin(X[:, 0]))
        assert torch.is_tensor(pipeline.predict(X))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # small grids end where the scores still rise
    in_a_pipeline()
    sys.stdout.write(str(estimator_checks()))
