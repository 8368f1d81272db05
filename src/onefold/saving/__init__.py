"""Save fitted models to one file and load them again: no pickle, no code, no surprises.

A model file is a safetensors container: numeric arrays, and one JSON string with everything else.
`codec` walks values down to arrays, which the `container` holds, and builds only known `classes`. `load`
gives back only what predicts: constructors and checks look at the parts, and the whole is tried on rows
that lie in the file (`file`).
"""

from __future__ import annotations

from onefold.saving.container import ModelFileError
from onefold.saving.file import load, peek, save

__all__ = ["ModelFileError", "load", "peek", "save"]
