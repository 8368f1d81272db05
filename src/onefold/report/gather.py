"""All facts of a report, once, as plain values; text, JSON and the page are made of them."""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from onefold._version import __version__
from onefold.facts.data import data_facts, duplicate_facts, largest, weak_slices
from onefold.facts.measures import labels_of
from onefold.facts.ran import ran_facts, trust_facts
from onefold.facts.scores import (
    Predictions,
    heldout_predictions,
    new_predictions,
    own_folds,
    score_notes,
    scores_of,
)
from onefold.facts.words import counted, shortened
from onefold.linalg import is_sparse
from onefold.machine.threads import count_workers
from onefold.report.report import Report, refuse_place, sentences
from onefold.report.rows import Given, Known, Subject, rows_given, subject_of, whose_rows
from onefold.search.metrics import importances

_NO_ROWS = "pass X and y, the rows that it was fitted on"
_MOST_SHARES = 50
_MOST_SPARSE = 1000  # features of sparse rows whose slopes, which are dense, are taken
_MOST_ROWS = 3000  # of which a fixed estimator is given held-out predictions
_FEW = 30  # rows, of which standard errors are themselves uncertain
_PERFECT = 0.9999
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "matplotlib", "torch")


def gather(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    title: str | None = None,
    new_rows: bool | None = False,
    repeat: Sequence[str] | None = None,
) -> Report:
    """Everything that a report says about a fitted model; a few seconds for 10,000 rows.

    The arguments are those of :func:`write_report`; `repeat` are lines that lead here again, in place of
    Python's.
    """
    subject = subject_of(model)
    estimator, given, known, predictions = subject.estimator, None, Known(bool(new_rows)), None
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    fitted = None  # the targets as the estimator fits them
    if X is not None:
        given = rows_given(subject, X, y)
        fitted = subject.fitted_target(given.y)
        _check_weights(weight, len(fitted))
        known = whose_rows(estimator, given.matrix, fitted, new_rows)
        if known.new:
            predictions = new_predictions(estimator, given.matrix, fitted)
        else:
            predictions = heldout_predictions(estimator, fitted)
            predictions = predictions or _predictions_of_fixed(estimator, given.matrix, fitted, weight)
    if predictions is not None:
        predictions = replace(predictions, values=subject.in_target_units(predictions.values))
    tuned = getattr(subject.model, "report_", None) or {}
    question = _question(subject, given, known, tuned)
    what = f"'{shortened(question['target'])}'" if question["target"] else question["task"]
    rows = "" if question["rows"] is None else f" on {counted(question['rows'], 'row')}"
    scores = _scores(subject, given, predictions, weight, known, tuned)
    facts: dict[str, Any] = {
        "title": title or f"onefold report: {what}{rows}",
        "question": question,
        "summary": [],
        "scores": scores,
        "test": tuned.get("test"),
        "ran": ran_facts(estimator, tuned.get("seconds")),
        "importances": _importances(subject, given, weight),
        "slices": {"absent": _NO_ROWS if given is None else _no_predictions(estimator)},
        "trust": trust_facts(estimator.approximation_),
        "data": {"absent": _NO_ROWS},
        "environment": environment_facts(),
        "repeat": list(repeat) if repeat else _python_lines(subject.model),
    }
    if given is not None:
        splits = predictions.splits if predictions is not None and not known.new else None
        copies = duplicate_facts(given.matrix, given.y, splits, given.columns)
        data = data_facts(given.columns, given.y, subject.classes, copies, _explained(scores))
        data |= {"more_columns": max(0, given.width - len(given.columns))}
        facts["data"] = data | {"warnings": sentences("warnings", data)}
        if predictions is not None:
            facts["slices"] = _slices(subject, given, predictions, weight)
    facts["cautions"] = _cautions(facts, known)
    facts["summary"] = sentences("summary", facts)
    return Report(facts, estimator, None if known.new else fitted)


def write_report(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    title: str | None = None,
    new_rows: bool | None = False,
) -> Report:
    """Gather a report and write it as one self-contained HTML page.

    Parameters
    ----------
    model : estimator, Pipeline that ends in one, or model of tables
        Fitted.
    path : path, optional
        Where the page goes; its folder must exist. None writes nothing.
    X, y : the rows that it was fitted on, optional
        Without them the sections that need rows say so. For a model of tables X may be the table, or
        its path, with the target in it.
    sample_weight : array (n,), optional
        As `fit` had it.
    title : str, optional
        Of the page.
    new_rows : bool or None, default=False
        The rows are new to the model: scores are those of a test. None finds it out.

    Returns
    -------
    Report

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV, write_report
    >>> X, y = load_diabetes(return_X_y=True)
    >>> report = write_report(LSSVRCV().fit(X, y), X=X, y=y)
    >>> report.as_dict()["scores"]["main"]
    'r2'
    """
    if path is not None:
        refuse_place(path)
    found = gather(model, X, y, sample_weight=sample_weight, title=title, new_rows=new_rows)
    if path is not None:
        found.save(path)
    return found


def _check_weights(weight: np.ndarray | None, n: int) -> None:
    if weight is not None and weight.shape != (n,):
        raise ValueError(f"sample_weight must have {n} entries, one for each row; got {weight.size}.")
    if weight is not None and not (weight.min() >= 0 and 0 < weight.sum() < np.inf):
        raise ValueError("sample_weight must be finite and not negative, and not 0 for all rows.")


def _predictions_of_fixed(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> Predictions | None:
    """Five folds at the hyper-parameters that were given, from one factorisation."""
    chooser_of = getattr(estimator, "as_chooser", None)
    if chooser_of is None or hasattr(estimator, "cv") or len(y) > _MOST_ROWS or y.ndim > 1:
        return None
    chooser = chooser_of(X)
    folds = own_folds(y, hasattr(estimator, "classes_"))
    one_width = None if chooser.gammas is None else [1.0]
    chooser.set_params(gammas=one_width, alphas=[estimator.alpha], cv=folds, client=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = heldout_predictions(chooser.fit(X, y, sample_weight=weight), y)
        except (ValueError, MemoryError):
            return None
    how = "held-out predictions of 5 folds, made for this report with the given hyper-parameters"
    return None if found is None else replace(found, how=how, where="the same 5 folds")


def _scores(
    subject: Subject,
    given: Given | None,
    predictions: Predictions | None,
    weight: Any,
    known: Known,
    tuned: dict[str, Any],
) -> dict[str, Any]:
    """The scores of the fit, as a table's model has them already, or of these rows."""
    if not known.new and tuned.get("scores") is not None:
        return tuned["scores"] | {"new_rows": False}
    if given is None:
        return {"absent": _NO_ROWS}
    if predictions is None or not np.isfinite(predictions.values).all(axis=1).any():
        return {"absent": _no_predictions(subject.estimator)}
    found = scores_of(subject.estimator, predictions, given.matrix, given.y, weight)
    return found | {"new_rows": known.new}


def _no_predictions(estimator: Any) -> str:
    """Why there are no held-out predictions, and what would give some."""
    name = type(estimator).__name__
    if hasattr(estimator, "n_centres_"):
        return f"{name} keeps no held-out predictions; pass rows it has not seen with new_rows=True"
    if hasattr(estimator, "cv"):
        return "the criterion held out no rows; use one that does, such as 'mse' or 'error'"
    return f"{name} has held out nothing; {name}CV does, or pass new rows with new_rows=True"


def _explained(scores: dict[str, Any]) -> float | None:
    """The share of a constant prediction's loss that the model explains."""
    if "absent" in scores:
        return None
    own, constant = scores["model"]["measures"], scores["baselines"][0]["measures"]
    if "r2" in own:
        return float(own["r2"]["value"])
    if "accuracy" not in own or constant["accuracy"]["value"] >= 1:
        return None
    return 1.0 - (1.0 - own["accuracy"]["value"]) / (1.0 - constant["accuracy"]["value"])


def _question(
    subject: Subject, given: Given | None, known: Known, tuned: dict[str, Any]
) -> dict[str, Any]:
    classes, estimator, table = subject.classes, subject.estimator, subject.table
    kept = getattr(estimator, "heldout_prediction_", None)
    rows = len(given.y) if given is not None else tuned.get("rows", None if kept is None else len(kept))
    target = given.target if given is not None else getattr(table, "target_", None)
    columns = None
    if table is not None:
        columns = len(table.preparation_.columns) + len(table.preparation_.constant)
    return {
        "target": target,
        "fitted": subject.fitted.format(target or "the target") if subject.targets else None,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else [str(label) for label in classes],
        "rows": rows,
        "features": int(estimator.n_features_in_),
        "columns": columns,
        "assumed": known.words or None,
    }


def _importances(subject: Subject, given: Given | None, weight: Any) -> dict[str, Any]:
    own = getattr(subject.model, "importances_", None)
    features = getattr(subject.estimator, "feature_importances_", None)
    rows = None if given is None or subject.pairwise else given.matrix
    if features is None and rows is not None and (not is_sparse(rows) or rows.shape[1] <= _MOST_SPARSE):
        try:
            features = importances(subject.estimator.expansion_, rows, weight, 0)
        except ValueError as error:  # a function of the user's has no derivative
            return {"absent": str(error).rstrip(".")}
    if features is None:
        return {"absent": "the kernel was given" if subject.pairwise else _NO_ROWS}
    if isinstance(own, dict):
        shares = {str(name): float(share) for name, share in own.items()}
    elif subject.table is not None:
        shares = subject.table.preparation_.shares(features) or {}
    else:  # by the names of the rows that were given where the fit had none
        names, columns = subject.features, [] if given is None else given.columns
        bare = subject.model is subject.estimator and not hasattr(subject.model, "feature_names_in_")
        names = [one.name for one in columns] if bare and len(columns) == len(names) else names
        shares = dict(zip(names, np.asarray(features, dtype=np.float64).tolist()))
    order = sorted(shares, key=lambda name: -shares[name])
    kept = {name: shares[name] for name in order[:_MOST_SHARES]}
    how = "share of each column in what moves the prediction: mean squared slope × variance"
    return {"shares": kept, "more": len(shares) - len(kept), "how": how}


def _slices(subject: Subject, given: Given, predictions: Predictions, weight: Any) -> dict[str, Any]:
    """Slices of larger mean loss and the rows with the largest, by absolute error or wrong labels."""
    classes, values = subject.classes, predictions.values
    used = np.isfinite(values).all(axis=1) & (True if weight is None else weight > 0)
    if classes is None:
        y = given.y.reshape(len(given.y), -1)
        loss = surprise = np.abs(y - values).mean(axis=1)
        predicted, truth, what = values[:, 0], y[:, 0], "mean absolute error"
    else:
        index, values = np.searchsorted(classes, given.y), np.nan_to_num(values)
        places = labels_of(values)
        predicted, truth, what = classes[places], given.y, "error rate"
        loss = (places != index).astype(np.float64)
        # By how much another class was preferred to the right one.
        full = np.column_stack([-values, values]) if values.shape[1] == 1 else values.copy()
        right = full[np.arange(len(full)), index]
        surprise = np.where(loss > 0, full.max(axis=1) - right, np.nan)
    loss, surprise = (np.where(used, one, np.nan) for one in (loss, surprise))
    first = 0 if subject.table is None else 1
    rows = [
        {
            "row": str(i + first if given.names is None else given.names[i]),
            "target": _plain(truth[i]),
            "prediction": _plain(predicted[i]),
        }
        for i in largest(surprise)
    ]
    return weak_slices(given.columns, loss) | {"what": what, "rows": rows}


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, float) else str(value)


def _cautions(facts: dict[str, Any], known: Known) -> list[str]:
    """What makes the scores themselves doubtful, before anything about the rows."""
    scores, data = facts["scores"], facts["data"]
    found = [f"the rows are {known.words}"] if known.optimistic else []
    if facts["ran"]["search"].get("stopped"):
        found.append("the search was stopped before it had tried everything")
    if "absent" in scores:
        return found
    if not scores["new_rows"]:
        found += score_notes(scores)
    if scores["rows"] < _FEW:
        found.append(f"scores of {counted(scores['rows'], 'row')} are uncertain, their errors too")
    perfect = scores["model"]["measures"].get("r2", {}).get("value", 0.0) > _PERFECT
    if perfect and not data.get("leaks") and not data.get("duplicates", {}).get("across"):
        found.append("it is suspiciously perfect; look for columns that hold the target")
    return found


# Where and how


def environment_facts() -> list[tuple[str, str]]:
    """Versions, libraries and the machine in general terms; no names of hosts, people or files."""
    lines = [("onefold", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            lines.append((name, version(name)))
        except PackageNotFoundError:
            continue
    for one in threadpool_info():
        if one.get("user_api") == "blas":
            words = f"{one.get('internal_api', 'BLAS')} {one.get('version') or ''}".strip()
            parts = str(one.get("filepath", "")).replace("\\", "/").split("/")
            whose = [name for name in ("numpy", "scipy", "torch") if {name, f"{name}.libs"} & {*parts}]
            label = f"BLAS of {whose[0]}" if whose else "BLAS"  # wheels bring their own
            lines.append((label, f"{words}, threads: {one.get('num_threads')}"))
    machine = f"{platform.system()}, {platform.machine()}, threads: {count_workers(None)}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return [*dict.fromkeys(lines), ("machine", machine), ("date of this report", today)]


def _python_lines(model: Any) -> list[str]:
    """Python that fits the like of it again."""
    if not hasattr(model, "report"):  # a pipeline
        lines = [f"model = {model!r}", "model.fit(X, y)"]
        return [*lines, 'onefold.write_report(model, "report.html", X, y)']
    silent = {name: None for name in ("callback", "client") if hasattr(model, name)}
    given = type(model)(**model.get_params(deep=False) | silent)
    lines = [f"from onefold import {type(model).__name__}", f"model = {given!r}"]
    return [*lines, "model.fit(X, y)", 'model.report("report.html", X, y)']
