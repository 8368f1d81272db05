"""What a report is of: an estimator, alone or behind the preparation of a pipeline or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from onefold.estimators.base import KernelMachine, on_host
from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.report.columns import Column, columns_of
from onefold.rows import gathered
from onefold.tables import TableSource
from onefold.tables.source import opened
from onefold.tables.target import read_target
from onefold.tables.training import with_target


@dataclass(frozen=True)
class Subject:
    """The estimator of ours behind a model, and what stands before it.

    Attributes
    ----------
    model : object
        As it was given.
    estimator : estimator
    preparation : object or None
        Of the rows of a table.
    target : str or None
        The name of what is predicted, where the model knows it.
    """

    model: Any
    estimator: Any
    preparation: Any = None
    target: str | None = None

    @property
    def classes(self) -> np.ndarray | None:
        """The labels; None for regression."""
        found = getattr(self.estimator, "classes_", None)
        return None if found is None else np.asarray(found)

    @property
    def features(self) -> list[str]:
        """Names of the columns of the matrix that the estimator takes."""
        if self.preparation is not None:
            return [str(name) for name in self.preparation.feature_names]
        named = getattr(self.estimator, "feature_names_in_", None)
        before = self.model[:-1] if isinstance(self.model, Pipeline) else None
        if named is None and before is not None and hasattr(before, "get_feature_names_out"):
            try:
                named = before.get_feature_names_out()
            except (AttributeError, TypeError, ValueError):  # a step does not know
                named = None
        count = int(self.estimator.n_features_in_)
        if named is None or len(named) != count:
            return [f"feature {j}" for j in range(count)]
        return [str(name) for name in named]


@dataclass(frozen=True)
class Given:
    """The rows that a report was given.

    Attributes
    ----------
    matrix : array or CSR matrix
        What the estimator takes.
    columns : list of Column
        What people know: columns of the table, or of X as it was given.
    y : ndarray
        In the estimator's own units.
    target : str or None
        The name of y.
    names : list or None
        What the rows are called.
    width : int
        How many columns there are, of which `columns` may be the first.
    """

    matrix: Any
    columns: list[Column]
    y: np.ndarray
    target: str | None = None
    names: list[Any] | None = None
    width: int = 0


def subject_of(model: Any) -> Subject:
    """Look behind pipelines and tables; raise for what is no fitted estimator of ours."""
    inner, preparation, target = model, None, None
    while True:
        if hasattr(inner, "preparation_") and hasattr(inner, "estimator_"):
            target = getattr(inner, "target_", None)
            preparation, inner = inner.preparation_, inner.estimator_
        elif isinstance(inner, TransformedTargetRegressor) and hasattr(inner, "regressor_"):
            inner = inner.regressor_
        elif isinstance(inner, Pipeline):
            inner = inner.steps[-1][1]
        else:
            break
    if not isinstance(inner, KernelMachine):
        raise ValueError(
            f"a report is of an estimator of onefold's, of a Pipeline that ends in one or of a table's "
            f"model, not of {type(inner).__name__}; give one of these."
        )
    check_is_fitted(inner, "expansion_")
    return Subject(model, on_host(inner), preparation, _word(target))


def of_table(model: Any, name: str) -> Any:
    """What a model of tables remembers under this name; None where there is no such thing."""
    return getattr(model, f"{name}_", None)


def rows_given(subject: Subject, X: Any, y: Any) -> Given:
    """X and y as the estimator takes them, and as people know them."""
    X, y = gathered(X, None), gathered(y, None)
    if subject.preparation is not None:
        return _of_table(subject, X, y)
    if y is None:
        raise ValueError("a report on rows needs their targets: give y as well as X.")
    model, matrix, values = subject.model, X, _targets(y)
    while isinstance(model, TransformedTargetRegressor | Pipeline):
        if isinstance(model, Pipeline):
            matrix = model[:-1].transform(matrix) if len(model.steps) > 1 else matrix
            model = model.steps[-1][1]
        else:
            flat = values.reshape(len(values), -1)
            values = np.asarray(model.transformer_.transform(flat)).reshape(values.shape)
            model = model.regressor_
    names = getattr(X, "columns", None)
    if names is None and matrix is X:
        names = subject.features
    columns = [] if _precomputed(subject.estimator) else columns_of(_plain(X), names)
    index = getattr(X, "index", None) if hasattr(X, "columns") else None
    named = None if index is None or type(index).__name__ == "RangeIndex" else list(index)
    width = len(names) if names is not None else len(columns)
    target = _word(getattr(y, "name", None))
    return Given(_plain(matrix, keep=True), columns, values, target, named, width)


def _of_table(subject: Subject, table: Any, y: Any) -> Given:
    model, classes = subject.model, subject.classes
    source = opened(table, of_table(model, "reading"))
    rows = source.read() if isinstance(source, TableSource) else source
    named = subject.target if y is None else y
    if named is None:
        raise ValueError("a report on rows needs their targets: give y as well as X.")
    rows, named = with_target(model, rows, named)
    y = named
    matrix = model.matrix(rows)
    if isinstance(named, str):
        y = read_target(rows, named, "regression" if classes is None else "classification", classes)
    constant = getattr(subject.preparation, "constant", ())
    wanted = [*subject.preparation.columns, *constant]
    columns, width = columns_of(rows, wanted), len(wanted)
    ident = of_table(model, "id_column")
    names = rows.raw(ident).to_pylist() if ident is not None and ident in rows.names else None
    target = named if isinstance(named, str) else subject.target or _word(getattr(y, "name", None))
    if getattr(model, "target_transform", None) and target is not None:
        target = f"log({target})"  # in the estimator's own units
    return Given(matrix, columns, model.fitted_target(_targets(y)), target, names, width)


def _targets(y: Any) -> np.ndarray:
    values = np.asarray(to_numpy(y) if is_foreign(y) else y)
    if values.dtype.kind == "O":  # texts or numbers of a frame
        values = np.asarray(values.tolist())
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _plain(X: Any, keep: bool = False) -> Any:
    """Rows in host memory; `keep` those of pandas and polars that an estimator checks the names of."""
    if is_sparse(X):
        return X.tocsr()
    frame = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")
    if frame:
        return np.asarray(X) if keep else X
    return to_numpy(X) if is_foreign(X) else np.asarray(X)


def _precomputed(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.pairwise)


def _word(name: Any) -> str | None:
    return None if name is None else str(name)


def shown_name(names: Sequence[Any] | None, row: int, first: int) -> str:
    """What a row is called: its name, or its number."""
    return str(names[row]) if names is not None else str(row + first)
