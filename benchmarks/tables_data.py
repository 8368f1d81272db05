"""The real tables of the benchmarks: which, their splits, and the preparation all methods share.

A file `NAME.npz` holds X and y. It may hold only the rows that the benchmark uses: then
`bench_train_idx` and `bench_test_idx` (splits × size) name them, and are taken instead of a draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MOST_ROWS = 8000  # of the training part, and of the test part

REGRESSION = [
    "boston",
    "energy_shootout_A",
    "energydata_appliances",
    "household_power_hourly",
    "bike_hourly",
    "california_housing",
    "abalone",
    "cpu_act",
    "cpusmall",
    "electrical_grid",
    "uci_airfoil",
    "uci_concrete",
    "uci_elevators",
    "uci_energy",
    "uci_kin40k",
    "uci_parkinsons",
    "uci_pol",
    "uci_protein",
    "uci_skillcraft",
    "uci_sml",
    "uci_tamielectric",
    "uci_wine",
]
CLASSIFICATION = [
    "ida_banana",
    "ida_diabetis",
    "ida_flare_solar",
    "ida_german",
    "ida_image",
    "ida_splice",
    "ida_titanic",
    "ida_twonorm",
    "ida_waveform",
    "ripley_synth",
    "spambase",
    "letter",
    "shuttle",
    "elec2",
    "covtype",
    "a9a_adult",
    "ijcnn1",
    "w8a",
]
TASKS = dict.fromkeys(REGRESSION, "regression") | dict.fromkeys(CLASSIFICATION, "classification")

LEFT_OUT = {
    "mcycle": "a series of one input, 133 rows",
    "co2_maunaloa_weekly": "a series of one input: random rows lie between their neighbours",
    "mnist": "images",
    "cbcl_faces": "images",
    "daimler_mini": "images",
    **dict.fromkeys(
        ["ida_breast_cancer", "ida_heart", "ida_thyroid", "ionosphere", "uci_autompg", "uci_yacht"],
        "fewer than 500 rows",
    ),
}

# Columns that all but state the target.
GIVEN_AWAY = {
    "household_power_hourly": ["Global_intensity", "Sub_metering_1", "Sub_metering_2", "Sub_metering_3"]
}

CAUTIONS = {
    "elec2 energydata_appliances household_power_hourly bike_hourly energy_shootout_A uci_sml": (
        "time series: random test rows are easier to predict than the future"
    ),
    "uci_parkinsons": "several rows per patient: random splits leak them",
    "cpusmall": "the rows of cpu_act with 12 of its 21 columns",
    "energy_shootout_A": "the first of three targets",
    "uci_tamielectric": "the features hardly predict the target: a constant has an error of 1",
}


@dataclass(frozen=True)
class Table:
    """One prepared split: classes are 0, 1, …; a class that training lacks is -1 in the test part."""

    name: str
    split: int
    task: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1 if self.task == "classification" else 0

    def score(self, prediction: Any) -> float:
        """Test RMSE in deviations of the training targets, or the share of wrong labels."""
        prediction = np.asarray(prediction).reshape(len(self.y_test))
        if self.task == "classification":
            return float(np.mean(prediction != self.y_test))
        return float(np.sqrt(np.mean((prediction - self.y_test) ** 2)))


def draw(n: int, split: int) -> tuple[Any, Any]:
    """The rows of a random split: a quarter for the test, both parts of MOST_ROWS at most."""
    order = np.random.default_rng(split).permutation(n)
    test = min(n // 4, MOST_ROWS)
    return order[test : test + MOST_ROWS], order[:test]


def load(name: str, split: int, data: Path) -> Table:
    """One split of a table, prepared."""
    with np.load(data / f"{name}.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    X = arrays["X"]
    y = arrays["y"]
    if "bench_train_idx" in arrays:
        train = arrays["bench_train_idx"][split]
        test = arrays["bench_test_idx"][split]
    else:
        train, test = draw(len(X), split)
    if name in GIVEN_AWAY:
        X = X[:, ~np.isin(arrays["feature_names"], GIVEN_AWAY[name])]
    y = y[:, 0] if y.ndim == 2 else y
    return Table(name, split, TASKS[name], *prepared(X, y, train, test, TASKS[name] == "classification"))


def prepared(X: Any, y: Any, train: Any, test: Any, labels: bool) -> tuple[Any, Any, Any, Any]:
    """Rows and targets to train with, and to test on: standardised, labels as numbers from 0."""
    y_train, y_test = (encode if labels else rescale)(y[train], y[test])
    rows, rows_test = standardise(X[train].astype(float), X[test].astype(float))
    return rows, y_train, rows_test, y_test


def small_split(
    path: Path, seed: int, labels: bool, most: int, tested: int, rarest: int = 0
) -> tuple[Any, Any, Any, Any]:
    """Rows and targets of a random split, prepared: to train with, and to test on.

    Classes that have fewer than `rarest` training rows are in neither part.
    """
    with np.load(path) as stored:
        X = stored["X"]
        y = stored["y"].reshape(len(stored["X"]), -1)[:, 0]
    order = np.random.default_rng(seed).permutation(len(y))
    size = min(most, 3 * len(y) // 4)
    train = order[:size]
    test = order[size : size + tested]
    if labels and rarest:
        known, counts = np.unique(y[train], return_counts=True)
        train = train[np.isin(y[train], known[counts >= rarest])]
        test = test[np.isin(y[test], known[counts >= rarest])]
    return prepared(X, y, train, test, labels)


def standardise(X: Any, X_test: Any) -> tuple[Any, Any]:
    """(x − mean) / deviation by the training rows; 0/1 columns stay, constant ones are dropped."""
    kept = X.min(axis=0) < X.max(axis=0)
    X = X[:, kept]
    X_test = X_test[:, kept]
    indicator = np.all((X == 0) | (X == 1), axis=0)
    mean = np.where(indicator, 0.0, X.mean(axis=0))
    deviation = np.where(indicator, 1.0, X.std(axis=0))
    return (X - mean) / deviation, (X_test - mean) / deviation


def rescale(y: Any, y_test: Any) -> tuple[Any, Any]:
    """(y − mean) / deviation by the training rows."""
    mean = y.mean()
    deviation = y.std()
    return (y - mean) / deviation, (y_test - mean) / deviation


def encode(y: Any, y_test: Any) -> tuple[Any, Any]:
    """Labels as places in the training part's sorted classes; -1 for one that it lacks."""
    classes, labels = np.unique(y, return_inverse=True)
    found = np.searchsorted(classes, y_test).clip(max=len(classes) - 1)
    return labels, np.where(classes[found] == y_test, found, -1)


def present(names: list[str], data: Path) -> Iterator[str]:
    """The tables that are there; the others are said to be skipped."""
    for name in names:
        if (data / f"{name}.npz").exists():
            yield name
        else:
            print(f"skipped {name}: {data / name}.npz is not there")
