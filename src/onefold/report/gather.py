"""All facts of a report as plain values, from which text, JSON and the page are made."""

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
from onefold.facts.data import ExaminedColumns, data_facts, duplicate_facts, largest, weak_slices
from onefold.facts.measures import labels_of
from onefold.facts.scores import (
    Predictions,
    heldout_predictions,
    new_predictions,
    scores_of,
    shuffled_folds,
)
from onefold.facts.summary import fit_facts, trust_facts
from onefold.facts.unwrap import Unwrapped, unwrap
from onefold.facts.words import counted, shortened
from onefold.machine.threads import count_workers
from onefold.report.report import Report, sentences
from onefold.report.rows import ReportRows, report_rows
from onefold.tables.findings import ColumnFacts

_NO_ROWS = "pass X and y, the rows that the model was fitted on"
# Columns whose importance is kept.
_MOST_SHARES = 50
# Rows up to which held-out predictions are made for estimators with fixed hyper-parameters.
_MOST_ROWS = 3000
# Packages whose versions are listed.
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
    unwrapped = unwrap(model)
    estimator = unwrapped.estimator
    if not isinstance(estimator, KernelMachine):
        raise ValueError(
            "model must be a onefold estimator, a Pipeline that ends in one, or a table model; got "
            f"{type(estimator).__name__}."
        )
    check_is_fitted(estimator, "expansion_")
    rows = None if X is None else report_rows(unwrapped, X, y, sample_weight, new_rows)
    predictions = None if rows is None else _predictions(unwrapped, rows)
    tuning = getattr(model, "report_", None) or {}
    question = _question(unwrapped, rows, tuning)
    scores = _scores(estimator, rows, predictions, tuning)
    facts: dict[str, Any] = {
        "title": title or _title(question),
        "question": question,
        "summary": [],
        "scores": scores,
        "second": None if scores.get("new_rows", True) else tuning.get("second"),
        "test": tuning.get("test"),
        "ran": fit_facts(estimator, seconds=tuning.get("seconds"), clip=tuning.get("clip")),
        "importances": _importances(unwrapped),
        "slices": {"absent": _NO_ROWS if rows is None else _no_predictions(estimator)},
        "trust": trust_facts(estimator.approximation_),
        "data": {"absent": _NO_ROWS},
        "environment": environment_facts(),
        "repeat": list(repeat) if repeat else _python_lines(model),
    }
    if rows is not None:
        facts["data"] = _data(unwrapped, rows, predictions, scores)
        if predictions is not None:
            facts["slices"] = _slices(unwrapped, rows, predictions.values)
    facts["cautions"] = sentences("cautions", facts)
    facts["summary"] = sentences("summary", facts)
    report = Report(facts, model, None if rows is None or rows.origin.new else rows.y)
    if path is not None:
        report.save(path)
    return report


def _title(question: dict[str, Any]) -> str:
    what = f"'{shortened(question['target'])}'" if question["target"] else question["task"]
    rows = "" if question["rows"] is None else f" on {counted(question['rows'], 'row')}"
    return f"onefold report: {what}{rows}"


def _predictions(unwrapped: Unwrapped, rows: ReportRows) -> Predictions | None:
    """Predictions, in units of the target, of models that have not seen the rows; None without such."""
    estimator = unwrapped.estimator
    if rows.origin.new:
        predictions: Predictions | None = new_predictions(estimator, rows.matrix, rows.fitted)
    else:
        predictions = heldout_predictions(estimator, rows.fitted)
        if predictions is None:
            predictions = _predictions_of_fixed(estimator, rows)
    if predictions is None:
        return None
    return replace(predictions, values=unwrapped.in_target_units(predictions.values))


def _data(
    unwrapped: Unwrapped, rows: ReportRows, predictions: Predictions | None, scores: dict[str, Any]
) -> dict[str, Any]:
    """Facts about the columns and the target, with warnings."""
    splits = None if predictions is None or rows.origin.new else predictions.splits
    data = data_facts(
        rows.columns,
        rows.y,
        unwrapped.classes,
        duplicate_facts(rows.matrix, rows.y, splits, rows.columns),
        _explained(scores),
        rows.fitted,
        _examined_columns(unwrapped, rows),
    )
    data |= {"more_columns": max(0, rows.width - len(rows.columns))}
    return data | {"warnings": sentences("warnings", data)}


def _examined_columns(unwrapped: Unwrapped, rows: ReportRows) -> ExaminedColumns | None:
    """What the fit of a table found out about its columns, or would on new rows; None for arrays."""
    table_model = unwrapped.table_model
    if table_model is None:
        return None
    preparation = table_model.preparation_
    fit_data = table_model.report_.get("data")  # which files of 1.0.0rc1 do not have
    if fit_data is None:
        identifiers = [column.name for column in rows.columns if column.identifies]
    else:
        identifiers = [name for name in fit_data["identifiers"] if name in preparation.columns]
        if not rows.origin.new:
            return ExaminedColumns(fit_data["alone"], fit_data["copies"], identifiers)
    facts = ColumnFacts.of(preparation, rows.matrix)
    shares = facts.explained_shares(rows.y, unwrapped.classes is not None)
    return ExaminedColumns(shares, facts.copies, identifiers)


def _predictions_of_fixed(estimator: Any, rows: ReportRows) -> Predictions | None:
    """Held-out predictions of five folds at fixed hyper-parameters, from one factorisation."""
    chooser_of = getattr(estimator, "as_chooser", None)
    X = rows.matrix
    y = rows.fitted
    if chooser_of is None or hasattr(estimator, "cv") or len(y) > _MOST_ROWS or y.ndim > 1:
        return None
    chooser = chooser_of(X)
    folds = shuffled_folds(y, hasattr(estimator, "classes_"))
    gammas = None if chooser.gammas is None else [1.0]
    chooser.set_params(gammas=gammas, alphas=[estimator.alpha], cv=folds, client=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predictions = heldout_predictions(chooser.fit(X, y, sample_weight=rows.weight), y)
        except (ValueError, MemoryError):
            return None
    how = "held-out predictions from 5 folds, made for this report with the given hyper-parameters"
    return None if predictions is None else replace(predictions, how=how, where="the same 5 folds")


def _scores(
    estimator: Any, rows: ReportRows | None, predictions: Predictions | None, tuning: dict[str, Any]
) -> dict[str, Any]:
    """The scores of the fit, from a table model's record, or of these rows."""
    if tuning.get("scores") is not None and not (rows is not None and rows.origin.new):
        return tuning["scores"] | {"new_rows": False}
    if rows is None:
        return {"absent": _NO_ROWS}
    if predictions is None or not np.isfinite(predictions.values).all(axis=1).any():
        return {"absent": _no_predictions(estimator)}
    scores = scores_of(estimator, predictions, rows.matrix, rows.y, rows.weight)
    return scores | {"new_rows": rows.origin.new}


def _no_predictions(estimator: Any) -> str:
    """Why there are no held-out predictions, and how to get some."""
    return (
        f"this {type(estimator).__name__} has no held-out predictions; fit LSSVCCV, LSSVRCV or "
        "KernelRidgeCV by a criterion such as 'error' or 'mse', or pass new rows with new_rows=True"
    )


def _explained(scores: dict[str, Any]) -> float | None:
    """The share of a constant prediction's loss that the model explains."""
    if "absent" in scores:
        return None
    measures = scores["model"]["measures"]
    baseline = scores["baselines"][0]["measures"]
    if "r2" in measures:
        return float(measures["r2"]["value"])
    if "accuracy" not in measures or baseline["accuracy"]["value"] >= 1:
        return None
    return 1.0 - (1.0 - measures["accuracy"]["value"]) / (1.0 - baseline["accuracy"]["value"])


def _question(unwrapped: Unwrapped, rows: ReportRows | None, tuning: dict[str, Any]) -> dict[str, Any]:
    """What is predicted from what."""
    classes = unwrapped.classes
    estimator = unwrapped.estimator
    table_model = unwrapped.table_model
    target = getattr(table_model, "target_", None) if rows is None else rows.target
    columns = None
    if table_model is not None:
        preparation = table_model.preparation_
        columns = len(preparation.columns) + len(preparation.constant)
    fitted = None
    if unwrapped.transforms_target:
        words = "a transform of {}" if table_model is None else "log({})"
        fitted = words.format(target or "the target")
    return {
        "target": target,
        "fitted": fitted,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else [str(label) for label in classes],
        "rows": _row_count(estimator, rows, tuning),
        "features": int(estimator.n_features_in_),
        "columns": columns,
        "assumed": None if rows is None else rows.origin.words,
        "optimistic": rows is not None and rows.origin.has_training_rows,
    }


def _row_count(estimator: Any, rows: ReportRows | None, tuning: dict[str, Any]) -> int | None:
    """How many rows the report is on, or the model was fitted to; None if that is not known."""
    if rows is not None:
        return len(rows.y)
    heldout = getattr(estimator, "heldout_prediction_", None)
    return tuning.get("rows", None if heldout is None else len(heldout))


def _importances(unwrapped: Unwrapped) -> dict[str, Any]:
    features = getattr(unwrapped.estimator, "feature_importances_", None)
    if features is None:
        reason = getattr(unwrapped.estimator, "search_", {}).get("no_importances")
        return {"absent": reason or 'they are computed only if a metric is learned (metric="auto")'}
    if unwrapped.table_model is not None:
        shares = unwrapped.table_model.preparation_.shares(features) or {}
    else:
        shares = dict(zip(unwrapped.features, np.asarray(features, dtype=np.float64).tolist()))
    order = sorted(shares, key=lambda name: -shares[name])
    largest_shares = {name: shares[name] for name in order[:_MOST_SHARES]}
    how = "increase in held-out squared error when a column is permuted, as a fraction of the total"
    return {"shares": largest_shares, "more": len(shares) - len(largest_shares), "how": how}


def _slices(unwrapped: Unwrapped, rows: ReportRows, values: np.ndarray) -> dict[str, Any]:
    """Slices of larger mean loss, and the rows with the largest: absolute errors, or wrong labels."""
    classes = unwrapped.classes
    used = np.isfinite(values).all(axis=1)
    if rows.weight is not None:
        used &= rows.weight > 0
    if classes is None:
        y = rows.y.reshape(len(rows.y), -1)
        loss = np.abs(y - values).mean(axis=1)
        surprise = loss
        predicted = values[:, 0]
        truth = y[:, 0]
        what = "mean absolute error"
    else:
        index = np.searchsorted(classes, rows.y)
        values = np.nan_to_num(values)
        labels = labels_of(values)
        predicted = classes[labels]
        truth = rows.y
        what = "error rate"
        loss = (labels != index).astype(np.float64)
        # By how much the decision value of another class exceeds that of the right one.
        decisions = np.column_stack([-values, values]) if values.shape[1] == 1 else values
        decision = decisions[np.arange(len(decisions)), index]
        surprise = np.where(loss > 0, decisions.max(axis=1) - decision, np.nan)
    loss = np.where(used, loss, np.nan)
    surprise = np.where(used, surprise, np.nan)
    first = 0 if unwrapped.table_model is None else 1  # rows of a table are counted from 1
    names = rows.names or range(first, len(loss) + first)
    worst = [
        {"row": str(names[i]), "target": truth[i], "prediction": predicted[i]} for i in largest(surprise)
    ]
    return weak_slices(rows.columns, loss) | {"what": what, "rows": worst}


def environment_facts() -> list[tuple[str, str]]:
    """Versions, libraries and the machine in general terms; no names of hosts, people or files."""
    lines = [("onefold", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            lines.append((name, version(name)))
    # NumPy and SciPy may each bring their own.
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    blas = {
        f"{library['internal_api']} {library['version']}, threads: {library['num_threads']}"
        for library in libraries
    }
    machine = f"{platform.system()}, {platform.machine()}, threads: {count_workers(None)}"
    lines += [("BLAS", "; ".join(sorted(blas))), ("machine", machine)]
    return [*lines, ("date of this report", datetime.datetime.now(datetime.UTC).date().isoformat())]


def _python_lines(model: Any) -> list[str]:
    """Python that fits a model with the same parameters."""
    without = {name: None for name in ("callback", "client") if hasattr(model, name)}
    unfitted = type(model)(**model.get_params(deep=False) | without)
    return [
        f"model = {unfitted!r}",
        "model.fit(X, y)",
        'onefold.write_report(model, "report.html", X, y)',
    ]
