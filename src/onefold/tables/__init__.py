"""Tables on disk or in memory, and their preparation for a kernel machine.

`open_table` reads CSV, TSV, Parquet, NumPy and svmlight files, whole or block by block;
`learn_preparation` and `learn_target` turn rows into a matrix and a target; a `TableModel` keeps an
estimator together with its preparation, so that `load_table_model(path).predict(table)` takes
tables as they come.
"""

from onefold.tables.disk import RowsOnDisk, rows_on_disk
from onefold.tables.errors import TableError
from onefold.tables.learn import learn_preparation
from onefold.tables.model import TableModel, load_table_model
from onefold.tables.prepare import Preparation
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, rows_of_frame
from onefold.tables.source import TableSource, open_table
from onefold.tables.target import Target, learn_target

__all__ = [
    "Preparation",
    "Reading",
    "RowsOnDisk",
    "TableError",
    "TableModel",
    "TableRows",
    "TableSource",
    "Target",
    "learn_preparation",
    "learn_target",
    "load_table_model",
    "open_table",
    "rows_of_frame",
    "rows_on_disk",
]
