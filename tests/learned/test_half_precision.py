"""Tensors in half precision are computed with in double precision, as NumPy's arrays are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold import LSSVR, LSSVRCV

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(2)
X = RNG.standard_normal((40, 3)).astype(np.float16)
Y = np.sin(2 * X[:, 0].astype(np.float64))
GRID = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 3, "max_rounds": 1}


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "model",
    [LSSVR(gamma="scale"), LSSVRCV("auto", metric="auto", **GRID)],
    ids=["plain", "search"],
)
def test_half_precision(model, size) -> None:
    rows = (size * X).astype(np.float16)
    expected = model.fit(rows, Y).predict(rows)
    found = model.fit(torch.asarray(rows), torch.asarray(Y)).predict(torch.asarray(rows))
    assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-8)
