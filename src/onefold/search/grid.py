"""The outer loop over widths; every ridge value and every fold comes from one factorisation each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Approximation, Problem
from onefold.arrays import is_foreign
from onefold.criteria import Criterion, HeldoutCriterion, Task
from onefold.heldout import Splits, gather, heldout_predictions
from onefold.kernels import Kernel
from onefold.search.results import best_cell
from onefold.threads import map_threads

_SIDE_BY_SIDE = 2**30  # bytes that models running side by side may take together

Callback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SearchResult:
    """Every score of a search.

    Attributes
    ----------
    scores : array (widths, ridges, splits)
    seconds : array (widths,)
    width, ridge : int
        The chosen cell.
    heldout : array (n, targets) or None
        Held-out predictions at the chosen cell; None for criteria that make none.
    history : list of dict
        One entry per width, in the order they finished.
    report : dict
        What the approximation said at the chosen width.
    """

    scores: Any
    seconds: Any
    width: int
    ridge: int
    heldout: Any
    history: list[dict[str, Any]]
    report: dict[str, Any]


def search_grid(
    approximation: Approximation,
    kernels: list[Kernel],
    widths: list[float | None],
    alphas: Any,
    problem: Problem,
    criterion: Criterion,
    splits: Splits,
    task: Task,
    *,
    workers: int,
    callback: Callback,
) -> SearchResult:
    """Score every kernel with every ridge value.

    Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
    after the other with all threads inside each.
    """
    side_by_side = min(workers, len(kernels), _models_that_fit(approximation, problem))
    inner = workers if side_by_side == 1 else 1

    def evaluate(index: int) -> tuple[int, Any, dict[str, Any], float]:
        start = time.perf_counter()
        model = approximation.model(
            kernels[index], problem, n_alphas=len(alphas), need="heldout", workers=inner
        )
        if isinstance(criterion, HeldoutCriterion):
            outcome = heldout_predictions(model, splits, alphas)
        else:
            outcome = criterion.score(model, problem, alphas)
        return index, outcome, model.report, time.perf_counter() - start

    n_scores = len(splits) if isinstance(criterion, HeldoutCriterion) else 1
    scores = np.full((len(kernels), len(alphas), n_scores), np.nan)
    seconds = np.zeros(len(kernels))
    kept: dict[int, Any] = {}
    reports: dict[int, dict[str, Any]] = {}
    history: list[dict[str, Any]] = []
    for index, outcome, report, spent in map_threads(evaluate, range(len(kernels)), side_by_side):
        # Scoring stays in this thread: scikit-learn's configuration is local to it.
        if isinstance(criterion, HeldoutCriterion):
            for s, (values, rows) in enumerate(zip(outcome, splits.scored_rows())):
                scores[index, :, s] = criterion.score(values, rows, task)
            means = scores[index].mean(axis=1)
            if np.isfinite(means).any():
                _, ridge = best_cell(means[None], [0], alphas)
                kept[index] = gather([values[ridge] for values in outcome], splits)
        else:
            scores[index, :, 0] = outcome
        seconds[index], reports[index] = spent, report
        history.append(
            {
                "gamma": widths[index],
                "alphas": [float(a) for a in alphas],
                "scores": scores[index].mean(axis=1).tolist(),
                "seconds": spent,
            }
        )
        callback(_progress(scores, widths, alphas, len(history)))
    width, ridge = best_cell(scores.mean(axis=2), _numbers(widths), alphas)
    return SearchResult(scores, seconds, width, ridge, kept.get(width), history, reports[width])


def _models_that_fit(approximation: Approximation, problem: Problem) -> int:
    """How many models may run at once: one on a GPU, which has its own parallelism."""
    if is_foreign(problem.Y):
        return 1
    return max(1, _SIDE_BY_SIDE // max(1, approximation.memory_per_model(problem.n)))


def _numbers(widths: list[float | None]) -> list[float]:
    return [1.0 if width is None else width for width in widths]


def _progress(scores: Any, widths: list[float | None], alphas: Any, done: int) -> dict[str, Any]:
    """What a progress bar shows; no best yet while every score so far is undefined."""
    event: dict[str, Any] = {
        "done": done,
        "total": len(widths),
        "best_score": None,
        "best_params": {},
    }
    means = scores.mean(axis=2)
    if np.isfinite(means).any():
        width, ridge = best_cell(means, _numbers(widths), alphas)
        event["best_score"] = float(means[width, ridge])
        event["best_params"] = {"alpha": float(alphas[ridge]), "gamma": widths[width]}
    return event
