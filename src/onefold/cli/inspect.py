"""``onefold inspect``: what a model file holds."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from onefold import saving
from onefold.cli.output import model_file
from onefold.cli.result_text import measure_lines, tested_lines
from onefold.estimators.final import metric_of
from onefold.expansions import Blend
from onefold.facts.criteria import criterion_of, score_label, score_text
from onefold.facts.ran import approximation_lines, blend_lines, importance_lines, parameter_lines
from onefold.facts.words import aligned, counted, json_text, number_words
from onefold.tables import Preparation, TableModel
from onefold.tables.errors import listing


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    path = model_file(arguments.model)
    header, model = saving.peek(path), saving.load(path)
    facts: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size}
    facts |= {name: header[name] for name in ("onefold_version", "format_version")}
    try:
        facts |= _estimator_facts(getattr(model, "estimator_", model))
        if isinstance(model, TableModel):
            facts |= {"target": model.target_, "id_column": model.id_column_, "tuning": model.report_}
            facts["preparation"] = _preparation_facts(model.preparation_)
        shown = json_text(facts) if arguments.json else _text(facts)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # Notes of the fit: prediction does not need them, and loading does not read them.
        raise saving.ModelFileError(
            f"{path} holds a model that predicts, but its notes on the fit are damaged ({error}); tune "
            "or fit it again."
        ) from error
    print(shown)


def _estimator_facts(estimator: Any) -> dict[str, Any]:
    expansion = estimator.expansion_
    classes = getattr(estimator, "classes_", None)
    parts = [{"weight": w, "kernel": _kernel_words(part.kernel)} for w, part in expansion.parts]
    several = isinstance(expansion, Blend) and len(parts) > 1
    facts = {
        "estimator": type(estimator).__name__,
        "kernel": f"a blend of {counted(len(parts), 'kernel')}" if several else parts[0]["kernel"],
        "blend": parts if several else None,
        "centres": expansion.n_centres,
        "features": int(estimator.n_features_in_),
        "approximation": getattr(estimator, "approximation_", None),
        "classes": None if classes is None else np.asarray(classes).tolist(),
    }
    if not hasattr(estimator, "best_score_"):
        return facts | {"params": {"alpha": np.asarray(estimator.alpha, dtype=float).tolist()}}
    facts |= {"best_score": float(estimator.best_score_), "criterion": criterion_of(estimator)}
    if not hasattr(estimator, "best_params_"):
        return facts | {"params": {"gamma": estimator.gamma_, "alpha": float(estimator.alpha_)}}
    if several and estimator.blend_:
        # As the search names them, the heaviest first, each with its kernel.
        order = np.argsort([-part["weight"] for part in parts], kind="stable")
        facts["blend"] = [
            {**named, "function": parts[i]["kernel"]} for i, named in zip(order, estimator.blend_)
        ]
    blend_score = getattr(estimator, "blend_score_", None)
    return facts | {"best_params": dict(estimator.best_params_), "blend_score": blend_score}


def _kernel_words(kernel: Any) -> str:
    """A kernel as Python writes it, but for the numbers of a learned metric."""
    values = metric_of(kernel)
    if values is None:
        return repr(kernel)
    kind = "diagonal" if values.ndim == 1 else "full"
    return f"{type(kernel).__name__}(gamma={kernel.gamma}, {kind} metric)"


def _preparation_facts(preparation: Preparation) -> dict[str, Any]:
    return {
        "columns": {
            part.name: {
                "kind": part.label,
                "summary": part.summary(),
                **part.facts(),
                "missing": part.missing,
            }
            for part in preparation.parts
        },
        "constant": list(preparation.constant),
        "missing": preparation.missing,
    }


def _text(facts: dict[str, Any]) -> str:
    lines = [
        ("model", f"{facts['estimator']} with {facts['kernel']}"),
        ("size", f"{counted(facts['centres'], 'centre')}, {counted(facts['features'], 'feature')}"),
    ]
    lines += approximation_lines(facts["approximation"])
    params = facts.get("best_params") or facts.get("params", {})
    if "kernel" in params:
        lines += [*parameter_lines(params), *blend_lines(facts)]
        params = {}
    elif facts["blend"] is not None:
        lines += [("member", f"{one['weight']:.3g} × {one['kernel']}") for one in facts["blend"]]
    for name, value in params.items():
        if value is not None:
            values = value if isinstance(value, list) else [value]
            shown = [item if isinstance(item, str) else number_words(float(item)) for item in values]
            lines.append((name, ", ".join(shown)))
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
    tuning = facts["tuning"]
    if not tuning:  # fitted in Python
        return [("target", f"'{facts['target']}'"), *_preparation_lines(facts)]
    lines = [
        ("target", f"'{facts['target']}' ({tuning['task']})"),
        ("tuned on", f"{tuning['rows']} rows, {tuning['candidates']} candidates, {tuning['cv']}"),
        *measure_lines(tuning),
    ]
    if tuning.get("test") is not None:
        words = [f"{label} {text}" for label, text in tested_lines(tuning["test"])]
        lines.append((f"{tuning['test']['rows']} test rows", ", ".join(words)))
    important = [f"{name} {share}" for name, share in importance_lines(tuning.get("importances"))]
    if important:
        lines.append(("important", ", ".join(important)))
    notes = [("note", note) for note in tuning.get("notes", [])]
    return [*lines, *_preparation_lines(facts), *notes]


def _preparation_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    preparation, lines = facts["preparation"], dict[str, str]()
    for name, column in preparation["columns"].items():
        if column["summary"]:
            lines[f"{column['kind']} '{name}'"] = column["summary"]
        else:
            alike = [n for n, c in preparation["columns"].items() if c["kind"] == column["kind"]]
            lines[column["kind"]] = listing(alike)
    if preparation["constant"]:
        lines["left out"] = f"{listing(preparation['constant'])} (constant)"
    lines["missing values"] = "filled in" if preparation["missing"] == "impute" else "refused"
    lacking = [name for name, column in preparation["columns"].items() if column["missing"]]
    if lacking:
        lines["missing values"] += f"; training rows had some in {listing(lacking)}"
    if facts["id_column"]:
        lines["id column"] = f"'{facts['id_column']}'"
    return list(lines.items())
