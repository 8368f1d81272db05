"""Save a fitted model to one file, load it, or look at what a file says of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.saving import container, registry, selftest
from onefold.saving.codec import Decoder, Encoder
from onefold.saving.errors import DAMAGED, UPGRADE, BadContent, CannotSave
from onefold.saving.estimators import ESTIMATORS

FORMAT = "onefold-model"
FORMAT_VERSION = 2
_OLD_TABLE = "table"  # where the preparation of tables lay before it was part of an estimator

_ENTRIES: dict[str, type] = {
    "onefold_version": str,
    "estimator": str,
    "model": dict,
    "extra": dict,
    "sklearn_version": str,
}

# From a format version to a function that turns its metadata into that of the next version.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


@dataclass(frozen=True)
class SavedModel:
    """What a file holds: the model, and the values that were saved beside it."""

    model: Any
    extra: dict[str, Any]


def save(model: Any, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model to one file, which replaces an older file only once it is complete.

    Equal models give equal files, byte for byte. Constructor parameters that served the fit alone
    and have no place in a file (a splitter, a scorer function, a random generator, a callback) are
    noted by their repr; the loaded estimator has the defaults instead, and the notes in
    ``dropped_params_``.

    Parameters
    ----------
    model : object
        A fitted estimator; a scikit-learn ``Pipeline`` or ``TransformedTargetRegressor`` around one,
        made of the classes in `onefold.saving.transformers`; what ``onefold tune`` wrote; or an instance
        of a class known to `register`.
    path : str or path-like
        Where to write; the folder must exist.
    extra : dict with str keys, optional
        Values to keep beside the model: numbers, strings, arrays, lists and dicts of those.

    Raises
    ------
    TypeError
        If something that prediction needs is Python code, such as a kernel function.
    ValueError
        If the model's parts do not fit together.
    OSError
        If the file cannot be written; an older file is then left as it was.
    """
    name = registry.name_of(model)
    if name is None or (registry.state_of(name).closed and not selftest.needs_test(model)):
        search = "save its best_estimator_, " if hasattr(model, "best_estimator_") else ""
        raise CannotSave(
            f"cannot save a {type(model).__name__}: it is not one of onefold's classes; {search}pass a "
            "fitted onefold estimator or a Pipeline that ends with one, or call "
            "onefold.saving.register() on your own class."
        )
    if extra is not None and (type(extra) is not dict or any(type(k) is not str for k in extra)):
        raise TypeError("extra must be a dict with str keys; wrap the values in one.")
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    encoder = Encoder()
    try:
        metadata = _metadata(model, name, extra or {}, encoder)
    except BadContent as error:
        remedy = "fit it again" if error.remedy == DAMAGED else error.remedy
        raise ValueError(f"cannot save this {name}: {error.cause}; {remedy}.") from error
    text = json.dumps(metadata, separators=(",", ":"), allow_nan=False)
    container.write(Path(path), text, encoder.arrays)


def _metadata(model: Any, name: str, extra: dict[str, Any], encoder: Encoder) -> dict[str, Any]:
    node = encoder.encode(model, name)
    test = selftest.record(model) if selftest.needs_test(model) else None
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "onefold_version": __version__,
        "estimator": name,
        "model": node,
        "extra": encoder.encode(extra, "extra"),
        "sklearn_version": sklearn.__version__,
        "test": encoder.encode(test, "test"),
    }


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written; no code in the file is ever run.

    Raises
    ------
    ModelFileError
        If the file is not a onefold model, is damaged, or comes from a newer version.
    FileNotFoundError
        If there is no such file.
    """
    return load_with_extra(path).model


def load_with_extra(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model and the values saved beside it; raises as `load` does."""
    with container.opened(Path(path)) as file:
        metadata = _upgraded(_parse(file.text()))
        decoder = Decoder(file.arrays())
        model = decoder.decode(metadata["model"])
        extra = decoder.decode(metadata["extra"])
        test = decoder.decode(metadata.get("test"))
        decoder.finish()
        name = registry.name_of(model)
        if name is None or name != metadata["estimator"] or type(extra) is not dict:
            raise BadContent("it holds no model, or another than it says")
        if name in ESTIMATORS and not hasattr(model, "expansion_"):
            raise BadContent("its estimator is not fitted")
        if _OLD_TABLE in extra and name in ESTIMATORS and "preparation" in extra[_OLD_TABLE]:
            raise BadContent("it was tuned on a table by an earlier onefold", "tune it again")
        if selftest.needs_test(model):
            selftest.verify(model, test, metadata["sklearn_version"])
        elif registry.state_of(name).closed:
            raise BadContent(f"it holds a {name} without a model")
    return SavedModel(model=model, extra=extra)


def peek(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a file says of itself, building nothing; raises as `load` does.

    Returns
    -------
    dict
        ``format``, ``format_version``, ``onefold_version``, ``estimator``, the undecoded ``model``
        and ``extra`` (see `onefold.saving.kinds`), and ``arrays``: dtype and shape by name.
    """
    with container.opened(Path(path)) as file:
        return {**_upgraded(_parse(file.text())), "arrays": file.describe_arrays()}


def _parse(text: str) -> dict[str, Any]:
    metadata = container.parse_json(text, "metadata")
    if metadata.get("format") != FORMAT:
        raise BadContent("its metadata is not that of a onefold model")
    return metadata


def _upgraded(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata in today's format version."""
    version = metadata.get("format_version")
    if type(version) is not int or version < 0:
        raise BadContent("its metadata gives no format version")
    if version > FORMAT_VERSION:
        writer = metadata.get("onefold_version")
        raise BadContent(
            f"it has format version {version}, written by onefold {writer!s:.40}, and this onefold "
            f"{__version__} reads up to format version {FORMAT_VERSION}",
            UPGRADE,
        )
    for step in range(version, FORMAT_VERSION):
        if step not in UPGRADES:
            raise BadContent(
                f"it has format version {step}, which this onefold {__version__} no longer reads",
                f"load and save it once with the onefold that wrote it, then {UPGRADE}",
            )
        metadata = {**UPGRADES[step](metadata), "format_version": step + 1}
    for key, kind in _ENTRIES.items():
        if type(metadata.get(key)) is not kind:
            raise BadContent(f"its metadata gives no {key}")
    return metadata
