"""Small classes to save, and ways to build files that `save` would never write."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold import saving
from onefold.saving import container, registry
from onefold.saving.file import FORMAT_VERSION
from onefold.saving.rules import State


@dataclass(frozen=True)
class Box:
    content: Any = None
    size: float = 1.0

    def __post_init__(self) -> None:
        if not self.size > 0:
            raise ValueError("size must be greater than 0")


class Line(BaseEstimator):
    """y = slope * x + intercept, through least squares."""

    def __init__(self, kernel="linear", box=None, cv=5, scorer=None, class_weight=None):
        self.kernel = kernel
        self.box = box
        self.cv = cv
        self.scorer = scorer
        self.class_weight = class_weight

    def fit(self, x, y):
        self.slope_, self.offset_ = np.polyfit(x, y, 1)
        self.residuals_ = y - self.predict(x)
        self.n_features_in_ = 1
        return self

    def predict(self, x):
        return self.slope_ * x + self.offset_

    def score_(self):
        """A method whose name looks like that of a fitted attribute."""
        return 1.0


def allow(*classes: type) -> None:
    """Let model files name these classes, for tests of the format."""
    for cls in classes:
        setattr(sys.modules[cls.__module__], cls.__name__, cls)  # also where it was made in a function
        registry._MODULES[cls.__name__] = cls.__module__
        registry._BY_MODULE.setdefault(cls.__module__, {})[cls.__name__] = State()


allow(Box, Line)


def fitted_line(**params: Any) -> Line:
    return Line(**params).fit(np.arange(5.0), np.array([1.0, 2.0, 4.0, 4.0, 7.0]))


def metadata_of(model: Any, **changes: Any) -> dict[str, Any]:
    return {
        "format": "onefold-model",
        "format_version": FORMAT_VERSION,
        "onefold_version": "0.1.0",
        "estimator": model["$object"] if isinstance(model, dict) and "$object" in model else "Box",
        "model": model,
        **changes,
    }


def forge(path: Path, metadata: Any, arrays: dict[str, np.ndarray] | None = None) -> Path:
    """Write a file with a valid checksum around any metadata."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    container.write(path, text, arrays or {})
    return path


def forge_box(path: Path, content: Any, arrays: dict[str, np.ndarray] | None = None) -> Path:
    return forge(path, metadata_of({"$object": "Box", "fields": {"content": content}}), arrays)


def through_file(model: Any, folder: Path) -> Any:
    """Save, load in its place, and check that a second file would be the same."""
    saving.save(model, folder / "model")
    loaded = saving.load(folder / "model")
    saving.save(loaded, folder / "again")
    assert (folder / "model").read_bytes() == (folder / "again").read_bytes()
    return loaded
