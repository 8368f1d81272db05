"""Tables on disk or in memory, their preparation for a kernel machine, and estimators of whole tables.

`open_table` reads CSV, TSV, Parquet and Excel files, whole or block by block; a
`Learner` and `learn_target` turn rows into a matrix and a target. `TablePreparation` is the preparation
as a transformer; `TableClassifier` and `TableRegressor` keep an estimator together with its preparation,
so that `load_table_model(path).predict(table)` takes tables as they come.
"""

from onefold.tables.errors import TableError
from onefold.tables.estimators import TableClassifier, TableModel, TableRegressor, load_table_model
from onefold.tables.kinds import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    Preparation,
)
from onefold.tables.learning import Learner, learn_preparation
from onefold.tables.preparation import TableEstimator, TablePreparation
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, TableSource, rows_of_frame
from onefold.tables.source import open_table
from onefold.tables.target import Target, learn_target

__all__ = [
    "BooleanColumn",
    "CategoryColumn",
    "Column",
    "DateColumn",
    "Learner",
    "NumberColumn",
    "Preparation",
    "Reading",
    "TableClassifier",
    "TableError",
    "TableEstimator",
    "TableModel",
    "TablePreparation",
    "TableRegressor",
    "TableRows",
    "TableSource",
    "Target",
    "learn_preparation",
    "learn_target",
    "load_table_model",
    "open_table",
    "rows_of_frame",
]
