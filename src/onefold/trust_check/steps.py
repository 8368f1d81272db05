"""An estimator of ours inside something larger: the steps before it are carried out, it is looked at."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline


def last_step(estimator: Any, X: Any, y: Any = None, **params: Any) -> tuple[Any, Any]:
    """The last step of a Pipeline, and the rows as it would get them.

    Copies of the steps before it are fitted to X; with metadata routing they get those of `params` that
    they have asked for. A fitted estimator of whole tables stands for its preparation and the estimator
    inside. Anything else comes back as it is, with its rows.
    """
    while isinstance(estimator, Pipeline):
        before, final = estimator[:-1], estimator.steps[-1][1]
        if before.steps:
            X = clone(before).fit_transform(X, y, **_asked_for(before, params))
        estimator = final
    if hasattr(estimator, "preparation_") and hasattr(estimator, "estimator_"):
        return estimator.estimator_, estimator.transform(X)
    return estimator, X


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
