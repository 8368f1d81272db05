"""What a report is of: an estimator, or one inside a pipeline or a table, and the rows it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from onefold.estimators.base import KernelMachine, on_host
from onefold.facts.data import Column
from onefold.facts.words import counted
from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.rows import gathered, row_hashes
from onefold.tables import TableError, TableRows, TableSource, rows_of_frame
from onefold.tables.columns import as_text, kind_of
from onefold.tables.rows import is_frame
from onefold.tables.source import opened
from onefold.tables.target import read_target
from onefold.tables.training import with_target

MOST_COLUMNS = 200  # that are looked at one by one
_ROUNDING = 1e-5  # of targets that were float32 once
_NO_TARGETS = "a report on rows needs their targets: give y as well as X."


@dataclass(frozen=True)
class Subject:
    """The estimator of ours behind a model, and what stands before it."""

    model: Any  # as it was given
    estimator: Any
    preparation: Any = None  # of the rows of a table
    target: str | None = None  # the name of what is predicted, where the model knows it

    @property
    def classes(self) -> np.ndarray | None:
        """The labels; None for regression."""
        found = getattr(self.estimator, "classes_", None)
        return None if found is None else np.asarray(found)

    @property
    def pairwise(self) -> bool:
        """Whether rows are those of a kernel matrix."""
        return bool(self.estimator.__sklearn_tags__().input_tags.pairwise)

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
    """The rows that a report was given."""

    matrix: Any  # what the estimator takes
    columns: list[Column]  # what people know: columns of the table, or of X as it was given
    y: np.ndarray  # in the estimator's own units
    target: str | None = None  # the name of y
    names: list[Any] | None = None  # of the rows
    width: int = 0  # how many columns there are, of which `columns` may be the first


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
    return Subject(model, on_host(inner), preparation, _text(target))


def rows_given(subject: Subject, X: Any, y: Any) -> Given:
    """X and y as the estimator takes them, and as people know them; raise if they do not go together."""
    X, y = gathered(X, None), gathered(y, None)
    given = (_of_table if subject.preparation is not None else _of_arrays)(subject, X, y)
    n, classes = len(given.y), subject.classes
    if given.matrix.shape[0] != n:
        raise ValueError(
            f"X has {given.matrix.shape[0]} rows and y has {n}; give both of the same rows."
        )
    if n < 2:
        raise ValueError(f"a report on rows needs at least 2 of them; X has {n}.")
    targets = 1 if classes is not None else subject.estimator.expansion_.n_targets
    if given.y.size != n * targets:
        columns = counted(given.y.size // n, "column")
        raise ValueError(f"y has {columns}, and the model predicts {targets}; give the same targets.")
    if classes is not None and not np.isin(given.y, classes).all():
        odd = given.y[~np.isin(given.y, classes)][0]
        raise ValueError(
            f"y has the class {str(odd)!r}, which the model does not know; remove such rows."
        )
    return given


def _of_arrays(subject: Subject, X: Any, y: Any) -> Given:
    if y is None:
        raise ValueError(_NO_TARGETS)
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
    frame = is_frame(X)
    columns = [] if subject.pairwise else columns_of(X if frame else _host(X), names)
    index = getattr(X, "index", None) if hasattr(X, "columns") else None
    named = None if index is None or type(index).__name__ == "RangeIndex" else list(index)
    width = len(names) if names is not None else len(columns)
    return Given(_host(matrix), columns, values, _text(getattr(y, "name", None)), named, width)


def _of_table(subject: Subject, table: Any, y: Any) -> Given:
    model, classes = subject.model, subject.classes
    source = opened(table, model.reading_)
    rows = source.read() if isinstance(source, TableSource) else source
    named = subject.target if y is None else y
    if named is None:
        raise ValueError(_NO_TARGETS)
    rows, y = with_target(model, rows, named)
    if isinstance(named, str):
        y = read_target(rows, named, "regression" if classes is None else "classification", classes)
    wanted = [*subject.preparation.columns, *getattr(subject.preparation, "constant", ())]
    ident = getattr(model, "id_column_", None)
    names = rows.raw(ident).to_pylist() if ident is not None and ident in rows.names else None
    target = named if isinstance(named, str) else subject.target or _text(getattr(y, "name", None))
    if getattr(model, "target_transform", None) and target is not None:
        target = f"log({target})"  # in the estimator's own units
    values, columns = model.fitted_target(_targets(y)), columns_of(rows, wanted)
    return Given(model.matrix(rows), columns, values, target, names, len(wanted))


def _targets(y: Any) -> np.ndarray:
    values = np.asarray(to_numpy(y) if is_foreign(y) else y)
    if values.dtype.kind == "O":  # texts or numbers of a frame
        values = np.asarray(values.tolist())
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _host(X: Any) -> Any:
    """Rows in host memory."""
    if is_sparse(X):
        return X.tocsr()
    return to_numpy(X) if is_foreign(X) else np.asarray(X)


def _text(name: Any) -> str | None:
    return None if name is None else str(name)


# Whether rows are those of the fit


@dataclass(frozen=True)
class Known:
    """Whether rows are new to a model, what that rests on, and whether scores are optimistic."""

    new: bool
    words: str = ""
    optimistic: bool = False


def known_rows(estimator: Any, matrix: Any, y: np.ndarray, new_rows: bool | None) -> Known:
    """Whether the rows are those of the fit, by its fingerprint; None for `new_rows` finds it out.

    Raises where they are said to be, or must be, those of the fit and are not.
    """
    kept, print_ = getattr(estimator, "heldout_prediction_", None), estimator.fingerprint_
    n = int(matrix.shape[0])
    if not new_rows and kept is not None and new_rows is not None and len(kept) != n:
        raise ValueError(
            f"the model has held-out predictions of {len(kept)} rows, and X has {n}; give the rows that "
            "it was fitted on, or new_rows=True for the scores of a test."
        )
    if print_ is None:  # rows of Dask
        same = kept is not None and len(kept) == n if new_rows is None else not new_rows
        words = "the rows it was fitted on" if same else counted(n, "new row")
        return Known(not same, f"taken for {words}; rows of Dask leave nothing to check that by")
    rows = print_["rows"]
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    pairwise = pairwise and matrix.shape[1:] == (estimator.n_features_in_,)
    hashes = row_hashes(matrix[:, rows] if pairwise else matrix, np.float32)
    here = np.isin(print_["hashes"], hashes)
    if not new_rows and n == print_["n"] and np.array_equal(hashes[rows], print_["hashes"]):
        _refuse_targets(estimator, print_["targets"], y[rows])
        return Known(False, f"the {n:,} rows it was fitted on")
    if not new_rows and here.all() and (new_rows is False or n == print_["n"]):
        raise ValueError(
            f"these are the rows that the model was fitted on ({n:,}) in another order or with others "
            "among them; give the rows as they were fitted, or new rows."
        )
    if new_rows is False:
        raise ValueError(
            "these are not the rows that the model was fitted on; give those, or new_rows=True for the "
            "scores of a test."
        )
    if not here.any():
        return Known(True, f"{counted(n, 'row')} that are new to the model")
    found = int(np.isin(hashes, print_["hashes"]).sum())
    least = "at least " if len(rows) < print_["n"] else ""
    words = (
        f"{counted(n, 'row')} taken as new, but {least}{found} of them equal rows it was fitted on, so"
    )
    return Known(True, f"{words} scores are optimistic", optimistic=True)


def _refuse_targets(estimator: Any, own: np.ndarray, y: np.ndarray) -> None:
    """Raise if y is not that of the fit."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        given = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        right = np.allclose(given, own, rtol=_ROUNDING, atol=_ROUNDING * np.abs(own).max(initial=0.0))
    else:
        places = (own[:, 0] > 0).astype(np.intp) if own.shape[1] == 1 else own.argmax(axis=1)
        right = bool(np.array_equal(np.asarray(classes)[places], y))
    if not right:
        raise ValueError(
            "y is not the y that the model was fitted on, or in another order; give its own, or "
            "new_rows=True for the scores of a test."
        )


# Columns


def columns_of(X: Any, names: Sequence[str] | None = None) -> list[Column]:
    """The columns of an array, a sparse matrix, a frame or rows of a table; the first two hundred.

    `names` are those to look at of a frame or of rows of a table, and those of an array's columns.
    """
    if isinstance(X, TableRows) or is_frame(X):
        try:
            rows = rows_of_frame(X)
        except TableError:  # columns of mixed kinds, which a pipeline may well take
            found = getattr(X, "columns", [])[:MOST_COLUMNS]
            return [_of_array(str(name), np.asarray(X[name], dtype=object)) for name in found]
        wanted = [str(name) for name in (rows.names if names is None else names)]
        wanted = [name for name in wanted if name in rows.names][:MOST_COLUMNS]
        return [_of_rows(rows, name) for name in wanted]
    values = X[:, :MOST_COLUMNS].toarray() if is_sparse(X) else to_numpy(X)
    if values.ndim != 2:
        return []
    count = min(values.shape[1], MOST_COLUMNS)
    if names is None or len(names) < count:
        names = [f"feature {j}" for j in range(count)]
    return [_of_array(str(names[j]), values[:, j]) for j in range(count)]


def _of_rows(rows: TableRows, name: str) -> Column:
    column = rows.columns.column(name)
    kind = kind_of(column)
    if kind in ("numeric", "empty"):
        return Column(name, _finite(rows.numbers(name)))
    if kind == "date" and (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        moments = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        seconds = np.asarray(moments.to_pandas(), dtype=np.float64) / 1e6
        return Column(name, seconds, date=True)
    if kind in ("date", "other"):
        return _of_texts(name, [None if value is None else str(value) for value in column.to_pylist()])
    return _of_texts(name, as_text(column, name).to_pylist())


def _of_array(name: str, values: np.ndarray) -> Column:
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return Column(name, np.where(np.isnat(values), np.nan, seconds), date=True)
    try:
        return Column(name, _finite(values.astype(np.float64)))
    except (TypeError, ValueError):
        missing = [value is None or value != value for value in values.tolist()]
        return _of_texts(name, [None if gone else str(v) for gone, v in zip(missing, values.tolist())])


def _of_texts(name: str, texts: list[str | None]) -> Column:
    places: dict[str, int] = {}
    codes = [-1 if text is None else places.setdefault(text, len(places)) for text in texts]
    return Column(name, np.array(codes, dtype=np.intp), tuple(places))


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)
