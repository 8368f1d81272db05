r"""The choice: the best group of candidates, unless a simpler one is as good within noise; or a blend.

**The choice.** Every group (a family, a kind of metric, a round) comes with its best cell and the
held-out predictions of that. Two of them are compared row by row: with e_i and e*_i the losses of row i,

    d_i = e_i − e*_i,    mean d ≤ s is noise,    s² = Σ v_i² (d_i − mean d)² / (Σ v_i)²

Of all groups within one such standard error of the best, the simplest is chosen: the earliest round, no
metric before a diagonal before a full one, and among these the best score. The criterion says what the
loss is: the squared error, or 0 and 1 where cells are ranked by counts of errors.

**The constant** that a classifier must beat by more than noise before its error rate is used to choose:

    c_i = Σ_j v_j y_j / Σ_j v_j    over the rows j that are trained on where row i is held out

On labels that have nothing to do with the features, the best of a hundred cells makes fewer errors than
a constant by luck alone. So where its squared error is not lower by one standard error, paired over
rows, the choice is the flattest cell of the simplest group: its count of errors was not selected.

**The blend**: an average of the best cells of all groups, weighted by their held-out predictions.

    min over w ≥ 0 with Σ_g w_g = 1 of  Σ_i v_i ‖y_i − Σ_g w_g h_g(x_i)‖²

with h_g(x_i) the held-out prediction of group g for row i, and f = Σ w_g f_g. A free sum or an intercept
would learn a drift between ordered folds and carry it on; on shuffled rows they gain nothing
(docs/studies/choice.md). With E the residuals h_g(x_i) − y_i, column by column, min ‖E w‖² on these w is
the direction of min over w ≥ 0 of ‖E w‖² + (1 − Σ_g w_g)², as for w = s u with Σ u = 1 the best s leaves
q/(1 + q) of q = ‖E u‖². Its own held-out predictions are cross-fitted too: those of a fold are made with
the weights that the other folds' rows give, so that they are literal. Where every tested row is in one
fold, there are no others, and no blend. It is used where, with these predictions, the loss above is
lower than the chosen group's alone, and the criterion is not worse by more than one standard error of
the difference, paired over rows for counts of errors (with the weights v, the classes' included), over
splits for all other criteria. A classifier's must beat a constant, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from onefold.approximations import Model
from onefold.criteria import Scoring
from onefold.heldout import mean_by_row
from onefold.search.evaluation import Candidate
from onefold.search.ledger import Ledger

_LEAST = 0.01  # members with less weight are left out,
WORTH = 0.05  # and with this one are worth some fits on all rows
_ALONE = 2  # leaders that are fitted on all rows, for the choice of one
_ERRORS = 1.0  # standard errors by which to beat a constant: a weak signal of few rows is one


@dataclass(frozen=True)
class Leader:
    """The best cell of a group of candidates."""

    candidate: Candidate
    index: int  # numbers of the candidate
    ridge: int  # and of the ridge
    alpha: float  # the ridge in the user's units
    heldout: Any = None  # predictions (n, targets) in the user's units; None for criteria that make none
    of_splits: Any = None  # the same for every split, where some row is tested more than once
    model: Model | None = None  # if it is one that a search keeps
    expansion: Any = None  # the final one in the problem's units, where it came with the evaluation
    folds: Any = None  # the models without each part, in the problem's units, with it


def choose(leaders: list[Leader], scoring: Scoring, ledger: Ledger) -> Leader:
    """The simplest group within a standard error of the best one."""
    index, _ = ledger.best([leader.index for leader in leaders])
    best = next(leader for leader in leaders if leader.index == index)
    if len(leaders) == 1 or best.heldout is None:
        return best
    weight = scoring.training_weights
    losses = scoring.row_losses(best.heldout)
    tied = [best]
    for leader in leaders:
        if leader.candidate.complexity < best.candidate.complexity:
            mean, error = paired_difference(scoring.row_losses(leader.heldout), losses, weight)
            tied += [leader] if mean <= error else []
    return min(tied, key=lambda one: (one.candidate.complexity, -ledger.ranks[one.index, one.ridge]))


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
    difference = difference / unit
    share = v / v.sum()
    mean = float(share @ difference)
    error = float(np.sqrt(np.sum((share * (difference - mean)) ** 2)))
    return unit * mean, unit * error


def beats_constant(heldout: Any, scoring: Scoring) -> bool:
    """Whether held-out predictions tell classes apart; not asked of criteria other than errors."""
    if heldout is None or not scoring.criterion.must_beat_constant:
        return True
    losses = scoring.row_losses(constant_predictions(scoring))
    gain, error = paired_difference(losses, scoring.row_losses(heldout), scoring.training_weights)
    return gain > _ERRORS * error


def constant_predictions(scoring: Scoring) -> Any:
    """The mean of the rows trained on, for every tested row (n, targets); NaN for the others."""
    splits = scoring.held_out
    Y = scoring.targets
    v = scoring.training_weights
    weighted = v[:, None] * Y
    if splits.leave_one_out:
        return (weighted.sum(axis=0) - weighted) / (v.sum() - v)[:, None]
    means = [
        (weighted.sum(axis=0) - weighted[left].sum(axis=0)) / (v.sum() - v[left].sum())
        for left in splits.left_out
    ]
    constants = np.repeat(np.stack(means), [len(test) for test in splits.tests], axis=0)
    return mean_by_row(np.concatenate(splits.tests), constants, splits.n)


@dataclass(frozen=True)
class BlendResult:
    """What a blend is made of."""

    members: list[Leader]
    weights: Any  # (members,), which add up to 1
    heldout: Any  # (n, targets): cross-fitted predictions, NaN for rows that were not tested
    score: float  # the criterion's mean over the splits for them
    crossfit: Crossfit | None = None  # what they were made with; None for the chosen one alone

    def described(self) -> list[dict[str, Any]]:
        """Its members by name, the heaviest first."""
        names = [{"metric": "none", "round": 0, **member.candidate.params} for member in self.members]
        pairs = zip(names, self.members, self.weights)
        found = [name | {"alpha": one.alpha, "weight": float(w)} for name, one, w in pairs]
        return sorted(found, key=lambda member: -member["weight"])


@dataclass(frozen=True)
class Crossfit:
    """The weights of every fold, from the rows of the others."""

    leaders: Sequence[Leader]  # all that were blended, also those without weight in the final blend
    folds: list[Any]  # the rows of each: those of a split, or some of those of the only one
    weights: Any  # (folds, leaders)


_Predictions = tuple[Any, Any]
"""Held-out predictions of rows, and of each split where some row is tested more than once, or None."""


def blend_leaders(leaders: Sequence[Leader], chosen: Leader, scoring: Scoring) -> BlendResult:
    """The blend of the leaders, or the chosen one alone where that predicts held-out rows better."""
    H = np.stack([leader.heldout for leader in leaders])
    Y = scoring.targets
    v = scoring.training_weights
    tested = np.isfinite(H).all(axis=(0, 2))
    single = chosen.heldout, chosen.of_splits
    alone = BlendResult([chosen], np.ones(1), chosen.heldout, float(_scores(single, scoring).mean()))
    if any(np.isin(np.flatnonzero(tested), rows).all() for rows in _folds(scoring)):
        return alone  # there are no other rows to take the weights of a fold from
    blended, crossfit = _crossfitted(leaders, H, tested, scoring)
    kept = np.flatnonzero(_fit(H, tested, scoring) > _LEAST)
    weights = _fit(H[kept], tested, scoring)
    kept = kept[weights > 0]
    weights = weights[weights > 0]
    # What the weights minimise; labels count as ±1, which says more than right or wrong.
    losses = [np.sum((one[tested] - Y[tested]) ** 2, axis=1) for one in (blended[0], chosen.heldout)]
    gains = v[tested] @ losses[0] < v[tested] @ losses[1]
    if not gains or _scores_worse(blended, single, scoring):
        return alone
    if not beats_constant(blended[0], scoring):
        return alone
    members = [leaders[int(i)] for i in kept]
    score = float(_scores(blended, scoring).mean())
    return BlendResult(members, weights, blended[0], score, crossfit)


def worth_fitting(
    leaders: Sequence[Leader], ledger: Ledger, scoring: Scoring, *, blend: bool, least: float = WORTH
) -> list[Leader]:
    """The leaders to fit where each fit is costly: the best, the best without a metric, a blend's."""
    order = sorted(leaders, key=lambda one: -ledger.ranks[one.index, one.ridge])
    plain = next((one for one in order if not one.candidate.params["round"]), order[0])
    if not blend or len(order) < 2:
        return [one for k, one in enumerate(order) if k < _ALONE or one is plain]
    H = np.stack([one.heldout for one in order])
    weights = _fit(H, np.isfinite(H).all(axis=(0, 2)), scoring)
    return [one for k, one in enumerate(order) if not k or one is plain or weights[k] > least]


def _fit(H: Any, rows: Any, scoring: Scoring) -> Any:
    """Weights (groups,) ≥ 0 that add up to 1, from some rows of H (groups, n, targets)."""
    v = scoring.training_weights[rows]
    residuals = (H[:, rows] - scoring.targets[rows]) * np.sqrt(v / v.sum())[None, :, None]
    columns = residuals.reshape(len(H), -1).T
    # A thin problem has the same solution as its triangle, whatever the number of rows.
    R = np.linalg.qr(columns / (float(np.abs(columns).max(initial=0.0)) or 1.0), mode="r")
    together = np.concatenate([R, np.ones((1, len(H)))])
    weights, _ = nnls(together, np.append(np.zeros(len(R)), 1.0))
    return weights / weights.sum()


def _crossfitted(
    leaders: Sequence[Leader], H: Any, tested: Any, scoring: Scoring
) -> tuple[_Predictions, Crossfit]:
    """Predictions of every tested row with weights from the rows of other folds."""
    apart = leaders[0].of_splits is not None
    of_splits = []
    found = []
    made = []
    folds = _folds(scoring)
    for number, rows in enumerate(folds):
        rest = tested.copy()
        rest[rows] = False
        weights = _fit(H, rest, scoring)
        found.append(weights)
        own = np.unique(rows)
        made.append((own, np.einsum("g,git->it", weights, H[:, own])))
        if apart:
            values = np.stack([leader.of_splits[number] for leader in leaders])
            of_splits.append(np.einsum("g,git->it", weights, values))
    every, predicted = (np.concatenate(one) for one in zip(*made))
    heldout = np.where(tested[:, None], mean_by_row(every, predicted, len(H[0])), np.nan)
    return (heldout, of_splits if apart else None), Crossfit(leaders, folds, np.stack(found))


def _folds(scoring: Scoring) -> list[Any]:
    """The rows that each split tests; rows that are each tested alone go into five folds."""
    splits = scoring.held_out
    if splits.leave_one_out or len(splits.tests) == 1:
        rows = np.unique(np.concatenate(splits.tests))
        return [rows[i::5] for i in range(5) if rows[i::5].size]
    return list(splits.tests)


def _scores_worse(blended: _Predictions, single: _Predictions, scoring: Scoring) -> bool:
    """Whether the criterion falls with the blend by more than the noise of the comparison."""
    one, other = (scoring.row_errors(heldout) for heldout, _ in (blended, single))
    if one is not None:
        # Where classes have weights, fewer errors of the common one are no reason to refuse.
        fall, noise = paired_difference(one, other, scoring.training_weights)
    else:
        one, other = (_scores(made, scoring) for made in (single, blended))
        fall, noise = paired_difference(one, other, None)
        noise *= np.sqrt(one.size / max(1, one.size - 1))  # of a few splits
    return fall > noise


def _scores(predictions: _Predictions, scoring: Scoring) -> Any:
    """The criterion of every split for given held-out predictions."""
    heldout, of_splits = predictions
    problem = scoring.problem
    splits = scoring.held_out
    of_splits = of_splits or [heldout[rows] for rows in splits.tests]
    shifted = [values[None] - problem.offset for values in of_splits]
    scores = scoring.criterion.score_splits(shifted, splits, problem, scoring.task)[0]
    return np.asarray(scores, dtype=np.float64)
