"""Instances of registered classes to nodes and back.

A dataclass is its fields. An estimator is its constructor parameters and its fitted attributes: the
public ones whose names end with an underscore, and for a class of scikit-learn's those listed in
`onefold.saving.transformers`. Only such names are ever set on a loaded estimator, so that a file
cannot replace a method.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import TYPE_CHECKING, Any

import sklearn
from sklearn.base import BaseEstimator

from onefold.saving import registry
from onefold.saving.checks import check_consistent
from onefold.saving.errors import UPGRADE, BadContent, CannotSave
from onefold.saving.nodes import Node
from onefold.saving.transformers import STATE, known_attributes

if TYPE_CHECKING:
    from onefold.saving.decode import Decoder
    from onefold.saving.encode import Encoder

_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_NOTES = "dropped_params_"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_REPR_LENGTH = 200


def to_node(value: Any, name: str, where: str, encoder: Encoder, depth: int) -> Node:
    """The node of a registered dataclass or estimator; arguments as in `Encoder.encode`.

    Raises
    ------
    BadContent
        If the parts of the value do not fit together: the file could not be loaded.
    """
    if name in STATE:
        node = _listed_to_node(value, name, where, encoder, depth)
        check_consistent(value)  # afterwards: what has no place at all is named first
        return node
    check_consistent(value)
    if not isinstance(value, BaseEstimator):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {"$object": name, "fields": _encoded(value, fields, where, encoder, depth)}
    public = (key for key in vars(value) if key.endswith("_") and not key.startswith("_"))
    fitted = sorted(key for key in public if key != _NOTES)
    for key in fitted:
        if not _FITTED_NAME.fullmatch(key):
            raise CannotSave(
                f"cannot save {where}.{key}: fitted attributes in a model file have lower-case "
                "names; rename it."
            )
    return {
        "$object": name,
        "params": {
            key: _parameter(value, key, item, where, encoder, depth)
            for key, item in value.get_params(deep=False).items()
        },
        "fitted": _encoded(value, fitted, where, encoder, depth),
    }


def _listed_to_node(value: Any, name: str, where: str, encoder: Encoder, depth: int) -> Node:
    """The node of a class of scikit-learn's: every attribute, private ones too, or a refusal."""
    params = value.get_params(deep=False)
    fitted = sorted(key for key in vars(value) if key not in params)
    for key in fitted:
        if key not in known_attributes(name):
            raise CannotSave(
                f"cannot save {where}.{key}: scikit-learn {sklearn.__version__} keeps it in a {name} "
                f"and this onefold does not know it; {UPGRADE}."
            )
    return {
        "$object": name,
        "params": _encoded(value, list(params), where, encoder, depth),
        "fitted": _encoded(value, fitted, where, encoder, depth),
    }


def _encoded(
    value: object, names: list[str], where: str, encoder: Encoder, depth: int
) -> dict[str, Node]:
    return {name: encoder.encode(getattr(value, name), f"{where}.{name}", depth + 1) for name in names}


def _parameter(
    estimator: BaseEstimator, name: str, value: object, where: str, encoder: Encoder, depth: int
) -> Node:
    """A parameter's node; splitters, scorers, generators and the like become a note of their repr.

    They served the fit and prediction does without them. The kernel it cannot do without.
    """
    defaults, notes = _defaults(type(estimator)), getattr(estimator, _NOTES, {})
    if name in notes and value is defaults[name]:
        return {"$dropped": notes[name]}  # as it was when this model was loaded
    count = len(encoder.arrays)
    try:
        return encoder.encode(value, f"{where}.{name}", depth + 1)
    except CannotSave:
        if name.startswith("kernel") or name not in defaults:
            raise
    encoder.forget_after(count)
    # Addresses differ from run to run; equal models must give equal files.
    return {"$dropped": _ADDRESS.sub("", repr(value))[:_REPR_LENGTH]}


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def from_node(node: dict[str, Any], decoder: Decoder, depth: int) -> object:
    """The instance behind a node of `to_node`.

    Raises
    ------
    BadContent
        If the class is not registered, or the node does not describe an instance of it.
    """
    name = node["$object"]
    cls = registry.find(name)
    if cls is None:
        raise BadContent(
            f"it holds a {name!r:.60}, which this version does not know",
            f"{UPGRADE}, or call onefold.saving.register() if it is a class of your own",
        )
    if issubclass(cls, BaseEstimator):
        value: object = _estimator(cls, node, decoder, depth)
    else:
        known = {field.name for field in dataclasses.fields(cls) if field.init}
        _check_names(node["fields"], known, cls)
        fields = {key: decoder.decode(item, depth + 1) for key, item in node["fields"].items()}
        value = cls(**fields)
    check_consistent(value)
    return value


def _estimator(
    cls: type[BaseEstimator], node: dict[str, Any], decoder: Decoder, depth: int
) -> BaseEstimator:
    params, fitted = node["params"], node["fitted"]
    _check_names(params, set(inspect.signature(cls).parameters), cls)
    listed = cls.__name__ in STATE
    dropped = {
        key: str(item["$dropped"])
        for key, item in params.items()
        if isinstance(item, dict) and "$dropped" in item and key in _defaults(cls) and not listed
    }
    kept = {key: decoder.decode(i, depth + 1) for key, i in params.items() if key not in dropped}
    estimator = cls(**kept)
    for key, item in fitted.items():
        own = _FITTED_NAME.fullmatch(key) and key != _NOTES and not hasattr(cls, key)
        if not (key in known_attributes(cls.__name__) if listed else own):
            raise BadContent(f"{key!r:.60} is not the name of a fitted attribute")
        setattr(estimator, key, decoder.decode(item, depth + 1))
    if dropped:
        setattr(estimator, _NOTES, dropped)
    return estimator


def _check_names(found: dict[str, Any], known: set[str], cls: type) -> None:
    library = cls.__module__.partition(".")[0]
    remedy = "install the scikit-learn with which it was saved" if library == "sklearn" else UPGRADE
    for key in found:
        if key not in known:
            raise BadContent(f"{cls.__name__} has no parameter {key!r:.60} in this {library}", remedy)
