"""``onefold predict``: a model and a table in, predictions out, block by block."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from onefold.cli.options import open_asked
from onefold.cli.output import model_file, refuse_existing, replaced_file
from onefold.facts.words import json_text, percent, readable, thousandths
from onefold.rows import row_hashes
from onefold.tables import TableModel, TableSource, load_table_model
from onefold.tables.target import read_target

Columns = dict[str, Any]
_OUTPUTS = ("prediction", "lower", "upper", "decision")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    out: Path | None = arguments.out
    path = model_file(arguments.model)
    if out is not None:
        if out.suffix.lower() not in {".csv", ".parquet"}:
            raise ValueError(f"--out {out.name}: predictions are written as .csv or .parquet")
        refuse_existing([out], arguments.force, inputs=[arguments.table, path])
    model = load_table_model(path)
    _check(model, arguments)
    source = open_asked(arguments, model.reading_)
    id_column = _id_column(arguments.id, model, source)
    target = model.target_ if arguments.score else None
    estimator, n_rows, known = model.estimator_, 0, 0
    shown: list[Columns] = []
    truths, predictions = [], []
    with _writer(out, arguments.json, shown) as write:
        extra = tuple(name for name in (id_column, target) if name)
        for rows, X in model.matrix_blocks(source, arguments.batch_rows, extra):
            predicted = model.on_matrix("predict", X)
            if target is not None:  # before anything is written: it may be refused
                classes = getattr(estimator, "classes_", None)
                truths.append(read_target(rows, target, model.task, classes))
                predictions.append(predicted)
                known += _known_rows(estimator, X)
            columns: Columns = {} if id_column is None else {id_column: rows.raw(id_column)}
            write(columns | {"prediction": predicted} | _more_columns(model, X, arguments))
            n_rows += len(rows)
        if n_rows == 0:
            raise ValueError(f"{source.path.name} has no rows to predict")
    score = None
    if target is not None:
        score = _score(np.concatenate(truths), np.concatenate(predictions), model.task)
        score |= {"rows": n_rows, "training_rows": known}
    if arguments.json:
        whole = {name: [one for block in shown for one in block[name]] for name in (shown or [{}])[0]}
        print(
            json_text(
                {
                    "rows": n_rows,
                    "file": None if out is None else str(out),
                    "score": score,
                    "predictions": whole or None,
                }
            )
        )
        return
    if out is not None:
        print(f"onefold: wrote {n_rows} predictions to {out}", file=sys.stderr)
    if score is not None:
        print(f"onefold: {_score_words(score, estimator.fingerprint_)}", file=sys.stderr)


def _check(model: TableModel, arguments: argparse.Namespace) -> None:
    """Refuse what the model does not have."""
    numbers = model.task == "regression"
    if arguments.decision and numbers:
        raise ValueError("--decision is for classification; this model predicts numbers")
    if arguments.proba and not hasattr(model.estimator_, "predict_proba"):
        why = "predicts numbers" if numbers else "has no calibration; tune it again"
        raise ValueError(f"--proba is for classification with a calibration, and this model {why}")
    if arguments.interval is not None and not hasattr(model.estimator_, "predict_interval"):
        why = "has none; tune it again" if numbers else "predicts classes: use --proba"
        raise ValueError(f"--interval is for regression with intervals, and this model {why}")
    if arguments.score and not model.target_:
        raise ValueError("--score needs the name of the target, which this model does not know")


def _id_column(asked: str | None, model: TableModel, source: TableSource) -> str | None:
    name = model.id_column_ if asked is None else asked
    if asked is None and name is not None and name not in source.names:
        print(
            f"onefold: {source.path.name} has no ID column '{name}'; predictions come without it",
            file=sys.stderr,
        )
        return None
    if name is not None and (name in _OUTPUTS or name.startswith(("probability_", "decision_"))):
        raise ValueError(f"the ID column is named '{name}', as an output column is; rename it")
    return name


def _more_columns(model: TableModel, X: Any, arguments: argparse.Namespace) -> Columns:
    """Decision values, probabilities and bounds, where they were asked for."""
    columns: Columns = {}
    estimator = model.estimator_
    if arguments.decision:
        values = np.asarray(estimator.decision_function(X))
        labels = [""] if values.ndim == 1 else [f"_{label}" for label in estimator.classes_]
        columns |= dict(zip((f"decision{label}" for label in labels), values.reshape(len(values), -1).T))
    if arguments.proba:
        shares = model.on_matrix("predict_proba", X)
        columns |= {f"probability_{label}": shares[:, j] for j, label in enumerate(estimator.classes_)}
    if arguments.interval is not None:
        lower, upper = model.on_matrix("predict_interval", X, coverage=arguments.interval).T
        columns |= {"lower": lower, "upper": upper}
    return columns


def _known_rows(estimator: Any, X: Any) -> int:
    """How many of the rows equal one in the model's fingerprint, at most 1,000 rows of its table."""
    known = estimator.fingerprint_
    return 0 if known is None else int(np.isin(row_hashes(X, np.float32), known["hashes"]).sum())


def _score(y: np.ndarray, predicted: np.ndarray, task: str) -> dict[str, Any]:
    if task == "classification":
        return {"accuracy": float(np.mean(y == predicted))}
    mse, variance = float(np.mean((y - predicted) ** 2)), float(np.var(y))
    return {"r2": 1.0 - mse / variance if variance > 0 else math.nan, "rmse": math.sqrt(mse)}


def _score_words(score: dict[str, Any], fingerprint: Any) -> str:
    rows, known = score["rows"], score["training_rows"]
    if "accuracy" in score:
        words = f"accuracy {percent(score['accuracy'])} on {rows} rows"
    else:
        words = f"R² {thousandths(score['r2'])}, RMSE {readable(score['rmse'])} on {rows} rows"
    if known:
        least = "at least " if len(fingerprint["rows"]) < fingerprint["n"] else ""
        words += f"; {least}{known} of them the model was fitted on, which flatters the score"
    return words


@contextmanager
def _writer(
    out: Path | None, as_json: bool, shown: list[Columns]
) -> Iterator[Callable[[Columns], None]]:
    """A function that takes blocks of columns; the first block decides the types of a Parquet file."""
    if out is None and as_json:
        yield lambda columns: shown.append({name: _plain(one) for name, one in columns.items()})
    elif out is None:
        yield _csv_writer(sys.stdout)
    elif out.suffix.lower() == ".csv":
        with replaced_file(out) as path, path.open("w", newline="", encoding="utf-8") as file:
            yield _csv_writer(file)
    else:
        files: list[Any] = []

        def write(columns: Columns) -> None:
            table: pa.Table = pa.table(columns)
            if not files:
                files.append(pyarrow.parquet.ParquetWriter(path, table.schema))
            files[0].write_table(table)

        with replaced_file(out) as path:
            try:
                yield write
            finally:
                for file in files:
                    file.close()


def _csv_writer(stream: Any) -> Callable[[Columns], None]:
    writer, header = csv.writer(stream, lineterminator="\n"), True

    def write(columns: Columns) -> None:
        nonlocal header
        if header:
            writer.writerow(columns)
        header = False
        writer.writerows(zip(*map(_plain, columns.values())))

    return write


def _plain(column: Any) -> list[Any]:
    """Python values as a CSV shows them: booleans in lower case, as other tools read them."""
    values = column.tolist() if hasattr(column, "tolist") else column.to_pylist()
    return [str(value).lower() if isinstance(value, bool) else value for value in values]
