"""All facts of a report, once, as plain values; text, JSON and the page are made of them."""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_info

from onefold._version import __version__
from onefold.estimators.base import KernelMachine
from onefold.facts.data import data_facts, duplicate_facts, largest, weak_slices
from onefold.facts.measures import labels_of
from onefold.facts.ran import Subject, ran_facts, subject_of, trust_facts
from onefold.facts.scores import (
    Predictions,
    heldout_predictions,
    new_predictions,
    own_folds,
    scores_of,
)
from onefold.facts.words import counted, shortened
from onefold.machine.threads import count_workers
from onefold.report.report import Report, sentences
from onefold.report.rows import ReportRows, rows_given
from onefold.tables.findings import ColumnFacts

_NO_ROWS = "pass X and y, the rows that the model was fitted on"
_MOST_SHARES = 50
_MOST_ROWS = 3000  # of which a fixed estimator is given held-out predictions
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "matplotlib", "torch")


def write_report(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    title: str | None = None,
    new_rows: bool | None = False,
    repeat: Sequence[str] | None = None,
) -> Report:
    """Report on a fitted model, and write it as one self-contained HTML page.

    Parameters
    ----------
    model : estimator, Pipeline that ends in one, TableClassifier or TableRegressor
        The fitted model.
    path : path, optional
        File to write the page to; its folder must exist. None writes nothing.
    X, y : the rows that the model was fitted on, optional
        Without them the sections that need rows are not available. For a table model, X may be the
        table or its path, including the target column.
    sample_weight : array (n,), optional
        The weights passed to `fit`.
    title : str, optional
        Title of the page.
    new_rows : bool or None, default=False
        Whether the rows are new to the model, so that scores are those of a test set. None detects it.
    repeat : list of str, optional
        Lines that reproduce the report, shown in place of Python code.

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
    subject = subject_of(model)
    estimator = subject.estimator
    given = None
    predictions = None
    if not isinstance(estimator, KernelMachine):
        raise ValueError(
            "model must be a onefold estimator, a Pipeline that ends in one, or a table model; got "
            f"{type(estimator).__name__}."
        )
    check_is_fitted(estimator, "expansion_")
    if X is not None:
        given = rows_given(subject, X, y, sample_weight, new_rows)
        if given.new:
            predictions = new_predictions(estimator, given.matrix, given.fitted)
        else:
            predictions = heldout_predictions(estimator, given.fitted)
            predictions = predictions or _predictions_of_fixed(estimator, given)
    if predictions is not None:
        predictions = replace(predictions, values=subject.in_target_units(predictions.values))
    tuned = getattr(model, "report_", None) or {}
    question = _question(subject, given, tuned)
    what = f"'{shortened(question['target'])}'" if question["target"] else question["task"]
    rows = "" if question["rows"] is None else f" on {counted(question['rows'], 'row')}"
    scores = _scores(estimator, given, predictions, tuned)
    facts: dict[str, Any] = {
        "title": title or f"onefold report: {what}{rows}",
        "question": question,
        "summary": [],
        "scores": scores,
        "test": tuned.get("test"),
        "ran": ran_facts(estimator, tuned.get("seconds")),
        "importances": _importances(subject),
        "slices": {"absent": _NO_ROWS if given is None else _no_predictions(estimator)},
        "trust": trust_facts(estimator.approximation_),
        "data": {"absent": _NO_ROWS},
        "environment": environment_facts(),
        "repeat": list(repeat) if repeat else _python_lines(model),
    }
    if given is not None:
        splits = None if predictions is None or given.new else predictions.splits
        copies = duplicate_facts(given.matrix, given.y, splits, given.columns)
        explained = _explained(scores)
        known = _as_the_fit_saw(subject, given)
        data = data_facts(
            given.columns, given.y, subject.classes, copies, explained, given.fitted, **known
        )
        data |= {"more_columns": max(0, given.width - len(given.columns))}
        facts["data"] = data | {"warnings": sentences("warnings", data)}
        if predictions is not None:
            facts["slices"] = _slices(subject, given, predictions.values)
    facts["cautions"] = sentences("cautions", facts)
    facts["summary"] = sentences("summary", facts)
    found = Report(facts, model, None if given is None or given.new else given.y)
    if path is not None:
        found.save(path)
    return found


def _as_the_fit_saw(subject: Subject, given: ReportRows) -> dict[str, Any]:
    """What columns of a table explain alone, and which are copies, by the functions of its fit."""
    if subject.table is None:
        return {}
    fitted = subject.table.report_.get("data")
    if fitted is not None and not given.new:
        return {"alone": fitted["alone"], "copies": fitted["copies"]}
    facts = ColumnFacts.of(subject.table.preparation_, given.matrix)
    return {"alone": facts.alone(given.y, subject.classes is not None), "copies": facts.copies}


def _predictions_of_fixed(estimator: Any, given: ReportRows) -> Predictions | None:
    """Five folds at the hyper-parameters that were given, from one factorisation."""
    chooser_of = getattr(estimator, "as_chooser", None)
    X = given.matrix
    y = given.fitted
    if chooser_of is None or hasattr(estimator, "cv") or len(y) > _MOST_ROWS or y.ndim > 1:
        return None
    chooser = chooser_of(X)
    folds = own_folds(y, hasattr(estimator, "classes_"))
    one_width = None if chooser.gammas is None else [1.0]
    chooser.set_params(gammas=one_width, alphas=[estimator.alpha], cv=folds, client=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = heldout_predictions(chooser.fit(X, y, sample_weight=given.weight), y)
        except (ValueError, MemoryError):
            return None
    how = "held-out predictions from 5 folds, made for this report with the given hyper-parameters"
    return None if found is None else replace(found, how=how, where="the same 5 folds")


def _scores(
    estimator: Any, given: ReportRows | None, predictions: Predictions | None, tuned: dict[str, Any]
) -> dict[str, Any]:
    """The scores of the fit, as a table's model has them already, or of these rows."""
    if tuned.get("scores") is not None and not (given is not None and given.new):
        return tuned["scores"] | {"new_rows": False}
    if given is None:
        return {"absent": _NO_ROWS}
    if predictions is None or not np.isfinite(predictions.values).all(axis=1).any():
        return {"absent": _no_predictions(estimator)}
    found = scores_of(estimator, predictions, given.matrix, given.y, given.weight)
    return found | {"new_rows": given.new}


def _no_predictions(estimator: Any) -> str:
    """Why there are no held-out predictions, and what would give some."""
    return (
        f"this {type(estimator).__name__} has no held-out predictions; fit LSSVCCV, LSSVRCV or "
        "KernelRidgeCV by a criterion such as 'error' or 'mse', or pass new rows with new_rows=True"
    )


def _explained(scores: dict[str, Any]) -> float | None:
    """The share of a constant prediction's loss that the model explains."""
    if "absent" in scores:
        return None
    own = scores["model"]["measures"]
    constant = scores["baselines"][0]["measures"]
    if "r2" in own:
        return float(own["r2"]["value"])
    if "accuracy" not in own or constant["accuracy"]["value"] >= 1:
        return None
    return 1.0 - (1.0 - own["accuracy"]["value"]) / (1.0 - constant["accuracy"]["value"])


def _question(subject: Subject, given: ReportRows | None, tuned: dict[str, Any]) -> dict[str, Any]:
    classes = subject.classes
    estimator = subject.estimator
    table = subject.table
    kept = getattr(estimator, "heldout_prediction_", None)
    rows = len(given.y) if given is not None else tuned.get("rows", None if kept is None else len(kept))
    target = given.target if given is not None else getattr(table, "target_", None)
    columns = None
    fitted = None
    if table is not None:
        columns = len(table.preparation_.columns) + len(table.preparation_.constant)
    if subject.targets:
        words = "a transform of {}" if table is None else "log({})"
        fitted = words.format(target or "the target")
    return {
        "target": target,
        "fitted": fitted,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else [str(label) for label in classes],
        "rows": rows,
        "features": int(estimator.n_features_in_),
        "columns": columns,
        "assumed": None if given is None else given.assumed,
        "optimistic": given is not None and given.optimistic,
    }


def _importances(subject: Subject) -> dict[str, Any]:
    features = getattr(subject.estimator, "feature_importances_", None)
    if features is None:
        reason = getattr(subject.estimator, "search_", {}).get("no_importances")
        return {"absent": reason or 'they are computed only if a metric is learned (metric="auto")'}
    if subject.table is not None:
        shares = subject.table.preparation_.shares(features) or {}
    else:
        shares = dict(zip(subject.features, np.asarray(features, dtype=np.float64).tolist()))
    order = sorted(shares, key=lambda name: -shares[name])
    kept = {name: shares[name] for name in order[:_MOST_SHARES]}
    how = "increase in held-out squared error when a column is permuted, as a fraction of the total"
    return {"shares": kept, "more": len(shares) - len(kept), "how": how}


def _slices(subject: Subject, given: ReportRows, values: np.ndarray) -> dict[str, Any]:
    """Slices of larger mean loss and the rows with the largest, by absolute error or wrong labels."""
    classes = subject.classes
    weight = given.weight
    used = np.isfinite(values).all(axis=1) & (True if weight is None else weight > 0)
    if classes is None:
        y = given.y.reshape(len(given.y), -1)
        loss = surprise = np.abs(y - values).mean(axis=1)
        predicted = values[:, 0]
        truth = y[:, 0]
        what = "mean absolute error"
    else:
        index = np.searchsorted(classes, given.y)
        values = np.nan_to_num(values)
        places = labels_of(values)
        predicted = classes[places]
        truth = given.y
        what = "error rate"
        loss = (places != index).astype(np.float64)
        # By how much another class was preferred to the right one.
        full = np.column_stack([-values, values]) if values.shape[1] == 1 else values.copy()
        right = full[np.arange(len(full)), index]
        surprise = np.where(loss > 0, full.max(axis=1) - right, np.nan)
    loss, surprise = (np.where(used, one, np.nan) for one in (loss, surprise))
    first = 0 if subject.table is None else 1
    names = given.names or range(first, len(loss) + first)
    rows = [
        {"row": str(names[i]), "target": truth[i], "prediction": predicted[i]} for i in largest(surprise)
    ]
    return weak_slices(given.columns, loss) | {"what": what, "rows": rows}


def environment_facts() -> list[tuple[str, str]]:
    """Versions, libraries and the machine in general terms; no names of hosts, people or files."""
    lines = [("onefold", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            lines.append((name, version(name)))
    # NumPy and SciPy may each bring their own.
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    words = {f"{one['internal_api']} {one['version']}, threads: {one['num_threads']}" for one in blas}
    machine = f"{platform.system()}, {platform.machine()}, threads: {count_workers(None)}"
    lines += [("BLAS", "; ".join(sorted(words))), ("machine", machine)]
    return [*lines, ("date of this report", datetime.datetime.now(datetime.UTC).date().isoformat())]


def _python_lines(model: Any) -> list[str]:
    """Python that fits the like of it again."""
    silent = {name: None for name in ("callback", "client") if hasattr(model, name)}
    given = type(model)(**model.get_params(deep=False) | silent)
    return [f"model = {given!r}", "model.fit(X, y)", 'onefold.write_report(model, "report.html", X, y)']
