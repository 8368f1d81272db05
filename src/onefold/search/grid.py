"""The outer loop over widths; every ridge value and every fold comes from one factorisation each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run
from onefold.criteria import Criterion, HeldoutCriterion, Task
from onefold.heldout import Splits, gather, heldout_predictions
from onefold.kernels import Kernel
from onefold.machine.threads import map_threads
from onefold.search.results import best_cell
from onefold.smoothers.base import UnsolvableError

Callback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Candidate:
    """A kernel, the run that makes its model, and what to call the pair in a table."""

    run: Run
    kernel: Kernel
    width: float | None
    params: dict[str, Any]


@dataclass(frozen=True)
class SearchResult:
    """Every score of a search.

    Attributes
    ----------
    candidates : list of Candidate
        Kernels with their approximations: one per width, or several where the approximation comes
        in variants.
    scores : array (candidates, ridges, splits)
    seconds : array (candidates,)
    index, ridge : int
        The chosen cell.
    heldout : array (n, targets) or None
        Held-out predictions at the chosen cell; None for criteria that make none.
    history : list of dict
        One entry per candidate, in the order they finished.
    report : dict
        What the approximation said of the chosen candidate.
    model : Model or None
        The model of the chosen candidate, if it is one that a search keeps.
    """

    candidates: list[Candidate]
    scores: Any
    seconds: Any
    index: int
    ridge: int
    heldout: Any
    history: list[dict[str, Any]]
    report: dict[str, Any]
    model: Model | None

    @property
    def chosen(self) -> Candidate:
        """The candidate of the chosen cell."""
        return self.candidates[self.index]


@dataclass(frozen=True)
class _Outcome:
    """What one candidate gave: scores, or held-out predictions, for the ridges it can be solved with."""

    index: int
    usable: Any
    direct: Any
    values: Any
    report: dict[str, Any]
    model: Model | None
    seconds: float
    why: str | None = None


def search_grid(
    run: Run,
    kernels: list[Kernel],
    widths: list[float | None],
    alphas: Any,
    criterion: Criterion,
    splits: Splits | None,
    task: Task,
    *,
    callback: Callback,
) -> SearchResult:
    """Score every kernel with every ridge value.

    Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
    after the other with all threads inside each. `splits` are None for criteria that hold nothing out.
    """
    problem, parts = run.problem, run.load.parts
    ridges = problem.ridge(alphas)
    candidates = _candidates(run, kernels, widths)
    side_by_side = min(len(candidates), run.at_once)

    def evaluate(index: int) -> _Outcome:
        start = time.perf_counter()
        candidate = candidates[index]
        unsolved = _Outcome(index, np.zeros(len(alphas), dtype=bool), None, None, {}, None, 0.0)
        try:
            model = candidate.run.model(candidate.kernel)
        except UnsolvableError as error:
            return replace(unsolved, why=str(error), seconds=time.perf_counter() - start)
        usable = model.usable(parts, ridges)
        why: str | None = None
        try:
            direct, values = _answers(model, problem, criterion, splits, ridges[usable])
        except UnsolvableError as error:
            # The factorisation at one of the ridges found out what it could not know before.
            usable, why = model.usable(parts, ridges), str(error)
            direct, values = _answers(model, problem, criterion, splits, ridges[usable])
        solved = np.count_nonzero(usable)
        usable, direct, values = _finite(usable, direct, values)
        if why is None and np.count_nonzero(usable) < solved:
            why = "their held-out predictions are not finite; use larger alphas, or scale the features."
        # A model that is not kept holds the most memory of all: let it go before the next one starts.
        kept_model = model if model.keep else None
        spent = time.perf_counter() - start
        return _Outcome(index, usable, direct, values, model.report, kept_model, spent, why)

    n_scores = 1 if splits is None else len(splits)
    scores = np.full((len(candidates), len(alphas), n_scores), np.nan)
    seconds = np.zeros(len(candidates))
    kept: dict[int, tuple[int, Any]] = {}
    reports: dict[int, dict[str, Any]] = {}
    history: list[dict[str, Any]] = []
    best: tuple[int, Model] | None = None
    for outcome in map_threads(evaluate, range(len(candidates)), side_by_side):
        # Scoring stays in this thread: scikit-learn's configuration is local to it.
        index, usable, model = outcome.index, outcome.usable, outcome.model
        if outcome.direct is not None:
            scores[index, usable] = outcome.direct
        elif splits is not None and isinstance(criterion, HeldoutCriterion) and usable.any():
            criterion.refusal = None
            for s, (values, rows) in enumerate(zip(outcome.values, splits.scored_rows())):
                scores[index, usable, s] = criterion.score(values, rows, task)
            means = scores[index, usable].mean(axis=1)
            if np.isfinite(means).any():
                _, ridge = best_cell(means[None], [0], alphas[usable])
                heldout = gather([values[ridge] for values in outcome.values], splits)
                kept[index] = int(np.flatnonzero(usable)[ridge]), heldout
        seconds[index], reports[index] = outcome.seconds, outcome.report
        if model is not None and np.isfinite(scores[index].mean(axis=1)).any():
            leader, _ = best_cell(scores.mean(axis=2), _numbers(candidates), alphas)
            best = (index, model) if leader == index else best
        unsolved = int(np.count_nonzero(np.isnan(scores[index].mean(axis=1))))
        why = outcome.why or getattr(criterion, "refusal", None)
        history.append(
            {
                "gamma": candidates[index].width,
                **candidates[index].params,
                "alphas": [float(a) for a in alphas],
                "scores": scores[index].mean(axis=1).tolist(),
                "unsolved": unsolved,
                "why": why if unsolved else None,
                "seconds": outcome.seconds,
            }
        )
        callback(_progress(scores, candidates, alphas, len(history)))
    _tell_unsolved(history, len(alphas))
    index, ridge = best_cell(scores.mean(axis=2), _numbers(candidates), alphas)
    chosen = candidates[index]
    report = reports[index] | chosen.run.diagnose(chosen.kernel)
    final = best[1] if best is not None and best[0] == index else None
    heldout = None
    if splits is not None:
        at, heldout = kept.get(index, (None, None))
        if at != ridge:  # scores came without predictions, or the tie was broken over all kernels
            model = final or chosen.run.with_one_ridge().model(chosen.kernel)
            predictions = heldout_predictions(model, splits, ridges[[ridge]], problem.offset)
            heldout = gather([values[0] for values in predictions], splits)
    return SearchResult(candidates, scores, seconds, index, ridge, heldout, history, report, final)


def _answers(
    model: Model, problem: Problem, criterion: Criterion, splits: Splits | None, ridges: Any
) -> tuple[Any, Any]:
    """Scores (μ, splits) where the criterion has them at once, else held-out predictions."""
    if not ridges.size:
        return None, None
    if splits is None or not isinstance(criterion, HeldoutCriterion):
        return criterion.score(model, problem, ridges)[:, None], None
    direct = criterion.score_model(model, splits, ridges)
    if direct is not None:
        return direct, None
    return None, heldout_predictions(model, splits, ridges, problem.offset)


def _finite(usable: Any, direct: Any, values: Any) -> tuple[Any, Any, Any]:
    """The same without the ridges whose predictions or scores are not finite."""
    if not usable.any():
        return usable, None, None
    if direct is None:
        finite = np.all([np.isfinite(part).all(axis=(1, 2)) for part in values], axis=0)
        values = values if finite.all() else [part[finite] for part in values]
    else:
        finite = np.isfinite(direct).all(axis=1)
        direct = direct[finite]
    usable = usable.copy()
    usable[usable] = finite
    return usable, direct, values


def _candidates(run: Run, kernels: list[Kernel], widths: list[float | None]) -> list[Candidate]:
    variants = run.variants()
    return [
        Candidate(variant, kernel, width, ({} if width is None else {"gamma": width}) | variant.params)
        for kernel, width in zip(kernels, widths)
        for variant in variants
    ]


def _tell_unsolved(history: list[dict[str, Any]], n_alphas: int) -> None:
    """Say how many candidates have no score, and why; raise if none has."""
    unsolved, total = sum(entry["unsolved"] for entry in history), len(history) * n_alphas
    if not unsolved:
        return
    reasons = [entry["why"] for entry in history if entry["unsolved"] and entry["why"]]
    reason = (
        reasons[0]
        if reasons
        else (
            "their matrix plus alpha is not positive definite; use larger alphas or gammas, or "
            'negative="clip" in the approximation.'
        )
    )
    text = f"{unsolved} of {total} combinations of kernel and alpha have no score (NaN): {reason}"
    if unsolved == total:
        raise ValueError(text)
    warnings.warn(text, UserWarning, stacklevel=4)


def _numbers(candidates: list[Candidate]) -> list[float]:
    return [1.0 if candidate.width is None else candidate.width for candidate in candidates]


def _progress(scores: Any, candidates: list[Candidate], alphas: Any, done: int) -> dict[str, Any]:
    """What a progress bar shows; no best yet while every score so far is undefined."""
    event: dict[str, Any] = {
        "done": done,
        "total": len(candidates),
        "best_score": None,
        "best_params": {},
    }
    means = scores.mean(axis=2)
    if np.isfinite(means).any():
        index, ridge = best_cell(means, _numbers(candidates), alphas)
        event["best_score"] = float(means[index, ridge])
        params = {"alpha": float(alphas[ridge]), "gamma": candidates[index].width}
        event["best_params"] = params | candidates[index].params
    return event
