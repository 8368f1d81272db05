"""What must not change: fit many small configurations, keep what they choose and predict, compare later.

    python -m tests.tools.snapshot keep FILE [--only GLOB]
    python -m tests.tools.snapshot compare FILE [--only GLOB] [--tolerance 1e-9]

Every number is compared with the one that was kept, relative to the spread of its array: the range from
the first to the ninth decile, for values farther from the median their distance from it. Text and whole
numbers (labels, names, counts) must be equal. Only public attributes and methods are read; what
an estimator does not have is not kept, and what it no longer has is missing,
unless it was None. One thread, so that equal code gives equal bits.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from tests.tools.configurations import CASES, configured

# What is read of a fitted estimator, where it is there.
ATTRIBUTES = (
    "best_params_", "best_index_", "best_score_", "gamma_", "alpha_", "kernel_", "metric_", "classes_",
    "feature_importances_", "metric_history_", "blend_", "blend_score_", "n_centres_", "path_",
    "n_features_in_",
)  # fmt: skip
OF_ROWS = ("heldout_prediction_", "heldout_proba_", "conformity_scores_", "robust_weights_")
OF_WHAT_RAN = ("name", "method", "landmarks", "training", "precision", "solver", "verdict")
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("predict", {}),
    ("decision_function", {}),
    ("predict_proba", {}),
    ("predict_interval", {"coverage": 0.9}),
    ("predict_interval", {"coverage": 0.5}),
    ("predict_quantiles", {"quantiles": [0.1, 0.5, 0.8]}),
)


def parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves of nested values: plain ones (text, whole numbers, None) and arrays of numbers."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from parts(f"{name}.{key}", value[key])
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        columns = sorted({key for one in value for key in one})
        yield from parts(name, {key: [one.get(key) for one in value] for key in columns})
    elif isinstance(value, list) and any(isinstance(one, float) for one in value):
        yield name, np.array(value, dtype=np.float64)  # None becomes NaN
    elif value is None or isinstance(value, str | bool | int):
        yield name, value
    else:
        value = value.compute() if hasattr(value, "compute") else value
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        exact = array.dtype.kind != "f"
        yield name, array.tolist() if exact else array.astype(np.float64)


def of_search(results: dict[str, Any]) -> dict[str, Any]:
    """The parameters and the scores of `cv_results_`, without times and ranks (ties are rounding)."""
    kept = {key: value for key, value in results.items() if "_test_" in key and "rank" not in key}
    return kept | {"params": list(results["params"])}


def fitted_values(name: str) -> Iterator[tuple[str, Any]]:
    """Fit a configuration, and everything that is read of it."""
    estimator, data = configured(name)
    for one in (estimator, getattr(estimator, "estimator", None)):
        if hasattr(one, "set_params"):
            one.set_params(n_jobs=1)
    model = estimator.fit(data.X, data.y, **data.fit)
    inner = getattr(model, "estimator_", model)
    for attribute in ATTRIBUTES:
        if hasattr(inner, attribute):
            yield from parts(attribute, getattr(inner, attribute))
    if hasattr(inner, "cv_results_"):
        yield from parts("cv_results_", of_search(inner.cv_results_))
    report = getattr(inner, "approximation_", {})
    for step in ("selected_with", "fitted_with", "trust"):
        ran = report.get(step, report if step == "fitted_with" else {})
        yield from parts(f"approximation_.{step}", {key: ran[key] for key in OF_WHAT_RAN if key in ran})
    counts = data.fit.get("sample_weight", 1.0) > 0  # rows of weight 0 need no predictions
    for attribute in OF_ROWS:
        if (rows := getattr(inner, attribute, None)) is not None:
            yield from parts(attribute, rows if np.ndim(counts) == 0 else rows[counts])
    for method, options in METHODS:
        if hasattr(model, method):
            found = getattr(model, method)(data.new, **options)
            yield from parts("-".join([method, *map(str, options.values())]), found)


def snapshot(names: list[str]) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Of each configuration its name, its values and its seconds; {"error": …} where it fails."""
    for name in names:
        started = time.perf_counter()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                values = dict(fitted_values(name))
            except Exception as error:  # noqa: BLE001 - the others are still to be compared
                values = {"error": f"{type(error).__name__}: {error}"}
        yield name, values, time.perf_counter() - started


def keep(path: str, names: list[str]) -> int:
    found = {}
    for name, values, seconds in snapshot(names):
        error = values.get("error", "")
        print(f"{name:34} {len(values):4} values {seconds:6.1f} s  {error}", flush=True)
        found[name] = values
    joblib.dump(found, path, compress=3)
    return int(any("error" in values for values in found.values()))


def difference(old: Any, new: Any) -> float:
    """The largest difference relative to the spread; infinite where values are of another kind."""
    if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)):
        return 0.0 if new == old else np.inf
    finite = np.isfinite(old)
    if old.shape != new.shape or not np.array_equal(old[~finite], new[~finite], equal_nan=True):
        return np.inf
    if old.tobytes() == new.tobytes() or not finite.any():
        return 0.0
    a = old[finite]
    b = new[finite]
    low, middle, high = np.quantile(a, [0.1, 0.5, 0.9])
    scale = np.maximum(high - low, np.abs(a - middle))
    scale[scale == 0] = np.abs(a[scale == 0])
    worst = np.max(np.abs(a - b) / np.where(scale > 0, scale, 1.0))
    return float(worst) if np.isfinite(worst) else np.inf


def compare(path: str, names: list[str], tolerance: float) -> int:
    before = joblib.load(path)
    failed = 0
    names = [name for name in names if name in before]
    for name, now, seconds in snapshot(names):
        old = before[name]
        both = {key: difference(old[key], now[key]) for key in old if key in now}
        wrong = [key for key, size in both.items() if not size <= tolerance]
        missing = [key for key in old if key not in now and old[key] is not None]
        worst = max(both, key=lambda key: both[key], default="")
        if "error" in now:
            verdict = f"FAILED {now['error']}"
        elif wrong or missing:
            shown = [f"{key} ({both[key]:.1e})" for key in wrong] + [f"{key} missing" for key in missing]
            verdict = f"MISMATCH in {len(shown)} of {len(old)}: {', '.join(shown[:6])}"
        else:
            verdict = f"{both[worst]:.1e} in {worst}" if both[worst] else "equal bit for bit"
        failed += verdict.startswith(("FAILED", "MISMATCH"))
        print(f"{name:34} {seconds:5.1f} s  {verdict}", flush=True)
    print(f"{failed} of {len(names)} configurations differ")
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["keep", "compare"])
    parser.add_argument("file")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of configurations")
    parser.add_argument("--tolerance", type=float, default=1e-9, help="share of the spread (1e-9)")
    given = parser.parse_args()
    names = fnmatch.filter(CASES, given.only)
    if given.command == "keep":
        return keep(given.file, names)
    return compare(given.file, names, given.tolerance)


if __name__ == "__main__":
    sys.exit(main())
