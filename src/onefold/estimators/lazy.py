"""Predictions for rows of Dask, which are lazy."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any

from sklearn.utils.validation import validate_data

from onefold.rows import Predicted, example_of, lazily

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
