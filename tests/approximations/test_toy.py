"""The approximation that docs/extending/approximation.md adds from outside keeps the promises too."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import field, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import onefold.approximations.base as registry
from onefold import LSSVRCV
from onefold.approximations import Approximation, Exact, register, registered
from tests.approximations.conformance import Conformance

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "approximation.md"


@pytest.fixture(autouse=True, scope="module")
def _from_outside() -> Iterator[None]:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    module = sys.modules["toy"] = ModuleType("toy")
    exec(next(block for block in blocks if "class Subset(" in block), vars(module))
    yield
    del sys.modules["toy"], registry._BY_NAME["subset"]


class TestSubset(Conformance):
    """Of at most 100 rows: all that there are."""

    name = "subset"


def derived(base: type, name: str, kind: str = "Other", fields: Any = ()) -> type:
    return make_dataclass(kind, fields, bases=(base,), namespace={"name": name}, frozen=True)


def test_what_cannot_be_asked_for_by_one_name_is_not_registered() -> None:
    assert register(registered()["subset"]) is registered()["subset"]
    before = dict(registered())
    needed = [("wanted", int, field(kw_only=True))]
    for kind, error, why in (
        (derived(Exact, "another", "Subset"), ValueError, "use another name"),
        (derived(Exact, "exact"), ValueError, "use another name"),
        (Exact(), TypeError, "dataclass"),
        (derived(object, "stranger"), TypeError, "cannot be registered.*derived from"),
        (derived(Approximation, "unfinished"), TypeError, "cannot be registered.*define its model"),
        (derived(Exact, "demanding", fields=needed), TypeError, "cannot be registered.*wanted"),
    ):
        with pytest.raises(error, match=why):
            register(kind)  # type: ignore[type-var]
    assert registered() == before


def test_an_error_of_linear_algebra_from_outside_is_a_cell_without_a_score(monkeypatch) -> None:
    """NumPy's LinAlgError, which an author need not know to convert, ended the search."""
    kind = registered()["subset"]
    model = kind.model

    def fails(self: Any, kernel: Any, problem: Any, load: Any, shared: Any) -> Any:
        if kernel.gamma == 1.0:
            raise np.linalg.LinAlgError("Singular matrix")
        return model(self, kernel, problem, load, shared)

    monkeypatch.setattr(kind, "model", fails)
    X = np.random.default_rng(0).standard_normal((40, 2))
    grid = {"gammas": [0.1, 1.0], "alphas": [0.1]}
    search = LSSVRCV(approximation="subset", refit="same", intervals=None, **grid)
    with pytest.warns(UserWarning, match=r"1 of 2 .* factorised \(Singular matrix\); use larger alphas"):
        search.fit(X, X[:, 0])
    assert search.gamma_ == 0.1
