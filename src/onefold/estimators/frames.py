"""Numbers about the rows of a data frame, as a frame of the same library."""

from __future__ import annotations

from typing import Any

from sklearn.utils._set_output import ADAPTERS_MANAGER


def framed(values: Any, X: Any, columns: list[str]) -> Any:
    """NumPy values (rows, columns) with the index of X, where X is a frame of pandas or polars."""
    adapter = ADAPTERS_MANAGER.adapters.get(type(X).__module__.partition(".")[0])
    if adapter is None or not adapter.is_supported_container(X):
        return values
    return adapter.create_container(values, X, columns=columns)
