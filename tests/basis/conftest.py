"""Data shared by the tests of basis models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onefold.approximations.nystroem as coordinates_module


@pytest.fixture
def regression() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((157, 4))
    Y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 5.0
    return X, Y + 0.1 * rng.standard_normal(Y.shape)


@pytest.fixture
def force_training(monkeypatch) -> Any:
    """A function that makes models of few rows train as if they had many."""

    def force(training: str) -> None:
        if training != "factors":
            monkeypatch.setattr("onefold.basis.factors._WORK", 0)
        if training == "sums":
            monkeypatch.setattr(coordinates_module, "_SMALL_WORK", 0)
            monkeypatch.setattr(coordinates_module, "_MEDIUM_WORK", 0)

    return force
