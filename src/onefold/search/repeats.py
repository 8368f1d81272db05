r"""Rows that repeat, in searches on some of the rows.

Where rows repeat, part of what a model knows of a row is the targets of the rows that equal it. In a
random tenth of the rows hardly any two are equal, so that kernels that can tell what equal rows share
would look no better there than others. So *sets* of equal rows are sampled, each with all of its rows:
an equal share of the held-out rows then has equal rows in the training part as in the whole table.

Equal rows that are trained on are one row x with their weights v_i and targets y_i summed up:

    Σ v_i (y_i − f(x))² = V (ȳ − f(x))² + const,    V = Σ v_i,  ȳ = Σ v_i y_i / V

so that f is the same, and a sample of as many sets costs no more than one of as many rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.heldout import sample_rows
from onefold.linalg import Index, asarray_like
from onefold.rows.hashing import repeated_rows


@dataclass(frozen=True)
class RepeatedRows:
    """Which rows of a table are equal, where many are."""

    set_of: Index  # (n,): number of the set of equal rows of each row

    @classmethod
    def of(cls, problem: Problem) -> RepeatedRows | None:
        """Those of a problem; None where few rows repeat, or rows are not in memory."""
        if problem.remote or problem.streamed or problem.precomputed:
            return None
        distinct = repeated_rows(problem.X)
        return None if distinct is None else cls(distinct[1])

    def sampled(
        self,
        training: Index,
        validation: Index,
        size: int,
        generator: np.random.Generator,
        labels: Any | None,
    ) -> tuple[Index, Index]:
        """The rows of `size` sets, drawn at random from those of training and validation rows.

        All training rows are taken if none of them is in these sets; likewise all validation rows.
        """
        rows = np.sort(np.concatenate([training, validation]))
        _, first = np.unique(self.set_of[rows], return_index=True)
        picked = sample_rows(rows[np.sort(first)], size, generator, labels)
        is_picked = np.zeros(int(self.set_of.max()) + 1, dtype=bool)
        is_picked[self.set_of[picked]] = True
        sampled_training = training[is_picked[self.set_of[training]]]
        sampled_validation = validation[is_picked[self.set_of[validation]]]
        return (
            sampled_training if sampled_training.size else training,
            sampled_validation if sampled_validation.size else validation,
        )

    def whole_sets(
        self, rows: Index, size: int, generator: np.random.Generator, labels: Any | None = None
    ) -> Index:
        """All rows of some sets, drawn at random: about `size` rows; all if there are fewer."""
        if rows.size <= size:
            return np.sort(rows)
        sets = np.unique(self.set_of[rows]).size
        share = int(np.ceil(size * sets / rows.size))
        return self.sampled(rows, rows[:0], share, generator, labels)[0]

    def merged(self, problem: Problem, training: Index, validation: Index) -> tuple[Problem, Index]:
        """The problem of training rows, equal ones merged, then validation rows; its rows' numbers."""
        _, first, place = np.unique(self.set_of[training], return_index=True, return_inverse=True)
        place = place.reshape(-1)
        rows = np.concatenate([training[first], validation])
        weight = np.ones(problem.n) if problem.weight is None else problem.weight
        targets = problem.targets
        sums = np.bincount(place, weight[training], first.size)
        means = [np.bincount(place, weight[training] * column[training]) / sums for column in targets.T]
        Y = np.concatenate([np.stack(means, axis=1), targets[validation]])
        root = np.sqrt(np.concatenate([sums, weight[validation]]))
        part = problem.rows(rows)
        part = replace(part, Y=asarray_like(Y, part.Y), root_weight=asarray_like(root, part.Y))
        return part.of_mean() if part.loss == "mean" else part, rows
