"""A small search, and what it means that two searches are the same."""

from __future__ import annotations

import numpy as np

from onefold import LSSVRCV
from onefold.approximations import Nystroem

GRID = {"gammas": [0.5, 3.0], "alphas": [0.01, 1.0]}
LANDMARKS = Nystroem(40, method="uniform")


def model(kind=LSSVRCV, **options):
    return kind(**{"approximation": LANDMARKS, **GRID, **options})


def assert_same_search(one, other, X, rtol: float = 1e-8) -> None:
    """The same scores, choice, held-out predictions and model."""
    scores = [model.cv_results_["mean_test_score"] for model in (one, other)]
    np.testing.assert_allclose(*scores, rtol=0, atol=rtol * np.abs(scores[0]).max())
    assert one.best_params_ == other.best_params_
    heldout = [model.heldout_prediction_ for model in (one, other)]
    np.testing.assert_allclose(*heldout, rtol=0, atol=rtol * 10)
    ask = "decision_function" if hasattr(one, "decision_function") else "predict"
    values = [getattr(model, ask)(X) for model in (one, other)]
    np.testing.assert_allclose(*values, rtol=0, atol=rtol * 10)
