"""Criteria by name: how their scores are printed, and whether they suit a target."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer, get_scorer_names

from onefold.facts.measures import (
    MEASURES,
    error_number,
    measure_of,
    negated,
    number,
    unchanged,
)
from onefold.facts.words import did_you_mean

# Criteria of onefold that need no splits.
WHOLE = ("press", "span", "gcv", "evidence", "cost", "radius_margin")
# Criteria of onefold by task; scorers of scikit-learn are criteria, too.
_OWN = {
    "classification": ("error", "accuracy", *WHOLE),
    "regression": ("mse", "neg_mean_squared_error", "cov", "mape", *WHOLE),
}
# Criteria that messages recommend.
_INSTEAD = {"classification": "error, balanced_accuracy or f1_macro", "regression": "mse or r2"}
# Criteria of onefold that are errors, whose score is therefore negative.
_LOSSES = ("press", "span", "gcv", "cost", "radius_margin", "cov")

# What a criterion is called that is a function of the user.
OWN_FUNCTION = "a custom function"
# Labels that a message lists.
_MOST_LABELS = 8


@dataclass(frozen=True)
class ScoreFormat:
    """The number that people read in place of a criterion's score, of which greater is better."""

    label: str
    from_score: Callable[[Any], Any] = unchanged  # from the score to the number
    measure: str | None = None  # the name of the measure, if it is one
    smaller: bool = False  # whether smaller numbers are better


def format_of(criterion: str | None) -> ScoreFormat:
    """How the score of a criterion is shown: as accuracy for the error rate, as RMSE for mse.

    None stands for a function of the user.
    """
    if criterion is None:
        return ScoreFormat("score")
    name = measure_of(criterion)
    if name is not None:
        measure = MEASURES[name]
        return ScoreFormat(measure.label, measure.criteria[criterion], name, measure.smaller)
    label = criterion.removeprefix("neg_").replace("_", " ")
    if criterion in _LOSSES or criterion.startswith("neg_"):
        return ScoreFormat(label, negated, smaller=True)
    return ScoreFormat(label)


def score_label(criterion: str | None) -> str:
    """What a criterion measures: ``accuracy`` for the error rate, ``RMSE`` for the squared error."""
    return format_of(criterion).label


def score_text(criterion: str | None, score: float, error: float | None = None) -> str:
    """The number that `score_label` names, from a score of which greater is better, ± its error."""
    score_format = format_of(criterion)
    words = number(score_format.measure, float(score_format.from_score(score)) + 0.0)
    if error is None:
        return words
    # Of a root to first order: half the distance between the ends.
    high = float(score_format.from_score(score + error))
    low = float(score_format.from_score(score - error))
    return f"{words} ± {error_number(score_format.measure, abs(high - low) / 2)}"


def score_words(criterion: str | None, score: float) -> str:
    """Label and number together."""
    return f"{score_label(criterion)} {score_text(criterion, score)}"


def criterion_of(estimator: Any) -> str | None:
    """The name of the criterion that a search goes by, the first of several; None for a function."""
    if "criterion" in getattr(estimator, "dropped_params_", {}):
        return None
    criterion = estimator.criterion
    if isinstance(criterion, list | tuple):
        criterion = criterion[0]
    if criterion is None:
        return str(estimator._default_criterion)
    return criterion if isinstance(criterion, str) else None


def requested_criterion(estimator: Any) -> str | None:
    """The name of the criterion that was requested; None if it is the default."""
    if "criterion" in getattr(estimator, "dropped_params_", {}):
        return OWN_FUNCTION
    if getattr(estimator, "criterion", None) is None:
        return None
    return criterion_of(estimator) or OWN_FUNCTION


def check_criterion(name: str, task: str, target: str, values: np.ndarray | None) -> None:
    """Raise if the criterion is unknown, or does not suit the task or the values of the target.

    `values` is None before the target has been read.
    """
    if name in _OWN[task]:
        return
    own_task = next((task for task, names in _OWN.items() if name in names), None)
    if name in get_scorer_names():
        own_task = _task_of(get_scorer(name))
    if own_task is None:
        raise ValueError(f"unknown criterion '{name}'; {_nearest(name, task)}")
    if own_task != task:
        raise ValueError(
            f"the criterion {name!r} is for {own_task}, but the task is {task}; use {_INSTEAD[task]}"
        )
    if task == "classification" and values is not None:
        _check_labels(name, get_scorer(name), target, np.unique(values))


def _nearest(name: str, task: str) -> str:
    scorers = [scorer for scorer in get_scorer_names() if _task_of(get_scorer(scorer)) == task]
    suggestion = did_you_mean(name, [*_OWN[task], *scorers])
    return suggestion or f"use one of {', '.join(_OWN[task])}, or a scikit-learn scorer for {task}"


def _task_of(scorer: Any) -> str:
    """The task of a scikit-learn scorer, from the module of its function."""
    module = scorer._score_func.__module__
    if "cluster" in module:
        return "clustering"
    return "regression" if module.endswith("_regression") else "classification"


def _check_labels(name: str, scorer: Any, target: str, classes: np.ndarray) -> None:
    """Try the scorer on one row of each class with a constant model."""
    rows = np.zeros((len(classes), 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one row of each class is too few for some scores
            scorer(DummyClassifier(strategy="prior").fit(rows, classes), rows, classes)
    except (ValueError, TypeError, AttributeError) as error:
        labels = ", ".join(f"'{label}'" for label in classes[:_MOST_LABELS])
        # A similar criterion that takes any classes.
        if "brier" in name:
            similar = "neg_log_loss"
        elif name in {"f1", "precision", "recall", "jaccard"}:
            similar = f"{name}_macro"
        else:
            similar = "f1_macro"
        raise ValueError(
            f"the criterion {name!r} cannot be used with the classes {labels} of '{target}'; use "
            f"{similar}, error or balanced_accuracy"
        ) from error
