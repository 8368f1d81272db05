"""What an estimator would run on a table, its time and its memory, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from numbers import Integral, Real
from typing import Any

import numpy as np

from onefold.approximations import Approximation, Auto, Exact, Plan, Workload, resolve_approximation
from onefold.approximations.planning import Step, make_plan, speed_here
from onefold.estimators.families import RELATIVE_ALPHAS, RELATIVE_GAMMAS, families_of, names_families
from onefold.estimators.planned import asked_by
from onefold.estimators.selected import LSSVRCV
from onefold.estimators.setting_up import DEFAULT_ALPHAS, DEFAULT_GAMMAS, check_learnable, metric_rows
from onefold.learned_metrics import tracks_of
from onefold.machine.threads import use_threads
from onefold.search.planning import Size, learned_load, left_out, work_on_few_rows
from onefold.search.setup import Learning
from onefold.typing import ArrayLike, MaybeArray


def plan(
    X: ArrayLike,
    y: MaybeArray = None,
    *,
    estimator: Any = None,
    kernel: Any = "rbf",
    metric: str | None = None,
    blend: bool = False,
    approximation: str | Approximation = "auto",
    n_gammas: int | None = None,
    n_alphas: int | None = None,
    cv: int | str = 5,
    targets: int = 1,
    classes: int = 0,
    n_jobs: int | None = None,
    seconds: float | None = None,
) -> Plan:
    """Say what a search would run, the time and the memory it would take, without running it.

    Parameters
    ----------
    X : array (rows, features), or such a shape
    y : array (rows,) or (rows, targets), optional
        With an estimator: how many classes or targets there are.
    estimator : estimator of this library, or a Pipeline that ends in one, optional
        Whose fit is planned: the parameters below that are its own are taken from it, and its search is
        counted as that of the whole grid. Copies of a Pipeline's earlier steps are fitted to X.
    kernel : str, Kernel, or list of them, default="rbf"
        As in :class:`LSSVCCV`; "auto" and lists are families to choose among.
    metric : {"diagonal", "full", "auto"} or None, default=None
        What is learned.
    blend : bool, default=False
        Whether the best are blended.
    approximation : str or object from :mod:`onefold.approximations`, default="auto"
    n_gammas, n_alphas : int, optional
        Size of the grid; None is that of the estimators.
    cv : int or "loo", default=5
        Number of folds; 0 for a fit with given hyper-parameters.
    targets : int, default=1
        Columns of y.
    classes : int, default=0
        Number of classes where y holds labels: more than two are as many targets.
    n_jobs : int or None, default=None
        Threads; None and -1 use every core.
    seconds : float, optional
        Time budget of ``"auto"``, instead of its own.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from onefold import plan
    >>> plan((1000, 20)).approximation
    Exact()
    """
    given: dict[str, Any] = {
        "kernel": kernel, "metric": metric, "blend": blend, "approximation": approximation,
        "n_gammas": n_gammas, "n_alphas": n_alphas, "cv": cv, "targets": targets, "classes": classes,
        "n_jobs": n_jobs, "seconds": seconds,
    }  # fmt: skip
    if estimator is not None:
        defaults = {name: one.default for name, one in signature(plan).parameters.items()}
        X, given = asked_by(estimator, X, y, given, defaults)
    elif y is not None:
        raise ValueError("y belongs to an estimator; give that too, or targets or classes in its place.")
    return _planned(X, **given)


def _planned(
    X: Any,
    *,
    kernel: Any,
    metric: str | None,
    blend: bool,
    approximation: Any,
    n_gammas: int | None,
    n_alphas: int | None,
    cv: int | str,
    targets: int,
    classes: int,
    n_jobs: int | None,
    seconds: float | None,
) -> Plan:
    n, d = _shape_of(X)
    chosen = resolve_approximation(approximation)
    relative = metric is not None or names_families(kernel)
    widths = len(RELATIVE_GAMMAS if relative else DEFAULT_GAMMAS) if n_gammas is None else n_gammas
    ridges = len(RELATIVE_ALPHAS if relative else DEFAULT_ALPHAS) if n_alphas is None else n_alphas
    least = {"rows": (n, 1), "features": (d, 1), "n_gammas": (widths, 1), "n_alphas": (ridges, 1)}
    least |= {"targets": (targets, 1), "classes": (classes, 0), "cv": (1 if cv == "loo" else cv, 0)}
    for name, (value, lowest) in least.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
            raise ValueError(f"{name} must be a whole number of at least {lowest}; got {value!r}.")
    if seconds is not None and isinstance(chosen, Auto):
        chosen = replace(chosen, seconds=seconds)
    folds = 1 if cv == "loo" else int(cv)
    load = Workload(widths, ridges, folds, predictions=classes > 0 or cv == "loo", whole=False)
    size = Size(int(n), int(d), int(classes if classes > 2 else targets), folds, ridges)
    families = families_of(LSSVRCV(kernel), X)
    with use_threads(n_jobs):
        if metric is None:
            return _of_families(chosen, size, load, [one.has_width for _, one in families], blend)
        if folds < 2:
            raise ValueError("a metric needs held-out predictions of whole folds; use cv=5, say.")
        check_learnable(chosen, streamed=False)
        tracks = tracks_of(families, metric, X)
        learning = Learning(tracks, [1.0] * widths, LSSVRCV().max_rounds, metric_rows(size.n), blend)
        return _of_metrics(chosen, size, load, learning, blend)


def _of_families(
    chosen: Any, size: Size, load: Workload, have_widths: Sequence[bool], blend: bool
) -> Plan:
    """One model per family and width; a blend fits one of each family once more."""
    kernels = sum(load.kernels if has_width else 1 for has_width in have_widths)
    again = (len(have_widths) - 1) * size.fit(size.n) if blend else 0.0
    load = replace(load, kernels=kernels, before=again)
    return make_plan(chosen, size.n, size.d, size.targets, load, asked=True)


def _of_metrics(chosen: Any, size: Size, load: Workload, learning: Learning, blend: bool) -> Plan:
    """The stages of a search with learned metrics."""
    load = learned_load(load, learning, size, blend=blend)
    found = make_plan(chosen, size.n, size.d, size.targets, load, asked=True)
    speed = speed_here()
    steps = [
        Step(work.what, work.multiply_adds / speed.multiply_adds)
        for work in work_on_few_rows(learning, size)
    ]
    rest = found.approximation.duration(size.n, size.d, size.targets, load, speed)
    if learning.rows < size.n:
        last = f"{load.kernels} fits of {size.n} rows"
    else:
        last = f"{'again' if steps else 'rounds'} on all {size.n} rows, fold by fold"
    omitted = left_out(learning, size)
    if isinstance(chosen, Auto) and found.approximation != Exact():
        omitted.append("the true kernel: landmarks stand for it")
    times = [step.seconds for step in steps] + [rest]
    total = None if rest is None else sum(time or 0.0 for time in times)
    steps.append(Step(last, rest))
    return replace(found, seconds=total, steps=tuple(steps), left_out=tuple(omitted))


def _shape_of(X: Any) -> tuple[Any, Any]:
    """Rows and features of an array, a table, a list of rows or a shape; raise for anything else."""
    shape = X if isinstance(X, tuple) else getattr(X, "shape", ())
    if isinstance(X, list):
        shape = tuple(X) if all(isinstance(size, Real) for size in X) else np.shape(X)
    if len(shape) != 2 or not all(isinstance(size, Real) for size in shape):
        got = f"shape {tuple(shape)}" if hasattr(X, "shape") else f"{X!r:.60}"
        raise ValueError(
            f"plan takes an array of rows, or a shape such as (1000, 20) for 1000 × 20; got {got}."
        )
    rows, features = (int(size) if size == int(size) else size for size in shape)
    return rows, features
