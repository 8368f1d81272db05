"""``onefold demo``: the main job on data that comes with scikit-learn."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits, make_friedman1
from sklearn.model_selection import train_test_split

from onefold.cli.output import outputs_in, staged_results, write_results
from onefold.cli.report import write_page
from onefold.cli.terminal import Progress, command_line
from onefold.facts.ran import blend_lines, importance_lines, parameter_lines
from onefold.facts.words import aligned, percent
from onefold.tables import TableModel
from onefold.tuning import tune_table, tuning

_ROWS = 600  # to tune on: few enough for seconds, and for a good choice to tell
_FRIEDMAN = (400, 2000)  # rows to tune on and to test on


def run_demo(arguments: argparse.Namespace) -> None:
    """Run the command."""
    # The default directory belongs to the demo; anybody else's files need --force.
    directory: Path = arguments.out or Path("onefold-demo")
    outputs = outputs_in(directory, arguments.force or arguments.out is None)
    digits: Any = load_digits()
    table = _table(digits.data, digits.feature_names, digits.target.astype(str))
    places = train_test_split(
        np.arange(len(table)), train_size=_ROWS, stratify=digits.target, random_state=0
    )
    train, test = (table.take(np.sort(rows)) for rows in places)
    with staged_results(directory) as stage, tuning(train, "y") as job:
        with Progress(sys.stderr, "error") as progress:
            model = job.run(progress)
        write_results(model, stage)
    no_page = write_page(model, train, directory)
    print("Handwritten digits, 8 × 8 pixels, classes 0 to 9")
    _compare(model, train, test)
    print("Wrote this model:", ", ".join(str(path) for path in outputs if path.is_file()))
    print(f"Inspect it with: {command_line('inspect', str(outputs[0]))}")
    if no_page:
        print(f"onefold: no report.html: {no_page}", file=sys.stderr)
    n_train, n_test = _FRIEDMAN
    X, y = make_friedman1(n_train + n_test, n_features=10, noise=1.0, random_state=0)
    table = _table(X, [f"x{j + 1}" for j in range(10)], y)
    print("\nFriedman's function: ten columns, only x1 to x5 matter, noise with standard deviation 1")
    _compare(tune_table(table[:n_train], "y"), table[:n_train], table[n_train:])


def _table(X: np.ndarray, names: Any, y: np.ndarray) -> pa.Table:
    return pa.table({str(name): X[:, j] for j, name in enumerate(names)} | {"y": y})


def _compare(model: TableModel, train: pa.Table, test: pa.Table) -> None:
    """What was chosen, and how it predicts other rows than it was tuned on, next to the plain search."""
    plain = tune_table(train, "y", simple=True)
    truth = test["y"].to_numpy()
    lines = [*parameter_lines(model.best_params_), *blend_lines(model.report_)]
    lines += [("importance", " ".join(one)) for one in importance_lines(model.report_["importances"])]
    print(f"tuned on {len(train)} rows", *aligned(lines), f"tested on {len(test)} other rows", sep="\n")
    names = ("onefold, kernels, metrics and blend", "onefold, plain search (--simple)")
    for name, one in zip(names, (model, plain)):
        predicted = one.predict(test)
        if one.task == "classification":
            right = predicted == truth
            words = f"{percent(float(right.mean()))} correct, {int((~right).sum())} wrong"
        else:
            words = f"RMSE {np.sqrt(np.mean((predicted - truth) ** 2)):.3f}"
        print(f"  {name:<35}  {words}, tuned in {one.report_['seconds']:.1f} s")
