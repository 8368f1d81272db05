"""From what a search found to the model that is kept: the chosen one, or a blend of the best ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.estimators.weightless import heldout_of_weightless
from onefold.expansions import Blend
from onefold.heldout import Splits
from onefold.kernels import Kernel
from onefold.learned_metrics import importances
from onefold.linalg import like, to_numpy
from onefold.search import BlendResult, Leader, Ledger, Outcome, blend_leaders
from onefold.search.setup import Setup


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
    """

    expansion: Any
    report: dict[str, Any]
    leaders: list[Leader]
    weights: Any
    intercept: Any
    heldout: Any
    score: float | None
    blended: bool

    def members(self, ledger: Ledger) -> list[dict[str, Any]] | None:
        """What a blend consists of, the heaviest first; None for a single model."""
        if not self.blended:
            return None
        order = np.argsort(-self.weights, kind="stable")
        return [
            {
                "metric": "none",
                "round": 0,
                **self.leaders[i].candidate.params,
                "alpha": float(ledger.alphas[self.leaders[i].ridge]),
                "weight": float(self.weights[i]),
            }
            for i in order
        ]

    def heldout_of_weightless(self, ledger: Ledger, splits: Splits, X: Any) -> Any:
        """Predictions (rows of X, targets) of the rows of weight 0; NaN for all others."""
        total: Any = self.intercept[None, :]
        for leader, weight in zip(self.leaders, self.weights):
            ridge = float(leader.candidate.run.problem.ridge(ledger.alphas[leader.ridge]))
            total = total + weight * heldout_of_weightless(leader.candidate, ridge, splits, X)
        return total


def metric_of(kernel: Kernel) -> Any | None:
    """The numbers of a kernel's metric; None where it has none."""
    metric = getattr(kernel, "metric", None)
    return None if metric is None else np.array(metric.values)


def shares_of(expansion: Any, problem: Problem, seed: int | None) -> Any:
    """`feature_importances_` of a fitted function on the rows that it was fitted to."""
    root = problem.root_weight
    weight = None if root is None else to_numpy(root) ** 2
    return importances(expansion, problem.X, weight, seed or 0)


def finish(searched: Outcome, setup: Setup, *, blend: bool) -> Final:
    """Fit what the search chose on all rows."""
    found, targets = searched.found, setup.problem.Y.shape[1]
    if not blend:
        expansion, report = _fitted(found.leader, found.ledger)
        one, none = np.ones(1), np.zeros(targets)
        return Final(expansion, report, [found.leader], one, none, found.heldout, None, False)
    mixed: BlendResult = blend_leaders(found.leaders, found.leader, searched.scoring)
    fitted = [_fitted(member, found.ledger) for member in mixed.members]
    expansions, reports = [one for one, _ in fitted], [report for _, report in fitted]
    beside = expansions[0].intercept
    whole = Blend(tuple(expansions), np.asarray(mixed.weights), like(mixed.intercept, beside))
    report = {"name": reports[0]["name"], "reason": f"a blend of {len(reports)}", "members": reports}
    return Final(
        whole, report, mixed.members, mixed.weights, mixed.intercept, mixed.heldout, mixed.score, True
    )


def _fitted(leader: Leader, ledger: Ledger) -> tuple[Any, dict[str, Any]]:
    """The expansion of a cell on all rows, in the user's units, and what fitted it."""
    run = leader.candidate.run
    if leader.expansion is not None:
        return run.problem.restore(leader.expansion), ledger.report(leader.index)
    alpha = float(ledger.alphas[leader.ridge])
    return run.final(leader.candidate.kernel, alpha, leader.model)
