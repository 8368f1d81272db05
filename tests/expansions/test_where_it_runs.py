"""Rows in one place and the model in another."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold import KernelRidge
from onefold.expansions import Expansion, kernel
from onefold.kernels import RBF, Linear, Polynomial, Precomputed
from onefold.linalg import to_numpy

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(2)
X = RNG.standard_normal((50, 3))
HOST = Expansion(RBF(0.4), X[:20], RNG.standard_normal((20, 2)), np.array([1.0, -2.0]))
THERE = Expansion(HOST.kernel, *(torch.asarray(a) for a in (HOST.centres, HOST.coef, HOST.intercept)))


@pytest.mark.parametrize("block", [7, 50, 1000])
@pytest.mark.parametrize("rows", [X, X.astype(np.float32), sp.csr_array(X), X[:0]])
def test_blocks_of_host_rows_go_to_the_expansion(monkeypatch, block, rows) -> None:
    expected = HOST.predict(rows), HOST.gradient(rows)
    monkeypatch.setattr(kernel, "_BLOCK", block)
    monkeypatch.setattr(kernel, "on_accelerator", torch.is_tensor)
    for got, values in zip((THERE.predict(rows), THERE.gradient(rows)), expected):
        assert type(got) is np.ndarray
        assert_allclose(got, values, atol=1e-6)


def test_an_accelerator_keeps_the_work(monkeypatch) -> None:
    monkeypatch.setattr(kernel, "on_accelerator", lambda array: array is THERE.coef)
    seen, expected = [], HOST.predict(X)
    inner = Expansion._values
    monkeypatch.setattr(Expansion, "_values", lambda self, rows: seen.append(rows) or inner(self, rows))
    assert_allclose(THERE.predict(X), expected, atol=1e-10)
    assert [type(rows) for rows in seen] == [torch.Tensor]


def test_otherwise_the_expansion_goes_to_the_rows() -> None:
    moved = HOST.predict(torch.asarray(X))
    assert isinstance(moved, torch.Tensor)
    assert_allclose(moved.numpy(), HOST.predict(X), atol=1e-10)
    assert type(THERE.predict(X)) is np.ndarray
    assert_allclose(THERE.predict(X), HOST.predict(X), atol=1e-10)
    assert THERE._moved_to(torch.asarray(X)) is THERE
    assert HOST._moved_to(X) is HOST


@pytest.mark.parametrize("function", [RBF(0.4), RBF(0.4, metric=np.eye(3)), Polynomial(0.4), Linear()])
def test_sparse_centres_go_to_the_rows(function) -> None:
    thin = Expansion(function, sp.csr_array(HOST.centres), HOST.coef, HOST.intercept)
    for got, expected in [(thin.predict, thin.predict(X)), (thin.gradient, thin.gradient(X))]:
        moved = got(torch.asarray(X))
        assert isinstance(moved, torch.Tensor)
        assert_allclose(moved.numpy(), expected, atol=1e-10)


def test_arrays_that_must_not_be_written_to_go_without_a_warning() -> None:
    """Torch warns once in a process: in this one it may have done so already."""
    script = """
import numpy as np, torch, warnings
from onefold.linalg import like
warnings.simplefilter("error")
values = np.ones(3)
values.flags.writeable = False
like(values, torch.zeros(1)).add_(1)
assert (values == 1).all()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_sparse_rows_and_a_grid() -> None:
    model = KernelRidge(RBF(0.4), alpha=0.1, approximation="grid").fit(X, X[:, 0])
    rows = sp.csr_array(np.vstack([X[:5], 9 + X[:5]]))
    assert_allclose(model.predict(rows), model.predict(rows.toarray()), rtol=1e-14)
    grid = model.expansion_
    assert_allclose(grid.gradient(rows), grid.gradient(rows.toarray()), rtol=1e-14)


def test_kernel_values_go_too(monkeypatch) -> None:
    values = RNG.standard_normal((6, 20))
    host = Expansion(Precomputed(), None, HOST.coef, HOST.intercept)
    there = Expansion(Precomputed(), None, THERE.coef, THERE.intercept)
    expected = values @ HOST.coef + HOST.intercept
    assert_allclose(host.predict(torch.asarray(values)).numpy(), expected)
    monkeypatch.setattr(kernel, "on_accelerator", torch.is_tensor)
    assert_allclose(there.predict(values), expected)


def test_a_dtype_that_numpy_lacks_comes_back_as_single() -> None:
    back = to_numpy(torch.tensor([1.0, 2.5], dtype=torch.bfloat16))
    assert back.dtype == np.float32
    assert back.tolist() == [1.0, 2.5]
