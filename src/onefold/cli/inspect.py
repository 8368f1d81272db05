"""``onefold inspect``: what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.output import model_file
from onefold.cli.terminal import fit_facts_of, fit_text
from onefold.facts.unwrap import unwrap
from onefold.facts.words import aligned, counted, json_text
from onefold.tables import TableEstimator, TableModel, TablePreparation
from onefold.tables.errors import listing


def run_inspect(arguments: argparse.Namespace) -> None:
    """Run the command."""
    path = model_file(arguments.model)
    header = saving.peek(path)
    model = saving.load(path)
    file = {"file": str(path), "bytes": path.stat().st_size}
    file |= {name: header[name] for name in ("onefold_version", "format_version")}
    try:
        facts = file | _facts(model)
        output = json_text(facts) if arguments.json else _text(model, facts)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Notes of the fit: prediction does not need them, and loading does not read them.
        raise saving.ModelFileError(
            f"the model in {path} can predict, but its record of the fit is damaged ({error}); tune or "
            "fit it again."
        ) from error
    print(output)


def _facts(model: Any) -> dict[str, Any]:
    """What a model is, how it was chosen, and what became of the columns of a table."""
    if isinstance(model, TablePreparation):
        return {"features": len(model.get_feature_names_out())} | _column_facts(model)
    estimator = unwrap(model).estimator
    facts = fit_facts_of(model) | {
        "centres": estimator.expansion_.n_centres,
        "features": int(estimator.n_features_in_),
        "classes": np.asarray(getattr(estimator, "classes_", [])).tolist() or None,
        "compressed": estimator.approximation_.get("compressed"),
        "best_params": dict(getattr(estimator, "best_params_", {})),
    }
    if not isinstance(model, TableModel):
        return facts
    facts |= {"target": model.target_, "id_column": model.id_column_, "tuning": model.report_}
    return facts | _column_facts(model)


def _column_facts(model: TableEstimator) -> dict[str, Any]:
    """What became of the columns of a table."""
    preparation = model.preparation_
    return {
        "missing": model.missing,
        "constant": list(preparation.constant),
        "columns": {
            part.name: {"kind": part.label, "summary": part.summary(), "missing": part.missing}
            | part.facts()
            for part in preparation.parts
        },
    }


def _text(model: Any, facts: dict[str, Any]) -> str:
    title = f"{facts['file']} ({facts['bytes']} bytes)"
    versions = f"onefold {facts['onefold_version']}, file format {facts['format_version']}"
    written_by = ("written by", versions)
    if isinstance(model, TablePreparation):
        return "\n".join([title, *aligned([*_column_lines(facts), written_by])])
    size = f"{counted(facts['centres'], 'centre')}, {counted(facts['features'], 'feature')}"
    lines = [("size", size)]
    if facts["classes"] is not None:
        lines.append(("classes", listing(map(str, facts["classes"]))))
    if isinstance(model, TableModel):
        tuning = facts["tuning"]
        lines += [
            ("target", f"'{facts['target']}' ({tuning['task']})"),
            ("tuned on", counted(tuning["rows"], "row")),
            *_column_lines(facts),
        ]
    lines.append(written_by)
    return "\n".join([title, *aligned(lines), "", *fit_text(model, facts["lines"])])


def _column_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """How the columns are encoded: a line for each kind, or for a column that has a summary."""
    columns = facts["columns"]
    lines = dict[str, str]()
    for name, column in columns.items():
        kind = column["kind"]
        if column["summary"]:
            lines[f"{kind} '{name}'"] = column["summary"]
        else:
            lines[kind] = listing(name for name, column in columns.items() if column["kind"] == kind)
    if facts["constant"]:
        lines["left out"] = f"{listing(facts['constant'])} (constant)"
    lines["missing values"] = "imputed" if facts["missing"] == "impute" else "refused"
    incomplete = [name for name, column in columns.items() if column["missing"]]
    if incomplete:
        lines["missing values"] += f"; training rows lacked values in {listing(incomplete)}"
    if facts.get("id_column"):
        lines["id column"] = f"'{facts['id_column']}'"
    return list(lines.items())
