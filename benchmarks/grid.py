"""Kernel interpolation on a grid: a million rows in the plane, and how far from the exact method.

python -m benchmarks.grid [--quick]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.common import Row, report, seconds
from onefold import LSSVR, LSSVRCV
from onefold.approximations import Grid
from onefold.expansions.grid import make_lattice
from onefold.kernels import RBF
from onefold.machine.threads import spans

ALPHAS = 2.0 ** np.arange(-15, 6, 2)


def plane(n: int, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, size=(n, 2))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * X[:, 0] + 0.2 * generator.normal(size=n)
    return X, y


def selection(n: int, gamma: float, points: int) -> Row:
    """11 μ, 5 folds, one gamma: the whole search and the final fit; beside it, building W twice."""
    X, y = plane(n)
    estimator = LSSVRCV(gammas=[gamma], alphas=ALPHAS, approximation=Grid(points), n_jobs=1)
    spent = seconds(lambda: estimator.fit(X, y))
    lattice = make_lattice(RBF(gamma), X.min(axis=0), X.max(axis=0), points)

    def weights() -> None:
        for part in spans(n, 65536):
            lattice.weights(X[part])

    facts = estimator.approximation_["selected_with"]
    return {
        "n": n,
        "gamma": gamma,
        "grid": f"{points} x {points}",
        "selection, s": spent,
        "building W once, s": seconds(weights),
        "rank": facts.get("rank"),
        "iterations": facts.get("iterations"),
        "kernel error": facts["kernel_error"],
    }


def marginal(rows: list[Row]) -> str:
    """Seconds per added million rows, of the selection and of building W."""
    first = rows[0]
    last = rows[-1]
    millions = (last["n"] - first["n"]) / 1e6
    if millions <= 0:
        return ""
    added = (last["selection, s"] - first["selection, s"]) / millions
    build = (last["building W once, s"] - first["building W once, s"]) / millions
    return (
        f"Per added million rows the selection takes {added:.1f} s, building W once {build:.1f} s; the "
        "selection builds W three times (statistics, held-out predictions, final fit), multiplies it "
        "with itself twice and predicts 11 ridge values."
    )


def against_exact(n: int, gammas: list[float]) -> list[Row]:
    """Test RMSE of the exact method and of the grid at the same hyper-parameters."""
    X, y = plane(n)
    new, truth = plane(5000, seed=1)
    rows = []
    for gamma in gammas:
        for alpha in (0.01, 1.0):
            given = {"gamma": gamma, "alpha": alpha}
            errors = {}
            spent = {}
            for name in ("exact", "grid"):
                estimator = LSSVR(approximation=name, **given)
                spent[name] = seconds(lambda e=estimator: e.fit(X, y))
                errors[name] = float(np.sqrt(np.mean((estimator.predict(new) - truth) ** 2)))
            rows.append(
                {
                    "n": n,
                    **given,
                    "RMSE, exact": errors["exact"],
                    "RMSE, grid": errors["grid"],
                    "difference %": 100 * (errors["grid"] / errors["exact"] - 1),
                    "exact, s": spent["exact"],
                    "grid, s": spent["grid"],
                    "points": "x".join(map(str, estimator.approximation_["points"])),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    quick = parser.parse_args().quick
    start = time.perf_counter()
    sizes = [20_000, 40_000] if quick else [250_000, 500_000, 1_000_000]
    rows = [selection(n, 2.0, 64 if quick else 256) for n in sizes]
    report("grid_rows", "Selection on a grid: 11 ridge values, 5 folds", rows, marginal(rows))
    rows = against_exact(1000 if quick else 10_000, [0.5] if quick else [0.5, 2.0, 8.0])
    report("grid_exact", "Grid against the exact method", rows)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
