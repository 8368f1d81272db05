"""A fitted estimator on fewer centres: how many, and what that costs in error.

The algebra is that of :mod:`onefold.expansions.compression`. The fold models of intervals, and those of
the size of residuals, are projected on the same centres, so that the model has no other rows of the
training table; calibrators and held-out residuals stay those of the model before.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from onefold.criteria import label_index
from onefold.estimators.validation import check_count, check_rows, require_finite, seed_of
from onefold.expansions import FittedFunction
from onefold.expansions.compression import Pool, fewest_pivots, pivots, projected, require_centres
from onefold.linalg import HostArray, Index, host_array, take_rows
from onefold.machine.warning import warn_user
from onefold.rows import is_dask, to_host

# Criteria whose scores are an RMSE or an error rate, by what makes these of a score.
_ERROR_OF_SCORE: dict[str, Any] = {
    "mse": lambda score: np.sqrt(max(0.0, -score)),
    "neg_mean_squared_error": lambda score: np.sqrt(max(0.0, -score)),
    "error": lambda score: -score,
    "accuracy": lambda score: 1.0 - score,
}
# Attributes of models without each fold: of f, and of the logarithm of the size of residuals.
_MODELS = ("fold_models_", "spread_models_")
# Rows on which the fold models are compared: each is a prediction by all folds.
_FOLD_ROWS = 1000


@dataclass(frozen=True)
class Comparison:
    """The rows on which f̃ is compared with f, and what is known of their targets."""

    rows: Any
    values: HostArray  # f (rows, targets)
    of_classes: bool
    truth: HostArray | None  # targets (rows, targets), or the positions of labels; None if not given
    of_centres: bool  # whether the rows are the centres of f

    def root_mean_square(self, values: HostArray) -> HostArray:
        """The change of f, for every target."""
        return np.asarray(np.sqrt(np.mean((values - self.values) ** 2, axis=0)))

    def labels_changed(self, values: HostArray) -> HostArray:
        """The share of the labels that change."""
        return np.mean(label_index(values) != label_index(self.values), keepdims=True)

    def without(self, chosen: Index) -> Comparison:
        """Without the centres where f̃ is f by construction, unless there are no others."""
        if not self.of_centres:
            return self
        places = np.setdiff1d(np.arange(self.values.shape[0]), chosen)
        if not places.size:
            return self
        return replace(self, rows=take_rows(self.rows, places), values=self.values[places])

    def change(self, values: HostArray) -> HostArray:
        """In the unit of :meth:`error`."""
        return self.labels_changed(values) if self.of_classes else self.root_mean_square(values)

    def error(self, values: HostArray) -> HostArray | None:
        """RMSE for every target, or the rate of wrong labels; None without targets."""
        if self.truth is None:
            return None
        if self.of_classes:
            return np.mean(label_index(values) != self.truth, keepdims=True)
        return np.asarray(np.sqrt(np.mean((values - self.truth) ** 2, axis=0)))


def compressed(
    estimator: Any, centres: int | None, tolerance: float | None, X: Any, y: Any, random_state: Any
) -> Any:
    """What :meth:`onefold.estimators.base.KernelMachine.compressed` returns."""
    check_is_fitted(estimator, "expansion_")
    function = estimator.expansion_
    require_centres(function)
    _check_request(centres, tolerance, X, y)
    of_classes = hasattr(estimator, "classes_")
    truth = None if y is None else _truth(estimator, y, function.n_targets)
    rows = None
    if X is not None:
        rows = to_host(check_rows(estimator, X, sparse=function.accepts_sparse, fitting=False))
        if truth is not None:
            check_consistent_length(rows, truth)
    error = None
    if tolerance is not None and truth is None:
        error = heldout_error(estimator)
        if error is None:
            raise ValueError(
                f"this {type(estimator).__name__} has no held-out error that a tolerance could be a "
                "share of; pass X and y of rows that it was not fitted on, or give centres instead."
            )
    with estimator._threads(function.n_centres):
        pool = Pool.of(function, at_least=centres or 1)
        values = pool.values if rows is None else host_array(pool.function.predict(rows))
        require_finite(values)
        rows_compared = pool.rows if rows is None else rows
        comparison = Comparison(rows_compared, values, of_classes, truth, rows is None)
        error = comparison.error(values) if error is None else error
        seed = seed_of(random_state) or 0
        if tolerance is not None and error is not None:
            chosen = _within(pool, comparison, float(tolerance) * error, seed)
        else:
            chosen = _chosen(pool, centres, seed)
        return _with_centres(estimator, pool, chosen, comparison, error, tolerance)


def _check_request(centres: Any, tolerance: Any, X: Any, y: Any) -> None:
    """Raise where the arguments make no sense, whatever the model."""
    if (centres is None) == (tolerance is None):
        raise ValueError(
            "give either centres, the number of centres to keep, or tolerance, the change that is "
            "allowed as a share of the held-out error."
        )
    if centres is not None:
        check_count("centres", centres)
    if tolerance is not None and (
        isinstance(tolerance, bool)
        or not isinstance(tolerance, Real)
        or not 0 < float(tolerance) < np.inf
    ):
        raise ValueError(f"tolerance must be a positive number, such as 0.05; got {tolerance!r:.60}.")
    if y is not None and X is None:
        raise ValueError("y is given without X; pass the rows that it belongs to.")
    if is_dask(X) or is_dask(y):
        raise ValueError("X and y must be in memory; pass X.compute() and y.compute().")


def _truth(estimator: Any, y: Any, targets: int) -> HostArray:
    """Targets (rows, targets); of classes the position of each label, −1 of unknown ones."""
    if hasattr(estimator, "classes_"):
        labels = np.asarray(to_host(y)).reshape(-1).tolist()
        if any(map(_is_missing, labels)):
            raise ValueError("y has missing labels; leave out their rows.")
        positions = {label: i for i, label in enumerate(np.asarray(estimator.classes_).tolist())}
        return np.array([positions.get(label, -1) for label in labels])
    values = check_array(to_host(y), ensure_2d=False, dtype=np.float64, input_name="y")
    values = values.reshape(len(values), -1)
    if values.shape[1] != targets:
        raise ValueError(f"y must have {targets} columns, one for every target; got {values.shape[1]}.")
    return np.asarray(values)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA, which is neither equal to itself nor different."""
    equal = label == label
    return label is None or not isinstance(equal, bool | np.bool_) or not equal


def heldout_error(estimator: Any) -> HostArray | None:
    """RMSE of every target, or the error rate, by held-out rows of the fit; None if it is not known."""
    intervals = getattr(estimator, "intervals_", None)
    if intervals is not None:
        return np.asarray(np.sqrt(np.mean(np.asarray(intervals.residuals) ** 2, axis=0)))
    score = getattr(estimator, "blend_score_", None)
    score = getattr(estimator, "best_score_", None) if score is None else score
    if score is None or "criterion" in getattr(estimator, "dropped_params_", {}):
        return None
    criterion = estimator.criterion
    criterion = criterion[0] if isinstance(criterion, list | tuple) else criterion
    criterion = estimator._default_criterion if criterion is None else criterion
    of_classes = hasattr(estimator, "classes_")
    if not isinstance(criterion, str) or criterion not in _ERROR_OF_SCORE:
        return None
    if not of_classes and estimator.expansion_.n_targets > 1:  # the mean over targets of any unit
        return None
    return np.array([_ERROR_OF_SCORE[criterion](float(score))])


def _chosen(pool: Pool, centres: int | None, seed: int) -> Index | None:
    """So many centres; None for all of them."""
    if centres is None or centres == pool.size:
        return None
    return pivots(pool, centres, np.random.default_rng([seed, 3]))


def _within(pool: Pool, comparison: Comparison, allowed: HostArray, seed: int) -> Index | None:
    """The fewest centres that change f by no more than `allowed`; None if only all of them do."""

    def is_enough(order: Index) -> bool:
        [function] = projected([pool.function], take_rows(pool.rows, order))
        remaining = comparison.without(order)
        values = host_array(function.predict(remaining.rows))
        return bool(np.all(remaining.change(values) <= allowed))

    chosen = fewest_pivots(pool, is_enough, lambda: np.random.default_rng([seed, 3]))
    if chosen is None:
        warn_user(
            f"all {pool.size} centres are kept, because fewer change the predictions by more than the "
            "tolerance; use a larger tolerance, or give centres."
        )
    return chosen


def _with_centres(
    estimator: Any,
    pool: Pool,
    chosen: Index | None,
    comparison: Comparison,
    error: HostArray | None,
    tolerance: float | None,
) -> Any:
    """A copy of the estimator on the chosen centres, with the record of what changes."""
    copied = copy(estimator)
    function: FittedFunction = pool.function
    model_changes: dict[str, float | None] = dict.fromkeys(_MODELS)
    if chosen is not None:
        comparison = comparison.without(chosen)
        names = [name for name in _MODELS if getattr(estimator, name, None) is not None]
        models = [getattr(estimator, name).on_host() for name in names]
        function, *on_fewer = projected([pool.function, *models], take_rows(pool.rows, chosen))
        copied.expansion_ = function
        for name, before, after in zip(names, models, on_fewer):
            setattr(copied, name, after)
            model_changes[name] = _fold_change(before, after, comparison.rows)
    values = host_array(function.predict(comparison.rows)) if chosen is not None else comparison.values
    after = comparison.error(values)
    record = {
        "centres": pool.size if chosen is None else int(chosen.size),
        "centres_before": pool.size,
        "norm_change": _plain(pool.change(function)) if chosen is not None else 0.0,
        "rows": int(comparison.values.shape[0]),
        "rows_from": "centres" if comparison.of_centres else "X",
        "rms_change": _plain(comparison.root_mean_square(values)),
        "labels_changed": _plain(comparison.labels_changed(values)) if comparison.of_classes else None,
        "fold_models_change": model_changes["fold_models_"],
        "spread_models_change": model_changes["spread_models_"],
        "tolerance": None if tolerance is None else float(tolerance),
        "error_before": None if error is None or comparison.truth is None else _plain(error),
        "error_after": None if after is None else _plain(after),
        "heldout_error": None if tolerance is None or error is None else _plain(error),
    }
    copied.approximation_ = dict(estimator.approximation_) | {"compressed": record}
    return copied


def _fold_change(before: Any, after: Any, rows: Any) -> float:
    """The root mean square change of the fold models on some of the rows, the largest over folds."""
    count = rows.shape[0]
    numbers = np.unique(np.linspace(0, count - 1, min(count, _FOLD_ROWS)).astype(np.intp))
    sample = take_rows(rows, numbers)
    squares = (after.predict(sample) - before.predict(sample)) ** 2
    return float(np.sqrt(np.mean(squares, axis=0)).max())


def _plain(values: HostArray) -> float | list[float]:
    """One number, or a list of one for every target."""
    numbers = [float(value) for value in np.atleast_1d(values)]
    return numbers[0] if len(numbers) == 1 else numbers
