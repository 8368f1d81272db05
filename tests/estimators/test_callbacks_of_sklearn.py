"""Callbacks that come with scikit-learn, on estimators by themselves and inside others."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVR, LSSVRCV, SparseLSSVR

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks before 1.9")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
GRID = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.01, 0.1, 1.0]}


def test_scores_are_monitored_once_there_is_a_model() -> None:
    """Cells of a grid are scored without being fitted: the only model is the last one."""
    monitor = callback.ScoringMonitor(scoring="r2")
    model = LSSVRCV(**GRID).set_callbacks(monitor).fit(X, Y)
    (row,) = monitor.get_logs().data
    assert row["estimator_name"] == "LSSVRCV"
    assert row["r2"] == pytest.approx(model.score(X, Y))


@pytest.mark.parametrize("last", [LSSVR(), SparseLSSVR(**GRID), LSSVRCV(**GRID)], ids=repr)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bars_of_pipelines_and_searches_complete(last, n_jobs) -> None:
    """Also around those that have no evaluations to tell of."""
    pytest.importorskip("rich")
    shown = io.StringIO()
    pipeline = make_pipeline(StandardScaler(), last)
    name = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{name}__kernel": ["rbf", "laplacian"]}, cv=2, n_jobs=n_jobs)
    with redirect_stdout(shown):
        pipeline.set_callbacks(callback.ProgressBar()).fit(X, Y)
        pipeline.set_callbacks()
        search.set_callbacks(callback.ProgressBar()).fit(X, Y)
    bars = [line for line in shown.getvalue().splitlines() if line.strip()]
    assert len(bars) > 4
    assert all("100%" in line for line in bars)
