"""Data and routes that the tests of Dask's rows share; without Dask none of them is collected."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

import onefold.approximations.nystroem as coordinates

collect_ignore_glob = []
if importlib.util.find_spec("dask") is None or importlib.util.find_spec("distributed") is None:
    collect_ignore_glob = ["test_dask_*.py"]


@pytest.fixture(scope="session")
def table() -> SimpleNamespace:
    """Rows, targets, labels, weights and groups of one small table."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=700)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [0.3, 1.2])]
    weight = rng.integers(0, 3, 700).astype(float)
    groups = rng.integers(0, 9, 700)
    two = np.column_stack([y, X[:, 2] - y])
    return SimpleNamespace(X=X, y=y, Y=two, labels=labels, weight=weight, groups=groups)


@pytest.fixture
def summed(monkeypatch) -> None:
    """Models from sums over rows, however few."""
    monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)


@pytest.fixture(params=["factors", "whitened sums", "sums"])
def training(request, monkeypatch) -> str:
    """Every way of training a basis model, whatever the size of the table."""
    if request.param != "factors":
        monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)
    if request.param == "sums":
        monkeypatch.setattr(coordinates, "_SMALL_WORK", 0)
        monkeypatch.setattr(coordinates, "_MEDIUM_WORK", 0)
    return request.param
