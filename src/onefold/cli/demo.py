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
from onefold.facts.measures import MEASURES, number
from onefold.facts.summary import blend_lines, importance_lines, parameter_lines
from onefold.facts.words import aligned
from onefold.tables import TableModel
from onefold.tuning import tune_table, tuning

# Rows of the digits to tune on: few enough for seconds, and for a good choice to make a difference.
_DIGITS_ROWS = 600
# Rows of Friedman's function to tune on.
_FRIEDMAN_ROWS = 400
# Rows of Friedman's function to test on: enough for an error to be known to a few per cent.
_FRIEDMAN_TEST_ROWS = 2000


def run_demo(arguments: argparse.Namespace) -> None:
    """Run the command."""
    # The default directory belongs to the demo; files in any other need --force.
    directory: Path = arguments.out or Path("onefold-demo")
    outputs = outputs_in(directory, arguments.force or arguments.out is None)
    digits: Any = load_digits()
    table = _table(digits.data, digits.feature_names, digits.target.astype(str))
    train_rows, test_rows = train_test_split(
        np.arange(len(table)), train_size=_DIGITS_ROWS, stratify=digits.target, random_state=0
    )
    train = table.take(np.sort(train_rows))
    test = table.take(np.sort(test_rows))
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
    rows = _FRIEDMAN_ROWS + _FRIEDMAN_TEST_ROWS
    X, y = make_friedman1(rows, n_features=10, noise=1.0, random_state=0)
    table = _table(X, [f"x{j + 1}" for j in range(10)], y)
    print("\nFriedman's function: ten columns, only x1 to x5 matter, noise with standard deviation 1")
    train = table[:_FRIEDMAN_ROWS]
    _compare(tune_table(train, "y"), train, table[_FRIEDMAN_ROWS:])


def _table(X: np.ndarray, names: Any, y: np.ndarray) -> pa.Table:
    return pa.table({str(name): X[:, j] for j, name in enumerate(names)} | {"y": y})


def _compare(model: TableModel, train: pa.Table, test: pa.Table) -> None:
    """Print the choice and its test score, next to those of the plain search."""
    simple = tune_table(train, "y", simple=True)
    lines = [*parameter_lines(model.best_params_), *blend_lines(model.estimator_)]
    lines += [("importance", " ".join(line)) for line in importance_lines(model.report_["importances"])]
    print(f"tuned on {len(train)} rows", *aligned(lines), f"tested on {len(test)} other rows", sep="\n")
    for name, tuned in (
        ("onefold, kernels, metrics and blend", model),
        ("onefold, plain search (--simple)", simple),
    ):
        words = _test_words(tuned, test)
        print(f"  {name:<35}  {words}, tuned in {tuned.report_['seconds']:.1f} s")


def _test_words(model: TableModel, test: pa.Table) -> str:
    """The score of a model on test rows."""
    target = test["y"].to_numpy()
    predicted = model.predict(test)
    if model.task == "classification":
        correct = predicted == target
        return f"{number('accuracy', float(correct.mean()))} correct, {int((~correct).sum())} wrong"
    error = np.sqrt(np.mean((predicted - target) ** 2))
    return f"{MEASURES['rmse'].label} {number('rmse', float(error))}"
