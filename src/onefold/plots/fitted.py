"""The fitted machine inside what a user has, and what it can be asked for."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from onefold.estimators.base import on_host
from onefold.linalg import to_numpy


def machine_of(estimator: Any) -> Any:
    """The last step of a pipeline, the machine inside a table's estimator, or the estimator itself."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "estimator_"):
            estimator = estimator.estimator_
        else:
            return on_host(estimator)


def searched(estimator: Any, attribute: str, remedy: str) -> Any:
    """An attribute of a fitted machine; a ValueError with the remedy where it has none."""
    if not hasattr(estimator, "expansion_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit first.")
    found = getattr(estimator, attribute, None)
    if found is None:
        raise ValueError(f"this {type(estimator).__name__} has no {attribute}: {remedy}")
    return found


def score_words(estimator: Any) -> str:
    """What the scores of a search mean."""
    name = getattr(estimator, "criterion", None)
    if isinstance(name, list | tuple) and name:
        name = name[0]
    if name is None:
        name = getattr(estimator, "_default_criterion", None)
    words = f"score by {name}" if isinstance(name, str) else "score"
    return f"{words} (higher is better)"


def as_array(values: Any) -> Any:
    """Targets of whatever kind as a NumPy array."""
    if hasattr(values, "to_numpy"):  # a series or frame
        return values.to_numpy()
    return to_numpy(values)
