"""Nothing goes between host and device in loops over held-out parts, and next to nothing over ridges."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.kernels import RBF
from onefold.smoothers import CholeskySmoother, SpectralSmoother

torch = pytest.importorskip("torch")
overrides = pytest.importorskip("torch.overrides")
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
