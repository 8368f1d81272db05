"""The preparation of a table: what tuning learned about its columns, applied to any rows.

Numbers are standardised, text and booleans become one indicator column per category, and missing
values are either refused or filled in with what the tuning rows had. `Preparation` holds only
plain values and arrays, so that it is stored with the model and prediction repeats it exactly.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix, diags

from onefold.tables.columns import as_text
from onefold.tables.errors import TableError, did_you_mean, listing
from onefold.tables.rows import TableRows


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become rows of a matrix.

    Parameters
    ----------
    numeric : tuple of str
        Columns that hold numbers, in the order of their features.
    mean, scale : ndarray
        What is subtracted from, then divided out of, each numeric column.
    median : ndarray
        What fills the gaps of each numeric column when `missing` is "impute".
    categorical : tuple of str
        Columns that hold text or booleans; their features follow the numeric ones.
    categories : tuple of tuple of str
        The categories of each categorical column, one indicator feature each.
    boolean : tuple of bool
        Which categorical columns were booleans ("true" and "false", however they are written).
    most_frequent : tuple of str
        What fills the gaps of each categorical column when `missing` is "impute".
    missing : {"error", "impute"}
        What to do about missing values.
    constant : tuple of str
        Columns that were left out because all their values were equal.
    sparse_kept : ndarray of int or None
        For svmlight tables: the feature numbers that were ever nonzero.
    sparse_scale : ndarray or None
        For svmlight tables: the largest absolute value of each kept feature, which it is divided
        by. They aren't centred, which would fill the matrix.
    """

    numeric: tuple[str, ...] = ()
    mean: np.ndarray = field(default_factory=lambda: np.empty(0))
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))
    median: np.ndarray = field(default_factory=lambda: np.empty(0))
    categorical: tuple[str, ...] = ()
    categories: tuple[tuple[str, ...], ...] = ()
    boolean: tuple[bool, ...] = ()
    most_frequent: tuple[str, ...] = ()
    missing: Literal["error", "impute"] = "error"
    constant: tuple[str, ...] = ()
    sparse_kept: np.ndarray | None = None
    sparse_scale: np.ndarray | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that are needed."""
        return self.numeric + self.categorical

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of every column of the matrix."""
        if self.sparse_kept is not None:
            return tuple(f"feature {number}" for number in self.sparse_kept)
        indicators = (
            f"{name}={category}"
            for name, categories in zip(self.categorical, self.categories)
            for category in categories
        )
        return (*self.numeric, *indicators)

    def spans(self) -> list[tuple[str, slice]]:
        """Every table column with its part of the matrix: one feature, or one for each category."""
        widths = [1] * len(self.numeric) + [len(found) for found in self.categories]
        ends = np.cumsum(widths).tolist()
        return [(name, slice(end - n, end)) for name, n, end in zip(self.columns, widths, ends)]

    def to_plain(self) -> dict[str, Any]:
        """The fields as plain values and arrays, for a model file."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Preparation:
        """The preparation that `to_plain` described."""
        expected = {item.name for item in fields(cls)}
        if set(plain) != expected:
            odd = listing(sorted(set(plain) ^ expected))
            raise TableError(f"the stored preparation doesn't fit this version of onefold ({odd})")
        return cls(**plain)

    def check_columns(self, names: tuple[str, ...], sparse: bool) -> None:
        """Refuse a table that lacks columns; columns it has besides are ignored."""
        if sparse != (self.sparse_kept is not None):
            kinds = ("an svmlight table", "a table with named columns")
            trained, given = kinds if not sparse else kinds[::-1]
            raise TableError(f"the model was tuned on {trained} and can't use {given}")
        absent = [name for name in self.columns if name not in names]
        if len(absent) == 1:
            raise TableError(
                f"the table has no column '{absent[0]}', which the model needs; "
                + did_you_mean(absent[0], names)
            )
        if absent:
            raise TableError(
                f"the table has no columns {listing(absent)}, which the model needs; "
                f"the columns are {listing(names)}"
            )

    def transform(self, rows: TableRows, unknown: Counter[str] | None = None) -> np.ndarray | csr_matrix:
        """The matrix of these rows.

        Parameters
        ----------
        rows : Rows
            With at least the columns this preparation needs.
        unknown : Counter, optional
            Collects how many values of each column tuning had never seen (their indicators are
            all zero), so that many blocks share one warning. Without it, each call warns.

        Returns
        -------
        ndarray of float64, or scipy.sparse.csr_matrix for svmlight tables
        """
        self.check_columns(rows.names, rows.sparse is not None)
        seen: Counter[str] = Counter()
        if rows.sparse is not None:
            matrix = self._sparse_features(rows.sparse, seen)
        else:
            matrix = self._dense_features(rows, seen)
        if unknown is None:
            warn_unknown(seen)
        else:
            unknown.update(seen)
        return matrix

    def _dense_features(self, rows: TableRows, unknown: Counter[str]) -> np.ndarray:
        # Column-major while it is filled column by column.
        matrix = np.zeros((len(rows), len(self.feature_names)), order="F")
        gaps: dict[str, int] = {}
        infinite: list[str] = []
        for j, name in enumerate(self.numeric):
            values = rows.numbers(name)
            if np.isinf(values).any():
                infinite.append(name)
            absent = np.isnan(values)
            if absent.any():
                gaps[name] = int(absent.sum())
                values = np.where(absent, self.median[j], values)
            matrix[:, j] = (values - self.mean[j]) / self.scale[j]
        offset = len(self.numeric)
        for j, name in enumerate(self.categorical):
            codes, absent_count, unknown_count = self._codes(rows, j)
            if absent_count:
                gaps[name] = absent_count
            if unknown_count:
                unknown[name] += unknown_count
            known = np.flatnonzero(codes >= 0)
            matrix[known, offset + codes[known]] = 1.0
            offset += len(self.categories[j])
        if infinite:
            raise TableError(f"infinite values in {listing(infinite)}; remove or replace them")
        if self.missing == "error":
            refuse_missing(gaps, len(rows), remedy="fill them in; the model was tuned without any")
        return np.ascontiguousarray(matrix)

    def _codes(self, rows: TableRows, j: int) -> tuple[np.ndarray, int, int]:
        """Category numbers of one column (-1: none), how many were missing, how many unknown."""
        name, categories = self.categorical[j], self.categories[j]
        text = as_text(rows.text(name), name, self.boolean[j])
        absent = int(text.null_count)
        if self.missing == "impute":
            text = pc.fill_null(text, self.most_frequent[j])
        found = pc.index_in(text, value_set=pa.array(categories, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy().astype(np.intp)
        unknown = int((codes < 0).sum()) - int(text.null_count)
        return codes, absent, unknown

    def _sparse_features(self, X: csr_matrix, unknown: Counter[str]) -> csr_matrix:
        kept_numbers = np.asarray(self.sparse_kept)
        if not np.isfinite(X.data).all():
            raise TableError("the table has missing or infinite feature values; remove them")
        width = max(X.shape[1], int(kept_numbers.max()) + 1)
        wide = csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
        kept = wide[:, kept_numbers]
        ignored = X.count_nonzero() - kept.count_nonzero()
        if ignored:
            unknown["feature numbers"] += ignored
        return csr_matrix(kept @ diags(1.0 / np.asarray(self.sparse_scale)))


def refuse_missing(gaps: Mapping[str, int], n_rows: int, remedy: str) -> None:
    """Raise if any column has gaps, naming the columns and how many rows each lacks."""
    if gaps:
        worst_first = sorted(gaps, key=lambda name: -gaps[name])
        shown = ", ".join(f"'{name}' ({gaps[name]} of {n_rows} rows)" for name in worst_first[:8])
        more = f" and {len(gaps) - 8} more columns" if len(gaps) > 8 else ""
        raise TableError(f"missing values in {shown}{more}; {remedy}")


def warn_unknown(unknown: Mapping[str, int], stacklevel: int = 3) -> None:
    """One warning for all values that tuning had never seen."""
    if unknown:
        counts = ", ".join(f"{count} in '{name}'" for name, count in sorted(unknown.items()))
        warnings.warn(
            f"values that tuning had never seen were ignored: {counts}",
            UserWarning,
            stacklevel=stacklevel,
        )
