"""Landmarks that the user brings."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.landmarks.base import Basis
from onefold.linalg import Array, all_finite, is_foreign, is_sparse, like, namespace, to_numpy


def given_rows(rows: Any, X: Array) -> Basis:
    """The user's own rows, in X's library and dtype."""
    if is_sparse(rows):
        rows = rows.tocsr() if is_sparse(X) else rows.toarray()
    if getattr(rows, "ndim", 0) != 2 or rows.shape[1] != X.shape[1] or rows.shape[0] == 0:
        raise ValueError(
            f"landmark rows must have shape (landmarks, {X.shape[1]}), as X has {X.shape[1]} "
            f"features; got {tuple(getattr(rows, 'shape', ()))}."
        )
    if is_foreign(X):
        rows = namespace(X).astype(like(to_numpy(rows), X), X.dtype)
    elif is_sparse(rows):
        rows = rows.astype(X.dtype)
    else:
        rows = np.asarray(to_numpy(rows), dtype=X.dtype)
        rows = type(X)(rows) if is_sparse(X) else rows
    if not all_finite(rows):
        raise ValueError("the landmark rows hold NaN or infinite values; impute or drop those rows.")
    return Basis(rows, None, {"method": "given"})
