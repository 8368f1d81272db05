r"""Which candidates go on to more rows: those that cannot be told from the best one, and its neighbours.

With e_i and e*_i the held-out losses of row i at the best ridges of a candidate and of the best one,

    d_i = e_i − e*_i,    dropped if mean d > 2 s,    s² = Σ v_i² (d_i − mean d)² / (Σ v_i)²


for squared errors and counts of errors, which are means over rows. Of any other criterion the scores of
the splits are compared, with the standard error of their mean difference.

More rows favour narrower kernels, by an amount that no standard error knows of. So the widths next to
the best one stay, however much worse they are; but with rows enough, the wider one goes if it is worse
by more than four standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.criteria import Scoring
from onefold.search.choice import Leader, paired_difference
from onefold.search.ledger import Ledger
from onefold.search.run import SearchResult

_ERRORS = 2.0  # standard errors that a candidate may be worse by,
_FAR = 4.0  # and the wider neighbour of the best one


@dataclass(frozen=True)
class Verdict:
    """What a stage says of a candidate.

    Attributes
    ----------
    number : int
        Of the candidate.
    ridge : int or None
        Its best one; None where it has no score.
    difference, standard_error : float
        By how much its loss is greater than the best one's; NaN where that is not known.
    dropped : str or None
        Why it does not go on.
    """

    number: int
    ridge: int | None
    difference: float
    standard_error: float
    dropped: str | None


def judge(
    found: SearchResult, scoring: Scoring, beside: list[list[int]], *, many: bool
) -> list[Verdict]:
    """Verdicts on all that were tried, the best first.

    `beside` are the neighbours of each candidate in width, `many` tells whether the rows are enough to
    drop one of them.
    """
    ledger = found.ledger
    index, _ = ledger.best()
    ranked = sorted(found.leaders, key=lambda one: (one.index != index, -ledger.rank(*_cell(one))))
    best, neighbours, verdicts = ranked[0], beside[index], []
    for leader in ranked:
        difference, error = (0.0, 0.0) if leader is best else _compared(leader, best, scoring, ledger)
        limit = _ERRORS
        if leader.index in (index, *neighbours):
            limit = _FAR if many and _wider(ledger, leader.index, index) else np.inf
        why = None
        if difference > 0 and difference > limit * error:
            why = f"worse by more than {limit:g} standard errors"
        verdicts.append(Verdict(*_cell(leader), difference, error, why))
    scored = {leader.index for leader in ranked}
    rest = sorted({entry.candidate for entry in ledger.entries} - scored)
    return verdicts + [Verdict(one, None, np.nan, np.nan, "has no score") for one in rest]


def _wider(ledger: Ledger, one: int, other: int) -> bool:
    return bool(ledger.params[one].get("gamma", 1.0) < ledger.params[other].get("gamma", 1.0))


def _cell(leader: Leader) -> tuple[int, int]:
    return leader.index, leader.ridge


def _compared(one: Leader, best: Leader, scoring: Scoring, ledger: Ledger) -> tuple[float, float]:
    """By how much one is worse than the best, and the standard error; infinite where nobody knows."""
    if scoring.criterion.mean_of_rows and scoring.task is not None:
        losses = [_losses(leader, scoring) for leader in (one, best)]
        return paired_difference(losses[0], losses[1], scoring.task.sample_weight)
    difference = _scores(best, ledger) - _scores(one, ledger)
    if difference.size < 2:
        return float(difference.mean()), np.inf
    error = float(np.std(difference, ddof=1) / np.sqrt(difference.size))
    return float(difference.mean()), error


def _scores(leader: Leader, ledger: Ledger) -> Any:
    """Those of the splits."""
    entry = ledger.entry(*_cell(leader))
    return entry.scores[np.asarray(entry.ridges) == leader.ridge][0]


def _losses(leader: Leader, scoring: Scoring) -> Any:
    """The loss of every row, the mean over the splits that test it; NaN where none does."""
    if leader.of_splits is None:
        return scoring.row_losses(leader.heldout)
    total, count = np.zeros(len(leader.heldout)), np.zeros(len(leader.heldout))
    for rows, values in zip(scoring.held_out.tests, leader.of_splits):
        predictions = np.full(leader.heldout.shape, np.nan)
        predictions[rows] = values
        losses = scoring.row_losses(predictions)
        tested = np.isfinite(losses)
        total[tested] += losses[tested]
        count += tested
    with np.errstate(invalid="ignore"):
        return total / count
