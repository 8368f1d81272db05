"""How good predictions are, compared with simple models on the same splits.

The simple models are a constant (the baseline), a linear model and a shallow tree, fitted to the same
matrix with fixed settings. Every ± is a standard error; where folds keep groups or stretches of time
together, rows of these are not taken for independent. A model is better than another if the
difference, paired on the same rows, is more than two standard errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import clone, config_context
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array
from sklearn.utils.validation import FLOAT_DTYPES

from onefold.facts.criteria import requested_criterion
from onefold.facts.measures import (
    MEASURES,
    Measured,
    Predicted,
    ScoredRows,
    accuracy,
    error_number,
    interval,
    labels_of,
    measure_of,
    measured_words,
    number,
)
from onefold.facts.words import counted
from onefold.heldout import unpacked
from onefold.linalg import is_sparse, to_numpy
from onefold.machine.threads import limit_blas, spans

Splits = Sequence[tuple[np.ndarray, np.ndarray]]

# Training rows × features × classes × splits for each simple model; of more rows, some are drawn.
_MOST_NUMBERS = 4_000_000
# Training rows that a simple model has at least, however many features there are.
_FEWEST_ROWS = 500
# Rows below which scores are called uncertain.
_FEW_ROWS = 30
# The depth of the tree.
_DEPTH = 4
# Simple models that are given scaled features.
_LINEAR = (LogisticRegression, Ridge, RidgeCV)
# Standard errors that a gain has to be larger than.
_CLEAR = 2.0
# Gains up to this are rounding errors.
_NOTHING = 1e-12
# Classes up to which there is a confusion matrix.
_MOST_CLASSES = 20
# Recalls that are printed, the lowest first.
_MOST_RECALLS = 8


@dataclass(frozen=True)
class SimpleModel:
    """A simple model's predictions of the rows that its splits test, NaN elsewhere."""

    name: str
    values: np.ndarray  # (n, targets), or probabilities (n, classes)
    train_rows: int | None = None  # so many rows of each training part were drawn; None for all


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows by models that were not fitted to them."""

    values: np.ndarray  # (n, columns): numbers, or decision values; NaN for rows without one
    probabilities: np.ndarray | None  # (n, classes)
    splits: Splits  # that simple models are scored on
    tests: Sequence[np.ndarray]  # rows that count together
    how: str  # the predictions were made, in words
    where: str  # simple models are scored, in words


def heldout_predictions(estimator: Any, y: np.ndarray, *, second: bool = False) -> Predictions | None:
    """The held-out predictions of a fit with its splits; None for fits that held nothing out.

    With `second` they are those of its second splitter.
    """
    first_names = ("heldout_prediction_", "heldout_proba_", "splits_")
    second_names = ("second_predict_", "second_proba_", "second_splits_")
    name, name_of_probabilities, name_of_splits = second_names if second else first_names
    heldout = getattr(estimator, name, None)
    if heldout is None:
        return None
    values = as_columns(heldout)
    probabilities = getattr(estimator, name_of_probabilities, None)
    probabilities = None if probabilities is None else as_columns(probabilities)
    how = "held-out predictions of the fit, each from a model that was not fitted to that row"
    packed = getattr(estimator, name_of_splits)
    if packed is None:
        splits = shuffled_folds(y, hasattr(estimator, "classes_"), 10)
        tests = [np.arange(len(y))]
        where = f"{len(splits)} folds, because refitting for every single row would take long"
        return Predictions(values, probabilities, splits, tests, how, where)
    splits = unpacked(to_numpy(packed))
    tests = [test for _, test in splits]
    if np.bincount(np.concatenate(tests)).max() > 1:
        how += (
            "; rows that several splits test count once, with their mean prediction, which tends to "
            "have a smaller error than each single one"
        )
    where = f"the same {counted(len(splits), 'split')} as the model"
    return Predictions(values, probabilities, splits, tests, how, where)


def new_predictions(estimator: Any, X: Any, y: np.ndarray) -> Predictions:
    """Predictions of rows that the fit did not have."""
    classifier = hasattr(estimator, "classes_")
    calibrated = classifier and getattr(estimator, "calibrator_", None) is not None
    with warnings.catch_warnings():
        # X is an array whose columns were checked by their names before.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        values = as_columns(estimator.decision_function(X) if classifier else estimator.predict(X))
        probabilities = np.asarray(to_numpy(estimator.predict_proba(X))) if calibrated else None
    splits = shuffled_folds(y, classifier)
    how = "predictions of these rows, which are new to the model"
    where = f"{len(splits)} folds of these rows"
    return Predictions(values, probabilities, splits, [np.arange(len(y))], how, where)


def shuffled_folds(y: np.ndarray, classifier: bool, count: int = 5) -> Splits:
    """Shuffled folds, stratified by class if possible."""
    count = max(2, min(count, len(y)))
    labels = y if y.ndim == 1 else y[:, 0]
    even = classifier and np.unique(labels, return_counts=True)[1].max() >= count
    kind: Any = StratifiedKFold if even else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rare classes
        return list(kind(count, shuffle=True, random_state=0).split(np.zeros((len(y), 1)), labels))


def scores_of(
    estimator: Any,
    predictions: Predictions,
    X: Any,
    y: np.ndarray,
    weight: np.ndarray | None = None,
    clusters: np.ndarray | None = None,
) -> dict[str, Any]:
    """:func:`score_facts` of an estimator's predictions next to simple models on the same matrix."""
    classes = getattr(estimator, "classes_", None)
    classes = None if classes is None else np.asarray(classes)
    tested = np.isfinite(predictions.values).all(axis=1)
    # Folds that a metric was learned from have no predictions: simple models are not scored on them.
    splits = [(train, test) for train, test in predictions.splits if tested[test].any()]
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    scores = score_facts(
        y,
        predictions.values,
        predictions.tests,
        simple_models(None if pairwise else X, y, splits, classes=classes, weight=weight),
        classes=classes,
        probabilities=predictions.probabilities,
        weight=weight,
        criterion=requested_criterion(estimator),
        clusters=clusters,
    )
    return scores | {
        "how": predictions.how,
        "splits": f"simple models on {predictions.where}",
        "untested": int(len(y) - scores["rows"]),
    }


def as_columns(values: Any) -> np.ndarray:
    """Numbers (n,) or (n, columns) as the latter, in NumPy."""
    numbers = np.asarray(to_numpy(values), dtype=np.float64)
    return numbers.reshape(len(numbers), -1)


def score_facts(
    y: np.ndarray,
    values: np.ndarray,
    tests: Sequence[np.ndarray],
    simple: Sequence[SimpleModel],
    *,
    classes: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    criterion: str | None = None,
    clusters: np.ndarray | None = None,
) -> dict[str, Any]:
    """Every measure of a model and of simple ones, with standard errors, and their paired differences.

    `values` (n, columns) are predictions or decision values of the model, NaN for rows that were not
    tested; `tests` sets of rows that were tested together, all of which count the same; comparisons
    go by the `criterion` that was asked for where it is one of the measures. Rows of one of the
    `clusters` are not independent.
    """
    rows = ScoredRows.of(y, values, tests, classes, weight, clusters)
    requested = measure_of(criterion)
    measured = rows.measure(values, probabilities, requested)
    main = rows.main_measure(measured, requested)
    baselines = []
    for model in simple:
        model_probabilities = None if classes is None else model.values
        model_measured = rows.measure(model.values, model_probabilities, requested)
        gain = _gain(main, measured[main], model_measured[main])
        baselines.append(
            {
                "name": model.name,
                "measures": _with_errors(rows, model_measured),
                "gain": {"value": gain.value, "error": gain.error(rows.weight, rows.clusters)},
            }
        )
    notes = []
    if simple[0].train_rows is not None:  # so have all
        names = ", ".join(model.name for model in simple)
        notes.append(f"{names}: fitted to {simple[0].train_rows:,} rows of each training set")
    return {
        "rows": int(np.sum(rows.weight > 0)),
        "folds": len(rows.tests),
        "main": main,
        "instead_of": None if criterion is None or main == requested else criterion,
        "model": {"name": "this model", "measures": _with_errors(rows, measured)},
        "baselines": baselines,
        "classes": None if classes is None else _class_facts(rows, values),
        "notes": notes,
        "verdict": verdict(baselines),
    }


def _gain(name: str, measured: Measured, baseline: Measured) -> Measured:
    """By how much a measure is better than a baseline's on the same rows: (4) of `facts.measures`."""
    sign = -1.0 if MEASURES[name].smaller else 1.0
    return Measured(sign * (measured.value - baseline.value), measured.influence - baseline.influence)


def _with_errors(rows: ScoredRows, measured: dict[str, Measured]) -> dict[str, Any]:
    return {
        name: interval(name, measure, rows.weight, rows.clusters) for name, measure in measured.items()
    }


def _class_facts(rows: ScoredRows, values: np.ndarray) -> dict[str, Any]:
    """Recall of every class, and how often each was taken for another."""
    labels = [str(label) for label in rows.classes]  # type: ignore[union-attr]
    used = rows.weight > 0
    predicted = labels_of(values[used])
    table = confusion_matrix(rows.index[used], predicted, labels=np.arange(len(labels)))
    counts = table.sum(axis=1)
    by_class = {}
    for place, label in enumerate(labels):
        if counts[place]:
            # Of each fold that has rows of the class, as balanced accuracy takes them.
            of_class = [part[rows.index[part] == place] for part in rows.tests]
            class_tests = [part for part in of_class if len(part)]
            class_rows = ScoredRows(rows.y, class_tests, rows.classes, rows.row_weight, rows.clusters)
            recall = accuracy(Predicted(class_rows, values))
            by_class[label] = {
                "rows": int(counts[place]),
                **interval("accuracy", recall, class_rows.weight, rows.clusters),
            }
    many = len(labels) > _MOST_CLASSES
    return {"recall": by_class, "labels": labels, "confusion": None if many else table.tolist()}


def verdict(baselines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Whether the model is better than the baseline, and than the best simple model."""
    best = min(baselines, key=lambda baseline: float(baseline["gain"]["value"]))
    return {
        "better_than_baseline": _clear(baselines[0]["gain"]) > 0,
        "best": best["name"],
        "than_best": {1: "better", 0: "alike", -1: "worse"}[_clear(best["gain"])],
        "gain": best["gain"],
    }


def _clear(gain: dict[str, float]) -> int:
    """The sign of a gain that is larger than two standard errors, else 0."""
    size = max(_CLEAR * gain["error"], _NOTHING)
    return 0 if abs(gain["value"]) <= size else int(np.sign(gain["value"]))


def comparison_words(scores: dict[str, Any], lead: str = "the best simple model, ") -> str:
    """The score of the best simple model, and by how much which of the two is better."""
    comparison = scores["verdict"]
    main = scores["main"]
    name = comparison["best"]
    best = next(baseline for baseline in scores["baselines"] if baseline["name"] == name)
    value = number(main, best["measures"][main]["value"])
    label = MEASURES[main].label
    words = f"{lead}{name}{',' if lead else ''} has {label} {value}"
    gain = comparison["gain"]
    size = f"{number(main, abs(gain['value']))} ± {error_number(main, gain['error'])}"
    criterion = scores.get("instead_of")
    why = ""
    if criterion is not None:
        why = f"; compared by {label}, because simple models are not scored by {criterion}"
    if comparison["than_best"] == "better":
        return f"{words}: this model is better by {size}{why}"
    if comparison["than_best"] == "worse":
        return f"{words}: it is better than this model by {size}; use it instead{why}"
    which = "better" if gain["value"] >= 0 else "worse"
    return f"{words}: this model is {which} by {size}, which is within two standard errors{why}"


def score_notes(scores: dict[str, Any] | None) -> list[str]:
    """Warnings about scores: not better than simple models, or uncertain."""
    if scores is None:
        return []
    notes = []
    if not scores.get("new_rows", False):  # else simple models were fitted to these rows
        notes += _comparison_notes(scores)
    if scores["rows"] < _FEW_ROWS:
        notes.append(
            f"scores from {counted(scores['rows'], 'row')} are uncertain, as are their standard errors"
        )
    return notes


def _comparison_notes(scores: dict[str, Any]) -> list[str]:
    """Notes on a model that is not better than others, and on rows that are sorted."""
    comparison = scores["verdict"]
    main = scores["main"]
    label = MEASURES[main].label
    baseline = scores["baselines"][0]
    notes = []
    if not comparison["better_than_baseline"]:
        gain = f"gain in {label} {measured_words(main, baseline['gain'])}"
        notes.append(f"not better than the {baseline['name']} by two standard errors: {gain}")
    if comparison["than_best"] == "worse" and comparison["best"] != baseline["name"]:
        gain = comparison["gain"]
        size = f"{number(main, -gain['value'])} ± {error_number(main, gain['error'])}"
        notes.append(f"a simple model is better: {comparison['best']}, by {size} in {label}")
    if scores.get("structure") is not None:
        notes.append(scores["structure"])
    return notes


def score_lines(scores: dict[str, Any]) -> list[tuple[str, str]]:
    """The measures of a model next to the baseline's as label and value; recalls if classes are rare."""
    measures = scores["model"]["measures"]
    baseline = scores["baselines"][0]["measures"]
    names = dict.fromkeys(["r2", "rmse", "accuracy", "balanced_accuracy", scores["main"]])
    if scores["main"] == "accuracy":
        del names["balanced_accuracy"]
    lines = []
    for name in names:
        if name in measures:
            words = measured_words(name, measures[name])
            if name in baseline and name != "r2":  # that of a mean is 0
                words += f"  (baseline: {number(name, baseline[name]['value'])})"
            lines.append((MEASURES[name].label, words))
    if scores["classes"] is not None and scores["main"] != "accuracy":
        recall = scores["classes"]["recall"]
        order = sorted(recall, key=lambda label: float(recall[label]["value"]))
        for label in order[:_MOST_RECALLS]:
            words = measured_words("accuracy", recall[label])
            lines.append((f"recall of '{label}'", f"{words}  ({counted(recall[label]['rows'], 'row')})"))
    return lines


def both_scores(scores: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, str]]:
    """For which rows the score of the search holds, and for which the second one, each in a line."""
    names = ["r2", "rmse", "accuracy", "balanced_accuracy", scores["main"]]
    lines = []
    for use, of_use in ((second["first_use"], scores), (second["use"], second)):
        measures = of_use["model"]["measures"]
        words = [
            f"{MEASURES[name].label} {measured_words(name, measures[name])}"
            for name in dict.fromkeys(names)
            if name in measures
        ]
        lines.append((use, ", ".join(words)))
    return lines


def belief_words(second: dict[str, Any]) -> str:
    """Which of two scores to believe, and which one intervals and probabilities follow."""
    followers = "intervals" if second["classes"] is None else "probabilities"
    return (
        f"to predict {second['use']}, believe the second score ({second['cv']}); {followers} follow it. "
        f"The first holds for {second['first_use']}"
    )


def flat_scores(scores: dict[str, Any]) -> dict[str, Any]:
    """The numbers alone, flat: each measure by its name, the baseline's, standard errors, recalls."""
    measures = scores["model"]["measures"]
    baseline = scores["baselines"][0]["measures"]
    numbers: dict[str, Any] = {"rows": scores["rows"], "folds": scores["folds"]}
    numbers |= {name: measure["value"] for name, measure in measures.items()}
    numbers |= {f"baseline_{name}": measure["value"] for name, measure in baseline.items()}
    numbers["standard_errors"] = {name: measure["error"] for name, measure in measures.items()}
    if scores["classes"] is not None:
        recall = scores["classes"]["recall"]
        numbers["recall"] = {label: measure["value"] for label, measure in recall.items()}
        numbers["class_rows"] = {label: measure["rows"] for label, measure in recall.items()}
    return numbers


# Simple models


def simple_models(
    X: Any, y: np.ndarray, splits: Splits, *, classes: np.ndarray | None, weight: Any = None
) -> list[SimpleModel]:
    """Held-out predictions of every simple model, the mean over the splits that test a row.

    `X` is None where there are no features, only a kernel matrix: then there is the constant only.
    """
    kinds = _kinds(is_sparse(X), classes is not None)
    if X is None:
        X = np.zeros((len(y), 1))
        kinds = dict([*kinds.items()][:1])
    columns = len(classes) if classes is not None else (1 if y.ndim == 1 else y.shape[1])
    most = max(_FEWEST_ROWS, _MOST_NUMBERS // (X.shape[1] * columns * len(splits)))
    totals = {name: np.zeros((len(y), columns)) for name in kinds}
    times = np.zeros((len(y), 1))
    # Rows that are mapped from a file stay there: a block of them at a time is scaled and predicted.
    block = max(_FEWEST_ROWS, _MOST_NUMBERS // X.shape[1]) if isinstance(X, np.memmap) else len(y)
    X = check_array(X, accept_sparse=("csr", "csc"), dtype=FLOAT_DTYPES, ensure_all_finite="allow-nan")
    unit = MaxAbsScaler()  # trees compute in float32; the other models do not depend on the unit
    for part in spans(len(y), block):
        unit.partial_fit(X[part])
    random = np.random.default_rng(0)
    train_rows = None
    for train, test in splits:
        if weight is not None:
            train = train[weight[train] > 0]
        if len(train) > most:
            train_rows = most
            train = np.sort(random.choice(train, most, replace=False))
        scaler = StandardScaler(with_mean=classes is None and not is_sparse(X))
        features = unit.transform(X[train])
        scaled = scaler.fit_transform(features)
        fit_params = {} if weight is None else {"sample_weight": weight[train]}
        times[test] += 1
        models = {name: clone(kind) for name, kind in kinds.items()}
        if classes is not None and len(np.unique(y[train])) < 2:
            models = {name: DummyClassifier(strategy="prior") for name in kinds}
        # Also if the user has enabled routing.
        without_routing = config_context(enable_metadata_routing=False)
        with warnings.catch_warnings(), limit_blas(1), np.errstate(all="ignore"), without_routing:
            warnings.simplefilter("ignore", ConvergenceWarning)
            for name, model in models.items():
                model.fit(
                    scaled if isinstance(kinds[name], _LINEAR) else features, y[train], **fit_params
                )
            for part in spans(len(test), block):
                rows = test[part]
                features = unit.transform(X[rows])
                scaled = scaler.transform(features)
                for name, model in models.items():
                    inputs = scaled if isinstance(kinds[name], _LINEAR) else features
                    if classes is None:
                        totals[name][rows] += np.reshape(model.predict(inputs), (len(rows), -1))
                    else:
                        places = np.searchsorted(classes, model.classes_)
                        totals[name][rows[:, None], places] += model.predict_proba(inputs)
    with np.errstate(invalid="ignore"):
        return [SimpleModel(name, total / times, train_rows) for name, total in totals.items()]


def _kinds(sparse: bool, classifier: bool) -> dict[str, Any]:
    """Simple models by their names, the constant first."""
    if classifier:
        return {
            "baseline (most frequent class)": DummyClassifier(strategy="prior"),
            "logistic regression": LogisticRegression(max_iter=100, tol=1e-3),
            f"tree of depth {_DEPTH}": DecisionTreeClassifier(max_depth=_DEPTH, random_state=0),
        }
    return {
        "baseline (mean)": DummyRegressor(),
        "linear ridge": Ridge(1.0) if sparse else RidgeCV(np.geomspace(1e-3, 1e3, 7)),
        f"tree of depth {_DEPTH}": DecisionTreeRegressor(max_depth=_DEPTH, random_state=0),
    }
