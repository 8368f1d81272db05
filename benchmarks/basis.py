"""Basis models: one pass against a bare matrix product, whole grids against one peer's fit, exact fits.

    python -m benchmarks.basis [pass] [grid] [exact] [memory] [accuracy] [ding2012] [--quick]

Without names, everything runs. Ratios are taken in one process, the parts taking turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.kernel_approximation import Nystroem as ReferenceNystroem
from sklearn.linear_model import Ridge, RidgeClassifierCV, RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from benchmarks.common import DATA, Row, in_turn, peak_memory, report, seconds
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Nystroem, Problem
from onefold.estimators.selected import DEFAULT_ALPHAS
from onefold.kernels import RBF
from onefold.threads import count_workers


def surface(n: int, d: int = 20) -> tuple[Any, Any]:
    """Y = Σ_j sin(x·w_j) + 0.1 ε, five directions, float32 rows."""
    rng = np.random.RandomState(0)
    W = rng.randn(d, 5) / np.sqrt(d)
    X = rng.randn(n, d)
    return X.astype(np.float32), np.sin(X @ W).sum(axis=1) + 0.1 * rng.randn(n)


def one_pass(quick: bool) -> list[Row]:
    """All ridges and folds of one gamma, against one bare float32 product ΦᵀΦ of that size."""
    n, m, repeats = (20_000, 300, 2) if quick else (200_000, 1000, 4)
    X, y = surface(n)
    left = np.random.RandomState(1).rand(n, m).astype(np.float32)
    right = left.copy()
    problem = Problem(X, y[:, None], None, True)
    parts = [test for _, test in KFold(5).split(X)]

    def search(method: str, gamma: float) -> Callable[[], object]:
        def run() -> object:
            model = Nystroem(m, method).model(
                RBF(gamma), problem, n_alphas=11, need="heldout", workers=count_workers(None)
            )
            return model.heldout_squared_error(parts, parts, DEFAULT_ALPHAS)

        return run

    def estimator() -> object:
        return LSSVRCV(gammas=[0.02], approximation=Nystroem(m)).fit(X, y)

    times = in_turn(
        {
            "bare float32 ΦᵀΦ": lambda: left.T @ right,
            "5 folds × 11 ridges, uniform landmarks, gamma 0.02": search("uniform", 0.02),
            "5 folds × 11 ridges, pivoted Cholesky, gamma 0.02": search("rpcholesky", 0.02),
            "5 folds × 11 ridges, uniform landmarks, gamma 0.125": search("uniform", 0.125),
            "LSSVRCV.fit: the above, held-out predictions, final model": estimator,
        },
        repeats,
    )
    bare = times["bare float32 ΦᵀΦ"]
    return [{"what": k, "seconds": t, "ratio": t / bare} for k, t in times.items()]


def whole_grid(quick: bool) -> list[Row]:
    """The default 13 × 11 grid with 5-fold, against one fit of scikit-learn's Nystroem + Ridge."""
    n, m = (20_000, 200) if quick else (500_000, 1000)
    X, y = surface(n + n // 10)
    train, test = slice(0, n), slice(n, None)
    peer = make_pipeline(ReferenceNystroem(gamma=0.02, n_components=m, random_state=0), Ridge(0.01))
    times = {"scikit-learn Nystroem + Ridge, one fit": seconds(lambda: peer.fit(X[train], y[train]))}
    errors = {"scikit-learn Nystroem + Ridge, one fit": _rmse(peer.predict(X[test]), y[test])}
    ours = LSSVRCV(approximation=Nystroem(m))
    name = "LSSVRCV(Nystroem): 715 models, one refit"
    times[name] = seconds(lambda: ours.fit(X[train], y[train]))
    errors[name] = _rmse(ours.predict(X[test]), y[test])
    bare = times["scikit-learn Nystroem + Ridge, one fit"]
    return [
        {"what": k, "seconds": t, "peer fits": t / bare, "test RMSE": errors[k]}
        for k, t in times.items()
    ]


class DenseRidge:
    """What scikit-learn's KernelRidge computes, by a blocked Cholesky factorisation in place.

    Its own call, ``scipy.linalg.solve``, crashes here at n = 20,000, as every threaded OpenBLAS potrf
    from n = 16,000 on does (SciPy 1.17, NumPy 2.4); this one runs at the speed of matrix products, and
    holds one matrix where that one holds three.
    """

    def fit(self, X: Any, y: Any, block: int = 1000) -> DenseRidge:
        n, K = len(X), rbf_kernel(X, gamma=0.02)
        K.flat[:: n + 1] += 0.01
        for k in range(0, n, block):
            here, below = slice(k, min(k + block, n)), slice(min(k + block, n), n)
            K[here, here] = np.linalg.cholesky(K[here, here])
            K[below, here] = scipy.linalg.solve_triangular(K[here, here], K[below, here].T, lower=True).T
            for j in range(k + block, n, block):
                K[j:, j : j + block] -= K[j:, here] @ K[j : j + block, here].T
        self.X, self.dual = X, scipy.linalg.cho_solve((K, True), y, check_finite=False)
        return self

    def predict(self, X: Any) -> Any:
        return rbf_kernel(X, self.X, gamma=0.02) @ self.dual


_EXACT = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.basis import surface
def setup():
    X, y = surface({n} + 5000)
    return X.astype(float), y
def run(data):
    X, y = data
    {fit}
"""


def exact_fits(quick: bool) -> list[Row]:
    """Conjugate gradients on the true kernel against a dense Cholesky factorisation."""
    from pathlib import Path

    from onefold import KernelRidge
    from onefold.approximations import ConjugateGradients

    n = 3000 if quick else 20_000
    X, y = surface(n + 5000)
    X = X.astype(float)
    models = {
        "rbf_kernel + Cholesky": (
            DenseRidge(),
            f"from benchmarks.basis import DenseRidge; DenseRidge().fit(X[:{n}], y[:{n}])",
        ),
        "KernelRidge(ConjugateGradients)": (
            KernelRidge(gamma=0.02, alpha=0.01, approximation=ConjugateGradients()),
            "from onefold import KernelRidge as K; "
            f"K(gamma=0.02, alpha=0.01, approximation='cg').fit(X[:{n}], y[:{n}])",
        ),
    }
    rows: list[Row] = []
    for name, (model, code) in models.items():
        spent = seconds(lambda model=model: model.fit(X[:n], y[:n]))
        program = _EXACT.format(root=str(Path(__file__).parents[1]), n=n, fit=code)
        rows.append(
            {
                "what": name,
                "seconds": spent,
                "ratio": spent / (rows[0]["seconds"] if rows else spent),
                "GiB": peak_memory(program) / 2**30,
                "test RMSE": f"{_rmse(model.predict(X[n:]), y[n:]):.5f}",
            }
        )
    return rows


_MAPPED = """
import numpy as np, os, tempfile
def setup():
    path = os.path.join(tempfile.mkdtemp(), "X.npy")
    X = np.lib.format.open_memmap(path, "w+", np.float32, ({n}, 20))
    rng = np.random.RandomState(0)
    for start in range(0, {n}, 100_000):
        X[start:start + 100_000] = rng.randn(min(100_000, {n} - start), 20)
    y = np.sin(X[:, :3]).sum(axis=1).astype(float)
    del X
    import onefold.estimators, sklearn.cluster
    return path, y
def run(data):
    from onefold import LSSVRCV
    from onefold.approximations import Nystroem
    path, y = data
    LSSVRCV(gammas=[0.02], approximation=Nystroem({m})).fit(np.load(path, mmap_mode="r"), y)
    os.remove(path)
"""


def memory(quick: bool) -> list[Row]:
    """Peak memory of a search over rows that stay on disk; the mapped pages count too."""
    m = 200 if quick else 1000
    return [
        {"rows": n, "features": 20, "landmarks": m,
         "GiB": peak_memory(_MAPPED.format(n=n, m=m)) / 2**30}
        for n in ((50_000, 100_000) if quick else (500_000, 2_000_000))
    ]  # fmt: skip


_SETS = ["ijcnn1", "covtype", "w8a", "mnist", "uci_kin40k", "uci_protein", "bike_hourly",
         "uci_elevators", "california_housing", "uci_pol"]  # fmt: skip


def accuracy(quick: bool) -> list[Row]:
    """Test error of each landmark method against scikit-learn's Nystroem + RidgeCV at equal m."""
    sizes = (200,) if quick else (500, 1000, 2000)
    rows = []
    for name in _SETS[4:8] if quick else _SETS:
        path = DATA / f"{name}.npz"
        if not path.exists():
            print(f"skipped {name}: {path} is not there")
            continue
        X, y, train, test, classifier = load_set(np.load(path), name, 4000 if quick else 40_000)
        for m in sizes:
            row: Row = {"set": name, "m": m}
            gammas = 2.0 ** np.arange(-9, 2, 2) / X.shape[1] * 4
            for method in ("uniform", "rpcholesky", "leverage", "kmeans"):
                kind = LSSVCCV if classifier else LSSVRCV
                model = kind(gammas=list(gammas), approximation=Nystroem(m, method))
                start = time.perf_counter()
                model.fit(X[train], y[train])
                row[method] = _error(model.predict(X[test]), y[test], classifier)
                if method == "rpcholesky":
                    row["seconds"] = time.perf_counter() - start
                    row |= _peer(X, y, train, test, classifier, m, gammas)
            rows.append(row)
            report("basis-accuracy", "Test error by landmark method", rows)
    return rows


def _peer(
    X: Any, y: Any, train: Any, test: Any, classifier: bool, m: int, gammas: Any
) -> dict[str, float]:
    """The same widths and ridges with scikit-learn, the width by held-out score of its own ridge."""
    start = time.perf_counter()
    best: tuple[float, Any] | None = None
    for gamma in gammas:
        ridge = (RidgeClassifierCV if classifier else RidgeCV)(alphas=DEFAULT_ALPHAS)
        model = make_pipeline(ReferenceNystroem(gamma=gamma, n_components=m, random_state=0), ridge).fit(
            X[train], y[train]
        )
        score = float(ridge.best_score_)
        if best is None or score > best[0]:
            best = (score, model)
    assert best is not None
    error = _error(best[1].predict(X[test]), y[test], classifier)
    return {"scikit-learn": error, "its seconds": time.perf_counter() - start}


def load_set(data: Any, name: str, limit: int) -> tuple[Any, Any, Any, Any, bool]:
    """Standardised float32 rows, a shuffled training part of at most `limit` rows, the rest to test."""
    X = data["X"].astype(np.float32)
    y = data["y_binary"] if name == "covtype" else data["y"]
    if name == "mnist":
        keep = np.isin(y, [3, 8])
        X, y = X[keep], y[keep]
    classifier = len(np.unique(y)) < 20
    order = np.random.RandomState(0).permutation(len(X))
    n = min(limit, int(0.8 * len(X)))
    train, test = order[:n], order[n : n + 50_000]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1)
    if not classifier:
        y = (y - y[train].mean()) / y[train].std()
    return X, y, train, test, classifier


def ding2012(quick: bool) -> list[Row]:
    """The paper's table: c = 0.1 n, k = 0.5 c, 5-fold on the 13 × 11 grid; test error in percent."""
    splits = 2 if quick else 10
    rows = []
    for name in ("banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image",
                 "splice", "thyroid", "titanic", "twonorm", "waveform"):  # fmt: skip
        path = DATA / f"ida_{name}.npz"
        if not path.exists():
            print(f"skipped {name}: {path} is not there")
            continue
        data = np.load(path)
        prefix = "" if "train_idx" in data else "rand_"
        found: dict[str, list[float]] = {"exact": [], "algorithm 1": [], "landmarks": []}
        spent = dict.fromkeys(found, 0.0)
        for train, test in list(zip(data[f"{prefix}train_idx"], data[f"{prefix}test_idx"]))[:splits]:
            X = data["X"].astype(float)
            scale = X[train].std(axis=0)
            X = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1)
            c = max(2, len(train) // 10)
            for kind, approximation in {
                "exact": "exact",
                "algorithm 1": Nystroem(c, "uniform", rank=max(1, c // 2), predict="rows"),
                "landmarks": Nystroem(c),
            }.items():
                model = LSSVCCV(approximation=approximation)
                start = time.perf_counter()
                model.fit(X[train], data["y"][train])
                spent[kind] += time.perf_counter() - start
                found[kind].append(100 * (1 - model.score(X[test], data["y"][test])))
        row: Row = {"set": name, "partitions": "official" if not prefix else "random"}
        for kind, errors in found.items():
            row[kind] = f"{np.mean(errors):.2f} ± {np.std(errors):.2f}"
            row[f"{kind} s"] = spent[kind] / splits
        rows.append(row)
    return rows


def _rmse(prediction: Any, truth: Any) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


def _error(prediction: Any, truth: Any, classifier: bool) -> float:
    return 100 * float(np.mean(prediction != truth)) if classifier else _rmse(prediction, truth)


PARTS: dict[str, tuple[str, Callable[[bool], list[Row]]]] = {
    "pass": ("One gamma: every fold and ridge from one pass", one_pass),
    "grid": ("The whole 13 × 11 grid, 5-fold", whole_grid),
    "exact": ("Exact fits beyond a dense factorisation", exact_fits),
    "memory": ("Peak memory over rows on disk", memory),
    "accuracy": ("Test error by landmark method (percent, or RMSE of standardised targets)", accuracy),
    "ding2012": ("ding2012: c = 0.1 n, k = 0.5 c", ding2012),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        if name not in PARTS:
            parser.error(f"no part named {name}; there are {', '.join(PARTS)}")
        title, function = PARTS[name]
        report(f"basis-{name}", title, function(options.quick))


if __name__ == "__main__":
    main()
