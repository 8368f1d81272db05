"""The preparation of a table: what tuning learned about its columns, applied to any rows.

Numbers are standardised, moments become elapsed time and cycles, text becomes one indicator feature per
category, true and false one feature, and missing values are either filled in or refused
(:mod:`onefold.tables.features`). `Preparation` holds only plain values and arrays, so that it is stored
with the model and prediction repeats it exactly.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix, diags

from onefold.tables.errors import TableError, counts, did_you_mean, listing
from onefold.tables.features import Part
from onefold.tables.rows import TableRows


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become rows of a matrix.

    Parameters
    ----------
    parts : tuple of Part
        The columns in use, in the order of their features.
    missing : {"impute", "error"}
        What to do about missing values.
    constant : tuple of str
        Columns that were left out because all their values were equal.
    row_numbers : tuple of str
        Columns without a name that were left out because they number the rows, or are empty.
    sparse_kept : ndarray of int or None
        For svmlight tables: the feature numbers that were ever nonzero.
    sparse_scale : ndarray or None
        For svmlight tables: the largest absolute value of each kept feature, which it is divided
        by. They aren't centred, which would fill the matrix.
    """

    parts: tuple[Part, ...] = ()
    missing: Literal["error", "impute"] = "impute"
    constant: tuple[str, ...] = ()
    row_numbers: tuple[str, ...] = ()
    sparse_kept: np.ndarray | None = None
    sparse_scale: np.ndarray | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that are needed."""
        return tuple(part.name for part in self.parts)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of every column of the matrix."""
        if self.sparse_kept is not None:
            return tuple(f"feature {number}" for number in self.sparse_kept)
        return tuple(name for part in self.parts for name in part.names)

    def of_kind(self, kind: type[Part]) -> list[Part]:
        """The columns of one kind."""
        return [part for part in self.parts if type(part) is kind]

    def spans(self) -> list[tuple[str, slice]]:
        """Every table column with its part of the matrix."""
        ends = np.cumsum([len(part.names) for part in self.parts], dtype=int).tolist()
        return [(p.name, slice(end - len(p.names), end)) for p, end in zip(self.parts, ends)]

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
        rows : TableRows
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
        for part, (name, place) in zip(self.parts, self.spans()):
            made = part.features(rows)
            matrix[:, place] = made.values
            if np.isinf(made.values).any():
                infinite.append(name)
            if made.absent.any():
                gaps[name] = int(made.absent.sum())
            if made.unknown:
                unknown[name] += made.unknown
        if infinite:
            raise TableError(f"infinite values in {listing(infinite)}; remove or replace them")
        if self.missing == "error":
            refuse_missing(gaps, len(rows), remedy="fill them in; the model was tuned without any")
        return np.ascontiguousarray(matrix)

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
        raise TableError(f"missing values in {counts(gaps.items(), n_rows)}; {remedy}")


def warn_unknown(unknown: Mapping[str, int], stacklevel: int = 3) -> None:
    """One warning for all values that tuning had never seen."""
    if unknown:
        counts = ", ".join(f"{count} in '{name}'" for name, count in sorted(unknown.items()))
        warnings.warn(
            f"values that tuning had never seen were ignored: {counts}",
            UserWarning,
            stacklevel=stacklevel,
        )
