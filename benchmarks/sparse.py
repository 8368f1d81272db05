"""Sparse machines: two rules for which centres go, the cost of a path, and robust weights.

python -m benchmarks.sparse [figures] [cost] [robust] [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.common import RESULTS, Parts, Row, data_sets, in_turn, ratios, run_parts
from onefold import LSSVR, SparseLSSVR
from onefold.basis import Design, RidgePath, Whitening, collect
from onefold.basis.pruning import prune, prune_sizes
from onefold.kernels import RBF
from onefold.rows import rows_of


def figures(quick: bool) -> list[Row]:
    """RMS error of 10-fold cross-validation against the number of centres, by both rules.

    Gamma and alpha are chosen once with all rows; the original procedure is in papers/cawley2002.py.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = {"mcycle": "motorcycle", "boston": "Boston housing"}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2))
    rows: list[Row] = []
    for ax, (name, data) in zip(axes, data_sets(list(sets))):
        X = data["X"].astype(float)
        y = data["y"].astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        cv = KFold(3 if quick else 10, shuffle=True, random_state=0)
        gammas = list(2.0 ** np.arange(-7, 6))
        alphas = list(2.0 ** np.arange(-11, 6, 1))
        first = SparseLSSVR(gammas=gammas, alphas=alphas, cv=cv, n_centres=len(X)).fit(X, y)
        chosen: dict[str, Any] = {"gammas": [first.gamma_], "alphas": [first.alpha_], "cv": cv}
        for label, rule in (("lowest price", "price"), ("smallest coefficients", "coefficients")):
            path = _path(SparseLSSVR(**chosen, prune=rule), X, y)
            ax.plot(*path, marker=".", label=label)
            for size, error in zip(*path):
                rows.append(
                    {"set": name, "dropped": label, "centres": int(size), "RMS error": float(error)}
                )
        ax.set(xscale="log", xlabel="number of centres", ylabel="10-fold RMS error", title=sets[name])
        ax.legend()
    figure.tight_layout()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "sparse-figures.png", dpi=120)
    return rows


def _path(model: SparseLSSVR, X: Any, y: Any) -> tuple[Any, Any]:
    """Sizes, and the error of each, pooled over folds."""
    found = model.fit(X, y).path_
    tests = [len(test) for _, test in model.cv.split(X)]
    folds = np.array([found[f"split{i}_test_score"] for i in range(len(tests))])
    return found["n_centres"], np.sqrt(-np.average(folds, axis=0, weights=tests))


def cost(quick: bool) -> list[Row]:
    """Reducing 500 centres to 10 against the first fit with 500."""
    n, m = (2000, 100) if quick else (20_000, 500)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    y = np.sin(X).sum(axis=1)[:, None]
    design = Design(RBF(0.1), X[:m])
    W = design.inner()
    statistics = collect(design, rows_of(X, y, None))[0]

    def first_fit() -> None:
        T = Whitening.of(design.inner()).T
        path = RidgePath(collect(design, rows_of(X, y, None))[0].rotated(T), fit_intercept=True)
        path.coefficients([0.1])

    sizes = prune_sizes(m, 10, 0.05)
    times = in_turn(
        {
            f"first fit, {n} rows, {m} centres": first_fit,
            f"{len(sizes)} sizes down to 10": lambda: prune(
                statistics, W, 0.1, sizes, fit_intercept=True
            ),
        },
        3,
    )
    return ratios(times, next(iter(times)))


def robust(quick: bool) -> list[Row]:
    """A tenth of the targets spoilt: error on clean targets, with and without robust weights."""
    n = 300 if quick else 1000
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 2))
    clean = np.sin(2 * X[:, 0]) + X[:, 1]
    y = clean + 0.1 * rng.standard_normal(n)
    spoilt = y.copy()
    spoilt[rng.choice(n, n // 10, replace=False)] += 20 * rng.standard_normal(n // 10)
    settings: dict[str, Any] = {"gammas": [0.5], "alphas": [0.3]}
    models = {
        "full, clean data": (LSSVR(gamma=0.5, alpha=0.3), y),
        "full, spoilt data": (LSSVR(gamma=0.5, alpha=0.3), spoilt),
        "sparse, spoilt data": (SparseLSSVR(**settings), spoilt),
        "sparse and robust, spoilt data": (SparseLSSVR(**settings, weights="robust"), spoilt),
    }
    rows = []
    for name, (model, targets) in models.items():
        model.fit(X, targets)
        error = float(np.sqrt(np.mean((model.predict(X) - clean) ** 2)))
        rows.append({"what": name, "RMSE to the clean function": error,
                     "centres": model.expansion_.n_centres})  # fmt: skip
    return rows


PARTS: Parts = {
    "figures": ("RMS error of cross-validation against the number of centres", figures),
    "cost": ("What a path costs", cost),
    "robust": ("Robust weights", robust),
}


if __name__ == "__main__":
    run_parts("sparse", __doc__, PARTS)
