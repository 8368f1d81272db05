r"""Pruning a basis model from many centres to few (cawley2002), on statistics that are sliced.

All residuals stay in the loss. At each size the system

    (A_SS + μ W_SS) β = c_S        (A and c centred where there is an intercept)

is solved on the remaining centres S, and those with the smallest |β| are dropped. Nothing is
collected again: reducing m centres to a few costs Σ s³/3 over the sizes s, about 2.3 m³ multiply-adds
when a twentieth is dropped each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from onefold.statistics.base import Statistics

_JITTER = 1e-11  # of the mean diagonal: picks the smallest β where centres are redundant


def prune_sizes(start: int, stop: int, drop: float) -> list[int]:
    """Sizes from `start` to `stop`, each the one before less the fraction `drop`, at least one."""
    sizes = [start]
    while sizes[-1] > stop:
        sizes.append(max(stop, sizes[-1] - max(1, round(drop * sizes[-1]))))
    return sizes


@dataclass(frozen=True)
class PruningPath:
    """The models of one path.

    Attributes
    ----------
    centres : list of int arrays
        The centres left at each size, as positions in the first basis.
    coef : list of arrays (size, targets)
    intercept : array (sizes, targets)
    """

    centres: list[Any]
    coef: list[Any]
    intercept: Any

    def dense_coefficients(self, m: int) -> Any:
        """All models side by side as coefficients of the first basis, (m, sizes · targets)."""
        t = self.intercept.shape[1]
        out = np.zeros((m, len(self.centres), t))
        for step, (index, coef) in enumerate(zip(self.centres, self.coef)):
            out[index, step] = coef
        return out.reshape(m, -1)


def prune(
    statistics: Statistics, W: Any, mu: float, sizes: list[int], *, fit_intercept: bool
) -> PruningPath:
    """The pruned models of every size, from the largest to the smallest.

    Parameters
    ----------
    statistics : Statistics
        Of the training rows, in the coordinates of the first basis.
    W : array (m, m)
        The kernel of the centres.
    mu : float
        The ridge; the same at every size, since the number of residuals does not change.
    sizes : list of int
        Falling; the first is at most m.
    """
    targets = statistics.cross.shape[1]
    mean_target, mean_feature = np.zeros(targets), np.zeros(W.shape[0])
    gram, cross = statistics.gram + mu * W, statistics.cross
    if fit_intercept:
        mean_target = statistics.target_sum / statistics.weight
        mean_feature = statistics.border / statistics.weight
        gram -= np.outer(statistics.border, mean_feature)
        cross = cross - np.outer(statistics.border, mean_target)
    index = np.arange(W.shape[0])
    centres: list[Any] = []
    coefs: list[Any] = []
    intercepts: list[Any] = []
    beta = np.empty((0, targets))
    for size in sizes:
        if size < index.size:
            if not centres:  # the first size is below the number of candidates
                beta = _solve(gram, cross)
            keep = strongest(np.linalg.norm(beta, axis=1), size)
            # Slicing the slice keeps the cost of copying at that of the remaining matrix.
            index, gram, cross = index[keep], gram[np.ix_(keep, keep)], cross[keep]
        beta = _solve(gram, cross)
        centres.append(index)
        coefs.append(beta)
        intercepts.append(mean_target - mean_feature[index] @ beta)
    return PruningPath(centres, coefs, np.array(intercepts).reshape(len(sizes), targets))


def strongest(strength: Any, size: int) -> Any:
    """Positions of the `size` largest, in order; equal to nine digits counts as equal, the last stay."""
    largest = strength.max(initial=0.0)
    rounded = np.round(strength / largest, 9) if largest > 0 else strength
    return np.sort(np.argsort(rounded, kind="stable")[strength.size - size :])


def _solve(matrix: Any, rhs: Any) -> Any:
    """(M + tiny) x = rhs for a positive semi-definite M; the shift grows if rounding asks for it."""
    shift = _JITTER * max(float(np.trace(matrix)) / matrix.shape[0], np.finfo(float).tiny)
    while True:
        shifted = matrix.copy()
        shifted.flat[:: matrix.shape[0] + 1] += shift
        try:
            return scipy.linalg.cho_solve(
                scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False),
                rhs,
                check_finite=False,
            )
        except np.linalg.LinAlgError:
            shift *= 100.0
