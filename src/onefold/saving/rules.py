"""What an instance of a class must hold to be of use: a rule for every value, and one for the whole.

Asked before writing and after reading. Whatever passes can be used: `predict`, `repr`, `clone`,
``onefold inspect`` and saving it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from onefold.linalg import is_foreign, to_numpy
from onefold.saving.container import NONSENSE, BadContent

Rule = Callable[[Any, Any], Any]  # (value, its owner); False or an exception means no

_FARTHEST = 1e150  # the square of a difference of two such numbers is still finite


class Layout(NamedTuple):
    """How a dataclass lies in a file, where not field by field."""

    fields: Callable[[Any], dict[str, Any]]
    """An instance's values by their names in the file."""
    build: Callable[..., Any]
    """The instance of these values, passed by their names; they may be any nonsense."""


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
    layout : Layout or None
        What is written of a dataclass; None for the arguments of its constructor.
    """

    parameters: Mapping[str, Rule] = field(default_factory=dict)
    fitted: Mapping[str, Rule] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    whole: Callable[[Any], None] | None = None
    layout: Layout | None = None

    def fitted_names(self, value: BaseEstimator) -> list[str]:
        """What fitting has set on `value`: its public attributes."""
        return sorted(key for key in vars(value) if key.endswith("_") and not key.startswith("_"))

    def check(self, value: Any, name: str) -> None:
        """Raise BadContent unless `value`, whose class is called `name`, keeps to every rule."""
        held = getattr(value, "__dict__", {})  # a dataclass with slots has no rules
        is_fitted = not isinstance(value, BaseEstimator) or bool(self.fitted_names(value))
        try:
            for key, rule in {**self.parameters, **self.fitted}.items():
                if is_fitted and key in self.needed and key not in held:
                    raise BadContent(f"its {name} lacks {key}")
                if key in held and not accepts(rule, held[key], value):
                    _refuse(key, name, held[key], key in self.parameters)
            if is_fitted and self.whole is not None:
                self.whole(value)
        except BadContent:
            raise
        except NONSENSE as error:
            raise BadContent(f"its {name} is not valid ({error!s:.200})") from error


def _refuse(key: str, name: str, value: Any, is_parameter: bool) -> NoReturn:
    cause = f"the {key} of its {name} is {value!r:.60}, which"
    if is_parameter:
        raise BadContent(f"{cause} has no place in a file", "give it another value and fit again")
    raise BadContent(f"{cause} does not fit the rest of the model")


def accepts(rule: Rule, value: Any, owner: Any) -> bool:
    """Whether a rule lets a value pass; arrays of other libraries are looked at on the host."""
    return rule(to_numpy(value) if is_foreign(value) else value, owner) is not False


def of_type(*types: type) -> Rule:
    """An instance of one of these types."""
    return lambda value, owner: isinstance(value, types)


is_bool, is_number, is_text = of_type(bool, np.bool_), of_type(Real), of_type(str)
is_dict, is_list, is_none = of_type(dict), of_type(list), of_type(NoneType)


def whole_number(least: int = 0, most: float = math.inf) -> Rule:
    """An integer from `least` to `most`."""
    return lambda value, owner: (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
    )


def number(above: float = -math.inf, below: float = math.inf) -> Rule:
    """A finite number between two others."""
    return lambda value, owner: isinstance(value, Real) and above < float(value) < below


def one_of(*choices: Any) -> Rule:
    """One of these values."""
    return lambda value, owner: any(type(value) is type(c) and value == c for c in choices)


def array(*shape: str | None, kinds: str = "f", farthest: float = _FARTHEST) -> Rule:
    """An array with one axis for each of `shape`; "n" is one entry per feature, None any number."""

    def rule(value: Any, owner: Any) -> bool:
        if type(value) is not np.ndarray or value.dtype.kind not in kinds or value.ndim != len(shape):
            return False
        if value.dtype.kind == "f" and np.any(np.abs(value.astype(np.float64)) > farthest):
            return False  # NaN has its uses; whether it does harm, the test will tell
        return all(size == owner.n_features_in_ for size, axis in zip(value.shape, shape) if axis)

    return rule


def either(*rules: Rule) -> Rule:
    """What one of the rules accepts."""
    return lambda value, owner: any(accepts(rule, value, owner) for rule in rules)


def maybe(rule: Rule) -> Rule:
    """None, or what the rule accepts."""
    return either(is_none, rule)


def is_names(value: Any, owner: Any) -> bool:
    """One string per feature."""
    strings = type(value) is np.ndarray and value.shape == (owner.n_features_in_,)
    return strings and all(isinstance(item, str) for item in value.tolist())
