"""``onefold predict``: a model and a table in, predictions out, block by block."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.files import model_file, refuse_existing, replaced_file
from onefold.cli.scoring import RunningScore
from onefold.cli.tableoptions import open_asked
from onefold.cli.tablewriters import CsvWriter, ParquetWriter, Writer
from onefold.tables import TableModel, TableRows, TableSource, load_table_model
from onefold.tables.target import read_target


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    out: Path | None = arguments.out
    model_path = model_file(arguments.model)
    if out is not None:
        if out.suffix.lower() not in {".csv", ".parquet"}:
            raise ValueError(f"--out {out.name}: predictions are written as .csv or .parquet")
        refuse_existing([out], arguments.force, inputs=[arguments.table, model_path])
    model = load_table_model(model_path)
    if arguments.decision and model.task == "regression":
        raise ValueError("--decision is for classification; this model predicts numbers")
    _check_answers(model, arguments)
    source = open_asked(arguments, model.reading_)
    id_column = _id_column(arguments.id, model, source)
    if id_column is not None and _is_output(id_column):
        raise ValueError(f"the id column is named '{id_column}', as an output column is; rename it")
    target = model.target_ or ""
    if arguments.score and not target:
        raise ValueError("--score needs the name of the target, which this model does not know")
    beside = tuple(name for name in (id_column, target if arguments.score else None) if name)
    classification = model.task == "classification"
    score = RunningScore(classification) if arguments.score else None
    n_rows = 0
    with _writer(out) as writer:
        for rows, X in model.matrix_blocks(source, arguments.batch_rows, beside):
            predicted = np.asarray(model.estimator_.predict(X))
            columns = _output_columns(rows, id_column, predicted)
            if arguments.decision:
                columns |= _decision_columns(model.estimator_, X)
            columns |= _uncertain_columns(model.estimator_, X, arguments)
            writer.write(columns)
            if score is not None:
                classes = model.estimator_.classes_ if classification else None
                score.update(read_target(rows, target, model.task, classes), predicted)
            n_rows += len(rows)
        if n_rows == 0:
            raise ValueError(f"{source.path.name} has no rows to predict")
    if out is not None:
        print(f"onefold: wrote {n_rows} predictions to {out}", file=sys.stderr)
    if score is not None:
        print(f"onefold: {score.words()}", file=sys.stderr)


def _id_column(asked: str | None, model: TableModel, source: TableSource) -> str | None:
    if asked is not None:
        return asked
    if model.id_column_ is not None and model.id_column_ not in source.names:
        print(
            f"onefold: {source.path.name} has no id column '{model.id_column_}'; "
            "predictions come without it",
            file=sys.stderr,
        )
        return None
    return model.id_column_


def _is_output(name: str) -> bool:
    return name in ("prediction", "lower", "upper", "decision") or name.startswith(
        ("probability_", "decision_")
    )


def _output_columns(rows: TableRows, id_column: str | None, predicted: np.ndarray) -> dict[str, Any]:
    if id_column is None:
        return {"prediction": predicted}
    return {id_column: rows.column(id_column), "prediction": predicted}


def _decision_columns(estimator: Any, X: Any) -> dict[str, Any]:
    values = np.asarray(estimator.decision_function(X))
    if values.ndim == 1:
        return {"decision": values}
    return {f"decision_{label}": values[:, j] for j, label in enumerate(estimator.classes_)}


def _check_answers(model: TableModel, arguments: argparse.Namespace) -> None:
    """Refuse to be asked for probabilities or bounds that the model does not have."""
    if arguments.proba and not hasattr(model.estimator_, "predict_proba"):
        why = "predicts numbers" if model.task == "regression" else "has no calibration; tune it again"
        raise ValueError(f"--proba is for classification with a calibration, and this model {why}")
    if arguments.interval is not None and not hasattr(model.estimator_, "predict_interval"):
        why = (
            "predicts classes: use --proba" if model.task != "regression" else "has none; tune it again"
        )
        raise ValueError(f"--interval is for regression with intervals, and this model {why}")


def _uncertain_columns(estimator: Any, X: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if arguments.proba:
        shares = np.asarray(estimator.predict_proba(X))
        columns |= {f"probability_{label}": shares[:, j] for j, label in enumerate(estimator.classes_)}
    if arguments.interval is not None:
        bounds = np.asarray(estimator.predict_interval(X, coverage=arguments.interval))
        columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
    return columns


@contextmanager
def _writer(out: Path | None) -> Iterator[Writer]:
    if out is None:
        yield CsvWriter(sys.stdout)
        return
    with replaced_file(out) as temporary:
        if out.suffix.lower() == ".parquet":
            with closing(ParquetWriter(temporary)) as writer:
                yield writer
        else:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                yield CsvWriter(file)
