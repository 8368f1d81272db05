"""What an instance of a class must hold to be of use: a rule for every value, and one for the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import NoneType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold.saving.container import BadContent

Rule = Callable[[Any, Any], Any]  # (value, its owner); False or an exception means no


@dataclass(frozen=True)
class State:
    """The state of a class in files.

    Parameters
    ----------
    parameters : mapping of str to Rule
        Rules for constructor parameters, or the fields of a dataclass; others may hold anything.
    fitted : mapping of str to Rule
        Rules for fitted attributes; a later rule may rely on the earlier ones.
    needed : tuple of str
        Fitted attributes that must be there if any is.
    whole : callable or None
        Raises where the parts of a fitted instance do not fit together.
    """

    parameters: Mapping[str, Rule] = field(default_factory=dict)
    fitted: Mapping[str, Rule] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    whole: Callable[[Any], None] | None = None

    def check(self, value: Any, name: str) -> None:
        """Raise unless `value`, whose class is called `name`, keeps to every rule."""
        held = getattr(value, "__dict__", {})  # a dataclass with slots has no rules
        is_fitted = not isinstance(value, BaseEstimator) or any(key.endswith("_") for key in held)
        for key, rule in {**self.parameters, **self.fitted}.items():
            if is_fitted and key in self.needed and key not in held:
                raise BadContent(f"its {name} lacks {key}")
            if key in held and rule(held[key], value) is False:
                raise BadContent(
                    f"the {key} of its {name} is {held[key]!r:.60}, which does not fit the rest"
                )
        if is_fitted and self.whole is not None:
            self.whole(value)


def of_type(*types: type) -> Rule:
    """An instance of one of these types."""
    return lambda value, owner: isinstance(value, types)


is_bool, is_number, is_text = of_type(bool, np.bool_), of_type(Real), of_type(str)
is_dict, is_list, is_none = of_type(dict), of_type(list), of_type(NoneType)


def whole_number(least: int = 0) -> Rule:
    """An integer from `least` on."""
    return lambda value, owner: (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value)
    )


def number(above: float = -math.inf) -> Rule:
    """A finite number above another."""
    return lambda value, owner: isinstance(value, Real) and above < float(value) < math.inf


def one_of(*choices: Any) -> Rule:
    """One of these values."""
    return lambda value, owner: any(type(value) is type(c) and value == c for c in choices)


def maybe(rule: Rule) -> Rule:
    """None, or what the rule accepts."""
    return lambda value, owner: value is None or rule(value, owner) is not False


def is_names(value: Any, owner: Any) -> bool:
    """One string per feature."""
    strings = type(value) is np.ndarray and value.shape == (owner.n_features_in_,)
    return strings and all(isinstance(item, str) for item in value.tolist())
