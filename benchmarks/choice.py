"""Is the default choice of the table estimators right? Scores, promises, importances and time.

    python -m benchmarks.choice run DIR --workers 2
    python -m benchmarks.choice report DIR

`run` fits `TableClassifier` and `TableRegressor` as they come ("default") and with ``simple=True``
("plain"), LightGBM (the best of 20 random settings) and CatBoost (its defaults) on three splits of
each table: "plain" tables, "rare" ones, whose rare class has 2 to 10 % of the rows and whose classes
weigh the same, and "ordered" ones, tested on the rows that follow in time. Each job has a process and
a thread of its own and leaves a JSON file in DIR: a run that was stopped goes on. `report`, also at the
end of `run`, prints means by table and the floors that the default has to keep, and writes report.json.

The score is the RMSE in deviations of the target, the share of wrong labels, or one minus the balanced
accuracy ("rare"). Seconds are processor time of the fit; a tiny one before it imports and compiles.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.answers import calibration_error
from benchmarks.choice_report import report
from benchmarks.common import DATA, Row
from benchmarks.peers.methods import HELD, Options, lightgbm_booster
from benchmarks.tables_data import GIVEN_AWAY, TASKS, Table, prepared, present, small_split
from onefold import TableClassifier, TableRegressor
from onefold.criteria.base import label_index

ROWS = 3000
TESTED = 4000
SPLITS = 3
RAREST = 5  # rows of a class, one per fold; "plain" tables are without smaller classes
SETTINGS = 20  # of LightGBM
PERMUTED_ROWS = 1500
REPEATS = 3
FEATURES = range(4, 61)  # of the importances
METHODS = {"default": "onefold", "plain": "onefold", "lightgbm": "lightgbm", "catboost": "catboost"}

PLAIN = [
    *["abalone", "california_housing", "cpu_act", "uci_airfoil", "uci_concrete", "uci_elevators"],
    *["uci_kin40k", "uci_protein", "covtype", "letter", "shuttle", "ida_diabetis", "ida_german"],
    *["ida_image", "ida_splice", "spambase"],
]
# The share that the smaller class is thinned to; None where it is rare as it comes.
RARE = {
    "a9a_adult": 0.03,
    "ida_banana": 0.05,
    "ida_image": 0.08,
    "ida_twonorm": 0.05,
    "ida_waveform": 0.05,
    "ijcnn1": None,
    "spambase": 0.08,
    "w8a": None,
}
ORDERED = ["bike_hourly", "elec2", "energydata_appliances", "household_power_hourly"]
GROUPS: dict[str, Iterable[str]] = {"plain": PLAIN, "rare": RARE, "ordered": ORDERED}


@dataclass(frozen=True)
class Job:
    """One table in its group, split and method, and where its record goes."""

    group: str
    name: str
    split: int
    method: str
    folder: Path
    data: Path = DATA
    rows: int = ROWS
    tested: int = TESTED

    @property
    def path(self) -> Path:
        return self.folder / f"{self.group}-{self.name}-{self.split}-{self.method}.json"

    def done(self) -> bool:
        """Whether there is a record, of as many rows."""
        if not self.path.exists():
            return False
        record = json.loads(self.path.read_text("utf-8"))
        return (record["most_rows"], record["most_tested"]) == (self.rows, self.tested)


# -- rows ---------------------------------------------------------------------------------------------


def table_of(job: Job) -> Table:
    """The prepared rows of a job, the same for every method."""
    path = job.data / f"{job.name}.npz"
    labels = TASKS[job.name] == "classification"
    if job.group == "plain":
        rows = small_split(path, 200 + job.split, labels, job.rows, job.tested, RAREST)
    else:
        with np.load(path) as stored:
            X = stored["X"]
            y = stored["y"].reshape(len(stored["X"]), -1)[:, 0]
            if job.name in GIVEN_AWAY:
                X = X[:, ~np.isin(stored["feature_names"], GIVEN_AWAY[job.name])]
        some = thinned(y, RARE[job.name], job) if job.group == "rare" else following(len(y), job)
        rows = prepared(X, y, *some, labels)
    return Table(job.name, job.split, TASKS[job.name], *rows)


def thinned(y: Any, share: float | None, job: Job) -> tuple[Any, Any]:
    """Random rows to train with and to test on, half of all at most, few of the smaller class."""
    generator = np.random.default_rng(200 + job.split)
    order = generator.permutation(len(y))
    if share is not None:
        classes, counts = np.unique(y, return_counts=True)
        rare = y[order] == classes[counts.argmin()]
        kept = order[rare][: round(counts.max() * share / (1 - share))]
        order = generator.permutation(np.append(order[~rare], kept))
    size = min(job.rows, len(order) // 2)
    return order[:size], order[size : size + job.tested]


def following(n: int, job: Job) -> tuple[Any, Any]:
    """Consecutive rows, and the third as many that follow; splits begin at other times."""
    size = min(job.rows, n // 2)
    last = size + min(job.tested, size // 3)
    rows = job.split * (n - last) // (SPLITS - 1) % (n - last + 1) + np.arange(last)
    return rows[:size], rows[size:]


# -- methods ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """Predictions of rows, their probabilities where there are classes, and the model of a table."""

    predict: Callable[[Any], Any]
    proba: Callable[[Any], Any]
    model: Any = None


def fit(method: str, table: Table, group: str) -> Fitted:
    """A method on the training rows; the classes of rare ones weigh the same."""
    if method in ("default", "plain"):
        kind = TableRegressor if table.task == "regression" else TableClassifier
        options: dict[str, Any] = {"class_weight": "balanced"} if group == "rare" else {}
        model = kind(simple=method == "plain", ordered=group == "ordered", n_jobs=1, **options)
        model.fit(table.X, table.y)
        return Fitted(model.predict, lambda X: model.predict_proba(X), model)
    weights = class_weights(table.y) if group == "rare" else np.ones(max(table.classes, 1))
    if method == "lightgbm":
        order = even_order(table) if group != "ordered" else np.arange(len(table.y))[::-1]
        weight = weights[table.y] if group == "rare" else None
        held = int(HELD * len(order))
        options = Options(table.split, settings=SETTINGS)
        booster, _ = lightgbm_booster(table, options, order[held:], order[:held], weight)
        predict = booster.predict
    else:
        from catboost import CatBoostClassifier, CatBoostRegressor

        quiet = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
        kind = CatBoostRegressor if table.task == "regression" else CatBoostClassifier
        options = {"class_weights": list(weights)} if group == "rare" else {}
        model = kind(random_seed=table.split, **quiet, **options).fit(table.X, table.y)
        predict = model.predict if table.task == "regression" else model.predict_proba
    if table.task == "regression":
        return Fitted(predict, predict)

    def weighted(X: Any) -> Any:
        found = np.asarray(predict(X))
        return np.column_stack([1 - found, found]) if found.ndim == 1 else found

    def proba(X: Any) -> Any:
        """Of classes as frequent as they are, which onefold's are too: without the weights."""
        found = weighted(X) / weights
        return found / found.sum(axis=1, keepdims=True)

    return Fitted(lambda X: weighted(X).argmax(axis=1), proba)


def class_weights(y: Any) -> Any:
    """Weights of the classes 0, 1, … that make all weigh the same."""
    counts = np.bincount(y)
    return len(y) / (len(counts) * np.maximum(counts, 1))


def even_order(table: Table) -> Any:
    """A random order of the rows, whose every beginning has about the shares of all classes."""
    place = np.random.default_rng(table.split).random(len(table.y))
    for label in range(table.classes):
        rows = np.flatnonzero(table.y == label)
        place[rows[place[rows].argsort()]] = (np.arange(rows.size) + place[rows].mean()) / rows.size
    return place.argsort(kind="stable")


# -- measures -----------------------------------------------------------------------------------------


def loss_of(y: Any, predicted: Any, table: Table, balanced: bool) -> tuple[float, float]:
    """Squared error, share of wrong labels, or its mean over classes, with its standard error."""
    if table.task == "regression":
        errors = (predicted - y) ** 2
        return float(errors.mean()), float(errors.std() / np.sqrt(len(errors)))
    wrong = predicted != y
    parts = [wrong[y == label] for label in np.unique(y)] if balanced else [wrong]
    sizes = np.array([len(part) for part in parts])
    # One more of each kind, as no error in a few rows is no certainty.
    shares = np.array([part.sum() + 1 for part in parts]) / (sizes + 2)
    spread = np.sqrt(np.sum(shares * (1 - shares) / sizes)) / len(parts)
    return float(np.mean([part.mean() for part in parts])), float(spread)


def promise(model: Any, table: Table, balanced: bool) -> Row:
    """The loss of the held-out predictions of a fit, and the one that its score states."""
    values = model.estimator_.heldout_prediction_.reshape(len(table.y), -1)
    known = np.isfinite(values).all(axis=1)
    values = values[known]
    predicted = values[:, 0] if table.task == "regression" else label_index(values)
    loss, error = loss_of(table.y[known], predicted, table, balanced)
    stated = 1 - model.best_score_ if balanced else -model.best_score_
    return {"promised": loss, "promised error": error, "stated": float(stated)}


def rank(model: Any, table: Table, balanced: bool) -> float | None:
    """Spearman's correlation of the importances with the rise of the squared error of test rows.

    The error of decision values is that about ±1, as it is for the importances.
    """
    shares = getattr(model, "feature_importances_", None)
    if shares is None or len(shares) not in FEATURES:
        return None
    generator = np.random.default_rng(table.split)
    rows = generator.permutation(len(table.y_test))[:PERMUTED_ROWS]
    X = table.X_test[rows]
    y = table.y_test[rows]
    weight = class_weights(table.y)[y] if balanced else np.ones(len(y))
    labels = table.task == "classification"
    function = model.decision_function if labels else model.predict
    targets = y.reshape(-1, 1)
    if labels:
        targets = 2 * (targets == (range(table.classes) if table.classes > 2 else [1])) - 1

    def loss(X: Any) -> float:
        return float(weight @ np.sum((function(X).reshape(len(y), -1) - targets) ** 2, axis=1))

    rises = np.full(X.shape[1], -REPEATS * loss(X))
    for order in (generator.permutation(len(y)) for _ in range(REPEATS)):
        for j in range(X.shape[1]):
            changed = X.copy()
            changed[:, j] = X[order, j]
            rises[j] += loss(changed)
    rises = np.maximum(rises, 0.0)
    if np.ptp(shares) == 0 or np.ptp(rises) == 0:
        return None
    return float(spearmanr(shares, rises).statistic)


def measure(job: Job) -> Row:
    """Fit the method of a job and measure everything."""
    table = table_of(job)
    balanced = job.group == "rare"
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = X[:, 0] if table.task == "regression" else (X[:, 0] > 0).astype(int)
    fit(job.method, Table("", 0, table.task, X, y, X, y), job.group)
    begin = time.perf_counter()
    spent = time.process_time()
    fitted = fit(job.method, table, job.group)
    cpu = time.process_time() - spent
    wall = time.perf_counter() - begin
    predicted = fitted.predict(table.X_test)
    truth = table.y_test
    tested, error = loss_of(truth, predicted, table, balanced)
    record: Row = {name: getattr(job, name) for name in ("group", "name", "split", "method")}
    record |= {"task": table.task, "n": len(table.y), "d": table.X.shape[1], "n_test": len(truth)}
    record |= {"most_rows": job.rows, "most_tested": job.tested, "cpu": cpu, "wall": wall}
    record |= {"tested": tested, "tested error": error}
    record["score"] = tested if table.task == "classification" else float(np.sqrt(tested))
    if table.task == "classification":
        p = np.clip(fitted.proba(table.X_test), 1e-15, 1)
        record |= {
            "smallest class": float(np.bincount(table.y).min() / len(table.y)),
            "error": loss_of(truth, predicted, table, False)[0],
            "balanced accuracy": 1 - loss_of(truth, predicted, table, True)[0],
            "log loss": float(-np.log(p[np.arange(len(truth)), truth]).mean()),
            "ECE": calibration_error(p, truth),
        }
    if fitted.model is not None:
        record |= promise(fitted.model, table, balanced)
        record["rank"] = rank(fitted.model, table, balanced)
    return record


def perform(job: Job) -> None:
    """Measure, and write the record whole or not at all."""
    warnings.simplefilter("ignore")
    new = job.path.with_suffix(".new")
    new.write_text(json.dumps(measure(job), indent=1), "utf-8")
    new.replace(job.path)


def in_a_process(job: Job) -> str:
    """The job in a fresh process; a failure, whose trace it prints, must not end the benchmark."""
    begin = time.perf_counter()
    process = multiprocessing.get_context("spawn").Process(target=perform, args=(job,), daemon=True)
    process.start()
    process.join()
    ended = "" if process.exitcode == 0 else f"FAILED ({process.exitcode}) after "
    return f"{job.path.stem}: {ended}{time.perf_counter() - begin:.1f} s"


def run(jobs: Sequence[Job], workers: int) -> None:
    """The jobs that have no record yet, side by side."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):  # processes inherit it before NumPy
        os.environ[f"{name}_NUM_THREADS"] = "1"
    left = [job for job in jobs if not job.done()]
    print(f"{len(jobs) - len(left)} of {len(jobs)} jobs are done", flush=True)
    with ThreadPoolExecutor(workers) as pool:
        for line in pool.map(in_a_process, left):
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables (%(default)s)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rows", type=int, default=ROWS, help="to train with, at most (%(default)s)")
    parser.add_argument("--tested", type=int, default=TESTED, help="to test on, at most (%(default)s)")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--tables", help="abalone,rare/spambase, say (all); or groups")
    parser.add_argument("--methods", default=",".join(METHODS), help="%(default)s")
    options = parser.parse_args()
    if options.what == "run":
        options.folder.mkdir(parents=True, exist_ok=True)
        wanted = options.tables.split(",") if options.tables else list(GROUPS)
        tables = [
            (group, name)
            for group, names in GROUPS.items()
            for name in present(
                [n for n in names if {n, group, f"{group}/{n}"} & set(wanted)], options.data
            )
        ]
        methods = options.methods.split(",")
        for method in [m for m in methods if find_spec(METHODS[m]) is None]:
            print(f"skipped {method}: it is not installed")
            methods.remove(method)
        sizes = (options.folder, options.data, options.rows, options.tested)
        jobs = [
            Job(*table, split, method, *sizes)
            for split in range(options.splits)
            for table in tables
            for method in methods
        ]
        run(jobs, options.workers)
    report(options.folder)


if __name__ == "__main__":
    main()
