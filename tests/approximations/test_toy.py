"""An approximation from outside the package: one class, registered, and the suite holds for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import onefold.approximations.base as registry
from onefold.approximations import Approximation, Model, Problem, Workload, register, registered
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Linear
from tests.approximations.conformance import Conformance


@dataclass(frozen=True)
class RankOne(Approximation):
    """K ≈ c·xxᵀ of the first feature: one slope and an intercept, by weighted least squares."""

    strength: float = 1.0

    name = "rank one"

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        return RankOneModel(self.strength, problem)


class RankOneModel(Model):
    """f(x) = w·x₁ + b with w minimising Σ v (y − f)² + μ w²/c."""

    def __init__(self, strength: float, problem: Problem) -> None:
        self._strength, self._problem = strength, problem
        self.report = {"name": "rank one"}

    def _line(self, rows: Any, mu: Any) -> tuple[Any, Any]:
        problem = self._problem
        x, Y = problem.X[rows, 0], problem.Y[rows]
        v = np.ones(x.size) if problem.root_weight is None else problem.root_weight[rows] ** 2
        middle, level = np.average(x, weights=v), np.average(Y, axis=0, weights=v)
        slope = (v * (x - middle)) @ (Y - level) / (v @ (x - middle) ** 2 + mu / self._strength)
        return slope, level - slope * middle

    def heldout(self, parts: Any, alphas: Any) -> list[Any]:
        everything = np.arange(self._problem.n)
        found = []
        for rows in parts:
            lines = [self._line(np.delete(everything, rows), mu) for mu in alphas]
            x = self._problem.X[rows, :1]
            found.append(np.array([x * slope + level for slope, level in lines]))
        return found

    def leave_one_out(self, alphas: Any) -> Any:
        return np.concatenate(self.heldout(np.arange(self._problem.n)[:, None], alphas), axis=1)

    def expansion(self, alpha: Any) -> Expansion:
        slope, level = self._line(np.arange(self._problem.n), np.asarray(alpha))
        axis = np.eye(1, self._problem.X.shape[1])
        return Expansion(Linear(), axis, slope[None, :], level)


@pytest.fixture(autouse=True, scope="module")
def _from_outside() -> Iterator[None]:
    register(RankOne)
    yield
    registry._BY_NAME.pop(RankOne.name)


class TestRankOne(Conformance):
    name = "rank one"


def test_names_and_classes_mean_one_thing() -> None:
    assert register(RankOne) is registered()["rank one"]

    @dataclass(frozen=True)
    class Exact(RankOne):
        name = "another"

    @dataclass(frozen=True)
    class Other(RankOne):
        name = "exact"

    for kind in (Exact, Other):
        with pytest.raises(ValueError, match="rename"):
            register(kind)
    for nothing in (object, RankOne()):
        with pytest.raises(TypeError, match="dataclass"):
            register(nothing)  # type: ignore[type-var]


def test_only_what_can_be_asked_for_by_name_is_registered() -> None:
    @dataclass(frozen=True)
    class Stranger:
        name = "stranger"

    @dataclass(frozen=True)
    class Unfinished(Approximation):
        name = "unfinished"

    @dataclass(frozen=True)
    class Demanding(RankOne):
        wanted: int = field(kw_only=True)

        name = "demanding"

    for cls, why in (
        (Stranger, "derived from"),
        (Unfinished, "define its model"),
        (Demanding, "wanted"),
    ):
        with pytest.raises(TypeError, match=f"cannot be registered.*{why}"):
            register(cls)
        assert cls.name not in registered()
