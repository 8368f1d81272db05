"""Save a fitted model to one file, load it, or look at what a file says of itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.saving import classes, container, selftest
from onefold.saving.codec import Decoder, Encoder
from onefold.saving.container import DAMAGED, UPGRADE, BadContent, CannotSave

FORMAT = "onefold-model"
FORMAT_VERSION = 4

_ENTRIES: dict[str, type] = {"onefold_version": str, "estimator": str, "model": dict}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, which replaces an older file only once it is complete.

    Equal models give equal files, byte for byte. Constructor parameters that served the fit alone
    and have no place in a file (a scorer function, a splitter of the user's own, a random generator, a
    callback) are noted by their repr; the loaded estimator has the defaults instead, and the notes in
    ``dropped_params_``.

    Parameters
    ----------
    model : object
        A fitted estimator of onefold, of tables too. A scikit-learn ``Pipeline`` around one is saved
        with skops or joblib.
    path : str or path-like
        Where to write; the folder must exist.

    Raises
    ------
    TypeError
        If something that prediction needs is Python code, such as a kernel function.
    ValueError
        If the model's parts do not fit together.
    OSError
        If the file cannot be written; an older file is then left as it was.
    """
    name = classes.name_of(model)
    if name is None:
        search = "save its best_estimator_, or " if hasattr(model, "best_estimator_") else ""
        raise CannotSave(
            f"cannot save a {type(model).__name__}: a model file holds an estimator of onefold; {search}"
            "save pipelines and other estimators with skops or joblib."
        )
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    encoder = Encoder()
    try:
        metadata = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "onefold_version": __version__,
            "estimator": name,
            "model": encoder.encode(model, name),
            "test": encoder.encode(selftest.record(model), "test"),
        }
    except BadContent as error:
        remedy = "fit it again" if error.remedy == DAMAGED else error.remedy
        raise ValueError(f"cannot save this {name}: {error.cause}; {remedy}.") from error
    text = json.dumps(metadata, separators=(",", ":"), allow_nan=False)
    container.write(Path(path), text, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written; no code in the file is ever run.

    What predicts is checked, and tried on rows that lie in the file. What only describes the fit, such
    as ``cv_results_``, comes back as it was written.

    Raises
    ------
    ModelFileError
        If the file is not a onefold model, is damaged, or comes from a newer version.
    FileNotFoundError
        If there is no such file.
    """
    with container.opened(Path(path)) as file:
        metadata = _checked(file.text)
        decoder = Decoder(file.arrays())
        model = decoder.decode(metadata["model"])
        test = decoder.decode(metadata.get("test"))
        decoder.finish()
        name = classes.name_of(model)
        if name is None or name != metadata["estimator"]:
            raise BadContent("it holds no model, or another than it says")
        selftest.verify(model, test)
    return model


def peek(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a file says of itself, building nothing; raises as `load` does.

    Returns
    -------
    dict
        ``format``, ``format_version``, ``onefold_version``, ``estimator``, the undecoded ``model``
        (see `onefold.saving.codec`), and ``arrays``: dtype and shape by name.
    """
    with container.opened(Path(path)) as file:
        return {**_checked(file.text), "arrays": file.describe_arrays()}


def _checked(text: str) -> dict[str, Any]:
    """The metadata, if this version can read it."""
    metadata = container.parse_json(text, "metadata")
    if metadata.get("format") != FORMAT:
        raise BadContent("its metadata is not that of a onefold model")
    version = metadata.get("format_version")
    if type(version) is not int:
        raise BadContent("its metadata gives no format version")
    if version != FORMAT_VERSION:
        writer = metadata.get("onefold_version")
        raise BadContent(
            f"it has format version {version}, written by onefold {writer!s:.40}, and this onefold "
            f"{__version__} reads format version {FORMAT_VERSION}",
            UPGRADE if version > FORMAT_VERSION else "fit and save the model again",
        )
    for key, kind in _ENTRIES.items():
        if type(metadata.get(key)) is not kind:
            raise BadContent(f"its metadata gives no {key}")
    return metadata
