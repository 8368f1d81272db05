"""What an estimator would run on a table, its time and its memory, without running it."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import replace
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

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
from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.machine.threads import use_threads
from onefold.search.planning import fit_cost, learned_load
from onefold.trust_check import last_step, name_of
from onefold.typing import ArrayLike, MaybeArray

_FOLDS = 5  # of cv=None


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
    if isinstance(X, tuple) and _prepares(estimator):
        raise ValueError(
            "what comes before the machine needs rows to be fitted to; give X, not its shape."
        )
    final, X, y, _ = last_step(estimator, X, y)
    if not hasattr(final, "as_chooser"):
        raise ValueError(
            f"plan does not know {name_of(estimator)}; give it one of the six estimators with an "
            "approximation, one of whole tables, or a Pipeline that ends in one."
        )
    n, d = _shape_of(X)
    shape = n, d, _targets_of(final, y)
    labels = get_tags(final).estimator_type == "classifier"
    approximation = resolve_approximation(final.approximation)
    with use_threads(final.n_jobs):
        if not hasattr(final, "alphas"):  # they are given, not chosen
            ridges = np.unique(check_alphas(final.alpha, "alpha")).size
            load = Workload(1, ridges, 0, predictions=labels, whole=False)
            return make_plan(approximation, *shape, load)
        cv = _splits_of(final.cv, X, y)
        folds = 1 if cv == "loo" else int(cv)
        ridges = ridge_grid(final).size
        load = Workload(1, ridges, folds, predictions=labels or cv == "loo", whole=False)
        families = [one for one in families_of(final) if one[1].accepts_sparse or not is_sparse(X)]
        if final.metric is not None:
            if folds < 2:
                raise ValueError("a metric needs held-out predictions of whole folds; use cv=5, say.")
            rows: Any = SimpleNamespace(X=X, n=n, streamed=False)
            load = learned_load(load, metric_search(final, families, rows, approximation), shape)
        else:
            kernels = sum(_widths_of(final) if kernel.has_width else 1 for _, kernel in families)
            # A blend fits one of each family once more.
            again = (len(families) - 1) * fit_cost(n, d) if final.blend else 0.0
            load = replace(load, kernels=kernels, before=again)
        return make_plan(approximation, *shape, load)


def _prepares(estimator: Any) -> bool:
    """Whether rows are changed before a machine sees them."""
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1 or _prepares(estimator.steps[-1][1])
    return hasattr(estimator, "as_step")


def _targets_of(estimator: Any, y: Any) -> int:
    """How many functions are fitted: one for each target, or for each of more than two classes."""
    if y is None:
        return 1
    values = to_numpy(y) if is_foreign(y) else np.asarray(y)
    if get_tags(estimator).estimator_type == "classifier":
        classes = int(np.unique(values).size)
        return classes if classes > 2 else 1
    return 1 if values.ndim == 1 else int(values.shape[1])


def _widths_of(estimator: Any) -> int:
    """How many widths are tried."""
    if estimator.gammas is not None:
        return int(np.size(np.asarray(estimator.gammas, dtype=object)))
    return len(RELATIVE_GAMMAS if names_families(estimator.kernel) else DEFAULT_GAMMAS)


def _splits_of(cv: Any, X: Any, y: Any) -> int | str:
    """The number of splits, or "loo"."""
    if isinstance(cv, LeaveOneOut) or (isinstance(cv, str) and cv == "loo"):
        return "loo"
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) > 1):
        return _FOLDS if cv is None else int(cv)
    if hasattr(cv, "get_n_splits"):
        return int(cv.get_n_splits(None if isinstance(X, tuple) else X, y))
    if isinstance(cv, Iterator):
        raise ValueError("cv is an iterator of splits, which serves once; give a list to plan with.")
    if isinstance(cv, str) or not isinstance(cv, Sized):
        raise ValueError(f'cv must be a number of folds, "loo" or a splitter; got {cv!r:.60}.')
    return len(cv)


def _shape_of(X: Any) -> tuple[int, int]:
    """Rows and features of an array, a table, a list of rows or a shape; raise for anything else."""
    shape = X if isinstance(X, tuple) else getattr(X, "shape", ())
    if isinstance(X, list):
        shape = np.shape(X)
    whole = all(
        isinstance(size, Real) and float(size).is_integer() and float(size) > 0 for size in shape
    )
    if len(shape) != 2 or not whole:
        raise ValueError(
            "plan takes an array of rows, or a shape such as (1000, 20) for 1000 rows and 20 features; "
            f"got {f'shape {tuple(shape)}' if hasattr(X, 'shape') else f'{X!r:.60}'}."
        )
    return int(shape[0]), int(shape[1])
