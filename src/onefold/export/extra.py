"""The libraries of the extra ``onnx``, imported when something is exported."""

from __future__ import annotations

import importlib
from typing import Any


def need(name: str) -> Any:
    """The module of that name; ImportError with the remedy where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"export to ONNX needs {name.partition('.')[0]}, which cannot be imported ({error}); "
            'pip install "onefold[onnx]".'
        ) from error
