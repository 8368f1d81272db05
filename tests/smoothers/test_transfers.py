"""On a device: nothing goes to the host in loops, and nothing large is copied."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.approximations import Exact, Problem, Workload
from onefold.kernels import RBF, Laplacian, Matern, PowerExponential
from onefold.smoothers import CholeskySmoother, SpectralSmoother
from onefold.smoothers.base import Rounding
from onefold.smoothers.dense import LeftOut

torch = pytest.importorskip("torch")
overrides = pytest.importorskip("torch.overrides")
_python_dispatch = pytest.importorskip("torch.utils._python_dispatch")
TO_HOST = {"cpu", "numpy", "item", "tolist", "__array__"}
TO_HOST |= {"__float__", "__int__", "__bool__", "__index__"}
N = 60
RNG = np.random.default_rng(0)
K = RBF(0.5)(X := RNG.normal(size=(N, 2)), X)
Y = RNG.normal(size=(N, 2))


class Transfers(overrides.TorchFunctionMode):
    """Counts what would be a transfer if the tensors lay on a device."""

    count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        self.count += name in TO_HOST or (name == "asarray" and isinstance(args[0], np.ndarray))
        return function(*args, **(kwargs or {}))


def transfers(smoother_class: Any, method: str, folds: int, ridges: int) -> int:
    border = torch.ones(N, dtype=torch.float64)
    smoother = smoother_class(torch.asarray(K.copy()), border)
    parts = np.array_split(np.random.default_rng(1).permutation(N), folds)
    targets = torch.asarray(Y)
    with Transfers() as seen:
        getattr(smoother, method)(targets, parts, np.geomspace(0.01, 1.0, ridges))
    return seen.count


EVERY = list(product([CholeskySmoother, SpectralSmoother], ["heldout", "heldout_duals"]))


@pytest.mark.parametrize(("smoother_class", "method"), EVERY)
def test_transfers_do_not_grow_with_folds_or_ridges(smoother_class, method) -> None:
    few = transfers(smoother_class, method, 3, 1)
    assert few <= 8
    assert transfers(smoother_class, method, 12, 1) == few
    # A Cholesky factorisation tells whether it succeeded: one number for each ridge.
    more = 10 if smoother_class is CholeskySmoother else 0
    assert transfers(smoother_class, method, 12, 11) - few <= more


@pytest.mark.parametrize(("smoother_class", "method"), EVERY)
def test_stacks_of_parts_are_the_parts_one_by_one(smoother_class, method) -> None:
    """Sizes that repeat and sizes that do not, overlapping parts, rows in no part."""
    parts = [np.array(p) for p in ([3, 1, 2], [7, 1, 40], [5], [8, 9], [0, 59, 30], [11, 10])]
    alphas = [0.01, 1.0]
    border = np.linspace(0.5, 2.0, N)
    ours = smoother_class(torch.asarray(K.copy()), torch.asarray(border))
    theirs = smoother_class(K.copy(), border)
    found = getattr(ours, method)(torch.asarray(Y), parts, alphas)
    wanted = getattr(theirs, method)(Y, parts, alphas)
    for f, w in zip(found, wanted, strict=True):
        assert_allclose(f.numpy(), w, atol=1e-9)


def test_large_sets_are_solved_one_after_the_other(monkeypatch) -> None:
    """A stack of few numbers only, and rows at the end with a corner of the inverse alone."""
    together = LeftOut(parts := np.array_split(np.arange(30, N), 3), torch.asarray(Y))
    assert [len(numbers) for numbers, *_ in together.batches] == [3]
    expected = CholeskySmoother(K.copy(), np.ones(N)).heldout(Y, parts, [0.1])
    monkeypatch.setattr("onefold.linalg.dense.STACK", 2 * 10 * N)
    assert [len(numbers) for numbers, *_ in LeftOut(parts, torch.asarray(Y)).batches] == [2, 1]
    smoother = CholeskySmoother(torch.asarray(K.copy()), torch.ones(N, dtype=torch.float64))
    for found, wanted in zip(smoother.heldout(torch.asarray(Y), parts, [0.1]), expected, strict=True):
        assert_allclose(found.numpy(), wanted, atol=1e-9)


class Arrays(_python_dispatch.TorchDispatchMode):
    """Counts new arrays of so many numbers or more."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.count = 0
        self._numbers = numbers

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        given = [*args, *(kwargs or {}).values()]
        known = {one.untyped_storage().data_ptr() for one in given if isinstance(one, torch.Tensor)}
        for one in found if isinstance(found, tuple) else (found,):
            large = isinstance(one, torch.Tensor) and one.numel() >= self._numbers
            self.count += large and one.untyped_storage().data_ptr() not in known
        return found


@pytest.mark.parametrize("kernel", [RBF(0.5), Matern(0.2), Laplacian(0.5) + PowerExponential(0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_array_of_the_matrix_serves_a_fit_and_rows_held_out_at_the_end(
    monkeypatch, kernel, weighted
) -> None:
    n = 300
    for name, value in {"_LARGE": 0, "_PANEL": 32, "STACK": n, "_LEAF": 32}.items():
        monkeypatch.setattr(f"onefold.linalg.dense.{name}", value)
    monkeypatch.setattr("onefold.kernels.tiles.device_rows", lambda m: 40)
    monkeypatch.setattr("onefold.approximations.exact._STRIP", 40)
    X = RNG.normal(size=(n, 3))
    Y = RNG.normal(size=(n, 2))
    root = np.linspace(0.5, 2.0, n) if weighted else None
    parts = [np.arange(270, n)]
    found = []
    for place in (np.asarray, torch.asarray):
        problem = Problem(place(X), place(Y), None if root is None else place(root), True)
        with Arrays(n * n // 2) as seen:
            run = Exact().start(problem, [kernel], Workload(folds=1, parts=parts))
            model = run.model(kernel)
            found.append([*model.heldout(parts, [0.1]), model.expansion(0.1).coef])
    assert seen.count == 1
    for host, ours in zip(*found, strict=True):
        assert_allclose(ours.numpy(), host, atol=1e-9)


def test_a_matrix_that_has_no_factor_is_decomposed_instead(monkeypatch) -> None:
    monkeypatch.setattr("onefold.linalg.dense._LARGE", 0)
    monkeypatch.setattr("onefold.linalg.dense._PANEL", 16)
    bad = K - 0.05 * np.eye(N)
    rounding = Rounding(0.01)
    found = [
        CholeskySmoother(
            place(bad.copy()), None, remake=lambda place=place: place(bad.copy()), rounding=rounding
        ).residuals(place(Y), [0.0501])
        for place in (np.asarray, torch.asarray)
    ]
    assert_allclose(found[1].numpy(), found[0], rtol=1e-6)
