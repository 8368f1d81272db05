"""The preparation of a table: what tuning learned about its columns, applied to any rows.

Numbers are standardised, moments become elapsed time and cycles, text becomes one indicator feature per
category, true and false one feature, and missing values are either filled in or refused
(:mod:`onefold.tables.features`). `Preparation` holds only plain values and arrays, so that it is stored
with the model and prediction repeats it exactly.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onefold.tables.errors import Remedy, TableError, counts, did_you_mean, listing
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
    identifiers : tuple of str
        Columns of text that were left out because they tell rows apart.
    """

    parts: tuple[Part, ...] = ()
    missing: Literal["error", "impute"] = "impute"
    constant: tuple[str, ...] = ()
    row_numbers: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that are needed."""
        return tuple(part.name for part in self.parts)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of every column of the matrix."""
        return tuple(name for part in self.parts for name in part.names)

    def of_kind(self, kind: type[Part]) -> list[Part]:
        """The columns of one kind."""
        return [part for part in self.parts if type(part) is kind]

    def spans(self) -> list[tuple[str, slice]]:
        """Every table column with its part of the matrix."""
        ends = np.cumsum([len(part.names) for part in self.parts], dtype=int).tolist()
        return [(p.name, slice(end - len(p.names), end)) for p, end in zip(self.parts, ends)]

    def check_columns(self, names: tuple[str, ...]) -> None:
        """Refuse a table that lacks columns; columns it has besides are ignored."""
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

    def transform(self, rows: TableRows, unknown: Counter[str] | None = None) -> np.ndarray:
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
        ndarray of float64
        """
        self.check_columns(rows.names)
        seen: Counter[str] = Counter()
        matrix = self._features(rows, seen)
        if unknown is None:
            warn_unknown(seen)
        else:
            unknown.update(seen)
        return matrix

    def _features(self, rows: TableRows, unknown: Counter[str]) -> np.ndarray:
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
            refuse_missing(gaps, len(rows), ["fill them in: the model was tuned without any"])
        return np.ascontiguousarray(matrix)


def refuse_missing(gaps: Mapping[str, int], n_rows: int, remedies: Sequence[Remedy | str]) -> None:
    """Raise if any column has gaps, naming the columns and how many rows each lacks."""
    if gaps:
        raise TableError(f"missing values in {counts(gaps.items(), n_rows)}", remedies)


def warn_unknown(unknown: Mapping[str, int], stacklevel: int = 3) -> None:
    """One warning for all values that tuning had never seen."""
    if unknown:
        counts = ", ".join(f"{count} in '{name}'" for name, count in sorted(unknown.items()))
        warnings.warn(
            f"values that tuning had never seen were ignored: {counts}",
            UserWarning,
            stacklevel=stacklevel,
        )
