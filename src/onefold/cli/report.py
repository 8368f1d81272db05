"""What a tuned model is, in text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from onefold.cli.measures import score_words
from onefold.cli.values import power_of_two
from onefold.tables import TableModel

__all__ = [
    "aligned",
    "counted",
    "edge_note",
    "measure_lines",
    "number_words",
    "parameter_lines",
    "result_json",
    "result_text",
    "trust_words",
]

_PURPOSE = {
    "model.onefold": "the model: onefold predict {path} NEW_TABLE",
    "search.csv": "every candidate with its scores",
    "search.png": "a picture of the search",
}
_NEXT_BEST = 4


def result_json(
    model: TableModel, table: Path, files: list[str], no_picture: str | None
) -> dict[str, Any]:
    """The result of ``onefold tune --json``: plain values only."""
    estimator = model.estimator
    return {
        "table": str(table),
        "target": model.target,
        **model.report,
        "best_params": {key: float(value) for key, value in estimator.best_params_.items()},
        "approximation": estimator.approximation_,
        "edge": edge_note(estimator),
        "constant_columns": list(model.preparation.constant),
        "files": files,
        "picture_missing_because": no_picture,
    }


def result_text(model: TableModel, files: list[str]) -> str:
    """The result of ``onefold tune`` for people."""
    report, estimator = model.report, model.estimator
    held_out = report["heldout"] is not None
    how = f"{report['cv']} cross-validation" if held_out else f"the criterion {report['criterion']}"
    lines = [
        f"Best of {counted(report['candidates'], 'candidate')} for '{model.target}' by {how}",
        *aligned([*parameter_lines(estimator), *measure_lines(report)]),
    ]
    if held_out:
        lines.append("  (on held-out rows; choosing the best makes it slightly optimistic)")
    if "trust" in estimator.approximation_:
        lines.append(f"  trust check: {trust_words(estimator.approximation_['trust'])}")
    edge = edge_note(estimator)
    if edge:
        lines.append(f"  note: {edge}")
    lines += ["", "Next best", *_next_best(estimator, report["criterion"])]
    lines += ["", f"Done in {report['seconds']:.1f} s; wrote"]
    lines += aligned([(path, _PURPOSE[Path(path).name].format(path=path)) for path in files])
    return "\n".join(lines)


def parameter_lines(estimator: Any) -> list[tuple[str, str]]:
    """The chosen hyper-parameters, as label and value."""
    best = estimator.best_params_
    return [(name, number_words(float(best[name]))) for name in ("gamma", "alpha") if name in best]


def trust_words(found: dict[str, Any]) -> str:
    """The verdict of the trust check, and what it rests on."""
    distance = counted(found["steps"], "grid step")
    return (
        f"the approximation {found['verdict'].replace('doubtful', 'is doubtful')} "
        f"({distance} from the exact choice on {found['rows']} rows, regret {found['regret']:.3g})"
    )


def number_words(value: float) -> str:
    """A grid value as a power of two and as a decimal number."""
    power = power_of_two(value)
    return f"{power} = {value:.4g}" if "^" in power else power


def measure_lines(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Held-out measures next to the best constant prediction, as label and value."""
    held = report["heldout"]
    lines: list[tuple[str, str]] = []
    if held is not None and "accuracy" in held:
        baseline = f"always '{held['baseline_class']}': {held['baseline_accuracy']:.2%}"
        lines.append(("accuracy", f"{held['accuracy']:.2%}  ({baseline})"))
    elif held is not None:
        baseline = f"always the mean: {held['baseline_rmse']:.4g}"
        lines.append(("R2", f"{held['r2']:.4f}"))
        lines.append(("RMSE", f"{held['rmse']:.4g}  ({baseline})"))
    if held is None or report["criterion"] not in {"error", "mse"}:
        lines.append((report["criterion"], f"{report['best_score']:.6g}"))
    return lines


def edge_note(estimator: Any) -> str | None:
    """A warning if the best value lies at the end of a grid, beyond which there may be better."""
    at_edge = []
    options = ("gamma", "alpha")  # an approximation's own settings have no option to widen
    for name, value in [(n, v) for n, v in estimator.best_params_.items() if n in options]:
        tried = np.unique(np.asarray(estimator.cv_results_[f"param_{name}"], dtype=float))
        if len(tried) > 2 and value in (tried[0], tried[-1]):
            at_edge.append(name)
    if not at_edge:
        return None
    wider = " and ".join(f"--{name}s" for name in at_edge)
    which = " and ".join(at_edge)
    return f"the best {which} is the last one tried; wider {wider} may find better"


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns, indented, the first as wide as its widest entry."""
    width = max(len(label) for label, _ in rows)
    return [f"  {label.ljust(width)}  {text}" for label, text in rows]


def _next_best(estimator: Any, criterion: str) -> list[str]:
    results = estimator.cv_results_
    order = np.argsort(-np.asarray(results["mean_test_score"]), kind="stable")
    others = [int(i) for i in order if results["params"][i] != estimator.best_params_]
    lines = []
    for i in others[:_NEXT_BEST]:
        params = results["params"][i]
        point = "  ".join(f"{k} {power_of_two(params[k]):>6}" for k in sorted(params, reverse=True))
        lines.append(f"  {point}  {score_words(criterion, float(results['mean_test_score'][i]))}")
    return lines or ["  there was only one candidate"]
