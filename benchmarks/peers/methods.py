"""Methods for tables: each fits the training rows and predicts others. They import what they need.

The worker runs them in the environment of the peer, so this file needs NumPy alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.tables_data import Table

COVERAGE = 0.9
HELD = 0.2  # of intervals; the share of rows that chooses among settings


@dataclass(frozen=True)
class Options:
    """What the command line says: threads, device, and how long and how many settings are tried."""

    seed: int = 0
    threads: int = 1
    device: str = "cpu"
    seconds: float = np.inf
    settings: int | None = None


@dataclass(frozen=True)
class Fitted:
    """Predictions (labels are 0, 1, …), and where there are any, probabilities and 90 % intervals."""

    predict: Callable[[Any], Any]
    proba: Callable[[Any], Any] | None = None
    interval: Callable[[Any], Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def plain(model: Any, table: Table, proba: bool = True, **facts: Any) -> Fitted:
    """A fitted estimator with scikit-learn's interface."""
    given = model.predict_proba if proba and table.task == "classification" else None
    return Fitted(lambda X: np.asarray(model.predict(X)).ravel(), given, None, facts)


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def parts(table: Table, generator: np.random.Generator) -> tuple[Any, Any]:
    """Random rows to train with, and the others, which choose among settings."""
    order = generator.permutation(len(table.y))
    held = int(HELD * len(order))
    return order[held:], order[:held]


# -- onefold ------------------------------------------------------------------------------------------


def onefold(table: Table, options: Options, **arguments: Any) -> Fitted:
    """A machine that chooses for itself, on the device that is named."""
    from onefold import LSSVCCV, LSSVRCV

    regression = table.task == "regression"
    model = (LSSVRCV if regression else LSSVCCV)(
        device=None if options.device == "cpu" else options.device,
        random_state=0,
        n_jobs=options.threads,
        **arguments,
    ).fit(table.X, table.y)
    score = model.best_score_ if model.blend_score_ is None else model.blend_score_
    promised = float(np.sqrt(-score)) if regression else float(-score)
    interval = (lambda X: model.predict_interval(X, COVERAGE)) if regression else None
    return Fitted(
        model.predict, None if regression else model.predict_proba, interval, {"promised": promised}
    )


def onefold_default(table: Table, options: Options) -> Fitted:
    """``kernel="auto", metric="auto", blend=True``."""
    return onefold(table, options, kernel="auto", metric="auto", blend=True)


# -- trees --------------------------------------------------------------------------------------------


def lightgbm_setting(generator: np.random.Generator) -> dict[str, Any]:
    return {
        "learning_rate": log_uniform(generator, 0.02, 0.2),
        "num_leaves": round(log_uniform(generator, 8, 128)),
        "min_child_samples": round(log_uniform(generator, 5, 100)),
        "feature_fraction": float(generator.uniform(0.5, 1)),
        "bagging_fraction": float(generator.uniform(0.5, 1)),
        "bagging_freq": 1,
        "lambda_l2": log_uniform(generator, 1e-3, 10),
    }


def lightgbm_objective(table: Table) -> dict[str, Any]:
    """Squared error, or log loss, which chooses better than wrong labels do."""
    if table.task == "regression":
        return {"objective": "regression", "metric": "l2"}
    if table.classes == 2:
        return {"objective": "binary", "metric": "binary_logloss"}
    return {"objective": "multiclass", "metric": "multi_logloss", "num_class": table.classes}


def lightgbm_booster(
    table: Table, options: Options, train: Any, held: Any, weight: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The best of random settings by early stopping on the rows `held`, refitted on all rows."""
    import lightgbm as library

    began = time.monotonic()
    generator = np.random.default_rng(options.seed)
    fixed = lightgbm_objective(table) | {
        "verbosity": -1,
        "num_threads": options.threads,
        "seed": options.seed,
    }

    def data(rows: Any, **more: Any) -> Any:
        own = None if weight is None else weight[rows]
        return library.Dataset(table.X[rows], table.y[rows], weight=own, **more)

    best: tuple[float, int, dict[str, Any]] = (np.inf, 1, {})
    tried = 0
    while tried < (options.settings or 25) and time.monotonic() - began < options.seconds:
        tried += 1
        setting = lightgbm_setting(generator)
        own = data(train)  # a data set keeps its first parameters
        model = library.train(
            fixed | setting,
            own,
            3000,
            valid_sets=[data(held, reference=own)],
            callbacks=[library.early_stopping(50, verbose=False)],
        )
        loss = model.best_score["valid_0"][fixed["metric"]]
        if loss < best[0]:
            best = (loss, model.best_iteration, setting)
    loss, rounds, setting = best
    model = library.train(fixed | setting, data(slice(None)), rounds)
    return model, setting | {"rounds": rounds, "settings": tried}


def lightgbm(table: Table, options: Options) -> Fitted:
    """25 random settings, early stopping on 20 % of the rows, the best refitted on all of them."""
    rows = parts(table, np.random.default_rng(options.seed))
    model, facts = lightgbm_booster(table, options, *rows)
    if table.task == "regression":
        return Fitted(model.predict, facts=facts)

    def proba(X: Any) -> Any:
        found = np.asarray(model.predict(X))
        return np.column_stack([1 - found, found]) if found.ndim == 1 else found

    return Fitted(lambda X: proba(X).argmax(axis=1), proba, facts=facts)


def catboost(table: Table, options: Options) -> Fitted:
    """The default and three random settings, early stopping on 20 % of the rows, the best refitted."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if table.task == "regression" else CatBoostClassifier
    fixed = {"random_seed": options.seed, "thread_count": options.threads, "verbose": False}
    fixed |= {"allow_writing_files": False, "iterations": 1000}
    began = time.monotonic()
    generator = np.random.default_rng(options.seed)
    train, held = parts(table, generator)
    drawn = [
        {
            "learning_rate": log_uniform(generator, 0.02, 0.2),
            "depth": int(generator.integers(4, 9)),
            "l2_leaf_reg": log_uniform(generator, 1, 10),
        }
        for _ in range((options.settings or 4) - 1)
    ]
    best: tuple[float, int, dict[str, Any]] = (np.inf, 1, {})
    tried = 0
    for setting in [{}, *drawn]:
        tried += 1
        model = kind(**fixed, **setting, early_stopping_rounds=50)
        model.fit(table.X[train], table.y[train], eval_set=(table.X[held], table.y[held]))
        loss = next(iter(model.get_best_score()["validation"].values()))
        if loss < best[0]:
            rate = {"learning_rate": model.get_all_params()["learning_rate"]}
            best = (loss, model.get_best_iteration() + 1, rate | setting)
        if time.monotonic() - began >= options.seconds:
            break
    loss, rounds, setting = best
    model = kind(**fixed | {"iterations": rounds}, **setting).fit(table.X, table.y)
    return plain(model, table, **setting, rounds=rounds, settings=tried)


def histgb_model(table: Table, options: Options) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = (
        HistGradientBoostingRegressor if table.task == "regression" else HistGradientBoostingClassifier
    )
    return kind(random_state=options.seed)


def histgb(table: Table, options: Options) -> Fitted:
    """Histogram gradient boosting at scikit-learn's default."""
    return plain(histgb_model(table, options).fit(table.X, table.y), table)


def mapie(table: Table, options: Options) -> Fitted:
    """MAPIE's CV+ intervals, five folds, around histogram gradient boosting."""
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        histgb_model(table, options), confidence_level=COVERAGE, method="plus", cv=5
    ).fit_conformalize(table.X, table.y)
    return Fitted(model.predict, interval=lambda X: model.predict_interval(X)[1][:, :, 0])


# -- kernel machines ----------------------------------------------------------------------------------

XRFM_DEFAULT = {"kernel": "l2_high_dim", "bandwidth": 10.0, "exponent": 1.0, "diag": False, "reg": 1e-3}


def xrfm_setting(generator: np.random.Generator) -> dict[str, Any]:
    """The space of its authors: width, ridge, exponent, norm, diagonal or full metric."""
    exponent = float(generator.uniform(0.7, 1.4))
    return {
        "kernel": "lpq",
        "bandwidth": log_uniform(generator, 0.5, 200),
        "exponent": exponent,
        "norm_p": float(generator.uniform(exponent, 2)),
        "diag": bool(generator.integers(2)),
        "reg": log_uniform(generator, 1e-6, 10),
    }


def xrfm_fit(
    table: Table, options: Options, setting: dict[str, Any], train: Any, held: Any, rounds: int | None
) -> Any:
    """A model of the rows `train`: the round that is best on `held`, or the last of `rounds`."""
    import torch
    from xrfm import xRFM

    y = table.y.astype(np.float32 if table.task == "regression" else np.int64)
    X = table.X.astype(np.float32)
    free = rounds is None
    model = {key: value for key, value in setting.items() if key != "reg"}
    fitting = {"reg": setting["reg"], "iters": 5 if free else rounds}
    fitting |= {"return_best_params": free, "early_stop_rfm": False}
    machine = xRFM(
        {"model": model | {"bandwidth_mode": "constant"}, "fit": fitting},
        device=torch.device(options.device),
        n_threads=options.threads,
        random_state=options.seed,
        verbose=False,
    )
    return machine.fit(X[train], y[train], X[held], y[held])


def xrfm_loss(table: Table, model: Any, held: Any) -> float:
    """Mean squared error of the held rows; for labels that of the probabilities, the package's own."""
    X = table.X[held].astype(np.float32)
    y = table.y[held]
    if table.task == "regression":
        value = np.mean((np.asarray(model.predict(X)).ravel() - y) ** 2)
    else:
        found = np.asarray(model.predict_proba(X))
        value = np.mean(np.sum((found - np.eye(found.shape[1])[y]) ** 2, axis=1))
    return float(value) if np.isfinite(value) else np.inf


def xrfm(table: Table, options: Options) -> Fitted:
    """Its default and 12 random settings; the best on 20 % of the rows is fitted again on all of them.

    Where the rows are more than one leaf of its tree takes, each leaf has a round of its own: then the
    best model stays as it is.
    """
    generator = np.random.default_rng(options.seed)
    began = time.monotonic()
    train, held = parts(table, generator)
    best: tuple[float, int | None, dict[str, Any], Any] = (np.inf, 0, XRFM_DEFAULT, None)
    drawn = [
        xrfm_setting(generator) for _ in range(12 if options.settings is None else options.settings)
    ]
    tried = 0
    for setting in [XRFM_DEFAULT, *drawn]:
        if tried and time.monotonic() - began >= options.seconds:
            break
        tried += 1
        try:
            model = xrfm_fit(table, options, setting, train, held, None)
            loss = xrfm_loss(table, model, held)
        except RuntimeError:  # out of memory, or a matrix without an inverse
            continue
        if loss < best[0]:
            leaf = model.trees[0]["type"] == "leaf"
            best = (loss, model.trees[0]["model"].best_iter if leaf else None, setting, model)
    _, rounds, setting, model = best
    if rounds is not None:
        model = xrfm_fit(table, options, setting, np.r_[train, held], held, rounds)
    return xrfm_fitted(model, table, setting | {"round": rounds, "settings": tried - 1})


def xrfm_default(table: Table, options: Options) -> Fitted:
    """The package's default on 80 % of the rows; its round is chosen by the others."""
    rows = parts(table, np.random.default_rng(options.seed))
    return xrfm_fitted(xrfm_fit(table, options, XRFM_DEFAULT, *rows, None), table, XRFM_DEFAULT)


def xrfm_fitted(model: Any, table: Table, facts: dict[str, Any]) -> Fitted:
    def narrow(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda X: np.asarray(function(X.astype(np.float32)))

    proba = narrow(model.predict_proba) if table.task == "classification" else None
    predict = narrow(model.predict)
    return Fitted(lambda X: predict(X).reshape(len(X)), proba, None, facts)


def neo_ls_svm(table: Table, options: Options) -> Fitted:
    """Neo LS-SVM as it comes; of classes it knows two."""
    from neo_ls_svm import NeoLSSVM

    if table.classes > 2:
        raise NotImplementedError("neo-ls-svm has no more than two classes")
    model = NeoLSSVM(random_state=options.seed).fit(table.X, table.y)
    if table.task == "classification":
        return plain(model, table)
    return Fitted(
        lambda X: np.asarray(model.predict(X)).ravel(),
        interval=lambda X: np.asarray(model.predict_interval(X, coverage=COVERAGE)),
    )


def grid(table: Table, options: Options) -> Fitted:
    """GridSearchCV of SVC or KernelRidge: 6 widths × 5 penalties, five folds.

    The widths are 2^-8, 2^-6 … 2^2 over the number of columns; C is 2^-2, 2 … 2^10, the ridge 2^-14,
    2^-10 … 2^2.
    """
    from joblib import parallel_config
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    cells = {"gamma": 2.0 ** np.arange(-8, 3, 2) / table.X.shape[1]}
    if table.task == "regression":
        machine = KernelRidge(kernel="rbf")
        scoring = "neg_mean_squared_error"
        cells["alpha"] = 2.0 ** np.arange(-14, 3, 4)
    else:
        machine = SVC(cache_size=1000)
        scoring = "accuracy"
        cells["C"] = 2.0 ** np.arange(-2, 11, 3)
    with parallel_config("loky", n_jobs=options.threads, inner_max_num_threads=1):
        search = GridSearchCV(machine, cells, scoring=scoring, cv=5).fit(table.X, table.y)
    best = {key: float(value) for key, value in search.best_params_.items()}
    return plain(search, table, proba=False, **best)
