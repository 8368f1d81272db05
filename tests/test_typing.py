"""Public signatures say what they take: no `Any` where a name of `onefold.typing` stands for it."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest
from sklearn.base import BaseEstimator

import onefold
from onefold.heldout import GapKFold

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
