"""What a fitted model has of its own classes fits on a line or two, however many rows it holds."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVCCV, LSSVRCV, SparseLSSVR
from onefold.expansions import Blend, Expansion, FoldModels
from onefold.kernels import RBF, Laplacian

X = np.random.default_rng(0).uniform(size=(300, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    "model",
    [
        LSSVRCV(kernel=["rbf", "laplacian"], metric="diagonal", blend=True),
        LSSVRCV(gammas=[1.0], alphas=[0.1], approximation="grid"),
        LSSVRCV(gammas=[1.0], alphas=[0.1], intervals="normalised"),
        LSSVCCV(gammas=[1.0], alphas=[0.1], approximation="nystroem", calibration="isotonic"),
        LSSVCCV(gammas=[1.0], alphas=[0.1], calibration="sigmoid"),
        SparseLSSVR(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_public_attribute_of_a_fitted_model(model) -> None:
    model.fit(X, Y > 0.5 if isinstance(model, LSSVCCV) else Y)
    own = [value for value in vars(model).values() if type(value).__module__.startswith("onefold.")]
    assert own
    for value in own:
        assert len(repr(value)) < 300, repr(value)


def test_they_name_kernel_and_size() -> None:
    one, other = (Expansion(k, X, np.ones((300, 1)), np.zeros(1)) for k in (RBF(0.5), Laplacian(2.0)))
    assert repr(one) == "Expansion(RBF(gamma=0.5), centres=300, features=2, targets=1)"
    blend = Blend((one, other), [0.25, 0.75], np.zeros(1))
    terms = "0.25 × RBF(gamma=0.5) + 0.75 × Laplacian(gamma=2.0)"
    assert repr(blend) == f"Blend({terms}, centres=600, features=2, targets=1)"
    folds = FoldModels.each([one, other])
    assert repr(folds) == "FoldModels(RBF(gamma=0.5), …, folds=2, terms=2, targets=1)"
