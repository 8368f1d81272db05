"""``onefold predict``: a model and a table in, predictions out, block by block."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.metrics import r2_score, root_mean_squared_error

from onefold.cli.options import open_from_arguments
from onefold.cli.output import model_file, refuse_existing, replaced_file
from onefold.cli.streams import ExactOutput
from onefold.facts.data import EqualRows, equal_to_training
from onefold.facts.measures import MEASURES, number
from onefold.facts.unwrap import unwrap
from onefold.facts.words import json_text
from onefold.rows import row_hashes
from onefold.tables import TableModel, TableRows, TableSource, load_table_model
from onefold.tables.estimators import on_matrix
from onefold.tables.preparation import matrix_blocks
from onefold.tables.roles import check_id, refuse_clash
from onefold.tables.target import missing_targets, read_target

_METHODS = {
    "decision": ("decision_function", "a classification model"),
    "proba": ("predict_proba", "a classification model tuned with a calibration"),
    "interval": ("predict_interval", "a regression model tuned with intervals"),
}


def run_predict(arguments: argparse.Namespace) -> None:
    """Run the command."""
    out: Path | None = arguments.out
    path = model_file(arguments.model)
    if out is not None:
        if out.suffix.lower() not in {".csv", ".parquet"}:
            raise ValueError(f"--out must be a .csv or .parquet file; got {out.name}")
        refuse_existing([out], arguments.force, inputs=[arguments.table, path])
    model = load_table_model(path)
    for option, (method, kind) in _METHODS.items():
        if getattr(arguments, option) and not hasattr(model.estimator_, method):
            raise ValueError(f"--{option} needs {kind}, which this model is not")
    if arguments.score and not model.target_:
        raise ValueError(
            "--score is not available: this model does not know the name of its target column"
        )
    source = open_from_arguments(arguments, model.reading_)
    score = _Score(model) if arguments.score else None
    blocks = _predicted(model, source, score, arguments)
    predictions = None
    if out is not None:
        with replaced_file(out) as temporary:
            if out.suffix.lower() == ".parquet":
                rows = _write_parquet(blocks, temporary)
            else:
                with temporary.open("w", newline="", encoding="utf-8") as file:
                    rows = _write_csv(blocks, file)
    elif arguments.json:
        table = pa.concat_tables(blocks)
        rows = len(table)
        predictions = {name: _plain(table[name]) for name in table.column_names}
    else:
        rows = _write_csv(blocks, ExactOutput())
    score_facts, score_words = (None, None) if score is None else score.result()
    if arguments.json:
        facts = {"rows": rows, "file": None if out is None else str(out)}
        print(json_text(facts | {"score": score_facts, "predictions": predictions}))
        return
    if out is not None:
        print(f"onefold: wrote {rows} predictions to {out}", file=sys.stderr)
    if score_words is not None:
        print(f"onefold: {score_words}", file=sys.stderr)


def _predicted(
    model: TableModel, source: TableSource, score: _Score | None, arguments: argparse.Namespace
) -> Iterator[pa.Table]:
    """Predictions, with IDs, and with decision values, probabilities and bounds if requested."""
    estimator = model.estimator_
    n_rows = 0
    id_column = model.id_column_ if arguments.id is None else arguments.id
    if arguments.id is None and id_column is not None and id_column not in source.names:
        cause = f"{source.path.name} has no ID column '{id_column}'"
        print(f"onefold: {cause}; predictions are written without it", file=sys.stderr)
        id_column = None
    check_id(id_column, source)
    target = None if score is None else model.target_
    other_columns = tuple(name for name in (id_column, target) if name is not None)
    for rows, X in matrix_blocks(model, source, arguments.batch_rows, other_columns):
        predicted = on_matrix(model, "predict", X)
        if score is not None:  # before anything is written, as it may raise
            score.add(rows, X, predicted)
        columns: dict[str, Any] = {"prediction": predicted}
        if arguments.decision:
            values = np.asarray(estimator.decision_function(X))
            labels = [""] if values.ndim == 1 else [f"_{label}" for label in estimator.classes_]
            values = values.reshape(len(values), -1).T
            columns |= {f"decision{label}": column for label, column in zip(labels, values)}
        if arguments.proba:
            probabilities = on_matrix(model, "predict_proba", X).T
            columns |= {
                f"probability_{name}": column for name, column in zip(estimator.classes_, probabilities)
            }
        if arguments.interval is not None:
            bounds = on_matrix(model, "predict_interval", X, coverage=arguments.interval)
            columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
        refuse_clash(id_column, columns)
        ids = {} if id_column is None else {id_column: rows.columns[id_column]}
        n_rows += len(rows)
        yield pa.table(ids | columns)
    if n_rows == 0:
        raise ValueError(f"{source.path.name} has no rows to predict; add rows")


class _Score:
    """Predictions of all blocks next to their targets."""

    def __init__(self, model: TableModel) -> None:
        self._model = model
        self._missing_targets = 0
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self._hashes: list[np.ndarray] = []

    def add(self, rows: TableRows, X: Any, predicted: np.ndarray) -> None:
        model = self._model
        name = str(self._model.target_)
        missing = missing_targets(name, rows)
        self._missing_targets += int(missing.sum())
        scored = np.flatnonzero(~missing)
        if len(scored):
            classes = getattr(model, "classes_", None)
            truth = read_target(rows.take(scored), name, model.task, classes)
            self._pairs.append((truth, predicted[scored]))
            self._hashes.append(row_hashes(X[scored], np.float32))

    def result(self) -> tuple[dict[str, Any], str]:
        """The measures, and how many rows equal a training row; the same as a sentence."""
        if not self._pairs:
            raise ValueError(
                f"--score needs targets, but every value of '{self._model.target_}' is missing"
            )
        y, predicted = (np.concatenate(part) for part in zip(*self._pairs))
        score: dict[str, Any] = {"rows": len(y), "rows_without_target": self._missing_targets}
        fitted = unwrap(self._model).fitted_target(y)
        equal = equal_to_training(self._model.estimator_, np.concatenate(self._hashes), fitted)
        score["rows_equal_to_training"] = None if equal is None else equal.rows
        score["rows_equal_estimated"] = equal is not None and equal.estimated
        score["rows_equal_error"] = None if equal is None else equal.error
        score["rows_equal_at_least"] = equal is not None and equal.at_least
        if self._model.task == "classification":
            score["accuracy"] = float(np.mean(y == predicted))
        else:
            r2 = r2_score(y, predicted) if len(y) > 1 and np.ptp(y) > 0 else np.nan
            score["r2"] = float(r2)
            score["rmse"] = float(root_mean_squared_error(y, predicted))
        return score, _score_words(score, equal)


def _score_words(score: dict[str, Any], equal: EqualRows | None) -> str:
    measures = [
        f"{MEASURES[name].label} {number(name, score[name])}" for name in MEASURES if name in score
    ]
    words = f"{', '.join(measures)} on {score['rows']} rows"
    if score["rows_without_target"]:
        words += f" (not counting {score['rows_without_target']} without a target)"
    if equal is not None and equal.rows:
        words += f"; {equal.words()}: if those are the same rows, the score is optimistic"
    return words


def _write_csv(blocks: Iterator[pa.Table], stream: TextIO | ExactOutput) -> int:
    """Write CSV; return the number of rows."""
    writer = csv.writer(stream, lineterminator="\n")
    rows = 0
    for table in blocks:
        if rows == 0:
            writer.writerow(table.column_names)
        writer.writerows(zip(*map(_plain, table.columns)))
        rows += len(table)
    return rows


def _write_parquet(blocks: Iterator[pa.Table], path: Path) -> int:
    """Write Parquet with the types of the first block; return the number of rows."""
    first = next(blocks)
    rows = 0
    # Opened by Python, which accepts any name and raises OSError for errors of the disk.
    with path.open("wb") as file, pyarrow.parquet.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], blocks):
            writer.write_table(table)
            rows += len(table)
    return rows


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Numbers, or texts of everything else, such as booleans in lower case."""
    kinds = pa.types
    if not (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
        column = column.cast(pa.string())
    return list(column.to_pylist())
