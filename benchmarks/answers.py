"""Can the answers be trusted? Coverage of intervals, calibration of probabilities, time of a report.

python -m benchmarks.answers [intervals] [slices] [blends] [probabilities] [report] [--quick]

Random splits of real tables: at most 1000 rows to choose and train with, at most 2000 to test on;
features standardised, targets in deviations. The machine has the rbf kernel and the default grid;
`blends` is what ``onefold tune`` fits. MAPIE's CV+ and scikit-learn's CalibratedClassifierCV get the
same machine with the chosen width and ridge and the same folds, which they fit again. `slices` compares
intervals="auto" (after) with constant width (before) around the same models on 4000 test rows; a slice
is a tenth of them by prediction or by one feature, or those with one of few values.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_friedman1
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold

from benchmarks.common import DATA, Row, run_parts
from benchmarks.tables_data import CLASSIFICATION, REGRESSION, present, small_split
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.calibration.slices import HeldOutIntervals, slices_of_rows

MOST_ROWS = 1000
MOST_TESTED = 2000
MOST_IN_SLICES = 4000
GAMMAS = tuple(2.0**power for power in range(-9, 0, 2))
ALPHAS = tuple(2.0**power for power in range(-8, 5, 2))
SPLITS = 3
COVERAGE = 0.9
BINS = 15
METHODS = ("temperature", "sigmoid", "isotonic")


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and targets, test rows and targets; classes too rare for five folds are left out."""
    labels = name in CLASSIFICATION
    return small_split(DATA / f"{name}.npz", seed, labels, MOST_ROWS, MOST_TESTED, rarest=10)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and its wall time."""
    begin = time.perf_counter()
    found = function()
    return found, time.perf_counter() - begin


def coverage_and_width(bounds: Any, y: Any) -> tuple[float, float]:
    """The share of targets within, and the mean distance of the bounds."""
    inside = (bounds[:, 0] <= y) & (y <= bounds[:, 1])
    return float(inside.mean()), float(np.mean(bounds[:, 1] - bounds[:, 0]))


def by_mapie(gamma: float, alpha: float, cv: Any, X: Any, y: Any, X_test: Any) -> Any | None:
    """MAPIE's CV+ around the machine with given hyper-parameters; None where it is not installed."""
    try:
        from mapie.regression import CrossConformalRegressor
    except ImportError:
        return None
    machine = LSSVR(gamma=gamma, alpha=alpha)
    conformal = CrossConformalRegressor(machine, confidence_level=COVERAGE, method="plus", cv=cv)
    return conformal.fit_conformalize(X, y).predict_interval(X_test)[1][:, :, 0]


def interval_row(name: str, seeds: range) -> Row:
    """Means over the splits of one table."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        X, y, X_test, y_test = split(name, seed)
        cv = KFold(5, shuffle=True, random_state=seed)
        plain, bare = timed(lambda X=X, y=y, cv=cv: LSSVRCV(cv=cv, intervals=None).fit(X, y))
        model, whole = timed(lambda X=X, y=y, cv=cv: LSSVRCV(cv=cv).fit(X, y))
        bounds, asked = timed(lambda model=model, X=X_test: model.predict_interval(X, COVERAGE))
        covered, width = coverage_and_width(bounds, y_test)
        numbers = {"coverage": covered, "width": width, "fit, without intervals 1": whole / bare}
        cell = (plain.gamma_, plain.alpha_)
        theirs, seconds = timed(
            lambda cell=cell, cv=cv, X=X, y=y, Z=X_test: by_mapie(*cell, cv, X, y, Z)
        )
        if theirs is not None:
            covered, wide = coverage_and_width(theirs, y_test)
            numbers |= {"MAPIE's coverage": covered, "width / MAPIE's": width / wide}
            numbers["time of all / with MAPIE"] = (whole + asked) / (bare + seconds)
        normal = LSSVRCV(cv=cv, intervals="normalised").fit(X, y).predict_interval(X_test, COVERAGE)
        covered, wide = coverage_and_width(normal, y_test)
        numbers |= {"normalised: coverage": covered, "normalised: width / CV+": wide / width}
        for key, value in numbers.items():
            found.setdefault(key, []).append(value)
    return {"table": name, **{key: float(np.mean(values)) for key, values in found.items()}}


def with_means(rows: list[Row]) -> list[Row]:
    """The rows, and their mean."""
    keys = [key for key in rows[0] if key != "table"] if rows else []
    return [
        *rows,
        {"table": "mean", **{key: float(np.mean([row[key] for row in rows])) for key in keys}},
    ]


def intervals(quick: bool) -> list[Row]:
    names, seeds = (REGRESSION[:3], range(1)) if quick else (REGRESSION, range(SPLITS))
    return with_means([interval_row(name, seeds) for name in present(names, DATA)])


def slice_row(name: str, seeds: range) -> Row:
    """Coverage of all test rows and of the worst slice of them, by constant and by automatic width."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        path = DATA / f"{name}.npz"
        X, y, X_test, y_test = small_split(path, seed, False, MOST_ROWS, MOST_IN_SLICES)
        cv = KFold(5, shuffle=True, random_state=seed)
        model = LSSVRCV(gammas=GAMMAS, alphas=ALPHAS, cv=cv, intervals="auto").fit(X, y)
        slices = slices_of_rows(model.predict(X_test)[:, None], X_test.T)
        chosen = model.intervals_.method == "normalised"
        numbers = {"tested": len(y_test), "normalised": float(chosen)}
        after = model.predict_interval(X_test, COVERAGE)
        if chosen:  # constant intervals have the same residuals
            model.intervals_ = replace(model.intervals_, method="cv+", spread=None)
            model.spread_models_ = None
        scores = []
        for label, bounds in (
            ("before", model.predict_interval(X_test, COVERAGE)),
            ("after", after),
        ):
            inside = (bounds[:, 0] <= y_test) & (y_test <= bounds[:, 1])
            outside = np.maximum(bounds[:, 0] - y_test, 0.0) + np.maximum(y_test - bounds[:, 1], 0.0)
            scores.append(np.mean(bounds[:, 1] - bounds[:, 0] + 2 / (1 - COVERAGE) * outside))
            coverages = slices.coverage(HeldOutIntervals(inside[:, None], None))
            numbers |= {label: float(inside.mean()), f"worst slice {label}": float(coverages.min())}
        numbers["score after / before"] = float(scores[1] / scores[0])
        for key, value in numbers.items():
            found.setdefault(key, []).append(value)
    return {"table": name, **{key: float(np.mean(values)) for key, values in found.items()}}


def slices(quick: bool) -> list[Row]:
    names, seeds = (REGRESSION[:3], range(1)) if quick else (REGRESSION, range(SPLITS))
    return with_means([slice_row(name, seeds) for name in present(names, DATA)])


def blends(quick: bool) -> list[Row]:
    rows = []
    for name in present(REGRESSION[:3] if quick else REGRESSION, DATA):
        X, y, X_test, y_test = split(name, 0)
        cv = KFold(5, shuffle=True, random_state=0)
        full = {"kernel": "auto", "metric": "auto", "blend": True, "cv": cv}
        bare = timed(lambda full=full, X=X, y=y: LSSVRCV(**full, intervals=None).fit(X, y))[1]
        model, whole = timed(lambda full=full, X=X, y=y: LSSVRCV(**full).fit(X, y))
        covered, width = coverage_and_width(model.predict_interval(X_test, COVERAGE), y_test)
        rows.append({"table": name, "coverage": covered, "width": width, "fit / without": whole / bare})
    return with_means(rows)


def calibration_error(probabilities: Any, y: Any) -> float:
    """Σ over bins of confidence: share of rows · |share of right labels − mean confidence|."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows = np.maximum(np.bincount(bins, minlength=BINS), 1)
    gap = np.bincount(bins, right, BINS) / rows - np.bincount(bins, confidence, BINS) / rows
    return float(np.bincount(bins, minlength=BINS) @ np.abs(gap) / len(y))


def probability_row(name: str, seeds: range) -> Row:
    """Means over the splits of one table."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        X, y, X_test, y_test = split(name, seed)
        cv = StratifiedKFold(5, shuffle=True, random_state=seed)
        numbers: dict[str, float] = {}
        for method in METHODS:
            model, seconds = timed(
                lambda m=method, cv=cv, X=X, y=y: LSSVCCV(cv=cv, calibration=m).fit(X, y)
            )
            given = model.predict_proba(X_test)
            numbers[f"{method}: log loss"] = _log_loss(y_test, given)
            numbers[f"{method}: ECE"] = calibration_error(given, y_test)
            if method == "temperature":
                ours = seconds
                bare = timed(lambda cv=cv, X=X, y=y: LSSVCCV(cv=cv, calibration=None).fit(X, y))[1]
                machine = LSSVC(gamma=model.gamma_, alpha=model.alpha_, calibration=None)
                around = CalibratedClassifierCV(machine, method=method, cv=cv, ensemble=False)
                _, seconds = timed(lambda around=around, X=X, y=y: around.fit(X, y))
                given = around.predict_proba(X_test)
                numbers["sklearn's log loss"] = _log_loss(y_test, given)
                numbers["sklearn's ECE"] = calibration_error(given, y_test)
                numbers["fit, without calibration 1"] = ours / bare
                numbers["time of all / with sklearn's"] = ours / (bare + seconds)
        for key, value in numbers.items():
            found.setdefault(key, []).append(value)
    return {"table": name, **{key: float(np.mean(values)) for key, values in found.items()}}


def _log_loss(y: Any, probabilities: Any) -> float:
    return float(log_loss(y, np.clip(probabilities, 1e-6, 1), labels=np.arange(probabilities.shape[1])))


def probabilities(quick: bool) -> list[Row]:
    names, seeds = (CLASSIFICATION[:3], range(1)) if quick else (CLASSIFICATION, range(SPLITS))
    return with_means([probability_row(name, seeds) for name in present(names, DATA)])


def report(quick: bool) -> list[Row]:
    rows = []
    for n in (1000,) if quick else (1000, 10_000):
        X, y = make_friedman1(n, 20, noise=1.0, random_state=0)
        labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
        for kind, target in ((LSSVRCV, y), (LSSVCCV, labels)):
            model, fitted = timed(lambda k=kind, X=X, t=target: k(approximation="nystroem").fit(X, t))
            page, made = timed(lambda model=model, X=X, t=target: model.report(None, X, t).html())
            row = {"estimator": kind.__name__, "rows": n, "fit, s": fitted, "report, s": made}
            rows.append(row | {"page, kB": len(page.encode()) / 1000})
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run_parts(
        "answers",
        __doc__,
        {
            "intervals": (f"{COVERAGE:.0%} intervals on rows that were not trained on", intervals),
            "slices": (f"{COVERAGE:.0%} intervals in slices of new rows", slices),
            "blends": (f"{COVERAGE:.0%} intervals of blends in learned metrics", blends),
            "probabilities": ("Probabilities of rows that were not trained on", probabilities),
            "report": ("The report beyond the fit", report),
        },
    )
