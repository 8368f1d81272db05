"""``onefold inspect``: what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.files import model_file
from onefold.cli.report import aligned, approximation_lines, measure_lines
from onefold.cli.words import counted, json_text, number_words, score_label, score_text
from onefold.tables import Preparation, TableModel, load_table_model
from onefold.tables.errors import listing

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    path = model_file(arguments.model)
    header = saving.peek(path)
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "onefold_version": header["onefold_version"],
        "format_version": header["format_version"],
        "estimator": header["estimator"],
    }
    if "table" in header["extra"]:
        model = load_table_model(path)
        facts |= _estimator_facts(model.estimator) | _table_facts(model)
    else:
        facts |= _estimator_facts(saving.load(path))
    print(json_text(facts) if arguments.json else _shown(facts))


def _shown(facts: dict[str, Any]) -> str:
    """The text; a file may come from anywhere, and its report is not needed to predict."""
    try:
        return _text(facts)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise saving.ModelFileError(
            f"{facts['file']} holds a report that this version of onefold cannot read; predict with it "
            "as it is, or tune again"
        ) from error


def _estimator_facts(model: Any) -> dict[str, Any]:
    # A pipeline ends in the estimator; what comes before it is named.
    steps = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    estimator = model[-1] if steps else model
    expansion = estimator.expansion_
    classes = getattr(estimator, "classes_", None)
    facts = {
        "kernel": repr(expansion.kernel),
        "centres": int(np.shape(expansion.coef)[0]),
        "features": int(estimator.n_features_in_),
        "approximation": getattr(estimator, "approximation_", None),
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "steps": steps,
    }
    if hasattr(estimator, "best_params_"):
        facts["best_params"] = {k: float(v) for k, v in estimator.best_params_.items()}
        facts["best_score"] = float(estimator.best_score_)
        facts["criterion"] = _criterion(estimator)
    else:
        facts["params"] = {"alpha": np.asarray(estimator.alpha, dtype=float).tolist()}
    return facts


def _criterion(estimator: Any) -> str | None:
    """The name of the criterion that the score is of; None if it was a function of the user's."""
    if "criterion" in getattr(estimator, "dropped_params_", {}):
        return None
    default = "error" if hasattr(estimator, "classes_") else "mse"
    return str(estimator.criterion or default)


def _table_facts(model: TableModel) -> dict[str, Any]:
    return {
        "target": model.target,
        "id_column": model.id_column,
        "tuning": model.report,
        "preparation": _preparation_facts(model.preparation),
    }


def _preparation_facts(preparation: Preparation) -> dict[str, Any]:
    if preparation.sparse_kept is not None:
        return {"sparse_features": len(preparation.sparse_kept)}
    standardised = zip(preparation.numeric, preparation.mean, preparation.scale)
    return {
        "numeric": {name: {"mean": float(m), "scale": float(s)} for name, m, s in standardised},
        "categorical": dict(zip(preparation.categorical, map(list, preparation.categories))),
        "constant": list(preparation.constant),
        "missing": preparation.missing,
    }


def _text(facts: dict[str, Any]) -> str:
    lines = [
        ("model", f"{facts['estimator']} with {facts['kernel']}"),
        ("size", f"{counted(facts['centres'], 'centre')}, {counted(facts['features'], 'feature')}"),
    ]
    if facts["steps"]:
        lines.append(("steps", " → ".join(facts["steps"])))
    lines += approximation_lines(facts["approximation"])
    params = facts.get("best_params") or facts.get("params", {})
    lines += [(name, number_words(value)) for name, value in params.items()]
    if facts["classes"] is not None:
        lines.append(("classes", listing(map(str, facts["classes"]))))
    if "tuning" in facts:
        lines += _tuning_lines(facts)
    elif "best_score" in facts:
        criterion, score = facts["criterion"], facts["best_score"]
        label = "score" if criterion is None else score_label(criterion)
        lines.append((label, f"{score:.6g}" if criterion is None else score_text(criterion, score)))
    versions = f"onefold {facts['onefold_version']}, file format {facts['format_version']}"
    lines.append(("written by", versions))
    return "\n".join([f"{facts['file']} ({facts['bytes']} bytes)", *aligned(lines)])


def _tuning_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    tuning, preparation = facts["tuning"], facts["preparation"]
    lines = [
        ("target", f"'{facts['target']}' ({tuning['task']})"),
        ("tuned on", f"{tuning['rows']} rows, {tuning['candidates']} candidates, {tuning['cv']}"),
        *measure_lines(tuning),
    ]
    if "sparse_features" in preparation:
        lines.append(("features", f"{preparation['sparse_features']} of an svmlight table"))
        return lines + [("note", note) for note in tuning["notes"]]
    if preparation["numeric"]:
        lines.append(("numbers", listing(preparation["numeric"])))
    for name, categories in preparation["categorical"].items():
        lines.append((f"text '{name}'", listing(categories)))
    if preparation["constant"]:
        lines.append(("left out", f"{listing(preparation['constant'])} (constant)"))
    gaps = "filled in" if preparation["missing"] == "impute" else "refused"
    lines.append(("missing values", gaps))
    if facts["id_column"]:
        lines.append(("id column", f"'{facts['id_column']}'"))
    return lines + [("note", note) for note in tuning["notes"]]
