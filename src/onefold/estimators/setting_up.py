"""From an estimator and its data to what is searched: one way for fits and for the trust check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Problem, Workload, resolve_approximation
from onefold.criteria import Criterion, Task, resolve_criterion
from onefold.estimators.random import seed_of
from onefold.estimators.validation import as_labels, check_alphas, check_kernel_matrix, check_squares
from onefold.heldout import Splits, check_folds, make_splits
from onefold.kernels import Kernel, resolve_gamma, resolve_kernel
from onefold.search.setup import Setup

DEFAULT_GAMMAS = 2.0 ** np.arange(-15, 10, 2)
DEFAULT_ALPHAS = 2.0 ** np.arange(-15, 6, 2)


def set_up(estimator: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Setup:
    """Check everything, split the rows and start the run of an estimator's approximation."""
    classifier = get_tags(estimator).estimator_type == "classifier"
    alphas = ridge_grid(estimator)
    criterion = resolve_criterion(estimator._criterion_name, classifier=classifier)
    approximation = resolve_approximation(estimator.approximation)
    if estimator.refit not in ("auto", "exact", "same"):
        raise ValueError(f'refit must be "auto", "exact" or "same"; got {estimator.refit!r}.')
    seed = seed_of(estimator.random_state)
    if seed is not None:
        approximation = approximation.seeded(seed)
    problem, task = estimator._problem(X, y, sample_weight)
    check_squares(problem.Y)
    kernels, widths = candidate_kernels(estimator, problem.X)
    # An iterator serves once, and the trust check needs the splits too.
    cv = list(estimator.cv) if isinstance(estimator.cv, Iterator) else estimator.cv
    splits: Any = None
    if criterion.needs in ("model", "smoother"):
        check_folds(cv, _num_samples(X))
    else:
        splits = splits_of(cv, X, y, problem, task, groups)
    load = workload(problem, len(kernels), alphas.size, splits, criterion, estimator.refit)
    with estimator._threads(problem):
        run = approximation.start(problem, kernels, load)
        scoring = criterion.start(problem, task, splits)
    return Setup(X, task, scoring, cv, groups, kernels, widths, alphas, run, seed)


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
    criterion: Criterion,
    refit: Any = "same",
) -> Workload:
    """What a search asks of its models; criteria without splits ask as much as leave-one-out."""
    if splits is None:
        return Workload(kernels, alphas, folds=1, smoother=criterion.needs == "smoother", refit=refit)
    alone = splits.leave_one_out
    overlapping = not alone and sum(map(len, splits.left_out)) > problem.n
    return Workload(
        kernels,
        alphas,
        folds=1 if alone else len(splits.left_out),
        groups=problem.source.grouped_by(splits.left_out).count if overlapping else 0,
        predictions=alone or criterion.needs != "squares",
        whole=alone or criterion.needs == "rows",
        parts=splits.left_out,
        refit=refit,
    )


def ridge_grid(estimator: Any) -> Any:
    """The ridges to try."""
    return check_alphas(DEFAULT_ALPHAS if estimator.alphas is None else estimator.alphas, "alphas")


def candidate_kernels(estimator: Any, X: Any) -> tuple[list[Kernel], list[float | None]]:
    """The kernels to try and the number that names each; one unnamed kernel if it has no width."""
    base = resolve_kernel(estimator.kernel, 1.0, estimator.degree, estimator.coef0)
    check_kernel_matrix(base, X)
    if not base.has_width:
        if estimator.gammas is not None:
            raise ValueError("this kernel has no width to search; leave gammas=None.")
        return [base], [None]
    given = DEFAULT_GAMMAS if estimator.gammas is None else estimator.gammas
    numbers = [resolve_gamma(g, X) if isinstance(g, str) else g for g in np.atleast_1d(_listed(given))]
    widths: list[float | None] = [float(g) for g in check_alphas(numbers, "gammas")]
    return [base.scaled(g) for g in widths if g is not None], widths


def _listed(values: Any) -> Any:
    """A list as an object array, so that "scale" and numbers may stand side by side."""
    return np.array(list(values), dtype=object) if isinstance(values, list | tuple) else values
