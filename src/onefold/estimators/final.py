"""From what a search found to the model that is kept: the chosen one, or a blend of the best ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem
from onefold.expansions import Blend, Expansion, FittedFunction, FoldModels, mixed
from onefold.kernels import Kernel
from onefold.linalg import like, to_numpy
from onefold.search import (
    BlendResult,
    Crossfit,
    Found,
    Leader,
    Ledger,
    Setup,
    blend_leaders,
    importances,
)


@dataclass(frozen=True)
class Folds:
    """Models without each of some sets of rows."""

    models: FoldModels | None  # of the user's targets; None where they are too dear
    own: bool = True  # whether the search's held-out predictions are theirs


@dataclass(frozen=True)
class Final:
    """The model that is kept.

    Attributes
    ----------
    expansion : Expansion or Blend
        Of the user's targets.
    report : dict
        What fitted it.
    leaders : list of Leader
        The cells that it is made of.
    weights : array (leaders,)
    intercept : array (targets,)
    heldout : array (n, targets) or None
        Held-out predictions of the whole.
    score : float or None
        Held-out score of a blend.
    blended : bool
    folds : Folds or None
        The models without each part, where they were asked for.
    crossfit : Crossfit or None
        What a blend's held-out predictions were made with.
    """

    expansion: Any
    report: dict[str, Any]
    leaders: list[Leader]
    weights: Any
    intercept: Any
    heldout: Any
    score: float | None
    blended: bool
    folds: Folds | None = None
    crossfit: Crossfit | None = None

    def members(self) -> list[dict[str, Any]] | None:
        """What a blend consists of, the heaviest first; None for a single model."""
        if not self.blended:
            return None
        order = np.argsort(-self.weights, kind="stable")
        return [
            {
                "metric": "none",
                "round": 0,
                **self.leaders[i].candidate.params,
                "alpha": self.leaders[i].alpha,
                "weight": float(self.weights[i]),
            }
            for i in order
        ]


def finished(expansion: FittedFunction, problem: Problem, n: int) -> FittedFunction:
    """The fitted function for a table of `n` rows; raise if it is not finite."""
    if not expansion.finite:
        raise ValueError(
            "the coefficients are not finite: the kernel or the targets overflow; scale the "
            "features and the targets, or use another kernel."
        )
    if problem.kept is not None and isinstance(expansion, Expansion) and expansion.centres is None:
        coef = np.zeros((n, expansion.n_targets))  # a column for every row of X
        coef[problem.kept] = to_numpy(expansion.coef)
        expansion = replace(expansion, coef=like(coef, expansion.coef))
    return expansion


def metric_of(kernel: Kernel) -> Any | None:
    """The numbers of a kernel's metric; None where it has none."""
    metric = getattr(kernel, "metric", None)
    return None if metric is None else np.array(metric.values)


def shares_of(expansion: Any, problem: Problem, seed: int | None) -> Any:
    """`feature_importances_` of a fitted function on the rows that it was fitted to."""
    return importances(expansion, problem.X, problem.weight, seed or 0)


def finish(found: Found, setup: Setup, *, blend: bool, parts: Sequence[Any] | None = None) -> Final:
    """Fit what the search chose on all rows, and without each of the `parts` if there are any."""
    targets = setup.problem.Y.shape[1]
    if not blend:
        expansion, report, folds = _fitted(found.leader, found.ledger, parts)
        one, none = np.ones(1), np.zeros(targets)
        return Final(
            expansion, report, [found.leader], one, none, found.leader.heldout, None, False, folds
        )
    blended: BlendResult = blend_leaders(found.leaders, found.leader, found.scoring)
    fitted = [_fitted(member, found.ledger, parts) for member in blended.members]
    expansions, reports = [one for one, *_ in fitted], [report for _, report, _ in fitted]
    whole = Blend(
        tuple(expansions),
        np.asarray(blended.weights),
        like(blended.intercept, expansions[0].intercept),
    )
    report = {"name": reports[0]["name"], "reason": f"a blend of {len(reports)}", "members": reports}
    folds, crossfit = fitted[0][2], blended.crossfit
    if parts is not None and crossfit is not None:
        known = {id(member): own for member, (*_, own) in zip(blended.members, fitted) if own}
        folds = folds_of_blend(crossfit, known, parts)
    made = blended.members, blended.weights, blended.intercept, blended.heldout, blended.score
    return Final(whole, report, *made, True, folds, crossfit)


def _fitted(
    leader: Leader, ledger: Ledger, parts: Sequence[Any] | None
) -> tuple[Any, dict[str, Any], Folds | None]:
    """The expansion of a cell on all rows, in the user's units, what fitted it, and its folds'."""
    run, alpha = leader.candidate.run, leader.alpha
    if leader.expansion is not None:
        folds = None if parts is None else folds_of(leader, parts)
        report = ledger.report(leader.index)
        if leader.model is not None:
            report = report | leader.model.final_report(run.problem.ridge(alpha), leader.expansion)
        return run.problem.restore(leader.expansion), report, folds
    model = run.final_model(leader.candidate.kernel, alpha, leader.model)
    expansion, report = run.finished(model, alpha)
    return expansion, report, None if parts is None else folds_of(leader, parts, model)


def folds_of(leader: Leader, parts: Sequence[Any], model: Model | None = None) -> Folds:
    """Of one cell; `model` is the final one of all rows, where it is at hand.

    They are of the kind of the final model, or, where that has no closed form for folds, of the kind
    that the search was made with.
    """
    candidate, run, kernel = leader.candidate, leader.candidate.run, leader.candidate.kernel
    alpha = leader.alpha
    if leader.expansion is not None:
        known = leader.folds
        return Folds(None if known is None else known.plus(run.problem.offset))
    if candidate.parts is not None:
        return Folds(run.fold_models(candidate.model(1), kernel, alpha, parts))
    if run.refit is not None and run.refit.approximation.fold_models is not None:
        model = run.final_model(kernel, alpha) if model is None else model
        return Folds(run.refit.fold_models(model, kernel, alpha, parts), own=False)
    if run.refit is not None or model is None:
        model = candidate.model(1) if leader.model is None else leader.model
    own = run.approximation.fold_models == "closed"  # fits of their own are other models
    return Folds(run.fold_models(model, kernel, alpha, parts), own)


def folds_of_blend(crossfit: Crossfit, known: Mapping[int, Folds], parts: Sequence[Any]) -> Folds:
    """Of a blend: each fold's members with the weights that the other folds gave.

    `known` has the folds of some leaders by their id.
    """
    used = np.flatnonzero(crossfit.weights.any(axis=0))
    found = []
    for number in used if used.size else [0]:
        leader = crossfit.leaders[int(number)]
        found.append(known.get(id(leader)) or folds_of(leader, parts))
    models = [folds.models for folds in found]
    if any(model is None for model in models):
        return Folds(None)
    count = len(crossfit.folds)
    source = np.zeros(count, dtype=np.intp) if len(parts) == 1 else np.arange(count)
    weights = crossfit.weights[:, used] if used.size else np.zeros((count, 1))
    together = mixed([m for m in models if m is not None], weights, crossfit.intercepts, source)
    return Folds(together, all(folds.own for folds in found))
