"""The estimator of onefold inside a pipeline, a table model or a transform of the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.estimators.base import on_host


@dataclass(frozen=True)
class Unwrapped:
    """An estimator of onefold, and the steps around it."""

    estimator: Any
    table_model: Any = None  # that prepares the rows; None without one
    row_transformers: list[Any] = field(default_factory=list)
    target_transformers: list[Any] = field(default_factory=list)  # around a table model, the outer first

    @property
    def transforms_target(self) -> bool:
        """Whether the estimator was fitted to a transform of the target."""
        logarithmic = self.table_model is not None and self.table_model._logarithmic
        return logarithmic or bool(self.target_transformers)

    @property
    def classes(self) -> np.ndarray | None:
        """The labels; None for regression."""
        classes = getattr(self.estimator, "classes_", None)
        return None if classes is None else np.asarray(classes)

    @property
    def pairwise(self) -> bool:
        """Whether rows are those of a kernel matrix."""
        return bool(self.estimator.__sklearn_tags__().input_tags.pairwise)

    @property
    def features(self) -> list[str]:
        """Names of the columns of the matrix that the estimator takes."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if self.table_model is not None:
            names = self.table_model.get_feature_names_out()
        elif names is None and self.row_transformers:
            try:
                names = self.row_transformers[-1].get_feature_names_out()
            except (AttributeError, TypeError, ValueError):  # a step does not know
                names = None
        count = int(self.estimator.n_features_in_)
        if names is None or len(names) != count:
            return [f"feature {j}" for j in range(count)]
        return [str(name) for name in names]

    def fitted_target(self, y: np.ndarray) -> np.ndarray:
        """Targets as the estimator fits them; NaN if undefined, such as the logarithm of 0."""
        for transformer in self.target_transformers:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = np.asarray(transformer.transform(y.reshape(len(y), -1))).reshape(y.shape)
            y = np.where(np.isfinite(y), y, np.nan)
        if self.table_model is not None and self.table_model._logarithmic:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = self.table_model._fitted_target(y)
            y = np.where(np.isfinite(y), y, np.nan)
        return y

    def in_target_units(self, values: np.ndarray) -> np.ndarray:
        """What the estimator predicts (n, columns), in the units of the target and within its range."""
        if self.table_model is not None:
            values = self.table_model._in_target_units(values)
        for transformer in reversed(self.target_transformers):
            values = np.asarray(transformer.inverse_transform(values))
        return values


def unwrap(model: Any) -> Unwrapped:
    """The estimator inside pipelines, table models and transforms of the target."""
    inner = model
    table_model = None
    row_transformers = list[Any]()
    target_transformers = list[Any]()
    while True:
        if hasattr(inner, "steps"):
            row_transformers += [inner[:-1]] if len(inner.steps) > 1 else []
            inner = inner.steps[-1][1]
        elif hasattr(inner, "estimator_"):  # of a table
            table_model = inner
            inner = inner.estimator_
        elif hasattr(inner, "regressor_"):  # of a TransformedTargetRegressor
            target_transformers.append(inner.transformer_)
            inner = inner.regressor_
        else:
            return Unwrapped(on_host(inner), table_model, row_transformers, target_transformers)
