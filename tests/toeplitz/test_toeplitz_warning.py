"""Rows that are no series are pointed out; series of every kind are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from onefold import LSSVC, LSSVR, LSSVRCV
from onefold.approximations.toeplitz import unexplained_by_lag
from onefold.kernels import RBF, Linear, Precomputed
from onefold.kernels.tiles import gram

NO_SERIES = "the rows are no series"
GRID = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0]}


def rows_of(kind: str, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(1)
    t, points = np.arange(float(n)), rng.normal(size=(n, 3))
    return {
        "series": t[:, None],
        "shuffled series": rng.permutation(t)[:, None],
        "jittered": (t + rng.uniform(-0.4, 0.4, n))[:, None],
        "gaps": np.delete(np.arange(n + 20.0), rng.choice(n, 20, replace=False))[:, None],
        "sorted": np.sort(rng.uniform(size=n))[:, None],
        "curve": np.stack([np.sin(t / 20), np.cos(t / 20)], axis=1),
        "raster": np.stack(np.meshgrid(np.arange(20.0), np.arange(10.0)), -1).reshape(-1, 2),
        "points": points,
        "one feature, no order": rng.normal(size=(n, 1)),
        "sorted by one of three": points[np.argsort(points[:, 0])],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["series", "shuffled series", "jittered", "gaps", "sorted", "curve", "raster"]
)
def test_series_are_taken_without_a_word(kind):
    X = rows_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        LSSVRCV(approximation="toeplitz", **GRID).fit(X, np.sin(X[:, 0]))


@pytest.mark.parametrize("kind", ["points", "one feature, no order", "sorted by one of three"])
def test_other_rows_warn_once(kind):
    X = rows_of(kind)
    y = np.sin(X[:, 0])
    for estimator, target in (
        (LSSVRCV(approximation="toeplitz", **GRID), y),
        (LSSVR(approximation="toeplitz"), y),
        (LSSVC(approximation="toeplitz"), y > 0),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(X, target)
        about = [w for w in caught if NO_SERIES in str(w.message)]
        assert len(about) == 1
        assert about[0].filename == __file__


def test_a_table_that_lost_most_of_its_score_warns():
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(UserWarning, match=NO_SERIES):
        LSSVRCV(approximation="toeplitz", **GRID).fit(scale(X), y)


def test_the_share_against_every_pair():
    """The sample against all entries of every diagonal up to n/2, weighed as the sample is."""
    X = rows_of("raster")
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    lags = np.arange(1, len(X) // 2 + 1)
    lines = [np.diagonal(distances, lag) for lag in lags]
    within = np.mean([line.var() for line in lines])
    literal = within / (within + np.var([line.mean() for line in lines]))
    assert unexplained_by_lag(RBF(1.0), X) == pytest.approx(literal, abs=0.05)
    # Whatever the form of the rows, and for a kernel that does not go by distances.
    assert unexplained_by_lag(RBF(1.0), scipy.sparse.csr_matrix(X)) == pytest.approx(
        unexplained_by_lag(RBF(1.0), X), rel=1e-9
    )
    K = gram(Linear(), X)
    assert unexplained_by_lag(Precomputed(), K) == pytest.approx(unexplained_by_lag(Linear(), X))
    assert unexplained_by_lag(RBF(1.0), X[:3]) == 0.0
    assert unexplained_by_lag(RBF(1.0), np.zeros((50, 2))) == 0.0
