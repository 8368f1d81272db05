"""``onefold demo``: the main job on data that comes with scikit-learn."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits, make_friedman1
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from onefold.cli.output import (
    MODEL_NAME,
    OUTPUT_NAMES,
    RESULT_NAMES,
    command_line,
    refuse_existing,
    staged_directory,
    write_page,
    write_results,
)
from onefold.cli.progress import Progress
from onefold.facts.criteria import score_words
from onefold.facts.ran import blend_lines, importance_lines, parameter_lines
from onefold.facts.words import aligned, percent
from onefold.tuning import tune_table, tuning

_ROWS = 600  # to tune on: few enough for seconds, and for a good choice to tell
_FRIEDMAN = (400, 2000)  # rows to tune on and to test on
_OWN = "onefold, kernels, metrics and blend"
_PLAIN = "onefold, plain search (--simple)"


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    # The default directory belongs to the demo; anybody else's files need --force.
    directory: Path = arguments.out or Path("onefold-demo")
    force = arguments.force or arguments.out is None
    refuse_existing([directory / name for name in OUTPUT_NAMES], force)
    data: Any = load_digits()
    table = _table(data.data, data.feature_names, "digit", data.target.astype(str))
    train, test = (
        table.take(np.sort(rows))
        for rows in train_test_split(
            np.arange(len(table)), train_size=_ROWS, stratify=data.target, random_state=0
        )
    )
    plain = tune_table(train, "digit", simple=True)
    with staged_directory(directory, RESULT_NAMES) as stage, tuning(train, "digit") as job:
        with Progress(sys.stderr, partial(score_words, "error")) as progress:
            model = job.run(progress)
        write_results(model, stage)
    no_page = write_page(model, train, directory)
    report, y = model.report_, test["digit"].to_numpy()
    scores = []
    for name, one in {_OWN: model, _PLAIN: plain}.items():
        share = float(np.mean(one.predict(test) == y))
        scores.append((name, f"{_accuracy(share, len(y))}, tuned in {one.report_['seconds']:.1f} s"))
    for name, other in {
        "scikit-learn SVC, defaults": SVC(),
        "scikit-learn LogisticRegression, defaults": LogisticRegression(),
        "baseline: the most frequent class": DummyClassifier(),
    }.items():
        fitted = other.fit(model.matrix(train), train["digit"].to_numpy())
        scores.append((name, _accuracy(float(fitted.score(model.matrix(test), y)), len(y))))
    facts = [
        ("tuned on", f"{report['rows']} rows, {report['features']} features"),
        ("search", f"{report['candidates']} candidates, {report['cv']} cross-validation"),
        *parameter_lines(model.estimator_.best_params_),
        *blend_lines(report),
    ]
    print("Handwritten digits, 8 × 8 pixels: which of 0 to 9?", *aligned(facts), "", sep="\n")
    print(f"Accuracy on {len(y)} held-out rows", *aligned(scores), sep="\n")
    _friedman()
    print(f"\nWrote {directory / 'model.onefold'} and {directory / 'search.csv'}")
    if no_page:
        print(f"onefold: no report.html: {no_page}", file=sys.stderr)
    else:
        print(f"A page about the model, with pictures, is {directory / 'report.html'}")
    print(f"Look at the model with: {command_line('inspect', str(directory / MODEL_NAME))}")


def _table(X: np.ndarray, names: Any, target: str, y: np.ndarray) -> pa.Table:
    return pa.table({str(name): X[:, j] for j, name in enumerate(names)} | {target: y})


def _accuracy(share: float, rows: int) -> str:
    return f"{percent(share)}, {round((1 - share) * rows)} wrong"


def _friedman() -> None:
    """The same two searches where it is known what matters: Friedman's function of five columns."""
    n_train, n_test = _FRIEDMAN
    X, y = make_friedman1(n_train + n_test, n_features=10, noise=1.0, random_state=0)
    table = _table(X, [f"x{j + 1}" for j in range(10)], "y", y)
    scores = []
    for name, simple in {_OWN: False, _PLAIN: True}.items():
        model = tune_table(table[:n_train], "y", simple=simple)
        rmse = float(np.sqrt(np.mean((model.predict(table[n_train:]) - y[n_train:]) ** 2)))
        scores.append((name, f"RMSE {rmse:.3f}, tuned in {model.report_['seconds']:.1f} s"))
        shares = [
            f"{column} {share}" for column, share in importance_lines(model.report_["importances"])
        ]
        if shares:
            scores.append(("importance of the columns", ", ".join(shares)))
    print("\nFriedman's function, ten columns of which x1 to x5 matter, noise of deviation 1:")
    print(f"tuned on {n_train} rows, tested on {n_test}", *aligned(scores), sep="\n")
