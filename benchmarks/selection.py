"""Ways to search against the full grid: time as a ratio, and the test error of what they choose.

    python -m benchmarks.selection [exact] [basis] [tables] [--quick]

Without names, everything runs. Ratios are taken in one process, the methods taking turns, and are the
median over the turns. They are of processor time, which other work on the machine hardly changes; those
by the clock stand beside them. Set ONEFOLD_DATA to where the tables lie.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import wilcoxon
from sklearn.datasets import make_regression
from sklearn.kernel_approximation import Nystroem as ReferenceNystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.basis import surface
from benchmarks.common import DATA, Parts, Row, run_parts, seconds
from benchmarks.exact import workload
from benchmarks.tables_data import TASKS, Table, load, present
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Nystroem

METHODS = ("halving",)
ROWS = 1000  # of the training part of a table


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Processor time and wall time of one call."""
    start = time.process_time()
    wall = seconds(function)
    return time.process_time() - start, wall


def turns(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """The times (turns, 2) of each function, all of them taking turns."""
    times: dict[str, Any] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(timed(function))
    return {name: np.array(found) for name, found in times.items()}


def waves(n: int) -> tuple[Any, Any]:
    """A sine, a product and noise in eight features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def plane(n: int) -> tuple[Any, Any]:
    """A linear function and noise: the widest kernels are all as good."""
    X, y = make_regression(n, 10, noise=10.0, random_state=0)
    return X, y / y.std()


def exact(quick: bool) -> list[Row]:
    """13 × 11 × 5 on the exact machine."""
    n, repeats = (400, 1) if quick else (1300, 2)
    rng = np.random.default_rng(1)
    tasks: dict[str, tuple[Any, Any, Any]] = {
        "sine and product, d = 8": (LSSVRCV, *waves(n)),
        "linear, d = 10": (LSSVRCV, *plane(n)),
        "pure noise, d = 5": (LSSVRCV, rng.standard_normal((n, 5)), rng.standard_normal(n)),
        "two classes, d = 18": (LSSVCCV, *workload(n)),
    }
    rows = []
    for what, (kind, X, y) in tasks.items():
        rows += _against_grid(what, lambda search, k=kind, X=X, y=y: k(search=search).fit(X, y), repeats)
    return rows


def _against_grid(what: str, fit: Callable[[str], Any], repeats: int) -> list[Row]:
    """Time over the grid's, and the score over the grid's best."""
    fitted: dict[str, Any] = {}

    def run(search: str) -> Callable[[], None]:
        return lambda: fitted.update({search: fit(search)})

    times = turns({search: run(search) for search in ("grid", *METHODS)}, repeats)
    grid = fitted["grid"]
    return [
        {
            "task": what,
            "method": method,
            "grid, s": float(np.median(times["grid"][:, 0])),
            "method, s": float(np.median(times[method][:, 0])),
            "ratio": float(np.median(times[method][:, 0] / times["grid"][:, 0])),
            "by the clock": float(np.median(times[method][:, 1] / times["grid"][:, 1])),
            "stages": stages(fitted[method].search_),
            "same cell": "yes" if fitted[method].best_params_ == grid.best_params_ else "no",
            "score / grid's": float(fitted[method].best_score_ / grid.best_score_),
        }
        for method in METHODS
    ]


def stages(record: dict[str, Any]) -> str:
    """How many candidates on how many rows."""
    pairs = zip(record["n_candidates"], record["n_resources"])
    return " → ".join(f"{candidates} on {rows}" for candidates, rows in pairs)


def basis(quick: bool) -> list[Row]:
    """13 × 11 × 5 with landmarks on float32 rows, beside one Nystroem + Ridge of scikit-learn."""
    n, m, repeats = (20_000, 200, 1) if quick else (500_000, 1000, 1)
    X, y = surface(n)
    peer = make_pipeline(ReferenceNystroem(n_components=m, gamma=0.02, random_state=0), Ridge(1.0))
    peer_seconds = timed(lambda: peer.fit(X, y))[0]
    rows = _against_grid(
        f"n = {n}, d = 20, m = {m}",
        lambda search: LSSVRCV(search=search, approximation=Nystroem(m)).fit(X, y),
        repeats,
    )
    for row in rows:
        row["one Nystroem + Ridge, s"] = peer_seconds
    return rows


def tables(quick: bool) -> list[Row]:
    """The test error of what is chosen on real tables, over that of the full grid's choice."""
    rows = []
    names = list(present(list(TASKS), DATA))
    for name in names[:3] if quick else names:
        rows += _of_table(_smaller(load(name, 0, DATA), 300 if quick else ROWS))
    of_method = [[row for row in rows if row["method"] == method] for method in METHODS]
    return rows + [_summary(found) for found in of_method if found]


def _smaller(table: Table, rows: int) -> Table:
    """The same with few training rows, prepared anew: a rare class may be gone."""
    keep = np.random.default_rng(0).permutation(len(table.y))[:rows]
    scaler = StandardScaler().fit(table.X[keep])
    X = scaler.transform(table.X[keep])
    X_test = scaler.transform(table.X_test)
    return Table(table.name, table.split, table.task, X, table.y[keep], X_test, table.y_test)


def _of_table(table: Table) -> list[Row]:
    kind = LSSVRCV if table.task == "regression" else LSSVCCV
    fitted = {}
    times = {}
    for search in ("grid", *METHODS):
        model = kind(search=search)
        times[search], _ = timed(lambda model=model: model.fit(table.X, table.y))
        fitted[search] = model
    errors = {search: table.score(model.predict(table.X_test)) for search, model in fitted.items()}
    return [
        {
            "table": table.name,
            "rows": len(table.y),
            "method": method,
            "grid's test error": errors["grid"],
            "test error": errors[method],
            "time ratio": times[method] / times["grid"],
            "same cell": fitted[method].best_params_ == fitted["grid"].best_params_,
            "score / grid's": fitted[method].best_score_ / fitted["grid"].best_score_,
        }
        for method in METHODS
    ]


def _summary(rows: list[Row]) -> Row:
    """Over all tables: the geometric mean of the ratios, and Wilcoxon's test of their logarithms."""
    logs = np.log([max(row["test error"], 1e-12) for row in rows])
    logs -= np.log([max(row["grid's test error"], 1e-12) for row in rows])
    p = float(wilcoxon(logs, alternative="greater").pvalue) if np.any(logs != 0) else 1.0
    better = int(np.sum(logs < 0))
    worse = int(np.sum(logs > 0))
    return {
        "table": f"{len(rows)} tables: better {better}, equal {len(rows) - better - worse}, "
        f"worse {worse}; geometric mean of the ratios {np.exp(logs.mean()):.4f}, greatest "
        f"{np.exp(logs.max()):.3f}; p that it is worse {p:.2f}",
        "method": rows[0]["method"],
        "time ratio": float(np.median([row["time ratio"] for row in rows])),
        "same cell": f"{sum(row['same cell'] for row in rows)} of {len(rows)}",
    }


PARTS: Parts = {
    "exact": ("13 × 11 × 5 on the exact machine: time over the full grid's", exact),
    "basis": ("13 × 11 × 5 with landmarks: time over the full grid's", basis),
    "tables": ("Test error of the chosen cell on real tables", tables),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the grid's ends
    run_parts("selection", __doc__, PARTS)
