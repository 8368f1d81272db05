"""How many rows are predicted in a second, and how large a model file is: plain, compressed, LightGBM.

    python -m benchmarks.prediction [simple] [default] [few] [--quick]

Tables of ONEFOLD_DATA, 4,000 training rows at most. The test part is halved: the first half is where a
tolerance is measured on, errors are those of the second. Simple: ``simple=True``, one kernel; default:
the default search with learned metrics and a blend, on the first table. LightGBM has its default
settings and is left out where it is not installed. Few: test errors of one kernel by the number of
centres, compressed, and fitted with as few.

One thread is timed by the processor time of the process, which other processes of the machine disturb
little; two threads by the clock, the best of all repeats.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA, Parts, Row, run_parts
from benchmarks.tables_data import Table, load, present
from onefold import LSSVR, LSSVRCV, SparseLSSVR, TableClassifier, TableRegressor
from onefold.approximations import Nystroem

TABLES = ["california_housing", "covtype", "letter"]
FEW_TABLES = ["uci_concrete", "uci_airfoil"]
CENTRES = (50, 100, 200)
TOLERANCES = (0.05, 0.2)
# Seconds for which each prediction is repeated, and how often at least.
_SECONDS = 3.0
_REPEATS = 5
# Training rows, and test rows, at most.
_ROWS = 4000
_FEW_ROWS = 2000
_QUICK_ROWS = 600


def rates(predict: Callable[[int], object], rows: int) -> dict[str, float]:
    """Thousands of rows per second with one and with two threads."""
    best = {}
    for threads, clock in ((1, time.process_time), (2, time.perf_counter)):
        shortest = np.inf
        began = time.perf_counter()
        repeats = 0
        with threadpool_limits(threads):
            while repeats < _REPEATS or time.perf_counter() - began < _SECONDS:
                start = clock()
                predict(threads)
                shortest = min(shortest, clock() - start)
                repeats += 1
        best[f"1000 rows/s, {threads} thread{'s' * (threads > 1)}"] = rows / shortest / 1000
    return best


def size_of(save: Callable[[Path], object]) -> float:
    """Megabytes of the file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save(path)
        return path.stat().st_size / 1e6


def predict_with(model: Any, rows: Any, threads: int) -> Any:
    """Predictions of onefold."""
    model.estimator_.n_jobs = threads
    return model.predict(rows)


def onefold_rows(table: Table, simple: bool) -> Iterator[Row]:
    """The model as it was fitted, and within each tolerance."""
    half = len(table.y_test) // 2
    rows = table.X_test[half:]
    kind = TableClassifier if table.task == "classification" else TableRegressor
    model: Any = kind(simple=simple)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.X, table.y)
    models = {"onefold": model}
    for tolerance in TOLERANCES:
        given = {"X": table.X_test[:half], "y": table.y_test[:half]}
        models[f"compressed, tolerance {tolerance}"] = model.compressed(tolerance=tolerance, **given)
    for name, fitted in models.items():
        expansion = fitted.estimator_.expansion_
        yield {
            "table": table.name,
            "model": name,
            "centres": max(part.n_centres for _, part in expansion.parts),
            "kernels": len(expansion.parts),
            "error": error(table, fitted.predict(rows), half),
            "megabytes": size_of(fitted.save),
            **rates(partial(predict_with, fitted, rows), len(rows)),
        }


def lightgbm_row(table: Table) -> Row:
    """LightGBM with default settings."""
    import lightgbm

    half = len(table.y_test) // 2
    rows = table.X_test[half:]
    classifies = table.task == "classification"
    model: Any = (lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor)(verbose=-1)
    model.fit(table.X, table.y)
    return {
        "table": table.name,
        "model": "LightGBM",
        "error": error(table, model.predict(rows), half),
        "megabytes": size_of(model.booster_.save_model),
        **rates(lambda threads: model.predict(rows, num_threads=threads), len(rows)),
    }


def error(table: Table, predicted: Any, start: int) -> float:
    """RMSE in deviations of the training targets, or the share of wrong labels, from a test row on."""
    truth = table.y_test[start:]
    if table.task == "classification":
        return float(np.mean(np.asarray(predicted) != truth))
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def measured(quick: bool, *, simple: bool) -> list[Row]:
    """All models of some tables."""
    rows: list[Row] = []
    for name in present(TABLES if simple else TABLES[:1], DATA):
        table = load(name, 0, DATA)
        first = slice(None, _QUICK_ROWS if quick else _ROWS)
        parts = (table.X[first], table.y[first], table.X_test[first], table.y_test[first])
        table = Table(name, 0, table.task, *parts)
        for row in onefold_rows(table, simple):
            print(row, flush=True)
            rows.append(row)
        if find_spec("lightgbm") is not None:
            rows.append(lightgbm_row(table))
    return rows


def few_centres(quick: bool) -> list[Row]:
    """Errors of a compressed model, and of models with as few centres that are fitted to all rows."""
    rows: list[Row] = []
    for name in present(FEW_TABLES, DATA):
        table = load(name, 0, DATA)
        first = slice(None, _QUICK_ROWS if quick else _FEW_ROWS)
        X, y = table.X[first], table.y[first]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            full = LSSVRCV(intervals=None).fit(X, y)
        chosen = {"gammas": [full.gamma_], "alphas": [full.alpha_], "max_centres": len(y)}
        for centres in CENTRES:
            landmarks = LSSVR(gamma=full.gamma_, alpha=full.alpha_, approximation=Nystroem(centres))
            models = {
                "compressed": full.compressed(centres),
                "landmarks": landmarks.fit(X, y),
                "SparseLSSVR": SparseLSSVR(**chosen, n_centres=centres).fit(X, y),
                "all centres": full,
            }
            errors = {what: table.score(model.predict(table.X_test)) for what, model in models.items()}
            rows.append({"table": name, "rows": len(y), "centres": centres, **errors})
            print(rows[-1], flush=True)
    return rows


PARTS: Parts = {
    "simple": ("Prediction, one kernel", partial(measured, simple=True)),
    "default": ("Prediction, the default search", partial(measured, simple=False)),
    "few": ("Errors with few centres", few_centres),
}

if __name__ == "__main__":
    run_parts("prediction", __doc__, PARTS)
