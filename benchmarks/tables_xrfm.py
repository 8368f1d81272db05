"""xrfm: its default, and random settings of its authors' space, chosen by a validation part.

The package needs a validation part, which chooses the round. The default keeps that model, since it is
what a user gets. Of the random settings, the default among them, the best is fitted once more on all
rows with the round it chose, as LightGBM is. Where the rows are more than a leaf of its tree takes, each
leaf has a round of its own: then that model stays as it is.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.tables_job import Outcome, Run

VALIDATION, ROUNDS = 0.2, 5
DEFAULT = {"kernel": "l2_high_dim", "bandwidth": 10.0, "exponent": 1.0, "diag": False, "reg": 1e-3}


def draw_setting(generator: np.random.Generator) -> dict[str, Any]:
    """Width, ridge, exponent, norm (from the exponent to 2), diagonal or full metric."""
    exponent = float(generator.uniform(0.7, 1.4))
    return {
        "kernel": "lpq",
        "bandwidth": float(np.exp(generator.uniform(np.log(0.5), np.log(200)))),
        "exponent": exponent,
        "norm_p": float(generator.uniform(exponent, 2)),
        "diag": bool(generator.integers(2)),
        "reg": float(np.exp(generator.uniform(np.log(1e-6), np.log(10)))),
    }


def fit(run: Run, setting: dict[str, Any], train: Any, held: Any, rounds: int | None = None) -> Any:
    """A model of the rows `train`: the round that is best on `held`, or after `rounds` rounds."""
    import torch
    from xrfm import xRFM

    table, integer = run.table, run.table.task == "classification"
    y = table.y.astype(np.int64 if integer else np.float32)
    free = rounds is None
    model = {key: value for key, value in setting.items() if key != "reg"}
    fitting = {
        "reg": setting["reg"],
        "iters": ROUNDS if free else rounds,
        "return_best_params": free,
        "early_stop_rfm": False,
    }
    machine = xRFM(
        {"model": model | {"bandwidth_mode": "constant"}, "fit": fitting},
        device=torch.device(run.device),
        n_threads=run.threads,
        random_state=run.seed,
        verbose=False,
    )
    X = table.X.astype(np.float32)
    return machine.fit(X[train], y[train], X[held], y[held])


def loss(run: Run, model: Any, held: Any) -> float:
    """Mean squared error of the held rows; for labels that of the probabilities, the package's own."""
    X, y = run.table.X[held].astype(np.float32), run.table.y[held]
    if run.table.task == "regression":
        value = np.mean((model.predict(X).ravel() - y) ** 2)
    else:
        probabilities = np.asarray(model.predict_proba(X))
        value = np.mean(np.sum((probabilities - np.eye(probabilities.shape[1])[y]) ** 2, axis=1))
    return float(value) if np.isfinite(value) else np.inf


def parts(run: Run, generator: np.random.Generator) -> tuple[Any, Any]:
    """The rows to train on and the rows to hold."""
    order = generator.permutation(len(run.table.X))
    held = int(VALIDATION * len(order))
    return order[held:], order[:held]


def predict(run: Run, model: Any) -> Any:
    return np.asarray(model.predict(run.table.X_test.astype(np.float32))).reshape(len(run.table.X_test))


def xrfm_default(run: Run) -> Outcome:
    """The package's default, trained on 80 % of the rows, its round chosen by the others."""
    model = fit(run, DEFAULT, *parts(run, np.random.default_rng(run.seed)))
    return Outcome(predict(run, model), DEFAULT | {"round": _leaf(model).best_iter})


def tuned(run: Run, seconds: float = np.inf) -> tuple[Any, dict[str, Any], str]:
    """The model of the best setting, what it is, and the settings that failed.

    After `seconds` no further setting is tried.
    """
    generator, began, tried = np.random.default_rng(run.seed), time.monotonic(), 0
    train, held = parts(run, generator)
    best: tuple[float, int | None, dict[str, Any]] = (np.inf, 0, DEFAULT)
    failed: list[str] = []
    kept = None  # the best model where it has several leaves
    for setting in [DEFAULT, *(draw_setting(generator) for _ in range(run.xrfm_settings))]:
        if tried and time.monotonic() - began >= seconds:
            break
        tried += 1
        try:
            model = fit(run, setting, train, held)
            found = loss(run, model, held)
        except RuntimeError as problem:  # out of memory, or a matrix without an inverse
            failed.append(f"{setting}: {problem}"[:300])
            continue
        if found < best[0]:
            split = model.trees[0]["type"] != "leaf"
            best = (found, None if split else _leaf(model).best_iter, setting)
            kept = model if split else None
    value, rounds, setting = best
    model = kept if kept is not None else fit(run, setting, np.r_[train, held], held, rounds)
    chosen = setting | {"round": rounds, "validation loss": value, "settings": tried - 1}
    return model, chosen, "; ".join(failed)


def xrfm_tuned(run: Run) -> Outcome:
    """The default and random settings; the best on 20 % of the rows fitted once more on all of them."""
    model, chosen, failed = tuned(run)
    return Outcome(predict(run, model), chosen, failed)


def _leaf(model: Any) -> Any:
    """The one machine of a model whose rows fit into a leaf, as 60,000 do."""
    return model.trees[0]["model"]
