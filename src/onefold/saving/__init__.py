"""Save fitted models to one file and load them again: no pickle, no code, no surprises.

A model file is a safetensors container: numeric arrays, and one JSON string with everything else.
Every class that a file may name has a state, listed in `registry`: which attributes it has, with a rule
for each. `codec` walks values of any `kinds` down to arrays, which the `container` holds. `load` gives
back only what predicts: states are checked by their rules, and models of tables are tried (`selftest`).
"""

from __future__ import annotations

from onefold.saving.errors import ModelFileError
from onefold.saving.file import load, peek, save

__all__ = ["ModelFileError", "load", "peek", "save"]
