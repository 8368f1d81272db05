"""Rows that are always trained on, or held out, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Groups:
    """The coarsest partition of the rows of which every given set is a union.

    Folds that partition the rows are their own groups; five training windows of a series make six;
    two repetitions of five folds make twenty-five.

    Attributes
    ----------
    label : int array (n,)
        The group of each row.
    members : list of int arrays
        For each given set, the groups it consists of.
    count : int
    repeats : bool
        Whether a set names a row twice.
    """

    label: Any
    members: list[Any]
    count: int
    repeats: bool = False

    @cached_property
    def sizes(self) -> Any:
        """Number of rows of each group."""
        return np.bincount(self.label, minlength=self.count)

    @cached_property
    def order(self) -> Any | None:
        """Row numbers sorted by group, rows of a group in their own order; None where they are so."""
        if not np.any(self.label[1:] < self.label[:-1]):
            return None
        # Small integers are sorted by counting.
        return np.argsort(
            self.label.astype(np.int16) if self.count < 2**15 else self.label, kind="stable"
        )


def group_rows(n: int, sets: Sequence[Any]) -> Groups:
    """Group `n` rows by the sets that they belong to. O(n · number of different sets) time at worst."""
    distinct, which = _distinct(sets)
    label = np.zeros(n, dtype=np.int64)
    memberships = np.zeros(n, dtype=np.int64)
    repeats = False
    for number, rows in enumerate(distinct):
        label[rows] = number
        memberships[rows] += 1
    if memberships.max(initial=0) <= 1:  # disjoint sets, the usual folds: nothing to refine
        rest = memberships == 0
        label[rest] = len(distinct)
        repeats = n - int(rest.sum()) < sum(len(rows) for rows in distinct)
        members = [np.array([i]) for i in range(len(distinct))]
        count = len(distinct) + int(rest.any())
    else:
        label[:], count = 0, 1
        for rows in distinct:
            # Each set splits the groups so far in two; renumbering keeps the labels small.
            inside = np.zeros(n, dtype=np.int64)
            inside[rows] = 1
            repeats |= int(inside.sum()) < len(rows)
            values, label = np.unique(2 * label + inside, return_inverse=True)
            count = values.size
        members = [np.unique(label[rows]) for rows in distinct]
    return Groups(label, [members[i] for i in which], count, repeats)


def _distinct(sets: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """The sets without copies, and which of them each is: folds test what they leave out."""
    found: dict[tuple[int, ...], list[int]] = {}
    distinct: list[Any] = []
    which = []
    for rows in sets:
        alike = found.setdefault((len(rows), *(int(rows[i]) for i in (0, -1) if len(rows))), [])
        same = next(
            (i for i in alike if distinct[i] is rows or np.array_equal(distinct[i], rows)), len(distinct)
        )
        if same == len(distinct):
            distinct.append(rows)
            alike.append(same)
        which.append(same)
    return distinct, which
