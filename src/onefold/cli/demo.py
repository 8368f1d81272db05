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

from onefold.cli.choice import blend_lines, importance_lines
from onefold.cli.command import command_line
from onefold.cli.files import MODEL_NAME, refuse_existing, staged_directory
from onefold.cli.progress import Progress
from onefold.cli.result_text import aligned
from onefold.cli.words import percent, score_words
from onefold.cli.writing import OUTPUT_NAMES, RESULT_NAMES, write_page, write_results
from onefold.report.ran import parameter_lines
from onefold.tables import TableModel, TableRows
from onefold.tuning import tune_table, tuning

_TARGET = "digit"
_ROWS = 600  # to tune on: few enough for seconds, and for a good choice to tell
_SEED = 0
_FRIEDMAN = (400, 2000)  # rows to tune on and to test on
_OWN = "onefold, kernels, metrics and blend"
_PLAIN = "onefold, plain search (--simple)"


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    directory: Path = arguments.out
    # The default directory belongs to the demo; anybody else's files need --force.
    own = directory == Path("onefold-demo")
    refuse_existing([directory / name for name in OUTPUT_NAMES], arguments.force or own)
    train, test = _digits()
    plain = tune_table(train, _TARGET, simple=True)
    with staged_directory(directory, RESULT_NAMES) as stage, tuning(train, _TARGET) as job:
        with Progress(sys.stderr, partial(score_words, "error")) as progress:
            model = job.run(progress)
        write_results(model, stage)
    no_page = write_page(model, train, directory)
    print(_text(model, plain, train, test))
    print(_friedman_text())
    print(f"\nWrote {directory / 'model.onefold'} and {directory / 'search.csv'}")
    if no_page:
        print(f"onefold: no report.html: {no_page}", file=sys.stderr)
    else:
        print(f"A page about the model, with pictures, is {directory / 'report.html'}")
    print(f"Look at the model with: {command_line('inspect', str(directory / MODEL_NAME))}")


def _digits() -> tuple[TableRows, TableRows]:
    """Rows to tune on, and rows to test on that tuning never sees."""
    data: Any = load_digits()
    columns = {str(name): data.data[:, j] for j, name in enumerate(data.feature_names)}
    columns[_TARGET] = data.target.astype(np.str_)
    rows = TableRows(pa.table(columns))
    train, test = train_test_split(
        np.arange(len(rows)), train_size=_ROWS, stratify=data.target, random_state=_SEED
    )
    return rows.take(np.sort(train)), rows.take(np.sort(test))


def _text(model: TableModel, plain: TableModel, train: TableRows, test: TableRows) -> str:
    report = model.report_
    facts = [
        ("tuned on", f"{report['rows']} rows, {report['features']} features"),
        ("search", f"{report['candidates']} candidates, {report['cv']} cross-validation"),
        *parameter_lines(model.estimator_.best_params_),
        *blend_lines(report),
    ]
    seconds = {_OWN: report["seconds"], _PLAIN: plain.report_["seconds"]}
    scores = []
    for name, share in _test_accuracies(model, plain, train, test):
        wrong = f"{percent(share)}, {round((1 - share) * len(test))} wrong"
        scores.append((name, wrong + (f", tuned in {seconds[name]:.1f} s" if name in seconds else "")))
    return "\n".join(
        [
            "Handwritten digits, 8 × 8 pixels: which of 0 to 9?",
            *aligned(facts),
            "",
            f"Accuracy on {len(test)} rows that tuning never saw",
            *aligned(scores),
        ]
    )


def _test_accuracies(
    model: TableModel, plain: TableModel, train: TableRows, test: TableRows
) -> list[tuple[str, float]]:
    X, X_test = (model.preparation_.transform(rows) for rows in (train, test))
    y, y_test = (np.asarray(rows.column(_TARGET).to_pylist()) for rows in (train, test))
    baselines = {
        "scikit-learn SVC, defaults": SVC(),
        "scikit-learn LogisticRegression, defaults": LogisticRegression(),
        "always the most frequent class": DummyClassifier(),
    }
    scores = [
        (name, float((own.predict(test.columns) == y_test).mean()))
        for name, own in ((_OWN, model), (_PLAIN, plain))
    ]
    return scores + [(name, float(m.fit(X, y).score(X_test, y_test))) for name, m in baselines.items()]


def _friedman_text() -> str:
    """The same two searches where it is known what matters: Friedman's function of five columns."""
    n_train, n_test = _FRIEDMAN
    X, y = make_friedman1(n_train + n_test, n_features=10, noise=1.0, random_state=_SEED)
    rows = TableRows(pa.table({f"x{j + 1}": X[:, j] for j in range(10)} | {"y": y}))
    train, test = rows.take(np.arange(n_train)), rows.take(np.arange(n_train, len(rows)))
    models = {
        _OWN: tune_table(train, "y"),
        _PLAIN: tune_table(train, "y", simple=True),
    }
    scores = []
    for name, model in models.items():
        rmse = float(np.sqrt(np.mean((model.predict(test.columns) - y[n_train:]) ** 2)))
        scores.append((name, f"RMSE {rmse:.3f}, tuned in {model.report_['seconds']:.1f} s"))
    shares = [f"{name} {share}" for name, share in importance_lines(models[_OWN].report_)]
    if shares:
        scores.append(("shares of the columns", ", ".join(shares)))
    return "\n".join(
        [
            "",
            "Friedman's function, ten columns of which x1 to x5 matter, noise of deviation 1:",
            f"tuned on {n_train} rows, tested on {n_test}",
            *aligned(scores),
        ]
    )
