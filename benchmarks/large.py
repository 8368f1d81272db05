"""Many rows by the true kernel: default fits of whole tables, and the product that they consist of.

    python -m benchmarks.large [PART…] [--device cuda] [--quick]

    fits       LSSVCCV and LSSVRCV with kernel="auto", metric="auto", blend=True: error on held-out
               rows, what was promised, seconds
    landmarks  the same with 4000 landmarks instead of the true kernel
    lightgbm   LightGBM on the same rows: 25 random settings, or as many as five minutes allow
    product    one product with the kernel matrix, next to a bare loop of matrix products and
               exponentials over the same tiles, on a host
    synthetic  a sum of five sines of 20 columns, a million rows on a GPU: conjugate gradients with a
               kernel chosen on 20,000 rows, next to landmarks with the same kernel

The tables are read from ``ONEFOLD_DATA``. Other libraries on the same rows: ``make large``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import Row, data_sets, in_turn, report
from benchmarks.peers.methods import Options
from benchmarks.peers.methods import lightgbm as lightgbm_method
from benchmarks.tables_data import Table
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import ConjugateGradients, Nystroem, Problem, Workload
from onefold.approximations.operators import HostOperator
from onefold.kernels import PowerExponential
from onefold.linalg import host_array, on_device
from onefold.machine.threads import limit_blas, map_in_order, spans

# Rows of each table that are fitted, on a host and on a GPU; None for four fifths of all.
HOST_TABLES: dict[str, list[int | None]] = {
    "covtype": [20_000, 50_000],
    "elec2": [None],
    "uci_protein": [None],
    "uci_kin40k": [None],
}
GPU_TABLES: dict[str, list[int | None]] = {
    "covtype": [100_000, 200_000, None],
    "uci_kin40k": [None],
    "uci_protein": [None],
    "bike_hourly": [None],
    "california_housing": [None],
    "letter": [None],
    "mnist": [None],
}
# Rows that errors are counted on, at most.
_TEST_ROWS = 20_000
# Seconds after which LightGBM tries no further setting.
_LIGHTGBM_SECONDS = 300.0
# Different values of a target from which it is a number.
_FEWEST_NUMBERS = 50
# Rows of a tile of the bare loop: those of the operator.
_SIDE = 1024


def standardised(data: Any, rows: int | None) -> tuple[Any, ...]:
    """Rows and targets to fit and to test on, about the mean of those that are fitted."""
    X = np.asarray(data["X"], dtype=np.float64)
    y = np.asarray(data["y"]).ravel()
    order = np.random.default_rng(0).permutation(len(y))
    most = int(0.8 * len(y))
    train = order[: min(rows or most, most)]
    test = order[most : most + _TEST_ROWS]
    mean = X[train].mean(axis=0)
    scale = X[train].std(axis=0)
    scale[scale == 0] = 1
    X = (X - mean) / scale
    if np.unique(y).size > _FEWEST_NUMBERS:
        y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def fit(data: Any, rows: int | None, device: str | None, **settings: Any) -> Row:
    """A default fit but for these settings, and how good it is."""
    X, y, X_test, y_test = standardised(data, rows)
    regression = np.unique(y).size > _FEWEST_NUMBERS
    estimator = LSSVRCV if regression else LSSVCCV
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(
            kernel="auto", metric="auto", blend=True, random_state=0, device=device, **settings
        )
        model.fit(X, y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(X_test)
    score = model.best_score_ if model.blend_score_ is None else model.blend_score_
    if regression:
        error = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
        promised = float(np.sqrt(-score))
    else:
        error = float(np.mean(predicted != y_test))
        promised = -float(score)
    used = model.approximation_["selected_with"]
    return {
        "rows": len(y),
        "error": error,
        "promised": promised,
        "seconds": seconds,
        "rows/s": len(y_test) / (time.perf_counter() - start),
        "method": used["name"],
        "iterations": max((solve["iterations"] for solve in used.get("solves", [])), default=0),
        "members": len(model.blend_ or [0]),
    }


def on_tables(method: Callable[..., Row], device: str | None, quick: bool, **settings: Any) -> list[Row]:
    """What a method reaches on every table."""
    tables = GPU_TABLES if device == "cuda" else HOST_TABLES
    results = []
    for name, data in data_sets(list(tables)):
        for rows in [6000] if quick else tables[name]:
            results.append({"table": name, **method(data, rows, device, **settings)})
            print(results[-1], flush=True)
    return results


def fits(device: str | None, quick: bool) -> list[Row]:
    return on_tables(fit, device, quick)


def landmarks(device: str | None, quick: bool) -> list[Row]:
    return on_tables(fit, device, quick, approximation=Nystroem(400 if quick else 4000))


def lightgbm_fit(data: Any, rows: int | None, device: str | None, settings: int) -> Row:
    """LightGBM with random settings: see `benchmarks.peers.methods.lightgbm`."""
    X, y, X_test, y_test = standardised(data, rows)
    task = "regression" if np.unique(y).size > _FEWEST_NUMBERS else "classification"
    if task == "classification":
        labels, y = np.unique(y, return_inverse=True)
        y_test = np.searchsorted(labels, y_test)
    table = Table("", 0, task, X, y, X_test, y_test)
    start = time.perf_counter()
    fitted = lightgbm_method(table, Options(0, 2, "cpu", _LIGHTGBM_SECONDS, settings=settings))
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    error = table.score(np.asarray(fitted.predict(X_test)))
    return {
        "rows": len(y),
        "error": error,
        "seconds": seconds,
        "rows/s": len(y_test) / (time.perf_counter() - start),
        "settings": fitted.facts["settings"],
    }


def lightgbm(device: str | None, quick: bool) -> list[Row]:
    return on_tables(lightgbm_fit, device, quick, settings=2 if quick else 25)


def product(device: str | None, quick: bool) -> list[Row]:
    """The operator against the calls that it cannot avoid, on the same threads."""
    n, d, columns = (6000, 20, 16) if quick else (30_000, 54, 16)
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    V = generator.standard_normal((n, columns))
    operator = HostOperator(PowerExponential(0.05), X, rough=True, keep=False)
    narrow = X.astype(np.float32)
    vectors = V.astype(np.float32)
    parts = list(spans(n, _SIDE))

    def block_row(i: int) -> Any:
        total = np.zeros((parts[i].stop, columns))
        tile = np.empty((parts[i].stop - parts[i].start, _SIDE), dtype=np.float32)
        for part in parts[: i + 1]:
            values = tile[:, : part.stop - part.start]
            np.matmul(narrow[parts[i]], narrow[part].T, out=values)
            np.abs(values, out=values)
            values **= 0.7
            np.negative(values, out=values)
            np.exp(values, out=values)
            total[parts[i]] += values @ vectors[part]
            total[part] += values.T @ vectors[parts[i]]
        return total

    def bare() -> None:
        with limit_blas(1):
            total = np.zeros((n, columns))
            for piece in map_in_order(block_row, reversed(range(len(parts)))):
                total[: len(piece)] += piece

    def ours() -> None:
        with limit_blas(1):
            operator.product(V)

    times = in_turn({"products, powers and exponentials alone": bare, "HostOperator": ours}, 3)
    base = times["products, powers and exponentials alone"]
    return [{"what": name, "seconds": value, "ratio": value / base} for name, value in times.items()]


def sines(n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """20 columns, and the sum of the sines of five directions with noise of 0.1."""
    W = np.random.RandomState(0).randn(20, 5) / np.sqrt(20)
    X = generator.standard_normal((n, 20))
    return X, np.sin(X @ W).sum(axis=1) + 0.1 * generator.standard_normal(n)


def synthetic(device: str | None, quick: bool) -> list[Row]:
    n = 1_000_000 if device == "cuda" and not quick else 20_000
    generator = np.random.default_rng(0)
    X, y = sines(n, generator)
    X_test, y_test = sines(20_000, generator)
    few = 20_000 if n > 20_000 else 2000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = LSSVRCV("rbf", metric="full", random_state=0, device=device).fit(X[:few], y[:few])
    kernel = chosen.expansion_.kernel
    alpha = float(chosen.alpha_)
    found = []
    place = (lambda array: on_device(array, device)) if device else np.asarray
    problem = Problem(place(X), place(y[:, None]), None, fit_intercept=True).about_its_mean()
    for approximation in (ConjugateGradients(tolerance=0.1), Nystroem(4000 if n > 20_000 else 500)):
        start = time.perf_counter()
        run = approximation.start(problem, [kernel], Workload())
        model = run.model(kernel)
        expansion = model.expansion(float(problem.ridge(alpha)))
        seconds = time.perf_counter() - start
        predicted = host_array(expansion.predict(place(X_test)))[:, 0] + problem.offset[0]
        solve = model.report.get("solves", [{}])[0]
        found.append(
            {
                "rows": n,
                "method": approximation.name,
                "rmse": float(np.sqrt(np.mean((predicted - y_test) ** 2))),
                "residual": solve.get("residual"),
                "iterations": solve.get("iterations"),
                "seconds": seconds,
            }
        )
        print(found[-1], flush=True)
    return found


PARTS = {
    "fits": ("Default fits of large tables", fits),
    "landmarks": ("The same with landmarks", landmarks),
    "lightgbm": ("LightGBM on the same rows", lightgbm),
    "product": ("A product with the kernel matrix on a host", product),
    "synthetic": ("A sum of sines", synthetic),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--device", help="cuda; by default the host")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        if name not in PARTS:
            parser.error(f"no part named {name}; there are {', '.join(PARTS)}")
        title, function = PARTS[name]
        report(f"large-{name}", title, function(options.device, options.quick))


if __name__ == "__main__":
    main()
