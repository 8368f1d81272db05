"""``onefold inspect``: what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.output import model_file
from onefold.cli.terminal import measure_lines, tested_lines
from onefold.facts.ran import importance_lines, ran_facts
from onefold.facts.words import aligned, counted, json_text
from onefold.tables import TableEstimator, TableModel, TablePreparation
from onefold.tables.errors import listing


def run_inspect(arguments: argparse.Namespace) -> None:
    """Run the command."""
    path = model_file(arguments.model)
    header = saving.peek(path)
    model = saving.load(path)
    facts: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size}
    facts |= {name: header[name] for name in ("onefold_version", "format_version")}
    estimator = getattr(model, "estimator_", model)
    if isinstance(model, TablePreparation):
        facts |= {"features": len(model.get_feature_names_out())} | _column_facts(model)
        print(json_text(facts) if arguments.json else _lines(facts, _column_lines(facts)))
        return
    try:
        tuned = getattr(model, "report_", None) or {}
        facts |= ran_facts(estimator, tuned.get("seconds")) | {
            "centres": estimator.expansion_.n_centres,
            "features": int(estimator.n_features_in_),
            "classes": np.asarray(getattr(estimator, "classes_", [])).tolist() or None,
            "best_params": dict(getattr(estimator, "best_params_", {})),
        }
        if isinstance(model, TableModel):
            facts |= {"target": model.target_, "id_column": model.id_column_, "tuning": model.report_}
            facts |= _column_facts(model)
        shown = json_text(facts) if arguments.json else _text(facts)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Notes of the fit: prediction does not need them, and loading does not read them.
        raise saving.ModelFileError(
            f"the model in {path} can predict, but its record of the fit is damaged ({error}); tune or "
            "fit it again."
        ) from error
    print(shown)


def _column_facts(model: TableEstimator) -> dict[str, Any]:
    """What became of the columns of a table."""
    parts = model.preparation_.parts
    return {
        "missing": model.missing,
        "constant": list(model.preparation_.constant),
        "columns": {
            part.name: {"kind": part.label, "summary": part.summary(), "missing": part.missing}
            | part.facts()
            for part in parts
        },
    }


def _text(facts: dict[str, Any]) -> str:
    size = f"{counted(facts['centres'], 'centre')}, {counted(facts['features'], 'feature')}"
    lines = [*facts["lines"], ("size", size)]
    tuning = facts.get("tuning")
    if facts["classes"] is not None:
        lines.append(("classes", listing(map(str, facts["classes"]))))
    if tuning:
        lines += [
            ("target", f"'{facts['target']}' ({tuning['task']})"),
            ("tuned on", f"{tuning['rows']} rows, {tuning['candidates']} candidates, {tuning['cv']}"),
            *measure_lines(tuning),
        ]
        if tuning["test"] is not None:
            words = [f"{label} {text}" for label, text in tested_lines(tuning["test"])]
            lines.append((f"{tuning['test']['rows']} test rows", ", ".join(words)))
        if important := importance_lines(tuning["importances"]):
            lines.append(("importances", ", ".join(f"{name} {share}" for name, share in important)))
        lines += [("note", note) for note in tuning["notes"]]
    if "columns" in facts:
        lines += _column_lines(facts)
    return _lines(facts, lines)


def _lines(facts: dict[str, Any], lines: list[tuple[str, str]]) -> str:
    """Labels and values below the name of the file, and what wrote it."""
    versions = f"onefold {facts['onefold_version']}, file format {facts['format_version']}"
    written_by = ("written by", versions)
    return "\n".join([f"{facts['file']} ({facts['bytes']} bytes)", *aligned([*lines, written_by])])


def _column_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What became of the columns; those of one kind in a line, unless there is more to say of them."""
    columns = facts["columns"]
    lines = dict[str, str]()
    for name, column in columns.items():
        if column["summary"]:
            lines[f"{column['kind']} '{name}'"] = column["summary"]
        else:
            alike = [n for n, c in columns.items() if c["kind"] == column["kind"]]
            lines[column["kind"]] = listing(alike)
    if facts["constant"]:
        lines["left out"] = f"{listing(facts['constant'])} (constant)"
    lines["missing values"] = "imputed" if facts["missing"] == "impute" else "refused"
    lacking = [name for name, column in columns.items() if column["missing"]]
    if lacking:
        lines["missing values"] += f"; training rows lacked values in {listing(lacking)}"
    if facts.get("id_column"):
        lines["id column"] = f"'{facts['id_column']}'"
    return list(lines.items())
