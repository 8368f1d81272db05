"""A fitted estimator together with the preparation of its tables."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onefold import saving
from onefold.tables.errors import TableError
from onefold.tables.prepare import Preparation, warn_unknown
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, rows_of_frame
from onefold.tables.source import TableSource, open_table
from onefold.tables.target import TargetKind

_EXTRA = "table"
_BLOCK_NUMBERS = 1 << 22
_MOST_ROWS = 1 << 16
_FEWEST_ROWS = 256


@dataclass(frozen=True)
class TableModel:
    """An estimator that takes tables.

    Parameters
    ----------
    estimator : estimator
        Fitted on the prepared matrix; it can be used by itself on such matrices.
    preparation : Preparation
    target : str
        The name of the column that was learned.
    task : {"classification", "regression"}
    id_column : str or None
        A column that names the rows, repeated beside predictions.
    report : dict
        What tuning found, as plain values: scores, baselines, sizes.
    reading : Reading
        How the table was read; tables of text to predict are read the same way.
    """

    estimator: Any
    preparation: Preparation
    target: str
    task: TargetKind
    id_column: str | None = None
    report: dict[str, Any] = dataclasses.field(default_factory=dict)
    reading: Reading = dataclasses.field(default_factory=Reading)

    def predict(self, table: Any) -> np.ndarray:
        """Predict every row of a path, a pandas, polars or pyarrow table, or an open table."""
        blocks = [prediction for _, prediction in self.predict_blocks(table)]
        if not blocks:
            raise TableError("the table has no rows")
        return np.concatenate(blocks)

    def predict_blocks(
        self, table: Any, batch_rows: int | None = None, beside: tuple[str, ...] = ()
    ) -> Iterator[tuple[TableRows, np.ndarray]]:
        """Blocks of rows with their predictions, in the order of the table.

        Never holds more than a block in memory if the table can be read in blocks. Values that
        tuning had never seen are counted over all blocks, for one warning at the end.

        Parameters
        ----------
        table : path, TableSource or in-memory table
            As `predict` takes it.
        batch_rows : int, optional
            Rows in a block; by default about four million numbers.
        beside : tuple of str
            Columns to read besides those the model needs.
        """
        for rows, matrix in self.matrix_blocks(table, batch_rows, beside):
            yield rows, np.asarray(self.estimator.predict(matrix))

    def matrix_blocks(
        self, table: Any, batch_rows: int | None = None, beside: tuple[str, ...] = ()
    ) -> Iterator[tuple[TableRows, Any]]:
        """Like `predict_blocks`, with the prepared matrix in place of predictions."""
        size = batch_rows or self._batch_rows()
        unknown: Counter[str] = Counter()
        source = open_table(table, self.reading) if isinstance(table, str | Path) else table
        if isinstance(source, TableSource) and source.reading == Reading() != self.reading:
            source = open_table(source.path, self.reading)
        if isinstance(source, TableSource):
            for name in beside:
                source.require(name)
            self.preparation.check_columns(source.names, source.sparse)
            wanted = tuple(dict.fromkeys(self.preparation.columns + beside))
            blocks = source.batches(size, wanted)
        else:
            rows = dataclasses.replace(rows_of_frame(source), reading=self.reading)
            blocks = rows.slices(size)
        for rows in blocks:
            yield rows, self.preparation.transform(rows, unknown)
        warn_unknown(unknown)

    def save(self, path: str | Path) -> None:
        """Write estimator and preparation to one file, which `onefold.load` reads."""
        saving.save(self.estimator, path, extra={_EXTRA: self.plain()})

    def plain(self) -> dict[str, Any]:
        """Everything but the estimator as plain values and arrays."""
        return {
            "preparation": self.preparation.to_plain(),
            "target": self.target,
            "task": self.task,
            "id_column": self.id_column,
            "report": self.report,
            "reading": self.reading.to_plain(),
        }

    @classmethod
    def from_plain(cls, estimator: Any, plain: dict[str, Any]) -> TableModel:
        """The model that `plain` described, around its estimator."""
        preparation = Preparation.from_plain(plain["preparation"])
        reading = Reading.from_plain(plain["reading"])
        return cls(estimator, **{**plain, "preparation": preparation, "reading": reading})

    def _batch_rows(self) -> int:
        width = max(len(self.preparation.feature_names), 1)
        return min(max(_BLOCK_NUMBERS // width, _FEWEST_ROWS), _MOST_ROWS)


def load_table_model(path: str | Path) -> TableModel:
    """Read a model that was tuned on a table, with its preparation.

    Raises
    ------
    TableError
        If the file holds another model; `onefold.load` reads such files.
    onefold.saving.ModelFileError
        If the file is not a onefold model or is damaged.
    """
    model = saving.load(path)
    if not isinstance(model, TableModel):
        raise TableError(
            f"{path} holds a {type(model).__name__} that was not tuned on a table; read it with "
            "onefold.load"
        )
    return model
