"""Equal rows: those whose copy was trained on while they were held out have told their answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import is_sparse, to_numpy
from onefold.report.folds import Folds


def row_groups(X: Any) -> np.ndarray:
    """The number (n,) of the set of equal rows that each row belongs to; O(n d + n log n)."""
    if is_sparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        spans = zip(X.indptr[:-1], X.indptr[1:])
        keys = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in spans]
        places: dict[bytes, int] = {}
        return np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.intp)
    rows = np.ascontiguousarray(to_numpy(X)) + 0.0  # no −0
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    found: np.ndarray = np.unique(whole, return_inverse=True)[1].ravel()
    return found


def duplicate_facts(groups: np.ndarray, y: np.ndarray, folds: Folds | None) -> dict[str, int]:
    """Rows that have a copy; held-out rows with a copy in their training part, by their targets.

    Parameters
    ----------
    groups : ndarray (n,)
        As `row_groups` gives them.
    y : ndarray (n,) or (n, targets)
    folds : Folds or None
        None where nothing was held out.
    """
    copies = np.bincount(groups)[groups] > 1
    found = {"rows": int(copies.sum()), "across": 0, "same_target": 0, "other_target": 0}
    if folds is None or not copies.any():
        return found
    answers = np.unique(y, axis=0 if y.ndim > 1 else None, return_inverse=True)[1].ravel()
    both = np.unique(np.column_stack([groups, answers]), axis=0, return_inverse=True)[1].ravel()
    across, same = np.zeros(len(y), dtype=bool), np.zeros(len(y), dtype=bool)
    for train, test in folds.splits:
        seen, told = (np.bincount(of[train], minlength=int(of.max()) + 1) > 0 for of in (groups, both))
        across[test] |= seen[groups[test]]
        same[test] |= told[both[test]]
    found |= {"across": int(across.sum()), "same_target": int((across & same).sum())}
    return found | {"other_target": int((across & ~same).sum())}
