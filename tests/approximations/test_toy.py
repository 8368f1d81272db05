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
    """K ≈ xxᵀ of the first feature: one slope and an intercept, by weighted least squares."""

    name = "rank one"

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        return RankOneModel(problem)


class RankOneModel(Model):
    """f(x) = w·x₁ + b with w minimising Σ v (y − f)² + μ w²."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.report = {"name": "rank one"}

    def _line(self, rows: Any, mu: Any) -> tuple[Any, Any]:
        problem = self._problem
        x, Y = problem.X[rows, 0], problem.Y[rows]
        v = np.ones(x.size) if problem.root_weight is None else problem.root_weight[rows] ** 2
        middle, level = np.average(x, weights=v), np.average(Y, axis=0, weights=v)
        slope = (v * (x - middle)) @ (Y - level) / (v @ (x - middle) ** 2 + mu)
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
        return Expansion(Linear(), np.eye(1, self._problem.X.shape[1]), slope[None, :], level)


@pytest.fixture(autouse=True, scope="module")
def _from_outside() -> Iterator[None]:
    register(RankOne)
    yield
    registry._BY_NAME.pop(RankOne.name)


class TestRankOne(Conformance):
    name = "rank one"


def test_what_cannot_be_asked_for_by_one_name_is_not_registered() -> None:
    assert register(RankOne) is registered()["rank one"]

    @dataclass(frozen=True)
    class Exact(RankOne):
        name = "another"

    @dataclass(frozen=True)
    class Other(RankOne):
        name = "exact"

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

    before = dict(registered())
    for kind, error, why in (
        (Exact, ValueError, "rename"),
        (Other, ValueError, "rename"),
        (object, TypeError, "dataclass"),
        (RankOne(), TypeError, "dataclass"),
        (Stranger, TypeError, "cannot be registered.*derived from"),
        (Unfinished, TypeError, "cannot be registered.*define its model"),
        (Demanding, TypeError, "cannot be registered.*wanted"),
    ):
        with pytest.raises(error, match=why):
            register(kind)  # type: ignore[type-var]
    assert registered() == before
