"""What a plan needs to know of an estimator: the parameters of `plan` that its own stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from onefold.estimators.chosen import Chosen
from onefold.estimators.fixed import Given
from onefold.linalg import is_foreign, to_numpy
from onefold.trust_check import last_step, name_of

_FOLDS = 5  # of cv=None


def asked_by(
    estimator: Any, X: Any, y: Any, given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The rows that the estimator, or the last step of a Pipeline, would get, and keywords for them.

    What an estimator says cannot be `given` beside it: only what has its default in `defaults`.
    """
    if isinstance(X, tuple) and _prepares(estimator):
        raise ValueError(
            "what comes before the machine needs rows to be fitted to; give X, not its shape."
        )
    final, rows, y, _ = last_step(estimator, X, y)
    if not isinstance(final, Chosen | Given):
        raise ValueError(
            f"plan does not know {name_of(estimator)}; give it one of the six estimators with an "
            "approximation, one of whole tables, or a Pipeline that ends in one."
        )
    own = _settings_of(final, rows, y)
    twice = [name for name in own if not _same(given[name], defaults[name])]
    if twice:
        raise ValueError(f"give {' and '.join(twice)} or an estimator, which has its own, not both.")
    return rows, {**given, **_targets_of(final, y), **own}


def _prepares(estimator: Any) -> bool:
    """Whether rows are changed before a machine sees them."""
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1 or _prepares(estimator.steps[-1][1])
    return hasattr(estimator, "as_step")


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _settings_of(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    own = {name: getattr(estimator, name) for name in ("kernel", "approximation", "n_jobs")}
    if isinstance(estimator, Chosen):
        grid = {"n_gammas": _count(estimator.gammas), "n_alphas": _count(estimator.alphas)}
        learned = {"metric": estimator.metric, "blend": bool(estimator.blend)}
        return own | grid | learned | {"cv": _folds(estimator.cv, X, y)}
    ridges = np.unique(np.asarray(to_numpy(estimator.alpha))).size
    return own | {"n_gammas": 1, "n_alphas": int(ridges), "metric": None, "blend": False, "cv": 0}


def _targets_of(estimator: Any, y: Any) -> dict[str, int]:
    """How many classes, or columns, there are to predict; nothing where nobody says."""
    if y is None:
        return {}
    values = to_numpy(y) if is_foreign(y) else np.asarray(y)
    if get_tags(estimator).estimator_type == "classifier":
        return {"classes": int(np.unique(values).size)}
    return {"targets": 1 if values.ndim == 1 else int(values.shape[1])}


def _count(values: Any) -> int | None:
    """How many there are to try; None leaves that to the default grid."""
    return None if values is None else int(np.size(np.asarray(values, dtype=object)))


def _folds(cv: Any, X: Any, y: Any) -> int | str:
    """The number of splits."""
    if isinstance(cv, LeaveOneOut):
        return "loo"
    if cv is None or isinstance(cv, Integral | str):
        return _FOLDS if cv is None else cv if isinstance(cv, str) else int(cv)
    if hasattr(cv, "get_n_splits"):
        return int(cv.get_n_splits(None if isinstance(X, tuple) else X, y))
    if isinstance(cv, Iterator) or not isinstance(cv, Sized):
        raise ValueError("cv is an iterator of splits, which serves once; give a list to plan with.")
    return len(cv)
