"""From an estimator and its data to what is searched: checked and decided here, once.

One way for fits, objectives and the trust check; `plan` says what a fit would run. Of several kernels,
or with a learned metric, widths are relative to the mean distance of the rows; otherwise they are the
kernel's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import replace
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import LeaveOneOut
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Auto, Plan, Problem, Workload, resolve_approximation
from onefold.approximations.auto import is_series, learning_rows, make_plan
from onefold.approximations.problem import Machine
from onefold.calibration import check_intervals
from onefold.compatibility import Offer, Request, check
from onefold.criteria import Criterion, resolve_criteria
from onefold.estimators import validation
from onefold.estimators.final import require_jackknife_memory
from onefold.heldout import Splits, check_folds, make_splits
from onefold.kernels import Precomputed, kernel_name, resolve_gamma, resolve_kernel
from onefold.linalg import is_sparse
from onefold.machine.threads import use_threads
from onefold.rows import is_dask, is_remote, opened, to_host
from onefold.search import FullGrid
from onefold.search.learned_metric import check_metric, tracks_of
from onefold.search.metric_search import FOLD_LEARNING_ROWS, MetricSearch, fit_cost, learned_load
from onefold.search.strategies import Family, Setup, Strategy, family_kernels, resolve_strategy
from onefold.trust_check import last_step
from onefold.typing import MaybeArray, TableLike

DEFAULT_GAMMAS = 2.0 ** np.arange(-15, 10, 2)
DEFAULT_ALPHAS = 2.0 ** np.arange(-15, 6, 2)
AUTO = ("rbf", "powexp", "laplacian")
RELATIVE_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Matérn's kernel of ν = 1/2 and a small width is 1 − γ‖x − z‖: what counts is μ/γ, both may be small.
RELATIVE_ALPHAS = 2.0 ** np.arange(-21, 6, 2)
_FLATTEST = 1e-50  # the square of a width must not leave the range of float64
_OWN_METRICS = 5000  # rows up to which every fold has a metric of its own, by default
# Settings that an evaluation does not depend on: a larger grid goes on from a smaller one, and
# approximation, seed, splits and weights are compared as they came out.
_FREE = {
    "gammas", "alphas", "approximation", "random_state", "cv", "class_weight", "refit", "select",
    "intervals", "check", "time_budget", "checkpoint", "client", "n_jobs", "verbose", "callback",
}  # fmt: skip


def set_up(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    decided: tuple[Approximation, str] | None = None,
) -> Setup:
    """Check everything, split the rows, start the run; "auto" may have `decided` before, and why."""
    families = families_of(estimator)
    relative = is_relative(estimator)
    criteria = criteria_of(estimator)
    first, *others = criteria
    strategy = resolve_strategy(estimator.search)
    check_parameters(estimator)
    approximation = resolve_approximation(estimator.approximation)
    reason = None
    request = request_of(estimator, list(criteria.values()), strategy)
    offer = offer_of(X, approximation, families)
    check(request, offer)
    seed = validation.seed_of(estimator.random_state)
    if decided is not None and isinstance(approximation, Auto):
        approximation, reason = decided
    elif seed is not None:
        approximation = approximation.seeded(seed)

    client = estimator.client
    y, sample_weight, groups = (to_host(values, client) for values in (y, sample_weight, groups))
    X = opened(X, client)
    n = _num_samples(X)
    sparse = takes_sparse(estimator, families)
    problem, task = validation.problem_of(estimator, X, y, sample_weight, sparse=sparse)
    alphas = ridge_grid(estimator, problem.n)
    validation.check_squares(problem.Y)
    if is_sparse(problem.X):
        families = [family for family in families if family[1].accepts_sparse]
    widths = width_grid(estimator, families, problem.X, relative=relative)
    kernels, names = family_kernels(families, widths, problem, seed or 0, relative=relative)

    # An iterator serves once, and the trust check needs the splits too.
    cv = list(estimator.cv) if isinstance(estimator.cv, Iterator) else estimator.cv
    splits: Any = None
    if any(criterion.holds_out for criterion in criteria.values()):
        splits = make_splits(cv, X, y, n=n, labels=task.labels, groups=groups, kept=problem.kept)
    else:
        check_folds(cv, n)
    leave_one_out = splits is not None and splits.leave_one_out
    request = replace(
        request, leave_one_out=leave_one_out, single_rows=leave_one_out or request.single_rows
    )
    offer = replace(
        offer_of(problem.X, approximation, families),
        place=problem.place,
        rows=problem.n,
        splits=None if splits is None else len(splits),
        single_ridges=problem.single_ridges if request.single_rows else 1,
    )
    check(request, offer)
    if estimator.metric is not None:
        strategy = metric_search(estimator, families, problem)
    criterion = criteria[first].for_several_kernels() if relative else criteria[first]
    candidates = len(kernels) * len(approximation.choices())
    load = workload(problem, candidates, alphas.size, splits, list(criteria.values()), estimator.refit)
    if isinstance(strategy, MetricSearch):
        load = learned_load(load, strategy, problem.shape)
        if not approximation.selects:
            load = replace(load, folds=0, groups=0, parts=None)
    with estimator._threads(problem.n):
        run = approximation.start(problem, kernels, load)
        run = run if reason is None else replace(run, reason=reason)
        # What only fits the model of a metric search is not what its scores come from.
        if run.approximation.selects or not isinstance(strategy, MetricSearch):
            for each in criteria.values():
                each.check(run.approximation)
        final = (run.refit or run).approximation
        check(request, replace(offer, approximation=run.approximation, final=final))
        scoring = criterion.start(problem, task, splits)
        recorded = {name: criteria[name].start(problem, task, splits) for name in others}
    setup = Setup(
        table=X,
        task=task,
        scoring=scoring,
        cv=cv,
        groups=groups,
        families=families,
        relative=relative,
        kernels=kernels,
        names=names,
        alphas=alphas,
        run=run,
        seed=seed,
        strategy=strategy,
        select=estimator.select,
        blend=bool(estimator.blend),
        recorded=recorded,
    )
    strategy.check(setup)
    if request.intervals == "jackknife+":
        require_jackknife_memory(problem)
    return setup


def criteria_of(estimator: Any) -> dict[str, Criterion]:
    """The criteria by name; the first one decides."""
    given = estimator.criterion
    classifier = isinstance(estimator, ClassifierMixin)
    given = estimator._default_criterion if given is None else given
    calibration = getattr(estimator, "calibration", None)
    return resolve_criteria(given, classifier=classifier, calibration=calibration)


def decisive_settings(estimator: Any, setup: Setup) -> dict[str, Any]:
    """The settings that a single evaluation may depend on, apart from the data and the splits."""
    given = estimator.get_params(deep=False)
    scorings = [setup.scoring, *setup.recorded.values()]
    if not any(one.criterion.asks_probabilities for one in scorings):
        given.pop("calibration", None)
    decisive = {name: value for name, value in given.items() if name not in _FREE}
    return {"estimator": type(estimator).__name__, **decisive}


def check_parameters(estimator: Any) -> None:
    """Raise for unknown values."""
    if estimator.refit not in ("auto", "exact", "same"):
        raise ValueError(f'refit must be "auto", "exact" or "same"; got {estimator.refit!r}.')
    if estimator.select not in ("min", "1se"):
        raise ValueError(f'select must be "min" or "1se"; got {estimator.select!r}.')
    if not isinstance(estimator.blend, bool | np.bool_):
        raise ValueError(f"blend must be True or False; got {estimator.blend!r}.")
    check_metric(estimator.metric)
    check_intervals(getattr(estimator, "intervals", None))


def request_of(estimator: Any, criteria: Sequence[Criterion], strategy: Strategy) -> Request:
    """What the parameters of a search ask for, the first criterion deciding."""
    needs = {criterion.needs for criterion in criteria}
    intervals = getattr(estimator, "intervals", None)
    splits_are_made = any(criterion.holds_out for criterion in criteria)
    return Request(
        estimator=type(estimator).__name__,
        searches=True,
        n_criteria=len(criteria),
        holds_out=criteria[0].holds_out,
        all_rows=bool(needs & {"model", "matrix", "rows"})
        or any(criterion.reads_rows for criterion in criteria),
        smoother=bool(needs & {"smoother", "matrix"}),
        matrix="matrix" in needs,
        leave_one_out=splits_are_made and leaves_one_out(estimator.cv),
        single_rows="model" in needs or intervals == "jackknife+",
        select=estimator.select,
        refit=estimator.refit,
        strategy=strategy.name,
        full_grid=isinstance(strategy, FullGrid),
        subsamples=getattr(strategy, "subsamples", False),
        metric=estimator.metric,
        blend=bool(estimator.blend),
        intervals=intervals,
    )


def offer_of(X: Any, approximation: Approximation, families: Sequence[Family]) -> Offer:
    """What these rows, or rows that are not read yet, and kernels offer."""
    return Offer(
        approximation,
        kernels=[kernel for _, kernel in families],
        several_kernels=len(families) > 1,
        place="dask" if is_dask(X) or is_remote(X) else "memory",
        precomputed=any(isinstance(kernel, Precomputed) for _, kernel in families),
        sparse=is_sparse(X),
    )


def leaves_one_out(cv: Any) -> bool:
    """Whether the parameter stands for splits of single rows."""
    return isinstance(cv, LeaveOneOut) or (isinstance(cv, str) and cv == "loo")


# -- kernels, widths and ridges -----------------------------------------------------------------------


def names_families(kernel: Any) -> bool:
    """Whether the parameter stands for several kernels to choose among."""
    return kernel == "auto" if isinstance(kernel, str) else isinstance(kernel, list | tuple)


def is_relative(estimator: Any) -> bool:
    """Whether widths are relative to the mean distance of the rows."""
    return names_families(estimator.kernel) or getattr(estimator, "metric", None) is not None


def families_of(estimator: Any) -> list[Family]:
    """Name and kernel of each family; of "auto" some may not take sparse rows."""
    given = estimator.kernel
    if not names_families(given):
        given = [given]
    automatic = isinstance(given, str)
    members: Sequence[Any] = AUTO if automatic else list(given)
    if not members:
        raise ValueError("kernel is an empty list; give at least one kernel.")
    kernels = [resolve_kernel(one, 1.0, estimator.degree, estimator.coef0) for one in members]
    found: list[Family] = []
    for kernel in kernels:
        name = kernel_name(kernel) or f"{kernel!r:.40}"
        same = sum(known == name or known.startswith(f"{name} #") for known, _ in found)
        found.append((name if not same else f"{name} #{same + 1}", kernel))
    return found


def takes_sparse(estimator: Any, families: Sequence[Family] | None = None) -> bool:
    """Whether CSR rows can be fitted: all kernels that were named must take them; "auto" has some."""
    try:
        families = families_of(estimator) if families is None else families
    except (TypeError, ValueError):  # `fit` will say what is wrong
        return False
    some = any if isinstance(estimator.kernel, str) else all
    return some(kernel.accepts_sparse for _, kernel in families)


def width_grid(estimator: Any, families: Sequence[Family], X: Any, *, relative: bool) -> list[float]:
    """The widths to try, relative or the one kernel's own; none where it has no width."""
    if relative:
        return _relative_widths(estimator.gammas)
    ((_, kernel),) = families
    kernel.check_features(X.shape[1])
    if not kernel.has_width:
        if estimator.gammas is not None:
            raise ValueError("this kernel has no width to search; leave gammas=None.")
        return []
    given = DEFAULT_GAMMAS if estimator.gammas is None else estimator.gammas
    # "scale" and numbers may stand side by side.
    given = np.array(list(given), dtype=object) if isinstance(given, list | tuple) else given
    numbers = [resolve_gamma(one, X) if isinstance(one, str) else one for one in np.atleast_1d(given)]
    return [float(one) for one in validation.check_alphas(numbers, "gammas")]


def _relative_widths(gammas: Any) -> list[float]:
    given = RELATIVE_GAMMAS if gammas is None else gammas
    values = np.atleast_1d(np.asarray(given, dtype=object)).tolist()
    if not values:
        raise ValueError("gammas must be a non-empty list of positive numbers; got [].")
    for value in values:
        real = isinstance(value, Real) and not isinstance(value, bool)
        if not real or not _FLATTEST <= float(value) <= 1 / _FLATTEST:
            raise ValueError(
                "with several kernels or a learned metric, gammas must be numbers greater than 0, "
                f"relative to the mean distance of the rows and not too far from 1; got {value!r}."
            )
    return [float(value) for value in values]


def ridge_grid(estimator: Any, n: int) -> Any:
    """The ridges to try for `n` rows: by default, those of a mean are near 1/n of those of a sum."""
    if estimator.alphas is not None:
        return validation.check_alphas(estimator.alphas, "alphas")
    default = RELATIVE_ALPHAS if is_relative(estimator) else DEFAULT_ALPHAS
    return default / 2.0 ** round(np.log2(n)) if estimator.loss == "mean" else default


def metric_search(estimator: Any, families: Sequence[Family], problem: Problem) -> MetricSearch:
    """How the estimator's metric is learned."""
    n = problem.n
    rows = estimator.metric_rows
    if rows is None:
        rows = n if n <= _OWN_METRICS else min(learning_rows(problem), n - 1)
    fold_rows = min(rows, FOLD_LEARNING_ROWS) if estimator.metric_rows is None else rows
    validation.check_count("max_rounds", estimator.max_rounds)
    validation.check_count("metric_rows", rows)
    tracks = tracks_of(families, estimator.metric, problem.X)
    widths = _relative_widths(estimator.gammas)
    rounds = int(estimator.max_rounds)
    # One row to learn from and one to validate on are the least that a round can do with.
    counts = rounds, max(2, int(rows)), max(2, int(fold_rows))
    return MetricSearch(tracks, widths, *counts, bool(estimator.blend))


# -- splits and work ----------------------------------------------------------------------------------


def workload(
    problem: Problem,
    kernels: int,
    alphas: int,
    splits: Splits | None,
    criteria: Sequence[Criterion],
    refit: Any = "same",
) -> Workload:
    """What a search asks of its models; criteria without splits ask as much as leave-one-out."""
    needs = {one.needs for one in criteria}
    whole = bool(needs & {"smoother", "matrix"})
    formed = "matrix" in needs
    if splits is None:
        single = "model" in needs
        return Workload(
            kernels, alphas, folds=1, smoother=whole, single=single, matrix=formed, refit=refit
        )
    alone = splits.leave_one_out
    overlapping = not alone and sum(map(len, splits.left_out)) > problem.n
    return Workload(
        kernels,
        alphas,
        folds=1 if alone else len(splits.left_out),
        groups=problem.source.grouped_by(splits.left_out).groups.count if overlapping else 0,
        predictions=alone or needs != {"squares"},
        whole=alone or bool(needs & {"rows", "model"}),
        smoother=whole,
        matrix=formed,
        single="model" in needs,
        scored_rows=alone and len(splits) > 1,
        parts=splits.left_out,
        refit=refit,
    )


# -- what a fit would run -----------------------------------------------------------------------------


def plan(estimator: Any, X: TableLike, y: MaybeArray = None) -> Plan:
    """Estimate what a fit would run, and the time and the memory it would take, without running it.

    Parameters
    ----------
    estimator : estimator with an approximation, estimator for tables, or Pipeline that ends in one
        Its search is counted as a search of the whole grid. Copies of the earlier steps of a Pipeline
        are fitted to X.
    X : array (rows, features), or its shape
    y : array (rows,) or (rows, targets), optional
        Gives the number of classes or targets. Without it, two classes or one target are assumed.

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
    labels = isinstance(final, ClassifierMixin)
    targets = 1
    if y is not None:  # a function is fitted for each target, or for each of more than two classes
        values = np.asarray(to_host(y))
        targets = np.unique(values).size if labels else values.reshape(len(values), -1).shape[1]
        targets = 1 if labels and targets < 3 else int(targets)
    shape = n, d, targets
    approximation = resolve_approximation(final.approximation)
    series = is_series([kernel for _, kernel in families_of(final)], d, sparse=is_sparse(X))
    with use_threads(final.n_jobs):
        if not hasattr(final, "alphas"):  # they are given, not chosen
            ridges = np.unique(validation.check_alphas(final.alpha, "alpha")).size
            load = Workload(1, ridges, 0, predictions=labels, whole=False)
            return make_plan(approximation, *shape, load, final.device, series=series)
        folds = _count_folds(final.cv, X, y)
        ridges = ridge_grid(final, n).size
        load = Workload(1, ridges, folds, predictions=labels or folds == 1, whole=False)
        load = replace(load, scored_rows=isinstance(final.cv, LeaveOneOut))
        families = [
            family for family in families_of(final) if family[1].accepts_sparse or not is_sparse(X)
        ]
        if final.metric is not None:
            check_metric(final.metric)
            request = Request(searches=True, metric=final.metric, leave_one_out=leaves_one_out(final.cv))
            check(request, offer_of(X, approximation, families))
            machine = Machine.of(final.device)
            rows: Any = SimpleNamespace(X=X, n=n, shape=shape, streamed=False, machine=machine)
            load = learned_load(load, metric_search(final, families, rows), shape)
        else:
            default = RELATIVE_GAMMAS if names_families(final.kernel) else DEFAULT_GAMMAS
            given = default if final.gammas is None else final.gammas
            widths = np.size(np.asarray(given, dtype=object))
            kernels = sum(int(widths) if kernel.has_width else 1 for _, kernel in families)
            # A blend fits one of each family once more.
            again = (len(families) - 1) * fit_cost(n, d) if final.blend else 0.0
            load = replace(
                load, kernels=kernels * len(approximation.choices()), preliminary_operations=again
            )
        return make_plan(approximation, *shape, load, final.device, series=series)


def _count_folds(cv: Any, X: Any, y: Any) -> int:
    """The number of folds; 1 for leave-one-out."""
    if leaves_one_out(cv):
        return 1
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) > 1):
        return 5 if cv is None else int(cv)
    if hasattr(cv, "get_n_splits"):
        return int(cv.get_n_splits(None if isinstance(X, tuple) else X, y))
    if isinstance(cv, Iterator):
        raise ValueError(
            "cv is an iterator of splits, which can be used only once; pass a list of splits to plan."
        )
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
