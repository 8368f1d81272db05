"""Rows of Dask: what cannot be done with them, said before any work; and predictions that are lazy."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any

from sklearn.model_selection import LeaveOneOut
from sklearn.utils.validation import validate_data

from onefold.approximations import Approximation
from onefold.criteria import Criterion
from onefold.kernels import Precomputed
from onefold.rows import Predicted, example_of, is_dask, is_remote, lazily

_PREDICTS = (
    "expansion_", "classes_", "calibrator_", "single_target_", "n_features_in_", "feature_names_in_",
)  # fmt: skip
_BOUNDS = ("intervals_", "fold_models_", "spread_models_")  # for intervals alone
_OWN = {"n_jobs": 1, "client": None, "callback": None}  # of a copy on a worker


def lazy_predictions(
    estimator: Any, method: str, X: Any, dtype: Any, columns: Sequence[Any] | None, **options: Any
) -> Any:
    """A method of the estimator for the rows of a Dask collection, partition by partition.

    `options` are further arguments, of the methods that have any: those of intervals.
    """
    # Wrong columns are told now, not by a worker once somebody computes.
    validate_data(estimator, example_of(X), reset=False, skip_check_array=True)
    bare = copy(estimator)
    for name in list(vars(bare)):
        if name.endswith("_") and name not in (*_PREDICTS, *(_BOUNDS if options else ())):
            delattr(bare, name)  # what a fit tells of itself need not travel
        elif name in _OWN:
            setattr(bare, name, _OWN[name])
    bare.expansion_ = estimator.expansion_.on_host()
    for name in ("fold_models_", "spread_models_"):
        if getattr(bare, name, None) is not None:
            setattr(bare, name, getattr(bare, name).on_host())
    device = getattr(estimator, "device", None)
    return lazily(X, Predicted(partial(getattr(bare, method), **options), dtype, columns, device))


def refuse_approximation(estimator: Any, X: Any, approximation: Approximation) -> None:
    """Raise if an approximation, or a kernel matrix, cannot take rows that stay in partitions."""
    if not (is_dask(X) or is_remote(X)):
        return
    if isinstance(estimator._kernel_for_tags(), Precomputed):
        raise ValueError(
            "a precomputed kernel matrix must be in one place, and X is one of Dask; fit X.compute(), "
            "or give rows and a kernel."
        )
    if not approximation.streams:
        raise ValueError(
            f"{approximation!r} needs all rows in one place, and those of Dask stay on its workers; use "
            'approximation="nystroem", or fit X.compute() if memory holds it.'
        )


def refuse_search(X: Any, criteria: Sequence[Criterion], cv: Any, refit: str) -> None:
    """Raise if a search asks more of rows in partitions than sums over them."""
    if not (is_dask(X) or is_remote(X)):
        return
    if any(criterion.needs not in ("squares", "sums") for criterion in criteria):
        raise ValueError(
            "the criterion needs all held-out rows, or the whole smoother, in one place, and rows of "
            'Dask stay on its workers; use "mse", "error", "accuracy", "cov" or "mape".'
        )
    if isinstance(cv, str | LeaveOneOut):
        raise ValueError(
            "leave-one-out predictions of rows on Dask's workers are not made; use folds, such as cv=5."
        )
    if refit == "exact":
        raise ValueError(
            'refit="exact" needs all rows in one place, and those of Dask stay on its workers; use '
            'refit="auto" or "same".'
        )
