"""search="gradient" beside the full grid: test error and time, with one width and with one per feature.

python -m benchmarks.gradient tables    real tables, up to 700 training rows
python -m benchmarks.gradient small     50 and 200 rows of some of them, where many widths overfit

Errors are test RMSE in deviations of the training targets, or shares of wrong labels, means over splits.
Times are those of a fit over that of the full grid by press in the same process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import DATA, Row, run_parts, seconds
from benchmarks.tables_data import Table, load, present
from onefold import LSSVCCV, LSSVRCV
from onefold.search import Gradient

TABLES = ["boston", "uci_energy", "uci_concrete", "uci_airfoil", "uci_wine", "ida_diabetis"]
SMALL = ["boston", "uci_concrete", "uci_wine"]
ROWS, SPLITS = 700, 2

METHODS: dict[str, dict[str, Any]] = {
    "grid, press": {"criterion": "press"},
    "gradient, press": {"criterion": "press", "search": "gradient"},
    "grid, evidence": {"criterion": "evidence"},
    "gradient, evidence": {"criterion": "evidence", "search": "gradient"},
    "per feature, press": {"criterion": "press", "search": Gradient(per_feature=True)},
    "per feature, gcv": {"criterion": "gcv", "search": Gradient(per_feature=True)},
    "per feature, evidence": {"criterion": "evidence", "search": Gradient(per_feature=True)},
    "metric=diagonal": {"metric": "diagonal"},
}


def one_split(table: Table, rows: int) -> dict[str, tuple[float, float]]:
    """Test error and time of every method on the first rows of the training part."""
    X, y = table.X[:rows], table.y[:rows]
    kind = LSSVCCV if table.task == "classification" else LSSVRCV
    found = {}
    for name, settings in METHODS.items():
        model = kind(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            time = seconds(lambda model=model: model.fit(X, y))
            found[name] = table.score(model.predict(table.X_test)), time
    return found


def compared(names: list[str], sizes: tuple[int, ...], splits: int) -> list[Row]:
    """A row of errors and a row of times for every table and size."""
    rows: list[Row] = []
    for name in present(names, DATA):
        for size in sizes:
            tables = [load(name, split, DATA) for split in range(splits)]
            found = [one_split(table, size) for table in tables]
            head = {"table": name, "rows": min(size, len(tables[0].X)), "features": tables[0].X.shape[1]}

            def means(place: int, found: Any = found) -> dict[str, float]:
                return {m: float(np.mean([one[m][place] for one in found])) for m in METHODS}

            times = means(1)
            unit = times["grid, press"]
            rows.append({**head, "of": "error", **means(0)})
            rows.append({**head, "of": "time", **{m: time / unit for m, time in times.items()}})
            print(rows[-2], rows[-1], f"grid: {unit:.2f} s", sep="\n", flush=True)
    return rows


def tables(quick: bool) -> list[Row]:
    """Real tables."""
    return compared(TABLES[:3] if quick else TABLES, (200 if quick else ROWS,), 1 if quick else SPLITS)


def small(quick: bool) -> list[Row]:
    """Few rows."""
    sizes = (50, 100) if quick else (50, 200)
    return compared(SMALL[:1] if quick else SMALL, sizes, 1 if quick else SPLITS + 1)


PARTS: dict[str, tuple[str, Callable[[bool], list[Row]]]] = {
    "tables": ("search=gradient beside the grid", tables),
    "small": ("The same with few rows", small),
}

if __name__ == "__main__":
    run_parts("gradient", __doc__, PARTS)
