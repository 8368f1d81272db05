"""The models without each fold, of the cells that a search kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.expansions import FoldModels, mixed
from onefold.search import Leader, Ledger
from onefold.search.blend import Crossfit
from onefold.search.candidates import CrossFittedCandidate


@dataclass(frozen=True)
class Folds:
    """Models without each of some sets of rows.

    Attributes
    ----------
    models : FoldModels or None
        Of the user's targets; None where they are too dear.
    own : bool
        Whether the search's held-out predictions are theirs.
    """

    models: FoldModels | None
    own: bool = True


def folds_of(leader: Leader, ledger: Ledger, parts: Sequence[Any], model: Model | None = None) -> Folds:
    """Of one cell; `model` is the final one of all rows, where it is at hand.

    They are of the kind of the final model, or, where that has no closed form for folds, of the kind
    that the search was made with.
    """
    candidate, run, kernel = leader.candidate, leader.candidate.run, leader.candidate.kernel
    alpha = float(ledger.alphas[leader.ridge])
    if leader.expansion is not None:
        known = leader.folds
        return Folds(None if known is None else known.plus(run.problem.offset))
    if isinstance(candidate, CrossFittedCandidate):
        return Folds(run.fold_models(candidate.model(1), kernel, alpha, parts))
    if run.refit is not None and run.refit.approximation.fold_models is not None:
        model = run.final_model(kernel, alpha) if model is None else model
        return Folds(run.refit.fold_models(model, kernel, alpha, parts), own=False)
    if run.refit is not None or model is None:
        model = candidate.model(1) if leader.model is None else leader.model
    own = run.approximation.fold_models == "closed"  # fits of their own are other models
    return Folds(run.fold_models(model, kernel, alpha, parts), own)


def folds_of_blend(
    crossfit: Crossfit, known: Mapping[int, Folds], ledger: Ledger, parts: Sequence[Any]
) -> Folds:
    """Of a blend: each fold's members with the weights that the other folds gave.

    `known` has the folds of some leaders by their id.
    """
    used = np.flatnonzero(crossfit.weights.any(axis=0))
    found = []
    for number in used if used.size else [0]:
        leader = crossfit.leaders[int(number)]
        found.append(known.get(id(leader)) or folds_of(leader, ledger, parts))
    models = [folds.models for folds in found]
    if any(model is None for model in models):
        return Folds(None)
    count = len(crossfit.folds)
    source = np.zeros(count, dtype=np.intp) if len(parts) == 1 else np.arange(count)
    weights = crossfit.weights[:, used] if used.size else np.zeros((count, 1))
    together = mixed([m for m in models if m is not None], weights, crossfit.intercepts, source)
    return Folds(together, all(folds.own for folds in found))
