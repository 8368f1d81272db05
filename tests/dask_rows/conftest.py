"""Data and fits that the tests of Dask's rows share; without Dask none of them is collected."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from onefold.approximations import Nystroem

collect_ignore_glob = []
if importlib.util.find_spec("dask") is None or importlib.util.find_spec("distributed") is None:
    collect_ignore_glob = ["test_dask_*.py"]

GRID = {"gammas": [0.5, 3.0], "alphas": [0.01, 1.0]}


class Table:
    """Rows, targets, labels, weights and groups of one small table."""

    def __init__(self, n: int = 700, d: int = 3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d))
        self.y = np.sin(self.X[:, 0]) + self.X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
        self.Y = np.column_stack([self.y, self.X[:, 2] - self.y])
        self.labels = np.array(["low", "mid", "top"])[np.digitize(self.y, [0.3, 1.2])]
        self.weight = rng.integers(0, 3, n).astype(float)
        self.groups = rng.integers(0, 9, n)


@pytest.fixture(scope="session")
def table() -> Table:
    return Table()


@pytest.fixture
def landmarks() -> Nystroem:
    return Nystroem(40, method="uniform")


@pytest.fixture
def summed(monkeypatch) -> None:
    """Models from sums over rows, however few."""
    import onefold.approximations.nystroem.coordinates as coordinates

    monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)


@pytest.fixture(params=["factors", "whitened sums", "sums"])
def training(request, monkeypatch) -> str:
    """Every way of training a basis model, whatever the size of the table."""
    import onefold.approximations.nystroem.coordinates as coordinates

    if request.param != "factors":
        monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)
    if request.param == "sums":
        monkeypatch.setattr(coordinates, "_SMALL_WORK", 0)
        monkeypatch.setattr(coordinates, "_MEDIUM_WORK", 0)
    return request.param


def assert_same_search(one, other, X, rtol: float = 1e-8) -> None:
    """The same scores, choice, held-out predictions and model."""
    scale = np.abs(one.cv_results_["mean_test_score"]).max()
    scores = [model.cv_results_["mean_test_score"] for model in (one, other)]
    np.testing.assert_allclose(*scores, rtol=0, atol=rtol * scale)
    assert one.best_params_ == other.best_params_
    np.testing.assert_allclose(
        one.heldout_prediction_, other.heldout_prediction_, rtol=0, atol=rtol * 10
    )
    if hasattr(one, "decision_function"):
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=rtol * 10)
    else:
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=rtol * 10)
