"""Turn an estimator and its data into a search: everything is checked and decided here, once.

One way for fits, objectives and the trust check; `plan` says what a fit would run. Of several kernels,
or with a learned metric, widths are relative to the mean distance of the rows; otherwise they are the
kernel's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import LeaveOneOut
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Auto, Plan, Problem, Workload, resolve_approximation
from onefold.approximations.auto import is_series, learning_rows, make_plan, with_members
from onefold.approximations.problem import Machine
from onefold.calibration import check_intervals
from onefold.compatibility import Offer, Request, check
from onefold.criteria import Criterion, resolve_criteria
from onefold.estimators import validation
from onefold.estimators.final import require_jackknife_memory
from onefold.heldout import Splits, check_folds, make_splits, past_splits, past_splitter
from onefold.kernels import Precomputed, kernel_name, resolve_gamma, resolve_kernel
from onefold.linalg import is_sparse
from onefold.machine.threads import use_threads
from onefold.rows import is_dask, is_remote, opened, to_host
from onefold.search import FullGrid
from onefold.search.checkpoint import digest
from onefold.search.learned_metric import check_metric, tracks_of
from onefold.search.metric_search import (
    FOLD_LEARNING_ROWS,
    MetricSearch,
    fit_cost,
    learned_load,
    usual_members,
)
from onefold.search.strategies import Family, Setup, Strategy, family_kernels, resolve_strategy
from onefold.trust_check import last_step
from onefold.typing import MaybeArray, TableLike

# The papers' grid.
DEFAULT_GAMMAS = 2.0 ** np.arange(-15, 10, 2)
DEFAULT_ALPHAS = 2.0 ** np.arange(-15, 6, 2)
AUTO = ("rbf", "powexp", "laplacian")
# Multiples of 1 / mean distance; chosen, not measured.
RELATIVE_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Matérn's kernel of ν = 1/2 and a small width is 1 − γ‖x − z‖: what counts is μ/γ, both may be small.
RELATIVE_ALPHAS = 2.0 ** np.arange(-21, 6, 2)
# Smallest relative width, and 1 / the largest: its square must not leave the range of float64.
_MIN_WIDTH = 1e-50
# Rows up to which every fold has a metric of its own by default; chosen, not measured.
_MAX_ROWS_PER_FOLD_METRICS = 5000
# Settings that a single evaluation does not depend on, so that the journal of a smaller grid serves a
# larger one. Approximation, seed, splits and weights are in the journal by what became of them.
_NOT_DECISIVE = {
    "gammas", "alphas", "approximation", "random_state", "cv", "class_weight", "refit", "select",
    "intervals", "second_cv", "check", "time_budget", "checkpoint", "client", "n_jobs", "verbose",
    "callback",
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
    first, *recorded_names = criteria
    strategy = resolve_strategy(estimator.search)
    check_parameters(estimator)
    approximation = resolve_approximation(estimator.approximation)
    reason = None
    request = request_of(estimator, list(criteria.values()), strategy)
    check(request, offer_of(X, approximation, families))  # before rows are read
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
    kernels, params = family_kernels(families, widths, problem, seed or 0, relative=relative)

    # An iterator serves once, and the trust check needs the splits too.
    cv = list(estimator.cv) if isinstance(estimator.cv, Iterator) else estimator.cv
    splits: Any = None
    split = partial(make_splits, X=X, y=y, n=n, labels=task.labels, groups=groups, kept=problem.kept)
    second = None
    with warnings.catch_warnings():
        if estimator.second_cv is not None:  # groups may be meant for one of the two splitters
            warnings.filterwarnings("ignore", message="The groups parameter is ignored")
            try:
                second = split(estimator.second_cv)
            except ValueError as error:  # which speaks of cv
                raise ValueError(f"second_cv: {error}") from error
        if any(criterion.holds_out for criterion in criteria.values()):
            splits = split(cv)
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
    check(request, offer)  # before memory is asked for
    if estimator.metric is not None:
        strategy = metric_search(estimator, families, problem)
    decisive = criteria[first].for_several_kernels() if relative else criteria[first]
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
            for criterion in criteria.values():
                criterion.check(run.approximation)
        final = (run.refit or run).approximation
        # "auto" has chosen by now.
        check(request, replace(offer, approximation=run.approximation, final=final))
        scoring = decisive.start(problem, task, splits)
        recorded = {name: criteria[name].start(problem, task, splits) for name in recorded_names}
    setup = Setup(
        table=X,
        task=task,
        scoring=scoring,
        cv=cv,
        groups=groups,
        families=families,
        relative=relative,
        kernels=kernels,
        params=params,
        alphas=alphas,
        run=run,
        seed=seed,
        strategy=strategy,
        select=estimator.select,
        blend=bool(estimator.blend),
        recorded=recorded,
        second=second,
    )
    strategy.check(setup)
    if request.intervals == "jackknife+":
        require_jackknife_memory(problem)
    return setup


def criteria_of(estimator: Any) -> dict[str, Criterion]:
    """The criteria by name; the first one decides."""
    criterion = estimator.criterion
    classifier = isinstance(estimator, ClassifierMixin)
    criterion = estimator._default_criterion if criterion is None else criterion
    calibration = getattr(estimator, "calibration", None)
    return resolve_criteria(criterion, classifier=classifier, calibration=calibration)


def decisive_settings(estimator: Any, setup: Setup) -> dict[str, Any]:
    """The settings that a single evaluation may depend on, apart from the data and the first splits."""
    params = estimator.get_params(deep=False)
    scorings = [setup.scoring, *setup.recorded.values()]
    if not any(scoring.criterion.asks_probabilities for scoring in scorings):
        params.pop("calibration", None)
    decisive = {name: value for name, value in params.items() if name not in _NOT_DECISIVE}
    if setup.second is not None and isinstance(setup.strategy, MetricSearch):  # reserves some of these
        decisive["second_splits"] = digest(*setup.second.left_out, *setup.second.tests)
    return {"estimator": type(estimator).__name__, **decisive}


def check_parameters(estimator: Any) -> None:
    """Raise for unknown values."""
    if estimator.refit not in ("auto", "exact", "same"):
        raise ValueError(f'refit must be "auto", "exact" or "same"; got {estimator.refit!r}.')
    if estimator.select not in ("min", "1se"):
        raise ValueError(f'select must be "min" or "1se"; got {estimator.select!r}.')
    if not isinstance(estimator.blend, bool | np.bool_):
        raise ValueError(f"blend must be True or False; got {estimator.blend!r}.")
    if estimator.metric is not None:
        check_metric(estimator.metric)
    intervals = getattr(estimator, "intervals", None)
    if intervals is not None:
        check_intervals(intervals)


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
        second=estimator.second_cv is not None,
        second_single_rows=leaves_one_out(estimator.second_cv),
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
    members: Sequence[Any] = [estimator.kernel]
    if names_families(estimator.kernel):
        members = AUTO if isinstance(estimator.kernel, str) else list(estimator.kernel)
    if not members:
        raise ValueError("kernel is an empty list; give at least one kernel.")
    kernels = [resolve_kernel(member, 1.0, estimator.degree, estimator.coef0) for member in members]
    families: list[Family] = []
    for kernel in kernels:
        name = kernel_name(kernel) or f"{kernel!r:.40}"
        namesakes = sum(earlier == name or earlier.startswith(f"{name} #") for earlier, _ in families)
        families.append((f"{name} #{namesakes + 1}" if namesakes else name, kernel))
    return families


def takes_sparse(estimator: Any, families: Sequence[Family] | None = None) -> bool:
    """Whether CSR rows can be fitted: all kernels that were named must take them; "auto" has some."""
    try:
        families = families_of(estimator) if families is None else families
    except (TypeError, ValueError):  # `fit` will say what is wrong
        return False
    accept = [kernel.accepts_sparse for _, kernel in families]
    return any(accept) if isinstance(estimator.kernel, str) else all(accept)


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
    gammas = DEFAULT_GAMMAS if estimator.gammas is None else estimator.gammas
    # "scale" and numbers may stand side by side.
    gammas = np.array(list(gammas), dtype=object) if isinstance(gammas, list | tuple) else gammas
    numbers = [
        resolve_gamma(gamma, X) if isinstance(gamma, str) else gamma for gamma in np.atleast_1d(gammas)
    ]
    return [float(gamma) for gamma in validation.check_alphas(numbers, "gammas")]


def _relative_widths(gammas: Any) -> list[float]:
    gammas = RELATIVE_GAMMAS if gammas is None else gammas
    values = np.atleast_1d(np.asarray(gammas, dtype=object)).tolist()
    if not values:
        raise ValueError("gammas must be a non-empty list of positive numbers; got [].")
    for value in values:
        real = isinstance(value, Real) and not isinstance(value, bool)
        if not real or not _MIN_WIDTH <= float(value) <= 1 / _MIN_WIDTH:
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
        rows = n if n <= _MAX_ROWS_PER_FOLD_METRICS else min(learning_rows(problem), n - 1)
    fold_rows = min(rows, FOLD_LEARNING_ROWS) if estimator.metric_rows is None else rows
    validation.check_count("max_rounds", estimator.max_rounds)
    validation.check_count("metric_rows", rows)
    tracks = tracks_of(families, estimator.metric, problem.X)
    widths = _relative_widths(estimator.gammas)
    return MetricSearch(
        tracks=tracks,
        widths=widths,
        max_rounds=int(estimator.max_rounds),
        # One row to learn from and one to validate on are the least that a round can do with.
        metric_rows=max(2, int(rows)),
        fold_learning_rows=max(2, int(fold_rows)),
        blend=bool(estimator.blend),
    )


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
    needs = {criterion.needs for criterion in criteria}
    smoother = bool(needs & {"smoother", "matrix"})
    formed = "matrix" in needs
    if splits is None:
        single = "model" in needs
        return Workload(
            kernels, alphas, folds=1, smoother=smoother, single=single, matrix=formed, refit=refit
        )
    leave_one_out = splits.leave_one_out
    overlapping = not leave_one_out and sum(map(len, splits.left_out)) > problem.n
    return Workload(
        kernels,
        alphas,
        folds=1 if leave_one_out else len(splits.left_out),
        groups=problem.source.grouped_by(splits.left_out).groups.count if overlapping else 0,
        predictions=leave_one_out or needs != {"squares"},
        whole=leave_one_out or bool(needs & {"rows", "model"}),
        smoother=smoother,
        matrix=formed,
        single="model" in needs,
        scored_rows=leave_one_out and len(splits) > 1,
        left_out=_overlapping(map(len, splits.left_out), problem.n) if overlapping else (),
        parts=splits.left_out,
        refit=refit,
    )


def _overlapping(sizes: Iterable[int], n: int) -> tuple[float, ...]:
    """The shares of n rows that folds of these sizes leave out; none where they do not overlap."""
    shares = tuple(size / n for size in sizes)
    return shares if sum(shares) > 1.0 + 1e-9 else ()


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
        load = replace(load, left_out=_left_out_shares(final.cv, n))
        families = [
            family for family in families_of(final) if family[1].accepts_sparse or not is_sparse(X)
        ]
        if final.metric is not None:
            check_metric(final.metric)
            request = Request(searches=True, metric=final.metric, leave_one_out=leaves_one_out(final.cv))
            check(request, offer_of(X, approximation, families))
            machine = Machine.of(final.device)
            rows: Any = SimpleNamespace(
                X=X,
                n=n,
                shape=shape,
                streamed=False,
                remote=is_dask(X) or is_remote(X),
                machine=machine,
            )
            learning = metric_search(final, families, rows)
            decisive_load = learned_load(load, learning, shape)
            planned = make_plan(approximation, *shape, decisive_load, final.device, series=series)
            load = learned_load(load, learning, shape, usual=True)
            chosen = planned.approximation
            seconds = make_plan(chosen, *shape, load, final.device, series=series).seconds
            planned = replace(planned, seconds=seconds)
            if not isinstance(approximation, Auto) or learning.metric_rows >= n:
                return planned
            return with_members(planned, rows, families[0][1], usual_members(learning), load)
        default = RELATIVE_GAMMAS if names_families(final.kernel) else DEFAULT_GAMMAS
        gammas = default if final.gammas is None else final.gammas
        n_widths = np.size(np.asarray(gammas, dtype=object))
        kernels = sum(int(n_widths) if kernel.has_width else 1 for _, kernel in families)
        # A blend fits one of each family once more.
        again = (len(families) - 1) * fit_cost(n, d) if final.blend else 0.0
        load = replace(
            load, kernels=kernels * len(approximation.choices()), preliminary_operations=again
        )
        return make_plan(approximation, *shape, load, final.device, series=series)


def _left_out_shares(cv: Any, n: int) -> tuple[float, ...]:
    """The shares of n rows that overlapping folds leave out; none of others, or where rows decide."""
    cv = past_splitter(cv) or cv
    if isinstance(cv, str | Integral) or cv is None or leaves_one_out(cv):
        return ()
    try:
        pairs = list(cv.split(np.zeros((n, 1)))) if hasattr(cv, "split") else list(cv)
        return _overlapping((n - np.size(train) for train, _ in pairs), n)
    except (TypeError, ValueError):  # it needs targets or groups, or `fit` will say what is wrong
        return ()


def _count_folds(cv: Any, X: Any, y: Any) -> int:
    """The number of folds; 1 for leave-one-out."""
    if leaves_one_out(cv):
        return 1
    past = past_splits(cv)
    if past is not None:
        return past
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) > 1):
        return 5 if cv is None else int(cv)
    if hasattr(cv, "get_n_splits"):
        return int(cv.get_n_splits(None if isinstance(X, tuple) else X, y))
    if isinstance(cv, Iterator):
        raise ValueError(
            "cv is an iterator of splits, which can be used only once; pass a list of splits to plan."
        )
    if isinstance(cv, str) or not isinstance(cv, Sized):
        raise ValueError(f'cv must be a number of folds, "loo", "past:5" or a splitter; got {cv!r:.60}.')
    return len(cv)


def _shape_of(X: Any) -> tuple[int, int]:
    """Rows and features of an array, a table, a list of rows or a shape; raise for anything else."""
    of_array = np.shape(X) if isinstance(X, list) else getattr(X, "shape", ())
    shape = X if isinstance(X, tuple) else of_array
    sizes = [isinstance(size, Real) and float(size).is_integer() and float(size) > 0 for size in shape]
    if len(shape) != 2 or not all(sizes):
        raise ValueError(
            "plan takes an array of rows, or a shape such as (1000, 20) for 1000 rows and 20 features; "
            f"got {f'shape {tuple(shape)}' if hasattr(X, 'shape') else f'{X!r:.60}'}."
        )
    return int(shape[0]), int(shape[1])
