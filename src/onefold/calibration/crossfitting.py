r"""Probabilities of held-out rows that did not see their own labels either.

The decision value of a held-out row comes from a model that was not fitted on it; were its label among
those that the calibration is fitted to, its probability would still be too good. So the rows of a split
are calibrated by the tested rows of all others:

    p(x_i) = c_f(f(x_i)),   i in split f,    c_f fitted on the tested rows that are not in split f

A row that several splits test counts once for each. Rows that are each left out alone, or all in one
split, go into five parts by their order, each of which takes the place of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from onefold.calibration.fitting import fit_calibrators
from onefold.heldout import Splits
from onefold.machine.threads import spans

_AT_ONCE = 2**20  # decision values of all models that are worked on together


@dataclass(frozen=True)
class CalibrationFolds:
    """Which rows calibrate which.

    Attributes
    ----------
    rows : int array (N,)
        The rows that the splits test, one split after the other.
    parts : list of int arrays
        Positions in `rows` of those that are calibrated together.
    """

    rows: Any
    parts: list[Any]

    @classmethod
    def of(cls, splits: Splits) -> CalibrationFolds:
        """Those of the splits; raise where a row has no other to be calibrated by."""
        if splits.leave_one_out:
            rows = np.concatenate([np.asarray(test) for test in splits.tests])
            parts = _fifths(np.arange(rows.size))
        else:
            rows = np.concatenate(splits.tests)
            ends = np.cumsum([len(test) for test in splits.tests])
            parts = []
            for test, end in zip(splits.tests, ends):
                own = np.arange(end - len(test), end)
                alone = np.isin(rows, test).all()
                parts += _fifths(own) if alone else [own]
        found = cls(rows, parts)
        if not all(keep.any() for keep in found._others):
            raise ValueError(
                "probabilities of held-out rows are calibrated by other held-out rows, and there is one "
                "only; use splits that test more rows."
            )
        return found

    @cached_property
    def _others(self) -> list[Any]:
        """For each part, a mask (N,) of what it is calibrated by: no row of its own."""
        return [~np.isin(self.rows, self.rows[part]) for part in self.parts]

    def probabilities(self, name: str, decision: Any, index: Any, weight: Any | None) -> Any:
        """Probabilities (models, N, classes) of decision values (models, N, t), all finite.

        `index` and `weight` are those of all rows, by their numbers.
        """
        models, count, columns = decision.shape
        index, weight = index[self.rows], None if weight is None else weight[self.rows]
        found = np.empty((models, count, 2 if columns == 1 else columns))
        for some in spans(models, max(1, _AT_ONCE // (count * columns))):
            for part, keep in zip(self.parts, self._others):
                own = None if weight is None else weight[keep]
                calibrators = fit_calibrators(name, decision[some][:, keep], index[keep], own)
                for number, calibrator in zip(range(some.start, some.stop), calibrators):
                    found[number, part] = calibrator.probabilities(decision[number, part])
        return found

    def mean_by_row(self, values: Any, n: int) -> Any:
        """The mean (n, columns) over the splits that test a row of values (N, columns); else NaN."""
        total, times = np.zeros((n, values.shape[1])), np.zeros((n, 1))
        np.add.at(total, self.rows, values)
        np.add.at(times, self.rows, 1)
        with np.errstate(invalid="ignore"):
            return total / times


def _fifths(positions: Any) -> list[Any]:
    return [positions[i::5] for i in range(5) if positions[i::5].size]
