"""The coefficients of every model trained without a part, against the bordered system of that part."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from onefold.smoothers import CholeskySmoother, SpectralSmoother
from onefold.smoothers.lowrank import LowRankSmoother

ALPHAS = [1e-2, 1.0, 20.0]


def _thin(K, border):
    values, vectors = np.linalg.eigh(K)
    return LowRankSmoother(vectors * np.sqrt(np.maximum(values, 0.0)), border)


SMOOTHERS = {
    "eigen": lambda K, border: SpectralSmoother(K.copy(), border),
    "cholesky": lambda K, border: CholeskySmoother(K.copy(), border),
    "low rank": _thin,
}


def literal(K, Y, border, alpha, rows):
    """(K + αI) a + b s = y, sᵀa = 0 on the other rows; 0 on the part itself."""
    n, rest = len(K), np.delete(np.arange(len(K)), rows)
    m = len(rest)
    system = K[np.ix_(rest, rest)] + alpha * np.eye(m)
    right = Y[rest]
    if border is not None:
        column = border[rest][:, None]
        system = np.block([[system, column], [column.T, np.zeros((1, 1))]])
        right = np.vstack([right, np.zeros((1, Y.shape[1]))])
    found = np.zeros((n, Y.shape[1]))
    found[rest] = np.linalg.solve(system, right)[:m]
    return found


@pytest.mark.parametrize("name", SMOOTHERS)
@pytest.mark.parametrize("bordered", [None, "ones", "weights"])
@pytest.mark.parametrize("targets", [1, 3])
def test_every_part_and_ridge_is_a_solve_without_the_part(name, bordered, targets) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, targets))
    border = {None: None, "ones": np.ones(30), "weights": rng.uniform(0.5, 2.0, 30)}[bordered]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    parts = [np.array([0, 4, 5]), np.array([29]), np.arange(10, 22)]  # of several sizes, some rows never
    found = SMOOTHERS[name](K, border).heldout_duals(Y, parts, ALPHAS)
    assert found.shape == (len(ALPHAS), len(parts), 30, targets)
    for i, alpha in enumerate(ALPHAS):
        for k, rows in enumerate(parts):
            assert_array_equal(found[i, k][rows], 0.0)
            assert_allclose(found[i, k], literal(K, Y, border, alpha, rows), rtol=0, atol=1e-9)
