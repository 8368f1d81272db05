"""Test errors of basis models: every landmark method against scikit-learn, and float32.

    python -m benchmarks.basis_errors [sets] [precision] [--only NAME …] [--quick]

The first takes two hours on two cores. All need the data sets (``ONEFOLD_DATA``); a set that is not
there is skipped and said so.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem as ReferenceNystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline

from benchmarks.common import Row, data_sets, report
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Nystroem
from onefold.estimators.setup import DEFAULT_ALPHAS

SETS = ["ijcnn1", "covtype", "w8a", "mnist", "uci_kin40k", "uci_protein", "bike_hourly",
        "uci_elevators", "california_housing", "uci_pol"]  # fmt: skip
METHODS = ("kmeans", "uniform", "rpcholesky")
SEEDS = {500: 3, 1000: 2, 2000: 1}  # draws of landmarks; the larger bases differ less from each other


def sets(names: list[str], quick: bool) -> None:
    """Test error of each landmark method and of scikit-learn's Nystroem + RidgeCV, all at equal m.

    The same widths and ridges for all; the mean over several draws of the landmarks, with its
    standard error.
    """
    rows: list[Row] = []
    for name, data in data_sets(names or SETS):
        part = load_set(data, name, 4000 if quick else 20_000)
        for m, seeds in ({200: 2} if quick else SEEDS).items():
            found: dict[str, list[float]] = {}
            spent = {"onefold s": 0.0, "scikit-learn s": 0.0}
            for seed in range(seeds):
                for method in METHODS:
                    start = time.perf_counter()
                    found.setdefault(method, []).append(
                        _ours(part, Nystroem(m, method, random_state=seed))
                    )
                    spent["onefold s"] += (time.perf_counter() - start) * (method == METHODS[0])
                start = time.perf_counter()
                found.setdefault("scikit-learn", []).append(_peer(part, m, seed))
                spent["scikit-learn s"] += time.perf_counter() - start
            row: Row = {"set": name, "m": m}
            row |= {kind: _mean(errors) for kind, errors in found.items()}
            rows.append(row | {what: value / seeds for what, value in spent.items()})
            report(
                "basis-sets" if not names else f"basis-sets-{'-'.join(names)}",
                "Test error by landmark method (percent, or RMSE of standardised targets)",
                rows,
            )


Part = tuple[Any, Any, Any, Any, bool]


def _widths(X: Any) -> Any:
    return 2.0 ** np.arange(-8, 3, 2) / X.shape[1]


def _ours(part: Part, approximation: Nystroem) -> float:
    X, y, test_X, test_y, classifier = part
    kind = LSSVCCV if classifier else LSSVRCV
    model = kind(gammas=list(_widths(X)), approximation=approximation).fit(X, y)
    return _error(model.predict(test_X), test_y, classifier)


def _peer(part: Part, m: int, seed: int) -> float:
    """scikit-learn with the same widths and ridges; the width by the held-out score of its ridge."""
    X, y, test_X, test_y, classifier = part
    best: tuple[float, Any] | None = None
    for gamma in _widths(X):
        ridge = (RidgeClassifierCV if classifier else RidgeCV)(alphas=DEFAULT_ALPHAS)
        features = ReferenceNystroem(gamma=gamma, n_components=m, random_state=seed)
        model = make_pipeline(features, ridge).fit(X, y)
        if best is None or ridge.best_score_ > best[0]:
            best = (float(ridge.best_score_), model)
    assert best is not None
    return _error(best[1].predict(test_X), test_y, classifier)


def load_set(data: Any, name: str, limit: int) -> Part:
    """Standardised float32 rows: at most `limit` shuffled ones to train on, and up to 20,000 to test."""
    X = data["X"].astype(np.float32)
    y = data["y_binary"] if name == "covtype" else data["y"]
    if name == "mnist":
        keep = np.isin(y, [3, 8])
        X = X[keep]
        y = y[keep]
    classifier = len(np.unique(y)) < 10 and np.all(y == np.round(y))
    order = np.random.RandomState(0).permutation(len(X))
    n = min(limit, int(0.8 * len(X)))
    train = order[:n]
    test = order[n : n + 20_000]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1)
    if not classifier:
        y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test], classifier


def precision(names: list[str], quick: bool) -> None:
    """Cross-validated squared errors from float32 rows, against those from the same rows in float64."""
    rows: list[Row] = []
    for name, data in data_sets(names or SETS):
        X, y, _, _, classifier = load_set(data, name, 4000 if quick else 15_000)
        y = np.where(y == y[0], 1.0, -1.0) if classifier else y
        for method in METHODS:
            single, double = (
                LSSVRCV(gammas=list(_widths(X)), approximation=Nystroem(300, method)).fit(
                    X.astype(dtype), y
                )
                for dtype in (np.float32, np.float64)
            )
            scores = [model.cv_results_["mean_test_score"] for model in (single, double)]
            rows.append(
                {
                    "set": name,
                    "method": method,
                    "best score": abs(single.best_score_ / double.best_score_ - 1),
                    "worst of all scores": float(np.abs(scores[0] / scores[1] - 1).max()),
                    "same choice": single.best_params_ == double.best_params_,
                }
            )
    report("basis-precision", "float32 against float64: relative change of the held-out score", rows)


def _mean(errors: list[float]) -> str:
    """The mean and its standard error."""
    mean = np.mean(errors)
    if len(errors) == 1:
        return f"{mean:.4g}"
    return f"{mean:.4g} ± {np.std(errors, ddof=1) / np.sqrt(len(errors)):.2g}"


def _error(prediction: Any, truth: Any, classifier: bool) -> float:
    if classifier:
        return 100 * float(np.mean(prediction != truth))
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


PARTS = {"sets": sets, "precision": precision}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these sets only")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        if name not in PARTS:
            parser.error(f"no part named {name}; there are {', '.join(PARTS)}")
        PARTS[name](options.only, options.quick)


if __name__ == "__main__":
    main()
