"""Instances of registered classes to nodes and back.

A dataclass is its fields, or what its `Layout` makes of them. An estimator is its constructor
parameters and its fitted attributes, as its `State` has them. Only such names are ever set on a loaded
estimator, so that a file cannot replace a method.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from onefold.saving import registry
from onefold.saving.errors import UPGRADE, BadContent, CannotSave
from onefold.saving.kinds import Node

if TYPE_CHECKING:
    from onefold.saving.codec import Encoder

_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_NOTES = "dropped_params_"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_REPR_LENGTH = 200


def to_node(value: Any, kind: str, name: str, encoder: Encoder, depth: int) -> Node:
    """The node of an instance of the class `kind`; the other arguments are those of `Encoder.encode`."""

    def encoded(key: str) -> Node:
        return encoder.encode(getattr(value, key), f"{name}.{key}", depth + 1)

    state = registry.state_of(kind)
    node: dict[str, Node] = {"$object": kind}
    if state.layout is not None:
        fields = state.layout.fields(value).items()
        node["fields"] = {key: encoder.encode(v, f"{name}.{key}", depth + 1) for key, v in fields}
    elif not isinstance(value, BaseEstimator):
        node["fields"] = {key: encoded(key) for key in _field_names(type(value))}
    else:
        write = partial(_parameter, value, encoded, encoder)
        node["params"] = {key: write(key) for key in value.get_params(deep=False)}
        fitted = [key for key in state.fitted_names(value) if key != _NOTES]
        for key in fitted:
            if not _FITTED_NAME.fullmatch(key):
                raise CannotSave(
                    f"cannot save {name}.{key}: fitted attributes in a model file have "
                    "lower-case names; rename it."
                )
        node["fitted"] = {key: encoded(key) for key in fitted}
    state.check(value, kind)  # last: what has no place at all is named first
    return node


def _parameter(
    estimator: BaseEstimator, encoded: Callable[[str], Node], encoder: Encoder, key: str
) -> Node:
    """A parameter's node; splitters, scorers, generators and the like become a note of their repr.

    They served the fit and prediction does without them. The kernel it cannot do without.
    """
    value, defaults = getattr(estimator, key), _defaults(type(estimator))
    notes = getattr(estimator, _NOTES, {})
    if key in notes and value is defaults[key]:
        return {"$dropped": notes[key]}  # as it was when this model was loaded
    count = len(encoder.arrays)
    try:
        return encoded(key)
    except CannotSave:
        if key.startswith("kernel") or key not in defaults:
            raise
    encoder.forget_after(count)
    # Addresses differ from run to run; equal models must give equal files.
    return {"$dropped": _ADDRESS.sub("", repr(value))[:_REPR_LENGTH]}


def _field_names(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def from_node(node: dict[str, Any], part: Callable[[Node], Any]) -> object:
    """The instance behind a node of `to_node`, or BadContent; `part` decodes what is inside."""
    kind = node["$object"]
    cls = registry.find(kind)
    if cls is None:
        raise BadContent(f"it holds a {kind!r:.60}, which this version does not know", UPGRADE)
    state = registry.state_of(kind)
    if issubclass(cls, BaseEstimator):
        value: Any = _estimator(cls, node["params"], node["fitted"], part)
    else:
        build: Any = cls if state.layout is None else state.layout.build
        names = _field_names(cls) if build is cls else inspect.signature(build).parameters
        _check_names(node["fields"], names, cls)
        value = build(**{key: part(item) for key, item in node["fields"].items()})
    state.check(value, kind)
    return value


def _estimator(
    cls: Any, params: dict[str, Any], fitted: dict[str, Any], part: Callable[[Node], Any]
) -> BaseEstimator:
    _check_names(params, inspect.signature(cls).parameters, cls)
    droppable = _defaults(cls)
    dropped = {
        key: str(item["$dropped"])
        for key, item in params.items()
        if isinstance(item, dict) and "$dropped" in item and key in droppable
    }
    estimator: BaseEstimator = cls(**{k: part(item) for k, item in params.items() if k not in dropped})
    for key, item in fitted.items():
        if not _FITTED_NAME.fullmatch(key) or key == _NOTES or hasattr(cls, key):
            raise BadContent(f"{key!r:.60} is not the name of a fitted attribute")
        setattr(estimator, key, part(item))
    if dropped:
        setattr(estimator, _NOTES, dropped)
    return estimator


def _check_names(found: dict[str, Any], known: Collection[str], cls: type) -> None:
    for key in found:
        if key not in known:
            raise BadContent(f"{cls.__name__} has no parameter {key!r:.60} in this onefold", UPGRADE)
