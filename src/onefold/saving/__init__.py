"""Save fitted models to one file and load them again: no pickle, no code, no surprises.

A model file is a safetensors container: numeric arrays, and one JSON string with everything else.
`load` builds only classes listed in `onefold.saving.registry`, and gives back only what predicts: states
are checked (`checks`, `transformers`), and models that prepare their rows are tried (`selftest`).
"""

from __future__ import annotations

from onefold.saving.errors import ModelFileError
from onefold.saving.file import SavedModel, load, load_with_extra, peek, save
from onefold.saving.registry import register
from onefold.saving.selftest import final_estimator

__all__ = [
    "ModelFileError",
    "SavedModel",
    "final_estimator",
    "load",
    "load_with_extra",
    "peek",
    "register",
    "save",
]
