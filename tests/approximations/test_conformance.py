"""Every approximation of the package keeps the promises of the suite."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.approximations import Exact, registered
from tests.approximations.conformance import Conformance


class TestExact(Conformance):
    name = "exact"


class TestAuto(Conformance):
    name = "auto"


class TestNystroem(Conformance):
    """With landmarks of the user's own: those that it chooses are chosen among all rows, once."""

    name = "nystroem"
    settings = {"n_components": np.linspace(-3, 3, 12)[:, None]}  # noqa: RUF012


class TestToeplitz(Conformance):
    """A uniform series without some rows is none; the true kernel is what it stands for."""

    name = "toeplitz"
    literal = Exact()


class TestCirculant(Conformance):
    name = "circulant"
    settings = {"levels": 1, "order": "given", "spacing": 0.1, "negative": "clip"}  # noqa: RUF012


class TestGrid(Conformance):
    """Solved to a tolerance of its own."""

    name = "grid"
    settings = {"points": 64}  # noqa: RUF012
    tolerance = 1e-4


class TestConjugateGradients(Conformance):
    """Solved to a tolerance of its own."""

    name = "cg"
    tolerance = 1e-3


class TestStateSpace(Conformance):
    """It has kernels of its own, and compiled loops."""

    name = "state_space"
    kernel = "matern52"

    @pytest.fixture(autouse=True)
    def _compiled(self) -> None:
        pytest.importorskip("numba")


def test_every_registered_approximation_is_asked() -> None:
    asked = {kind.name for kind in Conformance.__subclasses__()}
    assert set(registered()) <= asked
