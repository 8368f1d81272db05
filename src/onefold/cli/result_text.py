"""What a tuned model is, in text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onefold.cli.output import command_line
from onefold.facts.criteria import score_label, score_text
from onefold.facts.ran import (
    approximation_lines,
    blend_lines,
    importance_lines,
    next_best,
    parameter_lines,
)
from onefold.facts.scores import comparison_words, score_lines
from onefold.facts.words import aligned, counted
from onefold.tables import TableModel
from onefold.tables.findings import edge_note

_PURPOSE = {
    "search.csv": "every candidate with its scores",
    "report.html": "a page about the model and its rows",
}


def result_json(model: TableModel, table: Path, files: list[str]) -> dict[str, Any]:
    """The result of ``onefold tune --json``: plain values only."""
    estimator = model.estimator_
    return {
        "table": str(table),
        "target": model.target_,
        **model.report_,
        "best_params": dict(estimator.best_params_),
        "approximation": estimator.approximation_,
        "edge": edge_note(estimator),
        "constant_columns": list(model.preparation_.constant),
        "files": files,
    }


def result_text(model: TableModel, files: list[str]) -> str:
    """The result of ``onefold tune`` for people."""
    report, estimator = model.report_, model.estimator_
    scores = report["scores"]
    facts = [
        *parameter_lines(estimator.best_params_),
        *blend_lines(report),
        *measure_lines(report),
        *approximation_lines(estimator.approximation_),
    ]
    lines = [_how_chosen(report, model.target_), *aligned(facts)]
    if scores is not None:
        lines.append("  (± is one standard error; choosing the best makes scores slightly optimistic)")
    lines += [f"  note: {note}" for note in report["notes"]]
    if report["test"] is not None:
        rows = counted(report["test"]["rows"], "row")
        lines += ["", f"On {rows} that tuning never saw (the saved model is the one scored here)"]
        lines += aligned(tested_lines(report["test"]))
    important = importance_lines(report["importances"])
    if important:
        lines += ["", "Most important columns", *aligned(important)]
    unit = " (scores of the logarithm)" if report.get("target_transform") else ""
    lines += ["", f"Next best{unit}", *next_best(estimator, report["criterion"])]
    lines += ["", f"Done in {report['seconds']:.1f} s; wrote"]
    lines += aligned([(path, _purpose(path)) for path in files])
    return "\n".join(lines)


def _how_chosen(report: dict[str, Any], target: str | None) -> str:
    """Of how many candidates, and which rows their scores rest on."""
    scores, cv, count = report["scores"], report["cv"], report["candidates"]
    best = f"Best of {counted(count, 'candidate')} for '{target}'"
    if scores is None:
        return f"{best} by the criterion {report['criterion']}"
    if scores["untested"] and report["search"]["metric"] != "none":
        # The other folds taught the metrics; the best of every kernel are left to be compared.
        finalists = f"Best of {counted(count, 'finalist')} for '{target}'"
        folds = f"{counted(scores['folds'], 'fold')} ({scores['rows']:,} rows)"
        return f"{finalists}, scored on {folds} of {cv} cross-validation"
    return f"{best} by cross-validation ({cv})" if " " in cv else f"{best} by {cv} cross-validation"


def measure_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Held-out measures ± standard errors next to the baseline's, as label and value."""
    scores, criterion = report["scores"], report["criterion"]
    lines = score_lines(scores) if scores is not None else []
    if criterion is not None:
        blended = report.get("blend_score")
        kept = report["best_score"] if blended is None else blended
        label, words = score_label(criterion), score_text(criterion, float(kept))
        if label not in dict(lines):
            lines.insert(0, (label, words))
        elif not dict(lines)[label].startswith(words):
            unit = (
                "of the logarithm" if report.get("target_transform") else "the mean of that of the folds"
            )
            lines.insert(0, ("criterion", f"{label} {words}, {unit}"))
    if scores is not None and scores["verdict"]["best"] is not None:
        lines.append(("best simple model", comparison_words(scores, "")))
    return lines


def tested_lines(test: dict[str, Any]) -> list[tuple[str, str]]:
    """The same of rows that tuning never saw."""
    return [*score_lines(test["scores"]), ("best simple model", comparison_words(test["scores"], ""))]


def _purpose(path: str) -> str:
    words = _PURPOSE.get(Path(path).name)
    return words or f"the model: {command_line('predict', path)} NEW_TABLE"
