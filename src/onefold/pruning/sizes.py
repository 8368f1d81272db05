"""How many centres to keep, from the held-out scores along a pruning path."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.search import deviation


def best_size(scores: Any, tolerance: float | None) -> int:
    """Position of the size to keep in scores (folds, sizes): within the tolerance, or the knee.

    Sizes that a fold has no score of are passed over.
    """
    scored = np.flatnonzero(np.isfinite(scores).all(axis=0))
    if not scored.size:
        raise ValueError(
            "no number of centres has a score: the criterion refuses the held-out predictions, or is "
            "not defined for them; use another criterion, or folds with more rows to test."
        )
    found = scores[:, scored]
    place = knee(found) if tolerance is None else within(found.mean(axis=0), tolerance)
    return int(scored[place])


def within(scores: Any, tolerance: float) -> int:
    """Position of the smallest model whose score is at most a share `tolerance` below the best."""
    best = scores.max()
    return int(np.flatnonzero(scores >= best - tolerance * abs(best)).max())


def knee(scores: Any) -> int:
    """Position of the knee in scores (folds, sizes): the smallest model on the plateau of the best.

    The plateau reaches one standard error of the best mean score below it, and ends where a size first
    falls short of that: a model on it is no worse than the folds can tell.
    """
    mean = scores.mean(axis=0)
    best = int(np.argmax(mean))
    error = float(deviation(scores[:, best], axis=0)) / np.sqrt(scores.shape[0])
    short = np.flatnonzero(mean[best:] < mean[best] - error)
    return best + int(short[0]) - 1 if short.size else len(mean) - 1
