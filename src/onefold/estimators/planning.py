"""What an estimator would run on a table, its time and its memory, without running it."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import replace
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import LeaveOneOut

from onefold.approximations import Plan, Workload, resolve_approximation
from onefold.approximations.auto import make_plan
from onefold.estimators.setup import (
    DEFAULT_GAMMAS,
    RELATIVE_GAMMAS,
    families_of,
    metric_search,
    names_families,
    ridge_grid,
)
from onefold.estimators.validation import check_alphas
from onefold.linalg import is_sparse
from onefold.machine.threads import use_threads
from onefold.rows import to_host
from onefold.search.metric import fit_cost, learned_load
from onefold.trust_check import last_step
from onefold.typing import ArrayLike, MaybeArray


def plan(estimator: Any, X: ArrayLike, y: MaybeArray = None) -> Plan:
    """Say what a fit would run, the time and the memory it would take, without running it.

    Parameters
    ----------
    estimator : estimator with an approximation, one of whole tables, or a Pipeline that ends in one
        Its search is counted as that of the whole grid. Copies of a Pipeline's earlier steps are fitted
        to X.
    X : array (rows, features), or such a shape
    y : array (rows,) or (rows, targets), optional
        How many classes or targets there are; of classes only which there are counts. Without it there
        are two classes, or one target.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from onefold import LSSVRCV, plan
    >>> plan(LSSVRCV(), (1000, 20)).approximation
    Exact()
    """
    final, X, y, _ = last_step(estimator, X, y, what="plan")
    n, d = _shape_of(X)
    labels, targets = isinstance(final, ClassifierMixin), 1
    if y is not None:  # a function is fitted for each target, or for each of more than two classes
        values = np.asarray(to_host(y))
        targets = np.unique(values).size if labels else values.reshape(len(values), -1).shape[1]
        targets = 1 if labels and targets < 3 else int(targets)
    shape = n, d, targets
    approximation = resolve_approximation(final.approximation)
    with use_threads(final.n_jobs):
        if not hasattr(final, "alphas"):  # they are given, not chosen
            ridges = np.unique(check_alphas(final.alpha, "alpha")).size
            load = Workload(1, ridges, 0, predictions=labels, whole=False)
            return make_plan(approximation, *shape, load)
        folds, ridges = _count_folds(final.cv, X, y), ridge_grid(final).size
        load = Workload(1, ridges, folds, predictions=labels or folds == 1, whole=False)
        families = [one for one in families_of(final) if one[1].accepts_sparse or not is_sparse(X)]
        if final.metric is not None:
            if folds < 2:
                raise ValueError("a metric needs held-out predictions of whole folds; use cv=5, say.")
            rows: Any = SimpleNamespace(X=X, n=n, streamed=False)
            load = learned_load(load, metric_search(final, families, rows, approximation), shape)
        else:
            default = RELATIVE_GAMMAS if names_families(final.kernel) else DEFAULT_GAMMAS
            given = default if final.gammas is None else final.gammas
            widths = np.size(np.asarray(given, dtype=object))
            kernels = sum(int(widths) if kernel.has_width else 1 for _, kernel in families)
            # A blend fits one of each family once more.
            again = (len(families) - 1) * fit_cost(n, d) if final.blend else 0.0
            load = replace(load, kernels=kernels, before=again)
        return make_plan(approximation, *shape, load)


def _count_folds(cv: Any, X: Any, y: Any) -> int:
    """The number of folds; 1 for leave-one-out."""
    if isinstance(cv, LeaveOneOut) or (isinstance(cv, str) and cv == "loo"):
        return 1
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) > 1):
        return 5 if cv is None else int(cv)
    if hasattr(cv, "get_n_splits"):
        return int(cv.get_n_splits(None if isinstance(X, tuple) else X, y))
    if isinstance(cv, Iterator):
        raise ValueError("cv is an iterator of splits, which serves once; give a list to plan with.")
    if isinstance(cv, str) or not isinstance(cv, Sized):
        raise ValueError(f'cv must be a number of folds, "loo" or a splitter; got {cv!r:.60}.')
    return len(cv)


def _shape_of(X: Any) -> tuple[int, int]:
    """Rows and features of an array, a table, a list of rows or a shape; raise for anything else."""
    given = np.shape(X) if isinstance(X, list) else getattr(X, "shape", ())
    shape = X if isinstance(X, tuple) else given
    whole = [isinstance(size, Real) and float(size).is_integer() and float(size) > 0 for size in shape]
    if len(shape) != 2 or not all(whole):
        raise ValueError(
            "plan takes an array of rows, or a shape such as (1000, 20) for 1000 rows and 20 features; "
            f"got {f'shape {tuple(shape)}' if hasattr(X, 'shape') else f'{X!r:.60}'}."
        )
    return int(shape[0]), int(shape[1])
