"""What estimators of whole tables share, and the preparation as a transformer of its own."""

# Annotations are no strings here, without `from __future__ import annotations`: for the fields that
# `TableModel` inherits, `typing.get_type_hints` would look up the names in the module of `TableModel`.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onefold.machine.warning import warn_user
from onefold.tables.errors import TableError
from onefold.tables.findings import preparation_notes
from onefold.tables.kinds import Missing, Preparation, UnseenValues
from onefold.tables.learning import Learner
from onefold.tables.reading import Reading
from onefold.tables.roles import check_columns
from onefold.tables.rows import BLOCK, Table, TableRows, as_array, block_rows, is_frame
from onefold.tables.source import opened
from onefold.tables.store import in_memory
from onefold.tables.target import refuse_few_rows
from onefold.typing import MaybeArray, TableLike


@dataclass(eq=False, repr=False, kw_only=True)
class TableEstimator(BaseEstimator):
    """An estimator with a preparation of its tables; abstract. Its fields are parameters."""

    reading: Reading | None = None
    missing: Missing = "impute"
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    min_frequency: float | None = None

    @property
    def _takes_sparse(self) -> bool:
        """Whether the rows of further tables are best encoded as CSR."""
        return False

    @property
    def _wants_axis(self) -> bool | None:
        """Whether a date that is the only column becomes one feature; None without an approximation."""
        return None

    def matrix(self, X: TableLike | Table) -> np.ndarray:
        """The rows of a table as a matrix of features."""
        return joined([matrix for _, matrix in matrix_blocks(self, X, 1 << 62, sparse=False)])

    def _check_preparation(self) -> None:
        """Raise where parameters of the preparation make no sense, whatever the table."""
        for name in ("drop", "categorical", "numeric"):
            if isinstance(getattr(self, name), str):
                raise ValueError(
                    f"{name} must be a list of columns; use {name}=[{getattr(self, name)!r}]"
                )
        if self.reading is not None and not isinstance(self.reading, Reading):
            raise ValueError(f"reading must be an onefold.tables.Reading; got {self.reading!r}")
        if self.missing not in ("impute", "error"):
            raise ValueError(f"missing must be 'impute' or 'error'; got {self.missing!r}")
        least = self.min_frequency
        is_count = isinstance(least, int | np.integer) and not isinstance(least, bool) and least >= 1
        is_fraction = isinstance(least, float) and 0.0 < least < 1.0
        if least is not None and not is_count and not is_fraction:
            raise ValueError(
                "min_frequency must be a number of rows, at least 1, or a fraction of them between 0 "
                f"and 1; got {least!r}"
            )

    def _learner(self, roles: Sequence[str] = ()) -> Learner:
        """What learns the preparation; columns with `roles` are not features."""
        exclude = {*roles, *self.drop}
        return Learner(
            exclude,
            self.missing,
            self.categorical,
            self.min_frequency,
            self.numeric,
            time_axis=self._wants_axis,
        )

    def _set_columns(self, X: Any, names: Sequence[str]) -> None:
        """Remember the columns that may become features; an array has places, not names."""
        if is_array(X):
            self.n_features_in_ = int(as_array(X).shape[1])
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            self.n_features_in_ = len(names)
            self.feature_names_in_: np.ndarray = np.asarray(names, dtype=object)

    def _column_names(self) -> list[str]:
        """The columns of the table that the preparation was learned from."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [f"x{j}" for j in range(self.n_features_in_)]

    def _opened(self, table: Any) -> Table:
        """A table, its columns by their names, or by their places if learned from an array."""
        names = self._column_names()
        if is_array(table) and (width := as_array(table).shape[1]) != self.n_features_in_:
            raise ValueError(
                f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input; pass a table with named columns, or rows with as many features."
            )
        if is_array(table) and hasattr(self, "feature_names_in_"):  # scikit-learn's words
            name = type(self).__name__
            warn_user(f"X does not have valid feature names, but {name} was fitted with feature names")
        source = opened(table, self.reading_, names)
        has_names = hasattr(self, "feature_names_in_") or set(names) <= set(source.names)
        if not source.in_memory or has_names or len(source.names) != len(names):
            return source
        warn_user(
            f"X has column names, but {type(self).__name__} was fitted on an array: its columns are "
            "taken in their order"
        )
        rows = source.read()
        return replace(rows, columns=rows.columns.rename_columns(names))

    def _blocks(self, table: Any, rows: int | None, extra: tuple[str, ...]) -> Iterator[TableRows]:
        """Blocks of at most `rows` rows, read as in training: the columns needed and `extra` ones."""
        columns = tuple(dict.fromkeys(self.preparation_.columns + extra))
        if self._takes_sparse:  # features take next to no memory
            size = rows or block_rows(len(columns), BLOCK)
        else:
            size = rows or self.preparation_.rows_at_once
        source = self._opened(table)
        for name in extra:
            source.require(name)
        self.preparation_.check_columns(source.names, source.elsewhere)
        yield from (replace(block, written=True) for block in source.batches(size, columns))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class TablePreparation(TransformerMixin, TableEstimator):
    """The preparation of `TableClassifier` and `TableRegressor`: whole tables in, matrices out.

    Numbers are standardised, text is one-hot encoded, dates become elapsed time and the cycles that
    they span (year, week, day), booleans become one feature, and missing values are imputed and marked
    (:doc:`/manual/tables`). The matrix is that of a table estimator with the same parameters.

    Parameters
    ----------
    reading : Reading or None, default=None
        How CSV files and spreadsheets are parsed: decimal mark, order of day and month, texts for
        missing values (:class:`onefold.tables.Reading`).
    missing : {"impute", "error"}, default="impute"
        "impute" fills in the median or the most frequent value and adds a feature that marks missing
        values; "error" raises an error if values are missing.
    categorical : sequence of str, default=()
        Columns to treat as categories, even if they look like numbers or dates.
    numeric : sequence of str, default=()
        Columns to treat as numbers. Here all columns of numbers are; the estimators, which have a
        target, take some whole numbers as names of categories.
    drop : sequence of str, default=()
        Columns to leave out.
    min_frequency : int, float or None, default=None
        Categories that occur in fewer rows (int), or in a smaller fraction of the rows (float), share
        one indicator, as in scikit-learn's ``OneHotEncoder``; so do values not seen in training.

    Attributes
    ----------
    preparation_ : Preparation
        What was learned about each column.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : array of str
        The columns of the table; not defined for arrays.
    notes_ : list of str
        What was imputed, dropped or assumed.
    reading_ : Reading
        How text is parsed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from onefold import TablePreparation
    >>> table = pa.table({"colour": ["red", "blue", "red"], "size": [1.0, 2.0, None]})
    >>> preparation = TablePreparation().fit(table)
    >>> preparation.get_feature_names_out().tolist()
    ['size', 'size is missing', 'colour=blue', 'colour=red']
    >>> preparation.transform(pa.table({"size": [1.5], "colour": ["blue"]}))
    array([[0., 0., 1., 0.]])
    """

    def fit(self, X: TableLike | Table, y: MaybeArray = None) -> Self:
        """Learn what becomes of each column.

        Parameters
        ----------
        X : pandas, polars or pyarrow table, array, path or open table
            A table on disk that is larger than memory is read block by block.
        y : any, optional
            The name of a column of X that is a target, not a feature; anything else is ignored.
        """
        self._check_preparation()
        source = opened(X, self.reading)
        roles = {"target": y} if isinstance(y, str) else {}
        check_columns(self, source, [*roles.items()])
        learner = self._learner(list(roles.values()))
        first: TableRows | None = None
        for rows in in_memory(source).typed_batches(block_rows(len(source.names), BLOCK)):
            learner.add(rows)
            first = first or rows
        if first is None or not first.names:
            raise TableError("the table has no columns or no rows; add some")
        if learner.rows == 1:
            refuse_few_rows(first)
        self.preparation_: Preparation = learner.finish()
        self.reading_: Reading = first.reading.with_categories(self.preparation_)
        self.notes_: list[str] = list(preparation_notes(first, learner, self.preparation_))
        self._set_columns(X, [name for name in source.names if name not in roles.values()])
        return self

    def transform(self, X: TableLike | Table) -> np.ndarray:
        """The features (rows, features) of a table, float64; see also ``set_output``."""
        return self.matrix(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns, if the preparation was learned from an array.
        """
        check_is_fitted(self, "preparation_")
        parts = self.preparation_.parts
        if input_features is not None:
            names = [str(name) for name in input_features]
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to the number of columns, "
                    f"{self.n_features_in_}; got {len(names)}."
                )
            columns = self._column_names()
            if hasattr(self, "feature_names_in_") and names != columns:
                raise ValueError("input_features is not equal to feature_names_in_.")
            name_of = dict(zip(columns, names))
            parts = tuple(replace(part, name=name_of[part.name]) for part in parts)
        return np.array([name for part in parts for name in part.names], dtype=object)

    def save(self, path: Any) -> None:
        """Write the preparation to one file, which :func:`onefold.load` reads."""
        from onefold import saving

        check_is_fitted(self, "preparation_")
        saving.save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are float64
        return tags


def matrix_blocks(
    model: TableEstimator,
    table: Any,
    batch_rows: int | None = None,
    extra: tuple[str, ...] = (),
    *,
    sparse: bool | None = None,
) -> Iterator[tuple[TableRows, Any]]:
    """Blocks of rows, each with its matrix, in the order of the table.

    Holds no more than `batch_rows` rows in memory where the table can be read in blocks, by default
    about four million numbers. `extra` columns are read besides those that the model needs. The
    matrices are arrays or CSR, by default what the model predicts faster. One warning at the end tells
    what training had not seen.
    """
    check_is_fitted(model, "preparation_")
    if sparse is None:
        sparse = model._takes_sparse
    unseen = UnseenValues()
    for rows in model._blocks(table, batch_rows, extra):
        yield rows, model.preparation_.transform(rows, unseen, sparse=sparse)
    unseen.warn()


def is_array(table: Any) -> bool:
    """Whether a table is rows without names of columns."""
    return not isinstance(table, str | Path | Table) and not is_frame(table)


def joined(blocks: list[np.ndarray]) -> np.ndarray:
    """Blocks of results as one array."""
    if not blocks:
        raise TableError("the table has no rows; add rows")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
