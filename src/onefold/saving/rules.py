"""Rules about single values: what type, which shape, how large."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

Rule = Callable[[Any, Any], Any]  # (value, its owner); False or an exception means no

FARTHEST = 1e150  # the square of a difference of two such numbers is still finite


def is_int(value: Any, owner: Any = None) -> bool:
    """A whole number that is not negative."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def is_bool(value: Any, owner: Any) -> bool:
    """True or False."""
    return isinstance(value, bool | np.bool_)


def is_number(value: Any, owner: Any) -> bool:
    """A real number."""
    return isinstance(value, Real)


def is_dtype(value: Any, owner: Any) -> bool:
    """A NumPy dtype."""
    return isinstance(value, np.dtype)


def is_text(value: Any, owner: Any) -> bool:
    """A string."""
    return isinstance(value, str)


def is_dict(value: Any, owner: Any) -> bool:
    """A plain dict."""
    return type(value) is dict


def array(*shape: str | None, kinds: str = "f") -> Rule:
    """An array with one axis for each of `shape`; "n" is one entry per feature, None any number."""

    def rule(value: Any, owner: Any) -> bool:
        if type(value) is not np.ndarray or value.dtype.kind not in kinds or value.ndim != len(shape):
            return False
        if value.dtype.kind == "f" and np.any(np.abs(value.astype(np.float64)) > FARTHEST):
            return False  # NaN has its uses; whether it does harm, the test will tell
        return all(size == owner.n_features_in_ for size, axis in zip(value.shape, shape) if axis)

    return rule


def maybe(rule: Rule) -> Rule:
    """None, or what the rule accepts."""
    return lambda value, owner: value is None or rule(value, owner)


def either(*rules: Rule) -> Rule:
    """What one of the rules accepts."""
    return lambda value, owner: any(rule(value, owner) for rule in rules)


def instance(*names: str) -> Rule:
    """An instance of one of these classes."""
    return lambda value, owner: type(value).__name__ in names and isinstance(value, BaseEstimator)


def per_feature(rule: Rule) -> Rule:
    """A list with one entry per feature, each of which the rule accepts."""
    return lambda value, owner: (
        type(value) is list
        and len(value) == owner.n_features_in_
        and all(rule(item, owner) for item in value)
    )


def is_names(value: Any, owner: Any) -> bool:
    """One string per feature."""
    named = type(value) is np.ndarray and value.shape == (owner.n_features_in_,)
    return named and all(isinstance(item, str) for item in value.tolist())


def is_output_config(value: Any, owner: Any) -> bool:
    """What ``set_output`` leaves behind."""
    return value in ({}, *({"transform": kind} for kind in ("default", "pandas", "polars")))


def is_steps(value: Any, owner: Any) -> bool:
    """A list of (name, step) or (name, step, columns), each step a word or a listed class."""
    words = ("drop", "passthrough")
    return type(value) is list and all(
        type(entry) is tuple
        and len(entry) in (2, 3)
        and isinstance(entry[0], str)
        and (entry[1] is None or isinstance(entry[1], BaseEstimator) or entry[1] in words)
        for entry in value
    )


def is_none(value: Any, owner: Any) -> bool:
    """Nothing."""
    return value is None
