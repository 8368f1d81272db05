"""``device`` moves NumPy rows; what comes back is NumPy again."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold import load as load_model
from onefold.approximations import Circulant, Nystroem

torch = pytest.importorskip("torch")

GRID = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}
MACHINES = [
    LSSVC(gamma=0.5),
    LSSVR(gamma=0.5, alpha=[0.1, 1.0]),
    KernelRidge(gamma=0.5, approximation=Nystroem(20, method="uniform")),
    LSSVCCV(**GRID),
    LSSVRCV(**GRID, approximation=Nystroem(20, method="uniform")),
    LSSVRCV(**GRID, approximation=Circulant(negative="clip")),
    KernelRidgeCV(**GRID, refit="exact", approximation=Nystroem(20, method="uniform")),
    SparseLSSVC(**GRID, n_centres=8),
    SparseLSSVR(**GRID, n_centres=8),
]


def table(estimator: Any) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((90, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2])
    Y += 0.1 * generator.standard_normal(Y.shape)
    return X, (Y[:, 0] > 0).astype(int) if "SVC" in type(estimator).__name__ else Y


@pytest.mark.parametrize("estimator", MACHINES, ids=lambda e: f"{type(e).__name__}-{e.kernel}")
def test_the_numbers_are_those_of_the_plain_fit(estimator, tmp_path):
    X, y = table(estimator)
    plain = clone(estimator).fit(X, y)
    moved = clone(estimator).set_params(device="cpu").fit(X, y)
    assert moved.get_params()["device"] == "cpu"
    assert isinstance(moved.expansion_.coef, torch.Tensor)
    values = "decision_function" if hasattr(plain, "classes_") else "predict"
    expected, found = (getattr(model, values)(X) for model in (plain, moved))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert isinstance(moved.predict(X), np.ndarray)
    moved.save(tmp_path / "model.onefold")
    loaded = load_model(tmp_path / "model.onefold")
    assert loaded.device == "cpu"
    np.testing.assert_allclose(getattr(loaded, values)(X), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("settings", [{}, {"cv": "loo"}, {"check": True}, {"criterion": "press"}])
def test_rows_of_weight_0_and_checks_go_the_same_way(settings):
    X, y = table(LSSVRCV())
    weight = np.random.default_rng(1).uniform(0.1, 1, 90)
    weight[:12] = 0
    plain, moved = (
        LSSVRCV(**GRID | settings, device=device).fit(X, y[:, 0], sample_weight=weight)
        for device in (None, "cpu")
    )
    assert moved.best_params_ == plain.best_params_
    np.testing.assert_allclose(moved.predict(X), plain.predict(X), rtol=0, atol=1e-8)
    if plain.heldout_prediction_ is not None:
        found, expected = moved.heldout_prediction_, plain.heldout_prediction_
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_scorers_see_the_rows_where_they_were():
    X, y = table(LSSVRCV())
    kinds = set()

    def scorer(estimator, rows, y):
        kinds.add(type(rows))
        return -float(np.mean((estimator.predict(rows) - y) ** 2))

    weight = np.ones(90)
    weight[:12] = 0
    for given in (None, weight):
        LSSVRCV(**GRID, criterion=scorer, device="cpu").fit(X, y[:, 0], sample_weight=given)
    assert kinds == {np.ndarray}


def test_what_cannot_be_moved_is_refused(monkeypatch):
    X, y = table(LSSVR())
    with pytest.raises(ValueError, match="dense rows"):
        LSSVR(device="cpu").fit(scipy.sparse.csr_matrix(X), y)
    imported = builtins.__import__

    def without_torch(name: str, *arguments: Any, **settings: Any) -> Any:
        if name.split(".")[0] == "torch":
            raise ImportError("no torch here")
        return imported(name, *arguments, **settings)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="onefold\\[torch\\]"):
        LSSVR(device="cuda").fit(X, y)
