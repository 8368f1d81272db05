"""Which rows, which methods: the three jobs with given grids, forty tables, and large tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers import kernels, methods
from benchmarks.peers.environments import OWN
from benchmarks.peers.methods import Fitted, Options
from benchmarks.tables_data import TASKS, Table, encode, load, prepared

SMALL = 5000
SPLITS = 3  # tables with fewer rows have so many splits, others one
GRID_ROWS = 2000  # training rows of scikit-learn's grids on tables, at most
TESTED = 20_000
TRAINED = 0.8  # of large tables: test rows at most; the share of the rows before them

# Name: file, task, training rows.
BIG: dict[str, tuple[str, str, int]] = {
    "bike": ("bike_hourly", "regression", 13_903),
    "california": ("california_housing", "regression", 16_512),
    "letter": ("letter", "classification", 16_000),
    "kin40k": ("uci_kin40k", "regression", 32_000),
    "protein": ("uci_protein", "regression", 36_584),
    "mnist": ("mnist", "classification", 56_000),
    "covtype_60000": ("covtype", "classification", 60_000),
    "covtype_100000": ("covtype", "classification", 100_000),
    "covtype_464809": ("covtype", "classification", 464_809),
}
# Rows to train with and to test on of the jobs (b) and (c).
SURFACES = {"medium": (10_000, 5000), "medium_20000": (20_000, 5000), "large": (500_000, 50_000)}
JOBS = {"small": ("small",), "medium": ("medium", "medium_20000"), "large": ("large",)}
JOBS |= {"tables": tuple(TASKS), "big": tuple(BIG)}


@dataclass(frozen=True)
class Method:
    """A function, the environment it runs in, its jobs, and about its seconds at 8000 rows."""

    function: Callable[[Table, Options], Fitted]
    environment: str
    jobs: tuple[str, ...]
    cost: float = 1.0
    on_device: bool = False


METHODS = {
    "onefold": Method(methods.onefold_default, OWN, ("tables", "big"), 80, on_device=True),
    "onefold-plain": Method(methods.onefold, OWN, ("tables",), 40, on_device=True),
    "lightgbm": Method(methods.lightgbm, "lightgbm", ("tables", "big"), 60),
    "catboost": Method(methods.catboost, "catboost", ("tables",), 60),
    "histgb": Method(methods.histgb, "scikit-learn", ("tables",), 4),
    "xrfm": Method(methods.xrfm, "xrfm", ("tables", "big"), 50, on_device=True),
    "xrfm-default": Method(methods.xrfm_default, "xrfm", ("tables",), 10, on_device=True),
    "neo-ls-svm": Method(methods.neo_ls_svm, "neo-ls-svm", ("tables", "medium", "large"), 20),
    "grid": Method(methods.grid, "scikit-learn", ("tables",), 100),
    "mapie": Method(methods.mapie, "mapie", ("tables",), 10),
    # (a)
    "onefold grid": Method(kernels.onefold_grid, OWN, ("small",)),
    "KernelRidge grid": Method(kernels.kernel_ridge_grid, "scikit-learn", ("small",)),
    "SVC grid": Method(kernels.svc_grid, "scikit-learn", ("small",)),
    "SVC grid (intelex)": Method(kernels.svc_grid_intelex, "scikit-learn-intelex", ("small",)),
    "Nystroem + RidgeCV": Method(kernels.nystroem_grid, "scikit-learn", ("small",)),
    "himalaya grid": Method(kernels.himalaya_grid, "himalaya", ("small",)),
    "GPyTorch (100 steps)": Method(kernels.gpytorch_grid, "gpytorch", ("small",)),
    # (b)
    "onefold exact": Method(kernels.onefold_fit, OWN, ("medium",)),
    "onefold (2000 centres)": Method(kernels.onefold_medium, OWN, ("medium",)),
    "KernelRidge": Method(kernels.kernel_ridge, "scikit-learn", ("medium",)),
    "Nystroem(2000) + Ridge": Method(kernels.nystroem_medium, "scikit-learn", ("medium",)),
    "SVR": Method(kernels.svr, "scikit-learn", ("medium",)),
    "SVR (intelex)": Method(kernels.svr_intelex, "scikit-learn-intelex", ("medium",)),
    "himalaya": Method(kernels.himalaya_fit, "himalaya", ("medium",)),
    "GPyTorch exact": Method(kernels.gpytorch_fit, "gpytorch", ("medium",)),
    # (c)
    "onefold (1000 centres)": Method(kernels.onefold_large, OWN, ("large",)),
    "Nystroem(1000) + Ridge": Method(kernels.nystroem_large, "scikit-learn", ("large",)),
}
AT_20000 = ("onefold exact", "KernelRidge")  # the two that show what happens there


def rows_of(job: str, table: str, split: int, data: Path) -> Table:
    """The prepared rows of a job, the same for every method."""
    if job == "tables":
        return load(table, split, data)
    if job == "big":
        return big_table(table, data)
    return small_table() if job == "small" else surface(table)


def small_table() -> Table:
    """1300 rows of two classes, all of which are trained on: its score is that of the five folds."""
    from sklearn.datasets import make_classification

    X, y = make_classification(1300, 18, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Table("small", 0, "classification", X, y, X, y)


def surface(name: str) -> Table:
    """y = Σ_j sin(x · w_j) + 0.1 ε, 20 columns and five directions; the target is not rescaled."""
    train, test = SURFACES[name]
    W = np.random.RandomState(0).randn(20, 5) / np.sqrt(20)  # as others drew it
    generator = np.random.default_rng(0)
    X = generator.normal(size=(train + test, 20))
    y = np.sin(X @ W).sum(axis=1) + 0.1 * generator.normal(size=len(X))
    return Table(name, 0, "regression", X[:train], y[:train], X[train:], y[train:])


def big_table(name: str, data: Path) -> Table:
    """The first rows of one permutation train, those after 80 % of it test; mnist is divided by 255."""
    file, task, rows = BIG[name]
    with np.load(data / f"{file}.npz") as stored:
        X = stored["X"]
        y = stored["y"].reshape(len(stored["X"]), -1)[:, 0]
    order = np.random.default_rng(0).permutation(len(y))
    cut = int(TRAINED * len(y))
    train = order[: min(rows, cut)]
    test = order[cut:][:TESTED]
    if file == "mnist":
        y_train, y_test = encode(y[train], y[test])
        return Table(name, 0, task, X[train] / 255.0, y_train, X[test] / 255.0, y_test)
    return Table(name, 0, task, *prepared(X, y, train, test, task == "classification"))


@dataclass(frozen=True)
class Job:
    """A method on the rows of a job."""

    job: str
    table: str
    split: int
    method: str
    cost: float = 1.0

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.job, self.table, self.split, self.method


def file_of(job: str, table: str) -> str | None:
    """The file of a table; rows that are drawn have none."""
    return {"tables": table, "big": BIG[table][0] if table in BIG else ""}.get(job)


def make_jobs(job: str, tables: list[str], names: list[str], data: Path) -> list[Job]:
    """Every table, split and method that the job has, of tables the costliest first."""
    found = []
    for table in tables:
        sizes = sizes_of(table, data) if job == "tables" else (0, 0, 1)
        rows, classes, splits = sizes
        for name in names:
            method = METHODS[name]
            if job not in method.jobs or (name == "grid" and rows > GRID_ROWS):
                continue
            if (table == "medium_20000" and name not in AT_20000) or (name == "mapie" and classes):
                continue
            cost = method.cost * (rows / 8000) ** 1.5 * (1 + classes / 5)
            found += [Job(job, table, split, name, cost) for split in range(splits)]
    return sorted(found, key=lambda one: -one.cost) if job == "tables" else found


def sizes_of(table: str, data: Path) -> tuple[int, int, int]:
    """Training rows, classes (0 of numbers) and splits of a table."""
    with np.load(data / f"{table}.npz") as stored:
        y = stored["y"]
        drawn = stored.get("bench_train_idx")
    classes = len(np.unique(y)) if TASKS[table] == "classification" else 0
    if drawn is not None:
        return drawn.shape[1], classes, len(drawn)
    return min(8000, len(y) - len(y) // 4), classes, SPLITS if len(y) < SMALL else 1
