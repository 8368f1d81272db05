"""Public signatures say what they take: no `Any` where a name of `onefold.typing` stands for it."""

from __future__ import annotations

import inspect
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit

import onefold
from onefold.heldout import GapKFold
from onefold.typing import HasShape, Splitter

ESTIMATORS = [
    kind for name in onefold.__all__
    if isinstance(kind := getattr(onefold, name), type) and issubclass(kind, BaseEstimator)
]  # fmt: skip
ARRAYS = {"X", "y", "sample_weight", "groups", "gamma", "gammas", "alpha", "alphas"}
NAMED = ARRAYS | {"cv", "criterion", "class_weight", "random_state", "approximation"}
METHODS = ("__init__", "fit", "predict", "decision_function", "score", "objective")


def functions() -> list[Any]:
    """Public functions, and public methods with a signature of ours."""
    found = [onefold.plan, onefold.trust, GapKFold.split, GapKFold.get_n_splits]
    for kind in ESTIMATORS:
        found += [getattr(kind, name) for name in METHODS if hasattr(kind, name)]
    return found


@pytest.mark.parametrize("function", functions(), ids=lambda f: f.__qualname__)
def test_what_stands_for_an_array_a_splitter_or_a_scorer_is_named(function) -> None:
    plain = inspect.unwrap(function)
    hints = get_type_hints(plain)
    for name in NAMED & inspect.signature(plain).parameters.keys():
        assert hints[name] is not Any, (plain.__qualname__, name)


def test_protocols_are_those_of_the_libraries() -> None:
    for cv in (KFold(), GroupKFold(), LeaveOneOut(), ShuffleSplit(), TimeSeriesSplit(), GapKFold()):
        assert isinstance(cv, Splitter)
    rows = np.zeros((2, 2))
    for table in (rows, csr_matrix(rows), pd.DataFrame(rows), pl.DataFrame(rows)):
        assert isinstance(table, HasShape)
    assert not isinstance([([0], [1])], Splitter)
    assert not isinstance([[0.0]], HasShape)


def test_the_package_says_that_it_is_typed_and_typed_calls_are_part_of_the_lint() -> None:
    assert files("onefold").joinpath("py.typed").is_file()
    settings = Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8")
    assert "tests/typed_use.py" in tomllib.loads(settings)["tool"]["mypy"]["files"]
    assert Path(__file__).with_name("typed_use.py").is_file()
