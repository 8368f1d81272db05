"""Criteria by name: what their scores mean, and whether they go with a target."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.metrics import get_scorer, get_scorer_names

from onefold.facts.words import error_number, number

# Criteria that hold out no splits.
WHOLE = ("press", "span", "gcv", "evidence", "cost", "radius_margin")
_OWN = {
    "classification": ("error", "accuracy", *WHOLE),
    "regression": ("mse", "neg_mean_squared_error", "cov", "mape", *WHOLE),
}
_INSTEAD = {"classification": "error, balanced_accuracy or f1_macro", "regression": "mse or r2"}
# Criteria of the whole smoother or matrix, and the approximations that have no such thing.
_NOT_WITH = {
    "nystroem": ("gcv", "evidence", "cost", "radius_margin"),
    "grid": WHOLE,
    "toeplitz": ("radius_margin",),
    "circulant": ("radius_margin",),
}
# Where scikit-learn keeps the functions behind its scorers.
_TASK_OF_MODULE = {"_regression": "regression", "_classification": "classification"}
# Own criteria that are errors, their score therefore negative; scikit-learn's begin with "neg_".
_LOSSES = ("press", "span", "gcv", "cost", "radius_margin", "cov", "mape")


@dataclass(frozen=True)
class Shown:
    """The number that people read in place of a criterion's score, of which greater is better."""

    label: str
    number: Callable[[Any], Any] = lambda score: score  # from the score
    measure: str = ""  # that it is written like
    smaller: bool = False  # is better


_SHOWN = {
    "error": Shown("accuracy", lambda score: 1.0 + score, "accuracy"),
    "accuracy": Shown("accuracy", measure="accuracy"),
    "balanced_accuracy": Shown("balanced accuracy", measure="accuracy"),
    "mse": Shown("RMSE", lambda score: np.sqrt(np.maximum(-score, 0.0)), smaller=True),
    "r2": Shown("R²", measure="r2"),
    "neg_root_mean_squared_error": Shown("RMSE", lambda score: -score, smaller=True),
}
_SHOWN["neg_mean_squared_error"] = _SHOWN["mse"]


def shown(name: str) -> Shown:
    """How the score of a criterion is shown: as accuracy for the error rate, as RMSE for mse."""
    if name in _SHOWN:
        return _SHOWN[name]
    label = name.removeprefix("neg_").replace("_", " ")
    loss = name in _LOSSES or name.startswith("neg_")
    return Shown(label, lambda score: -score, smaller=True) if loss else Shown(label)


def score_label(criterion: str) -> str:
    """What a criterion measures: ``accuracy`` for the error rate, ``RMSE`` for the squared error."""
    return shown(criterion).label


def score_text(criterion: str, score: float, error: float | None = None) -> str:
    """A criterion's score, greater being better, as the number that `score_label` names, ± its error."""
    meaning = shown(criterion)
    words = number(meaning.measure, float(meaning.number(score)) + 0.0)
    if error is None:
        return words
    # Of a root to first order: half the distance between the ends.
    error = abs(float(meaning.number(score + error)) - float(meaning.number(score - error))) / 2
    return f"{words} ± {error_number(meaning.measure, error)}"


def score_words(criterion: str, score: float) -> str:
    """Label and number together."""
    return f"{score_label(criterion)} {score_text(criterion, score)}"


def criterion_of(estimator: Any) -> str | None:
    """The name of the criterion that a search goes by, the first of several; None for a function."""
    if "criterion" in getattr(estimator, "dropped_params_", {}):
        return None
    given = estimator.criterion
    given = given[0] if isinstance(given, list | tuple) else given
    if given is None:
        return str(estimator._default_criterion)
    return given if isinstance(given, str) else None


def check_criterion(name: str, task: str, target: str, values: np.ndarray, approximation: Any) -> None:
    """Raise if the criterion is unknown or does not go with the target or the approximation.

    `target` names the column of the `values`.
    """
    if isinstance(approximation, str) and name in _NOT_WITH.get(approximation, ()):
        raise ValueError(
            f"the criterion {name!r} needs the whole kernel matrix, which the approximation "
            f"{approximation!r} does without; use {_INSTEAD[task]}, or the exact method"
        )
    if name in _OWN[task]:
        return
    option, advice = f"the criterion {name!r}", f"use {_INSTEAD[task]}"
    other = next(one for one in _OWN if one != task)
    if name in _OWN[other] and name != "accuracy":
        raise ValueError(f"{option} is for {other}, and this is {task}; {advice}")
    if name not in get_scorer_names():
        raise ValueError(f"there is no criterion '{name}'; {_nearest(name, task)}")
    scorer = get_scorer(name)
    meant = _task_of(scorer)
    if meant != task:
        purpose = "compares clusterings" if meant is None else f"is for {meant}"
        raise ValueError(f"{option} {purpose}, and this is {task}; {advice}")
    if task == "classification":
        _check_labels(name, scorer, target, np.unique(values))


def _nearest(name: str, task: str) -> str:
    usable = [one for one in get_scorer_names() if _task_of(get_scorer(one)) == task]
    near = difflib.get_close_matches(name.lower(), dict.fromkeys([*_OWN[task], *usable]), n=3)
    if near:
        return "did you mean " + " or ".join(f"'{match}'" for match in near) + "?"
    return f"use one of {', '.join(_OWN[task])}, or a scikit-learn scorer for {task}"


def _task_of(scorer: Any) -> str | None:
    """The task a scikit-learn scorer is for; None for scores of clusterings."""
    module = scorer._score_func.__module__
    if "cluster" in module:
        return None
    return _TASK_OF_MODULE.get(module.rsplit(".", 1)[-1], "classification")


def _check_labels(name: str, scorer: Any, target: str, classes: np.ndarray) -> None:
    """Try the scorer on one row of each class and a model that knows their shares."""
    rows = np.zeros((len(classes), 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one row of each class is too few for some scores
            scorer(DummyClassifier(strategy="prior").fit(rows, classes), rows, classes)
    except (ValueError, TypeError, AttributeError) as error:
        named = ", ".join(f"'{one}'" for one in classes[:8])
        if name.endswith("_samples"):
            why = f"is for rows with several labels each, and '{target}' has one"
        elif len(classes) > 2:
            why = f"tells two classes apart, and '{target}' has {len(classes)} ({named})"
        else:
            why = f"counts the class 1 against another, and '{target}' has {named}"
        # The nearest relative that takes any classes.
        better = f"{name}_macro" if name in {"f1", "precision", "recall", "jaccard"} else "f1_macro"
        better = "neg_log_loss" if "brier" in name else better
        raise ValueError(
            f"the criterion {name!r} {why}; use {better}, or error or balanced_accuracy"
        ) from error
