r"""Criteria that add up block by block: a function of weighted means over held-out rows.

    score = φ( Σ_i v_i t(f_i, y_i) / Σ_i v_i )

with t the terms of one row and φ a function of their means. A block of rows leaves its sums, μ × terms
numbers, whatever its size; nothing else of its predictions is needed. A criterion of this kind is three
methods: `targets`, `terms` and `from_means`; the first and the last have a default.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from onefold.approximations import Model, Problem
from onefold.approximations.footprint import HELD_PREDICTIONS
from onefold.criteria.base import Accumulator, Criterion, Scored, Scoring, Task, label_index
from onefold.heldout import HeldoutBlock, Splits
from onefold.linalg import Array, asarray_like, host_array, namespace, prefers_large_calls, take_rows
from onefold.machine.threads import cached_property, check_stop
from onefold.machine.warning import warn_user
from onefold.rows import Rows, rows_of

# Rows whose terms are held at once on the host, so that they stay in its cache.
_PIECE = 2**13


class SumCriterion(Criterion):
    """A function of weighted means over rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.criteria import SumCriterion
    >>> class AbsoluteError(SumCriterion):
    ...     def targets(self, problem, task):
    ...         return problem.Y
    ...
    ...     def terms(self, predictions, targets):
    ...         return abs(predictions - targets[None])
    ...
    ...     def from_means(self, means):
    ...         return -means.mean(axis=-1)
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(criterion=AbsoluteError(), gammas=[1.0], alphas=[0.1]).fit(X, y)
    >>> bool(np.isclose(model.best_score_, -abs(model.heldout_prediction_ - y).mean(), rtol=1e-3))
    True
    """

    needs: ClassVar[Literal["squares", "sums"]] = "sums"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "truth" in vars(cls) and "targets" not in vars(cls):
            warn_user(
                f"{cls.__name__}.truth: this method of a SumCriterion is named `targets` since 1.0, and "
                "the former name is not called any more from 2.0 on; rename it.",
                FutureWarning,
            )
            cls.targets = vars(cls)["truth"]  # type: ignore[method-assign]

    def targets(self, problem: Problem, task: Task) -> Array:
        """What predictions are compared with, row by row: (n, columns); by default problem.Y."""
        return problem.Y

    @abstractmethod
    def terms(self, predictions: Array, targets: Array) -> Array:
        """The terms (μ, rows, terms) of some rows from their predictions (μ, rows, targets)."""

    def from_means(self, means: Any) -> Any:
        """Scores (...) from the terms' weighted means (..., terms): minus the mean of all terms."""
        return -np.mean(means, axis=-1)

    def ranks(self, means: Any) -> Any | None:
        """What ranks (μ,) the μ from their means (μ, splits, terms), where not the mean score."""
        return None

    def sums(self, predictions: Array, targets: Array, weight: Array) -> Array:
        """Σ_i v_i t(f_i, y_i) of a block of rows: (μ, terms)."""
        return namespace(predictions).sum(
            self.terms(predictions, targets) * weight[None, :, None], axis=1
        )

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return SumScoring(self, problem, task, splits)

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        targets = host_array(self.targets(problem, task))
        scores = []
        for values, rows in zip(predictions, splits.tests):
            weight = np.ones(len(rows)) if task.sample_weight is None else task.sample_weight[rows]
            scores.append(self.from_means(self.sums(values, targets[rows], weight) / weight.sum()))
        return np.stack(scores, axis=1)


class LabelCriterion(SumCriterion):
    """A score from counts of labels; `smooth` ranks by the squared error of the decision values."""

    def __init__(self, *, smooth: bool = False) -> None:
        # Decision values tell more than right or wrong: the best of many counts is the luckiest.
        self._smooth = smooth
        self.must_beat_constant = smooth

    @abstractmethod
    def counted(self, label: Any, true: Any, classes: int) -> list[Array]:
        """What is counted of each row (μ, rows) from the numbers of its predicted and its true class."""

    @abstractmethod
    def from_shares(self, shares: Any) -> Any:
        """Scores (...) from the weighted means (..., counts) of what is counted."""

    def targets(self, problem: Problem, task: Task) -> Array:
        labels = asarray_like(label_index(problem.Y), problem.Y)[:, None]
        if not self._smooth:
            return labels
        # Squared errors count as in training, where classes may have weights; counts of errors do not.
        of_class = np.ones(problem.n) if problem.weight is None else problem.weight
        of_class = of_class if task.sample_weight is None else of_class / task.sample_weight
        return namespace(labels).concat(
            [labels, asarray_like(of_class[:, None], problem.Y), problem.Y], axis=1
        )

    def terms(self, predictions: Array, targets: Array) -> Array:
        xp = namespace(targets)
        label = xp.astype(label_index(predictions), targets.dtype)
        terms = self.counted(label, targets[None, :, 0], max(2, predictions.shape[-1]))
        if self._smooth:
            squares = xp.sum((predictions - targets[None, :, 2:]) ** 2, axis=-1) * targets[None, :, 1]
            of_class = xp.broadcast_to(targets[None, :, 1], squares.shape)
            terms = [*terms, squares, of_class]
        return xp.stack(terms, axis=-1)

    def from_means(self, means: Any) -> Any:
        return self.from_shares(means[..., :-2] if self._smooth else means)

    def ranks(self, means: Any) -> Any | None:
        return -(means[..., -2] / means[..., -1]).mean(axis=1) if self._smooth else None


class ErrorRate(LabelCriterion):
    """Minus the share of wrong labels; accuracy with ``offset=1``."""

    mean_of_rows = True

    def __init__(self, offset: float = 0.0, *, smooth: bool = False) -> None:
        super().__init__(smooth=smooth)
        self._offset = offset

    def for_several_kernels(self) -> ErrorRate:
        return ErrorRate(self._offset, smooth=True)

    def counted(self, label: Any, true: Any, classes: int) -> list[Array]:
        return [namespace(label).astype(label != true, label.dtype)]

    def from_shares(self, shares: Any) -> Any:
        return self._offset - shares[..., 0]

    def row_losses(self, predictions: Any, Y: Any) -> Any:
        return super().row_losses(predictions, Y) if self._smooth else self.row_errors(predictions, Y)

    def row_errors(self, predictions: Any, Y: Any) -> Any:
        wrong = np.not_equal(label_index(predictions), label_index(Y)).astype(np.float64)
        return np.where(np.isfinite(predictions).all(axis=1), wrong, np.nan)


class BalancedAccuracy(LabelCriterion):
    """The mean share of right labels over the classes that a split tests.

    It has no `row_errors`: rows of different classes do not count alike, and so splits are compared.
    """

    def for_several_kernels(self) -> BalancedAccuracy:
        return BalancedAccuracy(smooth=True)

    def counted(self, label: Any, true: Any, classes: int) -> list[Array]:
        xp = namespace(label)
        of_class = [xp.broadcast_to(true == float(c), label.shape) for c in range(classes)]
        counted = [of_class[c] & (label == float(c)) for c in range(classes)] + of_class
        return [xp.astype(flags, label.dtype) for flags in counted]

    def from_shares(self, shares: Any) -> Any:
        right, rows = np.split(shares, 2, axis=-1)
        tested = rows > 0
        recall = np.divide(right, rows, out=np.zeros_like(right), where=tested)
        return recall.sum(axis=-1) / tested.sum(axis=-1)


class SquaredError(SumCriterion):
    """−mean (y − f)² over rows and targets."""

    needs = "squares"
    mean_of_rows = True

    def terms(self, predictions: Array, targets: Array) -> Array:
        return (predictions - targets[None, ...]) ** 2


class VariationCoefficient(SumCriterion):
    """−√(mean (y − f)²) / |mean y|, averaged over targets: the CoV of [edwards2013]_."""

    def targets(self, problem: Problem, task: Task) -> Array:
        y = asarray_like(task.y.reshape(problem.n, -1), problem.Y)
        return namespace(y).concat([problem.Y, y], axis=1)

    def terms(self, predictions: Array, targets: Array) -> Array:
        xp = namespace(predictions)
        t = predictions.shape[2]
        squares = (predictions - targets[None, :, :t]) ** 2
        return xp.concat([squares, xp.broadcast_to(targets[None, :, t:], squares.shape)], axis=2)

    def from_means(self, means: Any) -> Any:
        squares, level = np.split(means, 2, axis=-1)
        if np.any(level == 0):
            raise ValueError(
                'criterion="cov" divides by the mean of y, which is 0 for some held-out rows; use '
                'criterion="mse".'
            )
        return -np.mean(np.sqrt(squares) / np.abs(level), axis=-1)


class PercentageError(SumCriterion):
    """−mean |y − f| / |y| over rows and targets, as scikit-learn counts it: [edwards2013]_'s MAPE."""

    def targets(self, problem: Problem, task: Task) -> Array:
        y = task.y.reshape(problem.n, -1).astype(np.float64)  # |y| of an int8 may overflow
        size = np.maximum(np.abs(y), np.finfo(float).eps)
        return namespace(problem.Y).concat([problem.Y, asarray_like(size, problem.Y)], axis=1)

    def terms(self, predictions: Array, targets: Array) -> Array:
        t = predictions.shape[2]
        difference = predictions - targets[None, :, :t]
        return namespace(difference).abs(difference) / targets[None, :, t:]


def _with_misses(sums: Array, predictions: Array) -> Array:
    """Sums (μ, terms) or terms (μ, rows, terms), and then 1 where a prediction behind is not finite."""
    xp = namespace(predictions)
    axes = (1, 2) if sums.ndim == 2 else 2
    missing = ~xp.all(xp.isfinite(predictions), axis=axes)
    return xp.concat([sums, xp.astype(missing, sums.dtype)[..., None]], axis=-1)


@dataclass(frozen=True)
class TermSums:
    """Predictions (μ, rows, targets) and (targets, weight) to sums and misses (μ, terms + 1)."""

    criterion: SumCriterion

    def __call__(self, predictions: Array, compared: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.criterion.sums(predictions, compared[:, :-1], compared[:, -1])
            return _with_misses(sums, predictions)


@dataclass(frozen=True)
class _Compared:
    """What some predicted rows are compared with, in the library that holds the predictions."""

    targets: Array  # (rows, columns)
    weight: Array  # (rows,)
    tested: Array | None  # (rows,): which rows count in a score; None where all do

    def at(self, positions: Any) -> _Compared:
        """That of some of the rows, by a slice or by their positions."""
        if isinstance(positions, slice):
            tested = None if self.tested is None else self.tested[positions]
            return _Compared(self.targets[positions, ...], self.weight[positions], tested)
        tested = None if self.tested is None else take_rows(self.tested, positions)
        return _Compared(take_rows(self.targets, positions), take_rows(self.weight, positions), tested)


class SumScoring(Scoring):
    """Adds up the terms of every part as its blocks come, where the blocks are."""

    criterion: SumCriterion
    splits: Splits

    def __init__(self, criterion: SumCriterion, problem: Problem, task: Task, splits: Splits) -> None:
        super().__init__(criterion, problem, task, splits)
        weight = task.sample_weight
        self._weights = [
            times * 1.0 if weight is None else times * weight[rows]
            for rows, times in zip(splits.predicted, splits.times_tested)
        ]
        # On the host, or on a device: where blocks of predictions have come from so far.
        self._compared_on: dict[bool, list[_Compared]] = {}

    @property
    def scores_rows(self) -> bool:
        """Whether every row has a score of its own, and so no sums over rows."""
        return self.splits.leave_one_out and len(self.splits) > 1

    def shortcut(self, model: Model, alphas: Any) -> Scored | None:
        splits = self.splits
        if self.criterion.needs == "squares" and not (self.compares_rows or splits.leave_one_out):
            errors = model.heldout_squared_error(splits.left_out, splits.tests, alphas)
            if errors is not None:
                return Scored.of(-errors, np.isfinite(errors).all(axis=1))
        if not self.problem.remote or self.keeps_predictions(model, len(alphas)):
            return None
        terms = TermSums(self.criterion)
        sums = model.heldout_sums(splits.left_out, splits.tests, alphas, terms, self._targets_by_row)
        return None if sums is None else self.scored_from(np.stack(sums, axis=1))

    def start(self) -> Accumulator:
        return _SumAccumulator(self)

    def keeps_predictions(self, model: Model, n_alphas: int) -> bool:
        # Of a model that is let go they cannot be had again.
        return not model.keep or 8 * n_alphas * math.prod(self.problem.Y.shape) <= HELD_PREDICTIONS

    def scored_from(self, sums: Any) -> Scored:
        """Scores from sums (μ, scores, terms + 1)."""
        means = sums[..., :-1]
        misses = sums[..., -1]
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.scores_rows:
                means = means / np.array([weight.sum() for weight in self._weights])[None, :, None]
            scores = self.criterion.from_means(means)
            ranks = self.criterion.ranks(means)
        return Scored.of(scores, np.all(misses == 0, axis=1), ranks)

    @cached_property
    def _targets_by_row(self) -> Rows:
        """The rows with what they are compared with and their weights, where the rows are."""
        weight = self.task.sample_weight
        weight = np.ones(self.problem.n) if weight is None else weight
        targets = host_array(self.criterion.targets(self.problem, self.task))
        compared = np.concatenate([targets, weight[:, None]], axis=1)
        return rows_of(self.problem.X, compared, None, self.problem.device)

    def compared_in(self, values: Array) -> list[_Compared]:
        """What every part is compared with, in the library that holds the values."""
        key = prefers_large_calls(values)
        if key not in self._compared_on:
            targets = asarray_like(self.criterion.targets(self.problem, self.task), values)
            parts = zip(self.splits.predicted, self.splits.times_tested, self._weights)
            self._compared_on[key] = [
                _Compared(
                    take_rows(targets, rows),
                    asarray_like(weight, values),
                    None if np.all(times) else asarray_like(times, values) > 0,
                )
                for rows, times, weight in parts
            ]
        return self._compared_on[key]


class _SumAccumulator(Accumulator):
    """The sums of the terms of every part, or the terms themselves where every row has a score."""

    def __init__(self, scoring: SumScoring) -> None:
        self._scoring = scoring
        self._sums: list[Any] = [None] * len(scoring.splits.predicted)

    def add(self, block: HeldoutBlock) -> None:
        part, positions, values = block
        scoring = self._scoring
        criterion = scoring.criterion
        compared = scoring.compared_in(values)[part].at(positions)
        n = values.shape[1]
        xp = namespace(values)
        step = max(1, n) if prefers_large_calls(values) else _PIECE
        total = self._sums[part]
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, n, step):
                check_stop()
                rows = slice(start, min(start + step, n))
                piece = values[:, rows, :]
                at_rows = compared.at(rows)
                if at_rows.tested is not None:  # other rows count 0 times
                    piece = xp.where(at_rows.tested[None, :, None], piece, xp.zeros_like(piece))
                if scoring.scores_rows:
                    terms = _with_misses(criterion.terms(piece, at_rows.targets), piece)
                    total = terms if total is None else xp.concat([total, terms], axis=1)
                else:
                    sums = criterion.sums(piece, at_rows.targets, at_rows.weight)
                    sums = _with_misses(sums, piece)
                    total = sums if total is None else total + sums
        self._sums[part] = total

    def result(self) -> Scored:
        sums = self._sums
        table = sums[0] if self._scoring.scores_rows else namespace(sums[0]).stack(sums, axis=1)
        return self._scoring.scored_from(host_array(table))
