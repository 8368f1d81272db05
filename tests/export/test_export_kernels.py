"""Every kernel in a graph against extended precision and our own predictions."""

import numpy as np
import pytest
from onnx_runs import EPS, KERNELS, names_of, rounding_share, run, wide_values

from onefold import LSSVR
from onefold.expansions import Blend, Expansion
from onefold.kernels import RBF, Laplacian, Matern

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2], axis=1)
# Rows of the fit, rows next to them, and others.
ROWS = np.concatenate(
    [X, X[:20] + 1e-7 * rng.standard_normal((20, 3)), 2 * rng.standard_normal((30, 3))]
)


def as_machine(function, n_features: int) -> LSSVR:
    """An estimator with an expansion of our making."""
    model = LSSVR()
    model.expansion_ = function
    model.n_features_in_ = n_features
    model.single_target_ = False
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=names_of)
def test_every_kernel_is_right_to_the_last_digits(kernel, dtype):
    model = LSSVR(kernel, alpha=1e-4).fit(X, Y)
    rows = ROWS.astype(dtype)
    found = run(model.to_onnx(dtype=dtype), rows)["variable"]
    truth, size = wide_values(model.expansion_, rows)
    assert found.dtype == dtype
    assert found.shape == (90, 2)
    # Float64 inside: of float32 outputs the last rounding is all that is lost.
    bound = EPS[dtype] * np.abs(truth) + rounding_share(kernel, X) * size
    assert np.all(np.abs(found - truth) <= bound)
    assert np.allclose(
        found, model.predict(rows), rtol=2 * EPS[dtype], atol=2 * rounding_share(kernel, X) * size.max()
    )


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.stationary], ids=names_of)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_far_from_the_origin(kernel, dtype):
    # Features near 1e6 that differ by about 1: float32 rows are what the caller has made of them.
    far = X + np.array([1e6, -1e6, 3e6])
    model = LSSVR(kernel, alpha=1e-3).fit(far, Y)
    rows = np.concatenate([far, far[:20] + 0.1]).astype(dtype)
    truth, size = wide_values(model.expansion_, rows)
    found = run(model.to_onnx(dtype=dtype), rows)["variable"]
    assert np.all(np.abs(found - truth) <= EPS[dtype] * np.abs(truth) + 1e-12 * size)
    # A matrix mixes features of 1e6 before they are compared, and loses some digits of theirs.
    assert np.allclose(found, model.predict(rows), rtol=2 * EPS[dtype], atol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e4, 1e12])
@pytest.mark.parametrize("kind", [RBF, Matern, Laplacian])
def test_any_scale_of_the_rows(scale, kind):
    gamma = 0.5 / scale if kind is Laplacian else 0.5 / scale**2
    model = LSSVR(kind(gamma), alpha=1e-3).fit(scale * X, Y)
    found = run(model.to_onnx(dtype="float64"), scale * ROWS)["variable"]
    truth, size = wide_values(model.expansion_, scale * ROWS)
    assert np.all(np.abs(found - truth) <= 2e-13 * size)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_rows_at_a_centre_have_the_distance_zero(nu):
    kernel = Matern(1e8, nu=nu)
    Z = rng.standard_normal((50, 7)) + 100.0
    model = as_machine(Expansion(kernel, Z, np.eye(50), np.zeros(50)), 7)
    K = run(model.to_onnx(dtype="float64"), Z)["variable"]
    assert np.all(np.diagonal(K) == 1.0)
    assert np.abs(K - np.eye(50)).max() < 1e-290


def test_large_coefficients_that_cancel_and_rows_beyond_all_centres():
    model = LSSVR(RBF(0.01), alpha=1e-9).fit(X, Y[:, 0])
    assert np.abs(model.expansion_.coef).sum() > 1e7
    rows = ROWS.astype(np.float32)
    found = run(model.to_onnx(), rows)["variable"][:, 0]
    assert np.max(np.abs(found - model.predict(rows))) < 1e-6 * np.abs(found).max()
    model = LSSVR(Matern(0.5, nu=1.5), alpha=0.1).fit(X, Y[:, 0])
    rows = np.array([[1e3, 0, 0], [1e10, -1e10, 5], [3e38, 1, 1]], dtype=np.float32)
    found = run(model.to_onnx(), rows)["variable"][:, 0]
    assert np.allclose(found, model.expansion_.intercept[0], rtol=1e-6)


def test_a_blend_is_the_weighted_sum_of_its_members():
    b = rng.standard_normal(2)
    members = tuple(Expansion(k, X, rng.standard_normal((40, 2)), b) for k in KERNELS)
    weights = rng.uniform(0.1, 2.0, len(members))
    blend = Blend(members, weights)
    found = run(as_machine(blend, 3).to_onnx(dtype="float64"), ROWS)["variable"]
    assert np.allclose(found, blend.predict(ROWS), rtol=1e-11, atol=1e-9)
