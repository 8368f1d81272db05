"""Basis models: one pass against a bare matrix product, whole grids against one peer's fit, exact fits.

    python -m benchmarks.basis [pass] [grid] [exact] [memory] [--quick]

Without names, everything runs. Ratios are taken in one process, the parts taking turns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.kernel_approximation import Nystroem as ReferenceNystroem
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from benchmarks.common import Parts, Row, in_turn, peak_memory, ratios, run_parts, seconds
from onefold import LSSVR, LSSVRCV
from onefold.approximations import Nystroem, Problem, Workload
from onefold.estimators.setup import DEFAULT_ALPHAS
from onefold.kernels import RBF


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
            model = (
                Nystroem(m, method)
                .start(problem, [RBF(gamma)], Workload(alphas=11, folds=5))
                .model(RBF(gamma))
            )
            return model.heldout_squared_error(parts, parts, DEFAULT_ALPHAS)

        return run

    def estimator() -> object:
        return LSSVRCV(gammas=[0.02], approximation=Nystroem(m)).fit(X, y)

    times = in_turn(
        {
            "bare float32 ΦᵀΦ": lambda: left.T @ right,
            "5 folds × 11 ridges, uniform landmarks, gamma 0.02": search("uniform", 0.02),
            "5 folds × 11 ridges, k-means, gamma 0.02": search("kmeans", 0.02),
            "5 folds × 11 ridges, pivoted Cholesky, gamma 0.02": search("rpcholesky", 0.02),
            "5 folds × 11 ridges, uniform landmarks, gamma 0.125": search("uniform", 0.125),
            "LSSVRCV.fit: the above, held-out predictions, final model": estimator,
        },
        repeats,
    )
    return ratios(times, "bare float32 ΦᵀΦ")


_GRID = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.basis import surface
def setup():
    import onefold.estimators
    return surface({n})
def run(data):
    from onefold import LSSVRCV
    from onefold.approximations import Nystroem
    LSSVRCV(approximation=Nystroem({m})).fit(*data)
"""


def whole_grid(quick: bool) -> list[Row]:
    """The default 13 × 11 grid with 5-fold, against one fit of scikit-learn's Nystroem + Ridge."""
    n, m = (20_000, 200) if quick else (500_000, 1000)
    X, y = surface(n + n // 10)
    models: dict[str, tuple[Any, Any]] = {
        f"scikit-learn Nystroem + Ridge, one fit, {dtype.__name__} rows": (
            make_pipeline(ReferenceNystroem(gamma=0.02, n_components=m, random_state=0), Ridge(0.01)),
            dtype,
        )
        for dtype in (np.float64, np.float32)
    }
    models["LSSVR(Nystroem), one fit, float32 rows"] = (
        LSSVR(gamma=0.02, alpha=0.01, approximation=Nystroem(m)),
        np.float32,
    )
    models["LSSVRCV(Nystroem): 715 models, one refit, float32 rows"] = (
        LSSVRCV(approximation=Nystroem(m)),
        np.float32,
    )
    rows: list[Row] = []
    for name, (model, dtype) in models.items():
        train = X[:n].astype(dtype)
        spent = seconds(lambda model=model, train=train: model.fit(train, y[:n]))
        rows.append(
            {
                "what": name,
                "seconds": spent,
                "float64 peer fits": spent / (rows[0]["seconds"] if rows else spent),
                "float32 peer fits": spent / rows[1]["seconds"] if len(rows) > 1 else None,
                "test RMSE": _rmse(model.predict(X[n:]), y[n:]),
            }
        )
    program = _GRID.format(root=str(Path(__file__).parents[1]), n=n, m=m)
    rows[-1]["GiB above the data"] = peak_memory(program) / 2**30
    return rows


class DenseRidge:
    """What scikit-learn's KernelRidge computes, by a blocked Cholesky factorisation in place.

    Its own call, ``scipy.linalg.solve``, crashes here at n = 20,000, as every threaded OpenBLAS potrf
    from n = 16,000 on does (SciPy 1.17, NumPy 2.4); this one runs at the speed of matrix products, and
    holds one matrix where that one holds three.
    """

    def fit(self, X: Any, y: Any, block: int = 1000) -> DenseRidge:
        n = len(X)
        K = rbf_kernel(X, gamma=0.02)
        K.flat[:: n + 1] += 0.01
        for k in range(0, n, block):
            here = slice(k, min(k + block, n))
            below = slice(min(k + block, n), n)
            K[here, here] = np.linalg.cholesky(K[here, here])
            K[below, here] = scipy.linalg.solve_triangular(K[here, here], K[below, here].T, lower=True).T
            for j in range(k + block, n, block):
                K[j:, j : j + block] -= K[j:, here] @ K[j : j + block, here].T
        self.X = X
        self.dual = scipy.linalg.cho_solve((K, True), y, check_finite=False)
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


def _rmse(prediction: Any, truth: Any) -> float:
    return float(np.sqrt(np.mean((prediction - truth) ** 2)))


PARTS: Parts = {
    "pass": ("One gamma: every fold and ridge from one pass", one_pass),
    "grid": ("The whole 13 × 11 grid, 5-fold", whole_grid),
    "exact": ("Exact fits beyond a dense factorisation", exact_fits),
    "memory": ("Peak memory over rows on disk", memory),
}


if __name__ == "__main__":
    run_parts("basis", __doc__, PARTS)
