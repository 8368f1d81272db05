"""The exact machine against the LAPACK calls it cannot avoid, as ratios from one process.

    python -m benchmarks.exact [--quick] [--load] [--peers]

``--load`` keeps another process busy meanwhile; ``--peers`` adds scikit-learn's grid search.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.datasets import make_classification
from sklearn.kernel_ridge import KernelRidge as ReferenceRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.common import Row, in_turn, peak_memory, ratios, report, seconds
from onefold import LSSVCCV, LSSVR
from onefold.estimators.setup import DEFAULT_ALPHAS, DEFAULT_GAMMAS


def workload(n: int) -> tuple[Any, Any]:
    X, y = make_classification(n, 18, random_state=0)
    return StandardScaler().fit_transform(X), y


def thirteen_decompositions(matrices: list[Any]) -> None:
    with threadpool_limits(1):
        for K in matrices:
            scipy.linalg.eigh(K, driver="evd")


def whole_grid(n: int, repeats: int) -> list[Row]:
    """Every gamma and alpha, LOO and 5-fold, against thirteen single-threaded decompositions.

    A wide grid has kernel matrices whose products are subnormal numbers, on which LAPACK is ten times
    slower; the yardstick is taken with such entries set to 0.
    """
    X, y = workload(n)
    matrices = [rbf_kernel(X, gamma=gamma) for gamma in DEFAULT_GAMMAS]
    clean = [np.where(np.abs(K) < 1e-140, 0.0, K) for K in matrices]
    times = in_turn(
        {
            "13 × scipy eigh, one thread": lambda: thirteen_decompositions(clean),
            "LSSVCCV(cv='loo')": lambda: LSSVCCV(cv="loo").fit(X, y),
            "LSSVCCV(cv=5)": lambda: LSSVCCV(cv=5).fit(X, y),
        },
        repeats,
    )
    times["13 × scipy eigh, subnormal numbers kept"] = seconds(lambda: thirteen_decompositions(matrices))
    return ratios(times, "13 × scipy eigh, one thread")


def single_fit(n: int, repeats: int) -> list[Row]:
    """One fit against the kernel matrix and a bare Cholesky factorisation."""
    X, y = workload(n)
    target = y.astype(float)

    def bare() -> None:
        K = rbf_kernel(X, gamma=0.05)
        K.flat[:: n + 1] += 0.1
        scipy.linalg.cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)

    times = in_turn(
        {
            "kernel matrix + Cholesky": bare,
            "LSSVR.fit": lambda: LSSVR(gamma=0.05, alpha=0.1).fit(X, target),
        },
        repeats,
    )
    return ratios(times, "kernel matrix + Cholesky")


_MEMORY = """
import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from onefold import LSSVR, LSSVCCV
import onefold.approximations
def setup():
    X, y = make_classification({n}, 18, random_state=0)
    X = StandardScaler().fit_transform(X)
    LSSVCCV(gammas=[0.1], cv=2).fit(X[:200], y[:200])  # load what is loaded lazily
    return X, y
def run(value):
    X, y = value
    {run}
"""


def memory(n: int) -> list[Row]:
    """Peak memory in arrays of n × n float64."""
    runs = {
        "one fit": "LSSVR(gamma=0.05, alpha=0.1).fit(X, y.astype(float))",
        "LOO, 11 alphas": "LSSVCCV(gammas=[0.05], cv='loo').fit(X, y)",
        "5-fold, 11 alphas": "LSSVCCV(gammas=[0.05]).fit(X, y)",
        "5-fold, 3 alphas": "LSSVCCV(gammas=[0.05], alphas=[0.01, 0.1, 1.0]).fit(X, y)",
    }
    return [
        {"what": name, "arrays of n × n": peak_memory(_MEMORY.format(n=n, run=run)) / (8 * n * n)}
        for name, run in runs.items()
    ]


def import_time(repeats: int) -> list[Row]:
    """Importing onefold and its estimators against the two imports nobody can avoid."""

    def start(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    times = in_turn(
        {
            "import sklearn.base, scipy.linalg": lambda: start("import sklearn.base, scipy.linalg"),
            "import onefold": lambda: start("import onefold"),
            "from onefold import LSSVCCV": lambda: start("from onefold import LSSVCCV"),
        },
        repeats,
    )
    return ratios(times, "import sklearn.base, scipy.linalg")


def grid_search(n: int) -> list[Row]:
    """The same grid by refitting: scikit-learn at its best thread setting."""
    X, y = workload(n)
    target = 2.0 * y - 1.0
    grid = {"gamma": DEFAULT_GAMMAS, "alpha": DEFAULT_ALPHAS}
    search = GridSearchCV(ReferenceRidge(kernel="rbf"), grid, cv=5, n_jobs=-1)
    with threadpool_limits(1):
        theirs = seconds(lambda: search.fit(X, target))
    ours = seconds(lambda: LSSVCCV(cv=5).fit(X, y))
    return [
        {"what": "GridSearchCV(KernelRidge)", "seconds": theirs, "ratio": theirs / ours},
        {"what": "LSSVCCV(cv=5)", "seconds": ours, "ratio": 1.0},
    ]


def _spin() -> None:
    A = np.random.default_rng(0).standard_normal((300, 300))
    with threadpool_limits(1):
        while True:
            A @ A


@contextlib.contextmanager
def busy_neighbour(wanted: bool) -> Iterator[None]:
    """Another process that uses a core, if wanted."""
    if not wanted:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    parser.add_argument("--load", action="store_true", help="keep another process busy")
    parser.add_argument("--peers", action="store_true", help="also time scikit-learn's grid search")
    options = parser.parse_args()
    small, large, repeats = (400, 1000, 1) if options.quick else (1300, 8000, 5)
    suffix = "-load" if options.load else ""
    with busy_neighbour(options.load):
        rows = whole_grid(small, repeats)
        report(f"exact-grid{suffix}", f"The whole 13 × 11 grid, n = {small}, d = 18", rows)
        if options.load:
            return
        report("exact-fit", f"One fit, n = {large}", single_fit(large, min(repeats, 3)))
        report("exact-memory", f"Peak memory, n = {large}", memory(large))
        report("exact-import", "Import", import_time(repeats))
        if options.peers:
            report("exact-peers", f"The same grid by refitting, n = {small}", grid_search(small))


if __name__ == "__main__":
    main()
