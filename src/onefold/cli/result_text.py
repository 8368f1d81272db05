"""What a tuned model is, in text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onefold.cli.choice import (
    blend_lines,
    importance_lines,
    next_best,
)
from onefold.cli.output import command_line
from onefold.cli.words import (
    counted,
    decimal,
    percent,
    score_label,
    score_text,
)
from onefold.facts.measures import kept_score
from onefold.facts.words import readable, rough
from onefold.report.ran import approximation_lines, parameter_lines
from onefold.tables import TableModel
from onefold.tables.findings import edge_note

_PURPOSE = {
    "search.csv": "every candidate with its scores",
    "report.html": "a page about the model and its rows",
}
_MOST_RECALLS = 8
_UNBALANCED = 0.5  # the smallest class beside the largest


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
    held_out = report["heldout"] is not None
    folds = f"{report['cv']} cross-validation"
    if " " in report["cv"]:
        folds = f"cross-validation ({report['cv']})"
    how = folds if held_out else f"the criterion {report['criterion']}"
    facts = [
        *parameter_lines(estimator.best_params_),
        *blend_lines(report),
        *measure_lines(report),
        *approximation_lines(estimator.approximation_),
    ]
    # Where a part of the rows taught the metrics, the best of every kernel are left to be compared.
    taught = held_out and report["heldout"]["rows"] < report["rows"]
    among = counted(report["candidates"], "finalist" if taught else "candidate")
    lines = [
        f"Best of {among} for '{model.target_}' by {how}",
        *aligned(facts),
    ]
    if held_out:
        mean = "" if report["cv"] == "leave-one-out" else ", means over the folds"
        lines.append(f"  (on held-out rows{mean}; choosing the best makes it slightly optimistic)")
    lines += [f"  note: {note}" for note in report["notes"]]
    if report["test"] is not None:
        lines += ["", *_test_text(report["test"])]
    important = importance_lines(report)
    if important:
        lines += [
            "",
            "Most important columns (shares of what moves the prediction)",
            *aligned(important),
        ]
    unit = " (scores of the logarithm)" if report.get("target_transform") else ""
    lines += ["", f"Next best{unit}", *next_best(estimator, report["criterion"])]
    lines += ["", f"Done in {report['seconds']:.1f} s; wrote"]
    lines += aligned([(path, _purpose(path)) for path in files])
    return "\n".join(lines)


def _test_text(test: dict[str, Any]) -> list[str]:
    """The scores on rows that tuning never saw."""
    rows = counted(test["rows"], "row")
    return [
        f"On {rows} that tuning never saw (the saved model is the one scored here)",
        *aligned(tested_lines(test)),
    ]


def tested_lines(test: dict[str, Any]) -> list[tuple[str, str]]:
    """Scores with their standard errors next to a constant prediction, as label and value."""
    if "rmse" in test:
        found = f"{readable(test['rmse'])} ± {rough(test['standard_error'])}"
        always = f"always the mean of the tuning rows: {readable(test['baseline_rmse'])}"
        return [("R2", decimal(test["r2"])), ("RMSE", f"{found}  ({always})")]
    found = f"{percent(test['accuracy'])} ± {percent(test['standard_error'])}"
    always = f"always '{test['baseline_class']}': {percent(test['baseline_accuracy'])}"
    balanced = percent(test["balanced_accuracy"])
    return [("accuracy", f"{found}  ({always})"), ("balanced accuracy", balanced)]


def _purpose(path: str) -> str:
    words = _PURPOSE.get(Path(path).name)
    return words or f"the model: {command_line('predict', path)} NEW_TABLE"


def measure_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Held-out measures next to the best constant prediction, as label and value."""
    held, criterion = report["heldout"], report["criterion"]
    lines: list[tuple[str, str]] = []
    if held is not None and "accuracy" in held:
        lines += _class_lines(held, criterion)
    elif held is not None:
        baseline = f"always the mean: {readable(held['baseline_rmse'])}"
        lines.append(("R2", decimal(held["r2"])))
        lines.append(("RMSE", f"{readable(held['rmse'])} ± {rough(held['rmse_error'])}  ({baseline})"))
    if score_label(criterion) not in dict(lines):
        lines.insert(0, (score_label(criterion), score_text(criterion, kept_score(report))))
    if held is not None and held.get("rows", report["rows"]) < report["rows"]:
        folds = f"{counted(held['folds'], 'fold')} of {held['n_folds']}"
        tested = f"{held['rows']} of {report['rows']}, {folds}; the others taught the metric"
        lines.append(("held-out rows", tested))
    return lines


def _class_lines(held: dict[str, Any], criterion: str) -> list[tuple[str, str]]:
    """Accuracy, and what it hides if some classes are rare or the choice went by another score."""
    always = f"always '{held['baseline_class']}'"
    baseline = f"{always}: {percent(held['baseline_accuracy'])}"
    accuracy = f"{percent(held['accuracy'])} ± {percent(held['accuracy_error'])}"
    lines = [("accuracy", f"{accuracy}  ({baseline})")]
    rows = held["class_rows"]
    rare = min(rows.values()) < _UNBALANCED * max(rows.values())
    if rare or score_label(criterion) != "accuracy":
        chance = f"{always}: {percent(held['baseline_balanced_accuracy'])}"
        lines.append(("balanced accuracy", f"{percent(held['balanced_accuracy'])}  ({chance})"))
        worst_first = sorted(held["recall"], key=lambda label: float(held["recall"][label]))
        for label in worst_first[:_MOST_RECALLS]:
            found = percent(held["recall"][label])
            lines.append((f"recall of '{label}'", f"{found}  ({counted(rows[label], 'row')})"))
        if len(worst_first) > _MOST_RECALLS:
            lines.append(
                ("other recalls", f"above {percent(held['recall'][worst_first[_MOST_RECALLS - 1]])}")
            )
    return lines


def aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns, indented, the first as wide as its widest entry."""
    width = max(len(label) for label, _ in rows)
    return [f"  {label.ljust(width)}  {text}" for label, text in rows]
