"""Rows that are always trained on, or held out, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """

    label: Any
    members: list[Any]
    count: int


def group_rows(n: int, sets: Sequence[Any]) -> Groups:
    """Group `n` rows by the sets that they belong to. O(n · number of sets) time at worst."""
    label = np.zeros(n, dtype=np.int64)
    memberships = np.zeros(n, dtype=np.int64)
    for number, rows in enumerate(sets):
        label[rows] = number
        memberships[rows] += 1
    if memberships.max(initial=0) <= 1:  # disjoint sets, the usual folds: nothing to refine
        rest = memberships == 0
        label[rest] = len(sets)
        count = len(sets) + int(rest.any())
        return Groups(label, [np.array([i]) for i in range(len(sets))], count)
    label[:], count = 0, 1
    for rows in sets:
        # Each set splits the groups so far in two; renumbering keeps the labels small.
        inside = np.zeros(n, dtype=np.int64)
        inside[rows] = 1
        values, label = np.unique(2 * label + inside, return_inverse=True)
        count = values.size
    members = [np.unique(label[rows]) for rows in sets]
    return Groups(label, members, count)
