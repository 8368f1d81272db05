r"""Conventional pruning of an LS-SVM (Suykens et al.), which cawley2002 improves on.

Train on all rows, drop the *rows* with the smallest |α|, train on the rest, tune again: what is dropped
is lost to the loss too. :class:`onefold.SparseLSSVR` drops centres and keeps every residual; this
is here for the comparison in figures 1 and 2 of cawley2002 (docs/sparse.md).

G. C. Cawley and N. L. C. Talbot, "Improved sparse least-squares support vector machines",
Neurocomputing 48, 2002.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from onefold import LSSVR, LSSVRCV

_FOLDS = 4  # of the tuning at each size, as in cawley2002


def sizes_of(n: int, fewest: int = 2, drop: float = 0.05) -> list[int]:
    """From n rows down to `fewest`, a share `drop` of them, and one at least, at each step."""
    found = [n]
    while found[-1] > fewest:
        found.append(max(fewest, min(found[-1] - 1, int(np.ceil((1 - drop) * found[-1])))))
    return found


def prune(
    X: Any,
    y: Any,
    sizes: Sequence[int],
    *,
    gammas: Sequence[float],
    alphas: Sequence[float],
    random_state: int = 0,
) -> list[LSSVR]:
    """The machine of each size, largest first, trained on the rows that are left and tuned on them.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
    sizes : sequence of int, descending
    gammas, alphas : sequences of float
        The grid that every size is tuned over, by four folds; small sizes keep what was tuned last.
    random_state : int
        Of those folds.
    """
    rows, found = np.arange(len(y)), []
    model = _tuned(X, y, gammas, alphas, random_state, None)
    for size in sizes:
        if size < rows.size:
            strength = np.abs(model.expansion_.coef[:, 0])
            rows = rows[np.sort(np.argsort(-strength, kind="stable")[:size])]
            model = _tuned(X[rows], y[rows], gammas, alphas, random_state, model)
        found.append(model)
    return found


def _tuned(
    X: Any, y: Any, gammas: Sequence[float], alphas: Sequence[float], seed: int, last: LSSVR | None
) -> LSSVR:
    gamma, alpha = (gammas[0], alphas[0]) if last is None else (last.gamma, last.alpha)
    if len(gammas) * len(alphas) > 1 and len(y) >= 2 * _FOLDS:
        cv = KFold(_FOLDS, shuffle=True, random_state=seed)
        chosen = LSSVRCV(gammas=gammas, alphas=alphas, cv=cv, intervals=None).fit(X, y)
        gamma, alpha = chosen.gamma_, chosen.alpha_
    return LSSVR(gamma=gamma, alpha=alpha).fit(X, y)


def held_out_errors(X: Any, y: Any, sizes: Sequence[int], cv: Any, **tuning: Any) -> Any:
    """Squared errors (sizes, n) of rows that each fold's machines did not see; `tuning` as in `prune`.

    A training part keeps the same share of its rows as a size is of all rows.
    """
    errors = np.full((len(sizes), len(y)), np.nan)
    for train, test in cv.split(X, y):
        own = [max(1, round(size * len(train) / len(y))) for size in sizes]
        for k, model in enumerate(prune(X[train], y[train], own, **tuning)):
            errors[k, test] = (y[test] - model.predict(X[test])) ** 2
    return errors
