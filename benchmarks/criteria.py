"""How well do criteria choose? Test errors of the same machine and grid, chosen in different ways.

python -m benchmarks.criteria

Ten random splits of small tables: at most 500 rows to choose and train with, at most 2000 to test on.
Features are standardised; the machine has the rbf kernel and the default grid of 13 × 11 cells.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.common import DATA, Row, report
from benchmarks.tables_data import present, small_split
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.search.ledger import best_cell

SPLITS = 10
MOST_ROWS = 500
MOST_TESTED = 2000
LABELS = ["ida_banana", "ida_heart", "ida_thyroid", "ida_diabetis", "ripley_synth", "ida_twonorm"]
NUMBERS = ["uci_yacht", "uci_concrete", "boston", "uci_autompg", "uci_airfoil"]
RECORDED = ("press", "span", "gcv", "evidence", "radius_margin")
WAYS = ("5 folds", "5 folds, 1se", *RECORDED)


def chosen(name: str, X: Any, y: Any) -> dict[str, tuple[float, float]]:
    """Width and ridge that each way chooses, all from one search."""
    kind, first = (LSSVCCV, "error") if name in LABELS else (LSSVRCV, "mse")
    search = kind(criterion=[first, *RECORDED], select="1se", n_jobs=1).fit(X, y)
    found = {"5 folds, 1se": (search.gamma_, search.alpha_)}
    cells = [(cell["gamma"], cell["alpha"]) for cell in search.cv_results_["params"]]
    widths, ridges = (np.array(values) for values in zip(*cells))
    for way, column in [("5 folds", "score"), *zip(RECORDED, RECORDED)]:
        scores = search.cv_results_[f"mean_test_{column}"].reshape(len(np.unique(ridges)), -1).T
        row, place = best_cell(scores, widths[: len(scores)], ridges[:: len(scores)])
        found[way] = cells[place * len(scores) + row]
    return found


def errors(name: str, seed: int) -> dict[str, float]:
    """The share of wrong labels, or the RMSE in deviations, of what each way chooses."""
    X, y, X_test, y_test = small_split(
        DATA / f"{name}.npz", seed, name in LABELS, MOST_ROWS, MOST_TESTED
    )
    fixed = LSSVC if name in LABELS else LSSVR
    found = {}
    for way, (gamma, alpha) in chosen(name, X, y).items():
        predicted = fixed(gamma=gamma, alpha=alpha, n_jobs=1).fit(X, y).predict(X_test)
        wrong = predicted != y_test if name in LABELS else (predicted - y_test) ** 2
        found[way] = float(np.mean(wrong) if name in LABELS else np.sqrt(np.mean(wrong)))
    return found


def main() -> None:
    rows: list[Row] = []
    for name in present(LABELS + NUMBERS, DATA):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the ends of the grid
            found = [errors(name, seed) for seed in range(SPLITS)]
        means = {way: np.mean([one[way] for one in found]) for way in WAYS}
        rows.append({"table": name} | {way: f"{mean:.4f}" for way, mean in means.items()})
        print(rows[-1], flush=True)
    report("criteria", "Test errors by criterion, means of ten splits", rows)


if __name__ == "__main__":
    main()
