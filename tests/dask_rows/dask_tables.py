"""A small table, a grid, and what it means that two searches are the same."""

from __future__ import annotations

import numpy as np

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
