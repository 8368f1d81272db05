"""Write small model files of this version for later versions to load: tests/saving/data.

    python -m tests.tools.keep_models

Beside each file lies a JSON file with rows, what the model predicts for them and the size of the terms
that a value is a sum of, which bounds its rounding. Files that are there already are never overwritten:
a release adds its own, and those of earlier releases stay.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import onefold
from onefold import LSSVCCV, TableClassifier, TableRegressor
from onefold.saving.file import term_size

DATA = Path(__file__).parents[1] / "saving" / "data"
METHODS: dict[str, tuple[Any, ...]] = {
    "predict": (), "decision_function": (), "predict_proba": (), "predict_interval": (0.8,),
}  # fmt: skip


class Kept(NamedTuple):
    """A fitted model and rows to predict, as lists: by column for a model of tables."""

    model: Any
    rows: Any


def as_given(rows: Any) -> Any:
    """Rows from a JSON file as `predict` takes them."""
    return pa.table(rows) if isinstance(rows, dict) else np.array(rows)


def answers(model: Any, rows: Any) -> dict[str, list[Any]]:
    """What each method of the model says."""
    given = as_given(rows)
    return {
        method: np.asarray(getattr(model, method)(given, *arguments)).tolist()
        for method, arguments in METHODS.items()
        if hasattr(model, method)
    }


def columns(n: int) -> dict[str, list[Any]]:
    """A column of every kind, by a rule: numbers, categories, dates, booleans and missing values."""
    i = np.arange(n)
    return {
        "area": [None if k % 17 == 3 else float(v) for k, v in enumerate(60 + 40 * np.sin(1.7 * i))],
        "rooms": (1 + i * 7 % 5).tolist(),
        "district": [("harbour", "hill", "old town", None)[k] for k in (i * i % 7 % 4).tolist()],
        "garden": (i % 3 == 0).tolist(),
        "sold": [f"20{10 + k % 9}-{1 + k * 5 % 12:02d}-{1 + k * 11 % 28:02d}" for k in i.tolist()],
    }


def table(model: Any, n: int = 60) -> Kept:
    """A model of a table whose target follows from its columns."""
    given = columns(n)
    price = [
        3.0 * (area or 60.0) + 20.0 * rooms + 15.0 * (district == "harbour") + 5.0 * garden
        for area, rooms, district, garden in zip(*list(given.values())[:4], strict=True)
    ]
    named = ["dear" if one > np.median(price) else "cheap" for one in price]
    y = named if isinstance(model, TableClassifier) else price
    return Kept(model.fit(pa.table(given), y), {name: held[-12:] for name, held in columns(70).items()})


def blend() -> Kept:
    """Three kernels, each with a metric, in one blend, for three classes."""
    i = np.arange(100)
    X = np.column_stack([np.sin(1.3 * i), np.cos(2.1 * i), np.sin(0.37 * i * i), np.cos(5.0 * i)])
    score = X[:, 0] + 0.5 * np.abs(X[:, 1]) - X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.2 * np.sin(11.0 * i)
    y = np.array(["low", "middle", "high"])[np.digitize(score, [-0.2, 0.6])]
    settings: dict[str, Any] = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1, 1.0], "cv": 3}
    kernels = ["rbf", "laplacian", "matern"]
    model = LSSVCCV(kernel=kernels, metric="diagonal", blend=True, random_state=0, **settings)
    return Kept(model.fit(X[:90], y[:90]), X[90:].tolist())


MODELS: dict[str, Callable[[], Kept]] = {
    "table-regressor": lambda: table(TableRegressor(simple=True, cv=3)),
    "table-classifier": lambda: table(TableClassifier(simple=True, cv=3)),
    "blend": blend,
}


def main() -> int:
    """Write the files, or none of them if one is there."""
    paths = {name: DATA / f"{name}-{onefold.__version__}.onefold" for name in MODELS}
    there = [path.name for path in paths.values() if path.exists()]
    if there:
        print(f"{', '.join(there)} exist already and are never overwritten", file=sys.stderr)
        return 1
    DATA.mkdir(exist_ok=True)
    for name, path in paths.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, rows = MODELS[name]()
        onefold.save(model, path)
        content = {"rows": rows, "size": term_size(model), "answers": answers(model, rows)}
        path.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
