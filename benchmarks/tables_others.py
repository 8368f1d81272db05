"""onefold's own variants, scikit-learn's and CatBoost's models, as methods of benchmarks.tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import SVC

from benchmarks.tables_job import Outcome, Run

FOLDS = 5
GRID_ROWS = 2000  # the grid of scikit-learn's kernel machines is searched on so many rows


def splitter(run: Run) -> Any:
    """Shuffled folds; by class in classification."""
    kind = KFold if run.table.task == "regression" else StratifiedKFold
    return kind(FOLDS, shuffle=True, random_state=run.seed)


def onefold(run: Run, **arguments: Any) -> Outcome:
    """A machine that chooses for itself, on the device that the command line names."""
    from onefold import LSSVCCV, LSSVRCV

    table = run.table
    estimator = (LSSVRCV if table.task == "regression" else LSSVCCV)(
        cv=splitter(run),
        device=None if run.device == "cpu" else run.device,
        random_state=0,
        n_jobs=run.threads,
        **arguments,
    )
    estimator.fit(table.X, table.y)
    chosen = arguments | {key: str(value) for key, value in estimator.best_params_.items()}
    blend = getattr(estimator, "blend_", None)
    return Outcome(
        estimator.predict(table.X_test),
        chosen | {"held-out score": float(estimator.best_score_)},
        "" if blend is None else f"blend {blend}",
    )


def histgb(run: Run) -> Outcome:
    """Histogram gradient boosting at scikit-learn's default."""
    kind = (
        HistGradientBoostingRegressor
        if run.table.task == "regression"
        else HistGradientBoostingClassifier
    )
    return _fitted(run, kind(random_state=run.seed), {"settings": "default"})


def svc_grid(run: Run) -> Outcome:
    """SVC or KernelRidge: 6 widths × 5 penalties on 2000 rows at most, the best refitted on all rows.

    The widths are 2^-8, 2^-6 … 2^2 over the number of columns; C is 2^-2, 2 … 2^10, the ridge is 2^-14,
    2^-10 … 2^2.
    """
    table = run.table
    grid = {"gamma": 2.0 ** np.arange(-8, 3, 2) / table.X.shape[1]}
    if table.task == "regression":
        machine, scoring = KernelRidge(kernel="rbf"), "neg_mean_squared_error"
        grid["alpha"] = 2.0 ** np.arange(-14, 3, 4)
    else:
        machine, scoring = SVC(cache_size=1000), "accuracy"
        grid["C"] = 2.0 ** np.arange(-2, 11, 3)
    few = np.random.default_rng(run.seed).permutation(len(table.X))[:GRID_ROWS]
    search = GridSearchCV(machine, grid, scoring=scoring, cv=splitter(run), refit=False)
    # Workers that each take all cores for BLAS get in each other's way.
    with parallel_config("loky", n_jobs=run.threads, inner_max_num_threads=1):
        search.fit(table.X[few], table.y[few])
    best = {key: float(value) for key, value in search.best_params_.items()}
    return _fitted(run, machine.set_params(**best), best)


def catboost(run: Run) -> Outcome:
    """CatBoost at its default: 1000 rounds, a rate of its own choice, no validation part."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if run.table.task == "regression" else CatBoostClassifier
    model = kind(
        random_seed=run.seed, thread_count=run.threads, verbose=False, allow_writing_files=False
    )
    return _fitted(run, model, {"settings": "default"})


def _fitted(run: Run, model: Any, settings: dict[str, Any]) -> Outcome:
    model.fit(run.table.X, run.table.y)
    return Outcome(np.asarray(model.predict(run.table.X_test)).ravel(), settings)
