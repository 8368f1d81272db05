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

from onefold.criteria import Scoring
from onefold.expansions import Blend, mixed
from onefold.heldout import Splits, mean_by_row
from onefold.search.crossfit import CrossFit, PredictedBy, Predictions
from onefold.search.ledger import Ledger

# Minimum weight of a member of a blend, whose weights add up to 1: rounding and noise give less; chosen,
# not measured.
_MIN_WEIGHT = 0.01
# Minimum weight, in a blend on few rows, for which a member is fitted k times on all rows; chosen, not
# measured.
WORTH = 0.05
# Number of the best leaders that are fitted on all rows to choose one of them; chosen, not measured.
_FITTED_LEADERS = 2
# Standard errors by which a classifier must beat a constant; a weak signal in few rows reaches one.
# Chosen, not measured.
_ERRORS_TO_BEAT = 1.0
# Folds of a blend's weights where the splits give none: those of scikit-learn's default.
_WEIGHT_FOLDS = 5


def choose(leaders: Sequence[CrossFit], scoring: Scoring, ledger: Ledger) -> CrossFit:
    """The simplest group within a standard error of the best one."""
    index, _ = ledger.best([leader.cell.index for leader in leaders])
    best = next(leader for leader in leaders if leader.cell.index == index)
    if len(leaders) == 1 or best.predictions is None:
        return best
    weight = scoring.training_weights
    losses = scoring.row_losses(best.predictions.by_row)
    tied = [best]
    for leader in leaders:
        simpler = leader.cell.candidate.complexity < best.cell.candidate.complexity
        if simpler and leader.predictions is not None:
            losses_of_leader = scoring.row_losses(leader.predictions.by_row)
            mean, error = paired_difference(losses_of_leader, losses, weight)
            tied += [leader] if mean <= error else []
    return min(tied, key=lambda leader: (leader.cell.candidate.complexity, -rank_of(leader, ledger)))


def comparison(leaders: Sequence[CrossFit], scoring: Scoring, ledger: Ledger) -> list[dict[str, Any]]:
    """How much larger the loss of each group is than that of the best one, in plain values, best first.

    In shares of the best one's mean loss, with the standard error that the choice goes by.
    """
    index, _ = ledger.best([leader.cell.index for leader in leaders])
    best = next(leader for leader in leaders if leader.cell.index == index)
    if best.predictions is None:
        return []
    weight = scoring.training_weights
    losses = scoring.row_losses(best.predictions.by_row)
    unit, _ = paired_difference(losses, np.zeros_like(losses), weight)
    records = []
    for leader in leaders:
        if leader.predictions is None:
            continue
        losses_of_leader = scoring.row_losses(leader.predictions.by_row)
        difference, error = paired_difference(losses_of_leader, losses, weight)
        cell = leader.cell
        record = {"gamma": None, **cell.candidate.params, "alpha": cell.alpha}
        record["score"] = float(ledger.means[cell.index, cell.ridge])
        record |= {"difference": difference / (unit or 1.0), "standard_error": error / (unit or 1.0)}
        records.append(record)
    return sorted(records, key=lambda record: record["difference"])


def rank_of(leader: CrossFit, ledger: Ledger) -> float:
    """What the cell of a record is compared by: greater is better."""
    return float(ledger.ranks[leader.cell.index, leader.cell.ridge])


def paired_difference(values: Any, reference: Any, weight: Any | None) -> tuple[float, float]:
    """Weighted mean of values − reference over the rows that have both, and its standard error."""
    difference = values - reference
    finite = np.isfinite(difference)
    difference = difference[finite]
    if not difference.size:
        return 0.0, 0.0
    v = np.ones(difference.size) if weight is None else weight[finite]
    # Squares of squared errors leave the range of float64 long before the errors do.
    unit = float(np.abs(difference).max()) or 1.0
    difference = difference / unit
    share = v / v.sum()
    mean = float(share @ difference)
    error = float(np.sqrt(np.sum((share * (difference - mean)) ** 2)))
    return unit * mean, unit * error


def beats_constant(predictions: Predictions | None, scoring: Scoring) -> bool:
    """Whether held-out predictions tell classes apart; not asked of criteria other than errors."""
    if predictions is None or not scoring.criterion.must_beat_constant:
        return True
    constant_losses = scoring.row_losses(constant_predictions(scoring))
    losses = scoring.row_losses(predictions.by_row)
    gain, error = paired_difference(constant_losses, losses, scoring.training_weights)
    return gain > _ERRORS_TO_BEAT * error


def constant_predictions(scoring: Scoring) -> Any:
    """The mean of the rows trained on, for every tested row (n, targets); NaN for the others."""
    splits = scoring.held_out
    Y = scoring.targets
    v = scoring.training_weights
    weighted = v[:, None] * Y
    if splits.leave_one_out:
        return (weighted.sum(axis=0) - weighted) / (v.sum() - v)[:, None]
    means = [
        (weighted.sum(axis=0) - weighted[rows].sum(axis=0)) / (v.sum() - v[rows].sum())
        for rows in splits.left_out
    ]
    constants = np.repeat(np.stack(means), [len(test) for test in splits.tests], axis=0)
    return mean_by_row(np.concatenate(splits.tests), constants, splits.n)


@dataclass(frozen=True)
class Mixture:
    """The weights of a blend of several records."""

    weights: Any  # (records,), which add up to 1
    splits: Splits  # whose folds have weights of their own
    fold_weights: Any  # (folds, records): of each fold, from the rows of the others


def choose_mixture(leaders: Sequence[CrossFit], chosen: CrossFit, scoring: Scoring) -> Mixture | None:
    """The weights of the leaders' blend; None where the chosen one predicts held-out rows as well."""
    H = _stacked(leaders)
    tested = np.isfinite(H).all(axis=(0, 2))
    splits = _splits_of_weights(scoring)
    if any(np.isin(np.flatnonzero(tested), rows).all() for rows in splits.tests):
        return None  # there are no other rows to take the weights of a fold from
    fold_weights = []
    for rows in splits.tests:
        other_rows = tested.copy()
        other_rows[rows] = False
        fold_weights.append(_fit(H, other_rows, scoring))
    members = np.flatnonzero(_fit(H, tested, scoring) > _MIN_WEIGHT)
    weights = np.zeros(len(leaders))
    weights[members] = _fit(H[members], tested, scoring)
    mixture = Mixture(weights, splits, np.stack(fold_weights))
    blend = _blended_predictions(leaders, mixture)
    single = chosen.held_out
    # What the weights minimise; labels count as ±1, which says more than right or wrong.
    Y = scoring.targets[tested]
    v = scoring.training_weights[tested]
    losses, single_losses = (np.sum((p.by_row[tested] - Y) ** 2, axis=1) for p in (blend, single))
    gains = v @ losses < v @ single_losses
    if not gains or _scores_worse(blend, single, scoring) or not beats_constant(blend, scoring):
        return None
    return mixture


def blended(fits: Sequence[CrossFit], mixture: Mixture) -> CrossFit:
    """Σ_g w_g f_g as one record; the models without a fold have the weights of the other folds' rows.

    It has the expansion, and the models without each fold, if all records that are part of it have them.
    """
    members = [fit for fit, weight in zip(fits, mixture.weights) if weight > 0]
    weights = mixture.weights[mixture.weights > 0]
    expansion = None
    if all(member.expansion is not None for member in members):
        expansion = Blend(tuple(member.expansion for member in members), weights)
    of_some_fold = np.flatnonzero(mixture.fold_weights.any(axis=0))
    fold_members = [fits[int(number)] for number in of_some_fold]
    models = [fit.fold_models for fit in fold_members if fit.fold_models is not None]
    fold_models = None
    if len(models) == len(fold_members):
        count = len(mixture.fold_weights)
        source = np.zeros(count, dtype=np.intp) if models[0].count == 1 else np.arange(count)
        fold_models = mixed(models, mixture.fold_weights[:, of_some_fold], source)
    by_fold_models = all(fit.predicted_by is PredictedBy.FOLD_MODELS for fit in fold_members)
    return CrossFit(
        cells=tuple(member.cell for member in members),
        weights=weights,
        splits=mixture.splits,
        predictions=_blended_predictions(fits, mixture),
        predicted_by=PredictedBy.FOLD_MODELS if by_fold_models else PredictedBy.SEARCH,
        fold_models=fold_models,
        expansion=expansion,
        report=report_of_blend([member.report for member in members]),
        second=_blended_second([member.second for member in members], weights),
    )


def _blended_second(seconds: Sequence[CrossFit | None], weights: Any) -> CrossFit | None:
    """The members' records by the second splits as one, with the weights of the blend.

    The weights are those of all rows: like a kernel's width, they count as chosen.
    """
    records = [second for second in seconds if second is not None]
    if len(records) < len(seconds):
        return None
    first = records[0]
    parts = [record.held_out for record in records]
    by_row = np.einsum("g,git->it", weights, np.stack([part.by_row for part in parts]))
    by_split = None
    if parts[0].by_split is not None:
        pieces = zip(*(part.by_split or () for part in parts))
        by_split = [np.einsum("g,git->it", weights, np.stack(piece)) for piece in pieces]
    models = [record.fold_models for record in records if record.fold_models is not None]
    fold_models = None
    if len(models) == len(records):
        count = models[0].count
        fold_models = mixed(models, np.tile(weights, (count, 1)), np.arange(count))
    by_fold_models = all(record.predicted_by is PredictedBy.FOLD_MODELS for record in records)
    return CrossFit(
        cells=tuple(record.cell for record in records),
        weights=weights,
        splits=first.splits,
        predictions=Predictions(by_row, by_split),
        predicted_by=PredictedBy.FOLD_MODELS if by_fold_models else PredictedBy.SEARCH,
        fold_models=fold_models,
    )


def report_of_blend(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What fitted the members of a blend."""
    name = reports[0].get("name")
    return {"name": name, "reason": f"a blend of {len(reports)}", "members": list(reports)}


def mean_score(predictions: Predictions, scoring: Scoring) -> float:
    """The criterion's mean over the splits."""
    return float(_scores(predictions, scoring).mean())


def worth_fitting(
    leaders: Sequence[CrossFit],
    ledger: Ledger,
    scoring: Scoring,
    *,
    blend: bool,
    min_weight: float = WORTH,
) -> list[CrossFit]:
    """The leaders to fit where each fit is costly: the best, the best without a metric, a blend's."""
    order = sorted(leaders, key=lambda leader: -rank_of(leader, ledger))
    rounds = [leader.cell.candidate.params["round"] for leader in order]
    plain = rounds.index(0) if 0 in rounds else 0
    if not blend or len(order) < 2:
        return [leader for k, leader in enumerate(order) if k < _FITTED_LEADERS or k == plain]
    H = _stacked(order)
    weights = _fit(H, np.isfinite(H).all(axis=(0, 2)), scoring)
    return [leader for k, leader in enumerate(order) if k in (0, plain) or weights[k] > min_weight]


def _stacked(fits: Sequence[CrossFit]) -> Any:
    """The held-out predictions (records, n, targets)."""
    return np.stack([fit.held_out.by_row for fit in fits])


def _fit(H: Any, rows: Any, scoring: Scoring) -> Any:
    """Weights (groups,) ≥ 0 that add up to 1, from some rows of H (groups, n, targets)."""
    v = scoring.training_weights[rows]
    residuals = (H[:, rows] - scoring.targets[rows]) * np.sqrt(v / v.sum())[None, :, None]
    columns = residuals.reshape(len(H), -1).T
    # A thin problem has the same solution as its triangle, whatever the number of rows.
    R = np.linalg.qr(columns / (float(np.abs(columns).max(initial=0.0)) or 1.0), mode="r")
    system = np.concatenate([R, np.ones((1, len(H)))])
    weights, _ = nnls(system, np.append(np.zeros(len(R)), 1.0))
    return weights / weights.sum()


def _blended_predictions(fits: Sequence[CrossFit], mixture: Mixture) -> Predictions:
    """Predictions of every row that all records predict, with the weights from the other folds' rows."""
    H = _stacked(fits)
    tested = np.isfinite(H).all(axis=(0, 2))
    tests = [np.unique(rows) for rows in mixture.splits.tests]
    pairs = zip(mixture.fold_weights, tests)
    values = [np.einsum("g,git->it", weights, H[:, rows]) for weights, rows in pairs]
    means = mean_by_row(np.concatenate(tests), np.concatenate(values), H.shape[1])
    by_row = np.where(tested[:, None], means, np.nan)
    of_splits = [fit.held_out.by_split for fit in fits if fit.held_out.by_split is not None]
    if not of_splits or len(of_splits[0]) < len(tests):  # of a single split, rows have one prediction
        return Predictions(by_row)
    by_split = [
        np.einsum("g,git->it", weights, np.stack(predictions))
        for weights, predictions in zip(mixture.fold_weights, zip(*of_splits))
    ]
    return Predictions(by_row, by_split)


def _splits_of_weights(scoring: Scoring) -> Splits:
    """The folds with weights of their own: the splits; of a single one, five parts of what it tests."""
    splits = scoring.held_out
    if not splits.leave_one_out and len(splits.tests) > 1:
        return splits
    rows = np.unique(np.concatenate(splits.tests))
    tests = [rows[i::_WEIGHT_FOLDS] for i in range(_WEIGHT_FOLDS) if rows[i::_WEIGHT_FOLDS].size]
    left_out = tests if splits.leave_one_out else [splits.left_out[0]] * len(tests)
    return Splits(splits.n, tests, left_out)


def _scores_worse(blend: Predictions, single: Predictions, scoring: Scoring) -> bool:
    """Whether the criterion falls with the blend by more than the noise of the comparison."""
    errors = [scoring.row_errors(predictions.by_row) for predictions in (blend, single)]
    if errors[0] is not None:
        # Where classes have weights, fewer errors of the common one are no reason to refuse.
        fall, noise = paired_difference(errors[0], errors[1], scoring.training_weights)
    else:
        scores = _scores(blend, scoring)
        fall, noise = paired_difference(_scores(single, scoring), scores, None)
        noise *= np.sqrt(scores.size / max(1, scores.size - 1))  # of a few splits
    return fall > noise


def _scores(predictions: Predictions, scoring: Scoring) -> Any:
    """The criterion of every split."""
    problem = scoring.problem
    splits = scoring.held_out
    shifted = [values[None] - problem.offset for values in predictions.of_tests(splits.tests)]
    scores = scoring.criterion.score_splits(shifted, splits, problem, scoring.task)[0]
    return np.asarray(scores, dtype=np.float64)
