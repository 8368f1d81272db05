"""An estimator of ours inside something larger: the steps before it are carried out, it is looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline


class Step(NamedTuple):
    """An estimator, and the rows, targets, weights and groups that it would be fitted to."""

    estimator: Any
    X: Any
    y: Any
    params: dict[str, Any]


def last_step(estimator: Any, X: Any, y: Any = None, **params: Any) -> Step:
    """The last step of a Pipeline, with what it would get.

    Copies of the steps before it are fitted to X; with metadata routing they get those of `params` that
    they have asked for. An estimator of whole tables stands for its preparation and the estimator
    inside. Anything else comes back as it is.
    """
    while isinstance(estimator, Pipeline):
        before, final = estimator[:-1], estimator.steps[-1][1]
        if before.steps:
            X = clone(before).fit_transform(X, y, **_asked_for(before, params))
        estimator = final
    if hasattr(estimator, "as_step"):
        return Step(*estimator.as_step(X, y, **params))
    return Step(estimator, X, y, params)


def _asked_for(steps: Pipeline, params: dict[str, Any]) -> dict[str, Any]:
    """Those of the parameters that some step requests."""
    given = {name: value for name, value in params.items() if value is not None}
    if not given or not get_config()["enable_metadata_routing"]:
        return {}
    wanted = steps.get_metadata_routing().consumes("fit_transform", given.keys())
    return {name: given[name] for name in wanted}


def name_of(estimator: Any) -> str:
    """How an error calls what somebody has given: by its class, and where it ends."""
    if not isinstance(estimator, Pipeline):
        return type(estimator).__name__
    final = estimator.steps[-1][1]
    return f"a Pipeline that ends in {final if isinstance(final, str) else name_of(final)}"
