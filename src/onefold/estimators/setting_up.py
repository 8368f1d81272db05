"""From an estimator and its data to what is searched: one way for fits and for the trust check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Auto, Problem, Workload, resolve_approximation
from onefold.criteria import Criterion, Task, resolve_criteria
from onefold.estimators.families import (
    RELATIVE_ALPHAS,
    families_of,
    names_families,
    relative_widths,
    takes_sparse,
)
from onefold.estimators.intervals import check_intervals
from onefold.estimators.validation import (
    as_labels,
    check_alphas,
    check_kernel_matrix,
    check_squares,
    problem_of,
    refuse_approximation,
    refuse_search,
    seed_of,
)
from onefold.heldout import Splits, check_folds, make_splits
from onefold.kernels import resolve_gamma
from onefold.rows import gathered, opened
from onefold.search import (
    Family,
    FullGrid,
    MetricSearch,
    Setup,
    family_kernels,
    resolve_strategy,
    tracks_of,
)
from onefold.search.planning import learned_load

DEFAULT_GAMMAS = 2.0 ** np.arange(-15, 10, 2)
DEFAULT_ALPHAS = 2.0 ** np.arange(-15, 6, 2)
_OWN_METRICS = 2000  # rows up to which every fold has a metric of its own, unless told otherwise
_METRIC_ROWS = 4000  # that a metric is learned from beyond


def set_up(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    decided: tuple[Approximation, str] | None = None,
) -> Setup:
    """Check everything, split the rows and start the run of an estimator's approximation.

    `decided` is what "auto" has chosen for this search before, and why.
    """
    alphas = ridge_grid(estimator)
    first, *others = _criteria(estimator)
    criterion, criteria = first[1], [first[1], *(one for _, one in others)]
    strategy = resolve_strategy(getattr(estimator, "search", "grid"))
    check_parameters(estimator, len(criteria))
    refuse_approximation(estimator.kernel, X, resolve_approximation(estimator.approximation))
    refuse_search(X, criteria, estimator.cv, estimator.refit)
    client = getattr(estimator, "client", None)
    y, sample_weight, groups = (gathered(one, client) for one in (y, sample_weight, groups))
    X = opened(X, client)
    seed = seed_of(estimator.random_state)
    approximation, reason = _approximation(estimator, seed, decided)
    metric = getattr(estimator, "metric", None)
    relative = metric is not None or names_families(estimator.kernel)
    if relative:
        criterion = criterion.for_several_kernels()
    problem, task = problem_of(estimator, X, y, sample_weight, sparse=takes_sparse(estimator))
    check_squares(problem.Y)
    families = families_of(estimator, problem.X)
    learning = None
    if metric is not None:
        if not isinstance(strategy, FullGrid):
            raise ValueError(
                f'search="{strategy.name}" is not for learned metrics, which begin on few rows anyway; '
                'leave search="grid" with metric.'
            )
        strategy = learning = learning_of(estimator, families, problem, approximation)
    widths = relative_widths(estimator) if relative else absolute_widths(estimator, families, problem.X)
    kernels, names = family_kernels(families, widths, problem, seed or 0, relative=relative)
    # An iterator serves once, and the trust check needs the splits too.
    cv = list(estimator.cv) if isinstance(estimator.cv, Iterator) else estimator.cv
    splits: Any = None
    if any(one.holds_out for one in criteria):
        splits = splits_of(cv, X, y, problem, task, groups)
    else:
        check_folds(cv, _num_samples(X))
    check_splits(estimator, splits if criterion.holds_out else None)
    load = workload(problem, len(kernels), alphas.size, splits, criteria, estimator.refit)
    if learning is not None:
        load = learned_load(load, learning, problem.shape)
        if not approximation.selects:
            load = replace(load, folds=0, groups=0, parts=None)
    with estimator._threads(problem.n):
        run = approximation.start(problem, kernels, load).because(reason)
        scoring = criterion.start(problem, task, splits)
        scoring.others = {name: one.start(problem, task, splits) for name, one in others}
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
    )
    strategy.check(setup)
    refitted = run if run.refit is None else run.refit
    learned = learning is not None or setup.blend
    check_intervals(getattr(estimator, "intervals", None), refitted, learned=learned)
    return setup


def _criteria(estimator: Any) -> list[tuple[str, Criterion]]:
    """What the estimator's scores are, by name; the first decides."""
    classifier = get_tags(estimator).estimator_type == "classifier"
    calibration = getattr(estimator, "calibration", None)
    name = estimator._criterion_name
    return list(resolve_criteria(name, classifier=classifier, calibration=calibration).items())


def _approximation(
    estimator: Any, seed: int | None, decided: tuple[Approximation, str] | None
) -> tuple[Approximation, str | None]:
    """The estimator's approximation, its random choices seeded; or what "auto" has come to, and why."""
    found = resolve_approximation(estimator.approximation)
    if decided is not None and isinstance(found, Auto):
        return decided
    return (found if seed is None else found.seeded(seed)), None


def check_parameters(estimator: Any, criteria: int) -> None:
    """Raise for words that mean nothing, and for parameters that do not go together."""
    if estimator.refit not in ("auto", "exact", "same"):
        raise ValueError(f'refit must be "auto", "exact" or "same"; got {estimator.refit!r}.')
    if estimator.select not in ("min", "1se"):
        raise ValueError(f'select must be "min" or "1se"; got {estimator.select!r}.')
    if not isinstance(estimator.blend, bool | np.bool_):
        raise ValueError(f"blend must be True or False; got {estimator.blend!r}.")
    if estimator.metric is not None and criteria > 1:
        raise ValueError(
            "a search with a learned metric goes by one criterion; give one in place of a list."
        )
    if estimator.select == "1se" and (estimator.metric is not None or estimator.blend):
        raise ValueError(
            'select="1se" takes one cell of a grid, and a learned metric or a blend is made of several; '
            'use select="min", or leave metric and blend out.'
        )


def check_splits(estimator: Any, splits: Splits | None) -> None:
    """Raise unless the splits behind the scores, None where there are none, serve what is asked for."""
    folds = splits is not None and not splits.leave_one_out
    if (estimator.metric is not None or estimator.blend) and not folds:
        what = "metric" if estimator.metric is not None else "blend"
        raise ValueError(
            f"{what} needs held-out predictions of whole folds; use folds (cv=5, say) and a criterion "
            'of held-out rows, such as "mse" or "error".'
        )
    if estimator.select == "1se" and (splits is None or len(splits) < 2):
        raise ValueError(
            'select="1se" compares scores over splits, and there are not two of them; use folds (cv=5, '
            'say) and a criterion of held-out rows, such as "mse" or "error", or select="min".'
        )


def metric_rows(n: int) -> int:
    """From how many of n rows a metric is learned, unless told otherwise: all, or fewer."""
    return n if n <= _OWN_METRICS else min(_METRIC_ROWS, n - 1)


def learning_of(
    estimator: Any, families: Sequence[Family], problem: Problem, approximation: Approximation
) -> MetricSearch:
    """How the estimator's metric is learned; raise if it cannot be."""
    check_learnable(approximation, streamed=problem.streamed)
    check_count("max_rounds", estimator.max_rounds)
    if estimator.metric_rows is not None:
        check_count("metric_rows", estimator.metric_rows)
    tracks = tracks_of(families, estimator.metric, problem.X)
    rows = estimator.metric_rows
    if rows is None:
        rows = metric_rows(problem.n)
    # One row to learn from and one to judge by are the least that a round can do with.
    rows = max(2, int(rows))
    rounds, blend = int(estimator.max_rounds), bool(estimator.blend)
    return MetricSearch(tracks, relative_widths(estimator), rounds, rows, blend)


def check_learnable(approximation: Approximation, *, streamed: bool) -> None:
    """Raise if no metric can be learned with this approximation from these rows."""
    if not approximation.learns_metrics:
        raise ValueError(
            f"no metric is learned with a {approximation.name} matrix; use metric=None, or the "
            'approximation "exact", "nystroem", "cg" or "auto".'
        )
    if streamed:
        raise ValueError(
            "a metric is not learned from rows that are streamed to a device; use fewer rows, or "
            "device=None."
        )


def check_count(name: str, value: Any) -> None:
    """Raise unless a parameter is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")


def splits_of(cv: Any, X: Any, y: Any, problem: Problem, task: Task, groups: Any) -> Splits:
    """The splits of the user's rows, in the numbering of the problem's."""
    labels = None if task.classes is None else task.y
    n = _num_samples(X)
    return make_splits(cv, X, as_labels(y), n=n, labels=labels, groups=groups, kept=problem.kept)


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
    if splits is None:
        return Workload(kernels, alphas, folds=1, smoother="smoother" in needs, refit=refit)
    alone = splits.leave_one_out
    overlapping = not alone and sum(map(len, splits.left_out)) > problem.n
    return Workload(
        kernels,
        alphas,
        folds=1 if alone else len(splits.left_out),
        groups=problem.source.grouped_by(splits.left_out).count if overlapping else 0,
        predictions=alone or needs != {"squares"},
        whole=alone or bool(needs & {"rows", "model"}),
        smoother="smoother" in needs,
        single="model" in needs,
        parts=splits.left_out,
        refit=refit,
    )


def ridge_grid(estimator: Any) -> Any:
    """The ridges to try."""
    relative = names_families(estimator.kernel) or getattr(estimator, "metric", None) is not None
    default = RELATIVE_ALPHAS if relative else DEFAULT_ALPHAS
    return check_alphas(default if estimator.alphas is None else estimator.alphas, "alphas")


def absolute_widths(estimator: Any, families: Sequence[Family], X: Any) -> list[float]:
    """The widths of the one kernel to try; none where it has no width."""
    if len(families) > 1:
        raise ValueError(f"{type(estimator).__name__} takes one kernel; got {estimator.kernel!r:.60}.")
    ((_, base),) = families
    check_kernel_matrix(base, X)
    if not base.has_width:
        if estimator.gammas is not None:
            raise ValueError("this kernel has no width to search; leave gammas=None.")
        return []
    given = DEFAULT_GAMMAS if estimator.gammas is None else estimator.gammas
    numbers = [resolve_gamma(g, X) if isinstance(g, str) else g for g in np.atleast_1d(_listed(given))]
    return [float(g) for g in check_alphas(numbers, "gammas")]


def _listed(values: Any) -> Any:
    """A list as an object array, so that "scale" and numbers may stand side by side."""
    return np.array(list(values), dtype=object) if isinstance(values, list | tuple) else values
