"""The trust check of a search among several kernels."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onefold
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Nystroem
from onefold.trust_check import Draw, TrustCheck, _steps

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((160, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(160)
CELLS = [
    {"alpha": alpha, "kernel": kernel} | gamma
    for alpha in (0.1, 1.0, 10.0, 100.0)
    for kernel, gamma in (("linear", {}), ("rbf", {"gamma": 0.3}), ("rbf", {"gamma": 1.0}))
]


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [(0, 0, 0), (1, 2, 1), (1, 7, 2), (0, 1, 1), (0, 2, 1), (0, 11, 3), (3, 10, 2)],
)
def test_steps_between_cells_of_different_kernels(one: int, other: int, steps: int) -> None:
    """A step for the kernel, whatever the widths; ridges count as ever."""
    assert _steps(CELLS, one, other) == _steps(CELLS, other, one) == steps


@pytest.mark.parametrize("kernel", ["auto", ["linear", "rbf"]], ids=str)
@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_the_exact_method_agrees_with_itself(kind, kernel) -> None:
    y = Y if kind is LSSVRCV else Y > 0
    found = onefold.trust(kind(kernel), X, y, size=90, random_state=0)
    assert found.verdict == "applies"
    assert (found.steps, found.regret) == (0, 0.0)
    assert f"kernel {found.exact['kernel']}" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["exact"] == found.exact


@pytest.mark.parametrize("kernel", ["auto", ["linear", "rbf"]], ids=str)
def test_too_few_landmarks_are_found_out(kernel) -> None:
    with pytest.warns(UserWarning, match="cannot be trusted .* the exact method chose kernel"):
        model = LSSVRCV(kernel, approximation=Nystroem(6), refit="same", check=True).fit(X, Y)
    assert model.approximation_["trust"]["verdict"] == "does not apply"


def test_a_choice_without_a_width_reads_as_a_sentence() -> None:
    draw = Draw(50, {"alpha": 0.1, "kernel": "linear"}, CELLS[1], 1, 0.0, 0.1)
    assert "chose kernel linear, alpha 0.1, the approximation kernel rbf" in str(TrustCheck((draw,)))
