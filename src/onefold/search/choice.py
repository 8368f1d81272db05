r"""Which group of candidates is chosen: the best one, unless a simpler one cannot be told from it.

Every group (a family, a kind of metric, a round) comes with its best cell and that cell's held-out
predictions. Two of them are compared row by row: with e_i and e*_i the losses of row i,

    d_i = e_i − e*_i,    mean d ≤ s is noise,    s² = Σ v_i² (d_i − mean d)² / (Σ v_i)²

Of all groups within one such standard error of the best, the simplest is chosen: the earliest round, no
metric before a diagonal before a full one, and among these the best score. The criterion says what the
loss is: the squared error, or 0 and 1 where cells are ranked by counts of errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.criteria import Scoring
from onefold.search.candidates import Candidate
from onefold.search.ledger import Ledger


@dataclass(frozen=True)
class Leader:
    """The best cell of a group of candidates.

    Attributes
    ----------
    candidate : Candidate
    index, ridge : int
        Numbers of the candidate and of the ridge.
    heldout : array (n, targets) or None
        Held-out predictions in the user's units; None for criteria that make none.
    of_splits : list of arrays (tested rows, targets) or None
        The same for every split by itself, where some row is tested more than once.
    model : Model or None
        The candidate's model, if it is one that a search keeps.
    expansion : Expansion or None
        The final one in the problem's units, where it came with the evaluation.
    folds : FoldModels or None
        The models without each part in the problem's units, where they came with it.
    """

    candidate: Candidate
    index: int
    ridge: int
    heldout: Any = None
    of_splits: Any = None
    model: Model | None = None
    expansion: Any = None
    folds: Any = None

    def predicting(self, heldout: Any, of_splits: Any) -> Leader:
        """The same with held-out predictions."""
        return replace(self, heldout=heldout, of_splits=of_splits)


def choose(leaders: list[Leader], scoring: Scoring, ledger: Ledger) -> Leader:
    """The simplest group that cannot be told from the best one."""
    index, _ = ledger.best([leader.index for leader in leaders])
    best = next(leader for leader in leaders if leader.index == index)
    if len(leaders) == 1 or best.heldout is None:
        return best
    weight = None if scoring.task is None else scoring.task.sample_weight
    losses = scoring.row_losses(best.heldout)
    tied = [best]
    for leader in leaders:
        if leader is not best and leader.candidate.complexity < best.candidate.complexity:
            mean, error = paired_difference(scoring.row_losses(leader.heldout), losses, weight)
            if mean <= error:
                tied.append(leader)

    def rank(leader: Leader) -> tuple[tuple[int, int], float]:
        return leader.candidate.complexity, -ledger.rank(leader.index, leader.ridge)

    return min(tied, key=rank)


def paired_difference(one: Any, other: Any, weight: Any | None) -> tuple[float, float]:
    """Weighted mean of one − other over the rows where both are known, and its standard error."""
    difference = one - other
    known = np.isfinite(difference)
    difference = difference[known]
    if not difference.size:
        return 0.0, 0.0
    v = np.ones(difference.size) if weight is None else weight[known]
    # Squares of squared errors leave the range of float64 long before the errors do.
    unit = float(np.abs(difference).max()) or 1.0
    difference, share = difference / unit, v / v.sum()
    mean = float(share @ difference)
    error = float(np.sqrt(np.sum((share * (difference - mean)) ** 2)))
    return unit * mean, unit * error
