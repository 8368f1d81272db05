"""All facts of a report, once, as plain values; text, JSON and the page are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.facts.words import counted, shortened
from onefold.linalg import is_sparse
from onefold.report.answer import answer, cautions
from onefold.report.data import data_facts
from onefold.report.duplicates import duplicate_facts, row_groups
from onefold.report.environment import environment_facts
from onefold.report.heldout import Predictions, heldout_predictions, test_predictions
from onefold.report.ran import ran_facts, trust_facts
from onefold.report.report import Report
from onefold.report.sameness import (
    Sameness,
    known_among,
    refuse_order,
    refuse_targets,
    which_rows,
)
from onefold.report.scores import Judge, score_facts
from onefold.report.subject import Given, Subject, of_table, rows_given, subject_of
from onefold.report.worst import worst_facts
from onefold.search.metrics import importances

_NO_ROWS = "give X and y, the rows that it was fitted on"
_MOST_SHARES = 50
_MOST_SPARSE = 1000


def gather(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    title: str | None = None,
    new_rows: bool | None = False,
    repeat: Sequence[str] | None = None,
) -> Report:
    """Everything that a report says about a fitted model; a few seconds for 10,000 rows.

    Parameters
    ----------
    model : estimator, Pipeline that ends in one, or model of tables
    X, y : the rows that it was fitted on, optional
        For a model of tables X may be the table, or its path, with the target in it. Without them the
        sections that need rows say so.
    sample_weight, groups : arrays (n,), optional
        As `fit` had them; groups are needed to repeat grouped splits.
    title : str, optional
        Of the page.
    new_rows : bool or None, default=False
        The rows are new to the model: scores are those of a test. None finds it out.
    repeat : sequence of str, optional
        Lines that lead here again, in place of Python's.
    """
    subject = subject_of(model)
    given, known = None, Sameness(bool(new_rows), "")
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if X is not None:
        given = rows_given(subject, X, y)
        known = _checked(subject, given, weight, new_rows)
    predictions = _predictions(subject, given, weight, groups, known.new)
    judge = None
    if given is not None and predictions is not None:
        judge = Judge(given.y, predictions, subject.classes, weight)
    tuned = of_table(subject.model, "report")
    tuned = tuned if isinstance(tuned, dict) else {}
    facts: dict[str, Any] = {
        "question": _question(subject, given, tuned),
        "scores": _scores(subject, given, predictions, judge, weight, known.new),
        "test": tuned.get("test"),
        "ran": ran_facts(subject.estimator, tuned.get("seconds")),
        "importances": _importances(subject, given, weight),
        "worst": {"absent": _NO_ROWS if given is None else _without(subject)},
        "trust": trust_facts(subject.estimator.approximation_),
        "data": {"absent": _NO_ROWS},
        "environment": environment_facts(),
        "repeat": list(repeat) if repeat else _python_lines(subject),
    }
    if given is not None:
        facts["data"] = _data(subject, given, predictions, facts["scores"], known.new)
        if judge is not None and predictions is not None:
            facts["worst"] = worst_facts(
                given, predictions, judge, table=subject.preparation is not None
            )
    facts["question"]["assumed"] = known.words or None
    told = [f"the rows are {known.words}"] if known.flatters else []
    facts["cautions"] = [*told, *cautions(facts["scores"], facts["ran"], facts["data"])]
    first = {"title": title or _title(facts["question"]), "question": facts["question"]}
    facts = first | {"answer": answer(facts)} | facts
    return Report(facts, subject.estimator, None if given is None or known.new else given.y)


def _checked(subject: Subject, given: Given, weight: Any, new_rows: bool | None) -> Sameness:
    """Whether the rows are new; raise for rows that do not go with the model."""
    n, classes = len(given.y), subject.classes
    if weight is not None and weight.shape != (n,):
        raise ValueError(f"sample_weight must have {n} entries, one for each row; got {weight.size}.")
    if given.matrix.shape[0] != n:
        raise ValueError(
            f"X has {given.matrix.shape[0]} rows and y has {n}; give both of the same rows."
        )
    if classes is not None and not np.isin(given.y, classes).all():
        odd = given.y[~np.isin(given.y, classes)][0]
        raise ValueError(
            f"y has the class {str(odd)!r}, which the model does not know; remove such rows."
        )
    if new_rows is None:
        return which_rows(subject.estimator, given.matrix)
    kept = getattr(subject.estimator, "heldout_prediction_", None)
    if not new_rows and kept is not None and len(kept) != n:
        raise ValueError(
            f"the model has held-out predictions of {len(kept)} rows, and X has {n}; give the rows that "
            "it was fitted on, or new_rows=True for the scores of a test."
        )
    if new_rows:
        return known_among(subject.estimator, given.matrix)
    refuse_order(subject.estimator, given.matrix)
    refuse_targets(subject.estimator, given.y)
    return Sameness(False, "")


def _predictions(
    subject: Subject, given: Given | None, weight: Any, groups: Any, new_rows: bool
) -> Predictions | None:
    if given is None:
        return None
    if new_rows:
        return test_predictions(subject.estimator, given.matrix, given.y)
    return heldout_predictions(subject.estimator, given.matrix, given.y, weight, groups)


def _question(subject: Subject, given: Given | None, tuned: dict[str, Any]) -> dict[str, Any]:
    classes, estimator = subject.classes, subject.estimator
    kept = getattr(estimator, "heldout_prediction_", None)
    rows = len(given.y) if given is not None else tuned.get("rows", None if kept is None else len(kept))
    named = given.target if given is not None else subject.target
    prepared = subject.preparation
    return {
        "target": named,
        "task": "regression" if classes is None else "classification",
        "classes": None if classes is None else [str(label) for label in classes],
        "rows": rows,
        "features": int(estimator.n_features_in_),
        "columns": None if prepared is None else len(prepared.columns) + len(prepared.constant),
    }


def _scores(
    subject: Subject,
    given: Given | None,
    predictions: Predictions | None,
    judge: Judge | None,
    weight: Any,
    new_rows: bool,
) -> dict[str, Any]:
    if given is None:
        return {"absent": _NO_ROWS}
    if predictions is None or judge is None or judge.rows == 0:
        return {"absent": _without(subject)}
    pairwise = subject.estimator.__sklearn_tags__().input_tags.pairwise
    X = None if pairwise else given.matrix
    criterion = getattr(subject.estimator, "criterion", None)
    main = criterion if criterion in ("accuracy", "balanced_accuracy", "roc_auc", "r2") else None
    found = score_facts(predictions, judge, X, given.y, weight, main=main)
    return found | {"new_rows": new_rows, "untested": int(len(given.y) - judge.rows)}


def _without(subject: Subject) -> str:
    """Why there are no held-out predictions, and what would give some."""
    name = type(subject.estimator).__name__
    if hasattr(subject.estimator, "n_centres_"):
        return f"{name} keeps no held-out predictions; give rows it has not seen with new_rows=True"
    if hasattr(subject.estimator, "cv"):
        return "the criterion held out no rows; use one that does, such as 'mse' or 'error'"
    return f"{name} has held out nothing; {name}CV does, or give new rows with new_rows=True"


def _importances(subject: Subject, given: Given | None, weight: Any) -> dict[str, Any]:
    own = getattr(subject.model, "importances_", None)
    features = getattr(subject.estimator, "feature_importances_", None)
    pairwise = subject.estimator.__sklearn_tags__().input_tags.pairwise
    if features is None and given is not None and not pairwise and _few_features(given.matrix):
        try:
            features = importances(subject.estimator.expansion_, given.matrix, weight, 0)
        except ValueError as error:  # a function of the user's has no derivative
            return {"absent": str(error).rstrip(".")}
    if features is None:
        return {"absent": "the kernel was given" if pairwise else _NO_ROWS}
    if isinstance(own, dict):
        shares = {str(name): float(share) for name, share in own.items()}
    elif subject.preparation is not None:
        shares = subject.preparation.shares(features) or {}
    else:
        shares = dict(zip(_names(subject, given), np.asarray(features, dtype=np.float64).tolist()))
    greatest = sorted(shares, key=lambda name: -shares[name])
    kept = {name: shares[name] for name in greatest[:_MOST_SHARES]}
    how = "share of each in what moves the prediction: mean squared slope × variance"
    return {"shares": kept, "more": len(shares) - len(kept), "how": how}


def _names(subject: Subject, given: Given | None) -> list[str]:
    """Names of the features: of the rows that were given where the fit had none."""
    own, columns = subject.features, [] if given is None else given.columns
    fits = subject.model is subject.estimator and len(columns) == len(own)
    if fits and not hasattr(subject.estimator, "feature_names_in_"):
        return [one.name for one in columns]
    return own


def _few_features(matrix: Any) -> bool:
    """Whether slopes, which are dense, cost little."""
    return not is_sparse(matrix) or matrix.shape[1] <= _MOST_SPARSE


def _data(
    subject: Subject,
    given: Given,
    predictions: Predictions | None,
    scores: dict[str, Any],
    new_rows: bool,
) -> dict[str, Any]:
    folds = None
    if predictions is not None and predictions.folds.same and not new_rows:
        folds = predictions.folds
    copies = duplicate_facts(row_groups(given.matrix), given.y, folds)
    found = data_facts(given.columns, given.y, subject.classes, copies, _explained(scores))
    return found | {"more_columns": max(0, given.width - len(given.columns))}


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


def _title(question: dict[str, Any]) -> str:
    what = f"'{shortened(question['target'])}'" if question["target"] else question["task"]
    rows = "" if question["rows"] is None else f" on {counted(question['rows'], 'row')}"
    return f"onefold report: {what}{rows}"


def _python_lines(subject: Subject) -> list[str]:
    """Python that fits the like of it again."""
    model = subject.model
    if not hasattr(model, "report"):  # a pipeline
        return [
            f"model = {model!r}",
            "model.fit(X, y)",
            'onefold.write_report(model, "report.html", X, y)',
        ]
    silent = {name: None for name in ("callback", "client") if hasattr(model, name)}
    given = type(model)(**model.get_params(deep=False) | silent)
    return [
        f"from onefold import {type(model).__name__}",
        f"model = {given!r}",
        "model.fit(X, y)",
        'model.report("report.html", X, y)',
    ]
