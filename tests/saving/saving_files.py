"""Ways to build files that `save` would never write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onefold
from onefold.saving import container
from onefold.saving.codec import Encoder
from onefold.saving.file import FORMAT_VERSION


def metadata_of(model: Any, **changes: Any) -> dict[str, Any]:
    return {
        "format": "onefold-model", "format_version": FORMAT_VERSION, "onefold_version": "1.0.0rc1",
        "estimator": model.get("$object") if isinstance(model, dict) else "RBF", "model": model,
    } | changes  # fmt: skip


def forge(path: Path, metadata: Any, arrays: dict[str, np.ndarray] | None = None) -> Path:
    """Write a file with a valid checksum around any metadata."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    container.write(path, text, arrays or {})
    return path


def decoded_fields(kind: str, fields: dict[str, Any], nested: Any = ()) -> Any:
    """An instance of `kind` from a node whose fields no constructor has seen."""
    from onefold.saving.codec import Decoder

    encoder = Encoder()
    nodes = {key: encoder.encode(value, key) for key, value in fields.items()}
    return Decoder(encoder.arrays).decode({"$object": kind, "fields": nodes | dict(nested)})


def taken_apart(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The metadata and the arrays of a file."""
    with container.opened(path) as opened:
        return json.loads(opened.text), opened.arrays()


def load_changed(folder: Path, model: Any, change: Callable[[Any, dict[str, np.ndarray]], Any]) -> Any:
    """Save a model, change the metadata of the model and the arrays, and load it."""
    onefold.save(model, folder / "m")
    metadata, arrays = taken_apart(folder / "m")
    change(metadata["model"], arrays)
    return onefold.load(forge(folder / "changed", metadata, arrays))


def through_file(model: Any, folder: Path) -> Any:
    """Save, load in its place, and check that a second file would be the same."""
    onefold.save(model, folder / "model")
    loaded = onefold.load(folder / "model")
    onefold.save(loaded, folder / "again")
    assert (folder / "model").read_bytes() == (folder / "again").read_bytes()
    return loaded
