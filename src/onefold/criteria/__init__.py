"""Criteria: held-out predictions, or the smoother, to one number per μ; greater is better."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import get_scorer

from onefold.criteria import closed, heldout
from onefold.criteria.base import Answer, Criterion, Scored, Scoring, Task, ask, label_index
from onefold.criteria.heldout import ErrorRate, SquaredError, SumCriterion
from onefold.criteria.scorers import Scorer

_FOR_BOTH: dict[str, Criterion] = {
    "press": closed.LeaveOneOutMean(SquaredError()),
    "gcv": closed.GeneralisedCV(),
    "cost": closed.Cost(),
    "evidence": closed.Evidence(),
    "radius_margin": closed.RadiusMargin(),
}
_FOR_CLASSIFIERS = _FOR_BOTH | {
    "error": ErrorRate(),
    "accuracy": ErrorRate(offset=1.0),
    "balanced_accuracy": heldout.BalancedAccuracy(),
    "span": closed.LeaveOneOutMean(closed.SmoothStep()),
}
_FOR_REGRESSORS = _FOR_BOTH | {
    "neg_mean_squared_error": SquaredError(),
    "cov": heldout.VariationCoefficient(),
    "mape": heldout.PercentageError(),
    "span": closed.LeaveOneOutMean(closed.AbsoluteError()),
    "mse": SquaredError(),
}


def resolve_criteria(
    criterion: Any, *, classifier: bool, calibration: str | None = None
) -> dict[str, Criterion]:
    """The criteria by name, for one or a list of names, scorers and criteria; the first one decides."""
    members = list(criterion) if isinstance(criterion, list | tuple) else [criterion]
    if not members:
        raise ValueError("criterion is an empty list; give at least one criterion.")
    criteria: dict[str, Criterion] = {}
    for member in members:
        resolved = resolve_criterion(member, classifier=classifier, calibration=calibration)
        function = getattr(member, "_score_func", member)
        name = str(getattr(function, "__name__", type(function).__name__))
        name = member if isinstance(member, str) else name
        if name in criteria or (criteria and name == "score"):
            raise ValueError(
                f"criterion contains {name!r} twice, or uses the name that the first criterion has in "
                "cv_results_; leave it out, or give the function another name."
            )
        criteria[name] = resolved
    return criteria


def resolve_criterion(criterion: Any, *, classifier: bool, calibration: str | None = None) -> Criterion:
    """The criterion for a name or a scorer, which may ask for probabilities of the `calibration`."""
    if isinstance(criterion, Criterion):
        return criterion
    by_name = _FOR_CLASSIFIERS if classifier else _FOR_REGRESSORS
    if isinstance(criterion, str) and criterion in by_name:
        return by_name[criterion]
    if isinstance(criterion, str) and criterion == "error":
        raise ValueError('criterion="error" counts wrong labels; use "mse" for regression.')
    if isinstance(criterion, str) and criterion == "mse":
        raise ValueError(
            'criterion="mse" is for regression; use "error", or "press" for the squared error.'
        )
    try:
        scorer = criterion if callable(criterion) else get_scorer(criterion)
        if scorer is None:  # what scikit-learn has for None
            raise TypeError("None is not a criterion")
    except (ValueError, TypeError) as error:
        names = ", ".join(repr(name) for name in by_name)
        raise ValueError(
            f"unknown criterion {criterion!r}; use one of {names}, "
            "the name of a scikit-learn scorer, or a scorer."
        ) from error
    response = getattr(scorer, "_response_method", "predict")
    methods = {response} if isinstance(response, str) else set(response)
    available = {"predict", "decision_function", "predict_proba"} if classifier else {"predict"}
    if methods.isdisjoint(available):
        needed = "probabilities" if methods == {"predict_proba"} else " or ".join(sorted(methods))
        instead = '"error" or "balanced_accuracy"' if classifier else '"mse" or "r2"'
        raise ValueError(
            f"criterion={criterion!r} needs {needed}, which the held-out predictions of a "
            f"{'classifier' if classifier else 'regressor'} do not provide here; use {instead}."
        )
    return Scorer(scorer, calibration)
