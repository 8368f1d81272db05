r"""The machines behind Figures 2 and 3 of decherchi2010, one job for each data set, size and method.

    python -m papers.decherchi2010_jobs [--workers 2] [--device cuda] [--scratch DIR] [METHOD ...]

A job keeps its numbers in SET-N-METHOD.json in the scratch folder and is not run again where that file
exists, so that jobs can be run in several goes and on several machines. Sizes that a method cannot reach
in memory or time are left out: Gaussian elimination and conjugate gradients go further with
``--device cuda``.

The Toeplitz machine is the library's: ``KernelRidge`` and ``KernelRidgeCV`` (the paper's machine has no
intercept) with ``Toeplitz(negative="solve")``.

**What T is on shuffled rows.** All its diagonals are means of the same distribution of kernel values. If
they were one number c, with k on the main diagonal,

    T = (k − c) I + c 1 1ᵀ
    α_i = (y_i − s) / (k − c + λ),    s = c Σ_j y_j / (k − c + λ + c n)                 (no intercept)
    α_i = (y_i − mean(y)) / (k − c + λ),    b = mean(y)                                    (intercept)

A solution takes O(n), and f(x) = Σ_i α_i k(x, x_i) is a Parzen window of the targets less a constant.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, minres
from sklearn.metrics import make_scorer
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA, RESULTS
from onefold import LSSVCCV, KernelRidge, KernelRidgeCV, trust
from onefold.approximations import Nystroem, Toeplitz
from onefold.approximations.toeplitz import diagonal_means
from onefold.kernels import RBF
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import namespace, on_device, to_numpy
from onefold.linalg.dense import add_to_diagonal, cholesky, cholesky_solve
from onefold.linalg.iterate import conjugate_gradients
from onefold.machine.threads import spans, use_threads
from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz import SymmetricToeplitz

SCRATCH = RESULTS / "decherchi2010"
# Training sizes, test rows and variables of Table 2, in its order.
PUBLISHED: dict[str, tuple[tuple[int, ...], int, int]] = {
    "mnist": ((1000, 5000, 10_000, 20_000), 4000, 80),
    "ijcnn1": ((1000, 5000, 10_000, 20_000, 50_000, 100_000), 5000, 22),
    "daimler_mini": ((1000, 2000, 5000, 7000), 1000, 648),
    "w8a": ((1000, 5000, 10_000, 20_000, 40_000), 5000, 300),
    "covtype": ((1000, 5000, 10_000, 20_000, 50_000, 100_000), 5000, 54),
    "cbcl_faces": ((1000, 5000, 10_000, 20_000), 1000, 361),
}
# What differs here: there are fewer rows of these.
OURS = PUBLISHED | {
    "mnist": ((1000, 5000, 9966), 4000, 80),  # of 13,966 threes and eights
    "daimler_mini": ((250, 500), 200, 648),  # of 700 images
}
METHODS = ("toeplitz", "selection", "exact_selection", "dense", "nystroem", "times")
LAMBDAS = 10.0 ** np.arange(-3, 3)
WIDTHS = 4.0 ** np.arange(-1, 8)  # gamma times the number of variables: each is four times the last
_MOST = {"cpu": {"elimination": 10_000, "cg": 20_000}, "cuda": {"elimination": 50_000, "cg": 100_000}}
_SELECTED = 5000  # rows up to which three folds choose among exact machines
_TIMED = 10_000  # rows up to which Gaussian elimination and conjugate gradients are timed
CG = {"tolerance": 1e-6, "limit": 100}  # Matlab's default, and the paper's limit
_LANDMARKS = 1000
_STRIP = 2**14  # rows of K in one product: less than 2³¹ numbers, more of which not all of CUDA takes


def data_set(name: str) -> tuple[Any, Any, Any, Any]:
    """Rows shuffled with seed 0, coordinates in [−1, 1], labels ±1: (X, y, test X, test y)."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        X = file["X"]
        y = file["y_binary"] if "y_binary" in file else file["y"]
    if name == "mnist":
        pick = np.isin(y, (3, 8))
        X = X[pick]
        y = y[pick]
    sizes, test, variables = OURS[name]
    rows = np.random.default_rng(0).permutation(len(y))[: sizes[-1] + test]
    X = X[rows].astype(np.float64)
    y = np.where(y[rows] == y.max(), 1.0, -1.0)
    if X.shape[1] > variables:
        X = X - X.mean(axis=0)
        X = X @ scipy.linalg.eigh(X.T @ X)[1][:, ::-1][:, :variables]  # principal components
    span = np.ptp(X, axis=0)
    X = 2 * (X - X.min(axis=0)) / np.where(span > 0, span, 1) - 1
    return X[:-test], y[:-test], X[-test:], y[-test:]


def equal_diagonals(
    diagonal: float, off_diagonal: float, y: Any, lambdas: Any, *, intercept: bool = False
) -> tuple[Any, Any]:
    """α (n, λ) and b (λ,) of the Toeplitz matrix with one number off its diagonal: O(n) for each λ."""
    scale = diagonal - off_diagonal + np.asarray(lambdas)
    if intercept:
        return (y - y.mean())[:, None] / scale, np.full(scale.shape, y.mean())
    shift = off_diagonal * y.sum() / (scale + off_diagonal * len(y))
    return (y[:, None] - shift) / scale, np.zeros(scale.shape)


def right_signs(y: Any, values: Any) -> float:
    """The share of labels ±1 that are the sign of a value."""
    return float(np.mean(np.where(values > 0, 1.0, -1.0) == y))


def eliminate(K: Any, y: Any) -> Any:
    """α of (K + λI) α = y for every λ by Cholesky factors; NaN where K + λI has none."""
    xp = namespace(K)
    found = []
    for value in LAMBDAS:
        try:
            factor = cholesky(add_to_diagonal(xp.asarray(K, copy=True), value), overwrite=True)
            found.append(cholesky_solve(factor, y[:, None]))
        except np.linalg.LinAlgError:
            found.append(xp.full_like(y[:, None], xp.nan))
    return xp.concat(found, axis=1)


def iterate(K: Any, y: Any, lambdas: Any) -> tuple[Any, Any, int]:
    """α of every λ by at most 100 conjugate gradients, the relative residuals, and the iterations."""
    xp = namespace(K)
    size = xp.linalg.vector_norm(y)
    shifts = xp.asarray(lambdas, dtype=xp.float64, device=K.device)
    strips = list(spans(K.shape[0], _STRIP))
    solution = conjugate_gradients(
        lambda V: xp.concat([K[part, :] @ V for part in strips]) + V * shifts,
        lambda V: V,
        y[:, None] * xp.ones_like(shifts)[None, :],
        lambda R: xp.linalg.vector_norm(R, axis=0),
        CG["tolerance"] * size * xp.ones_like(shifts),
        limit=int(CG["limit"]),
    )
    residuals = xp.linalg.vector_norm(solution.residual, axis=0) / size
    return solution.X, residuals, solution.iterations


def errors(values: Any, labels: Any) -> list[list[float]]:
    """Shares (2, models) of wrong signs of values (rows, models), on each half of the rows."""
    wrong = np.where(to_numpy(values) > 0, 1, -1) != labels[:, None]
    wrong = wrong | ~np.isfinite(to_numpy(values))
    half = len(labels) // 2
    return [wrong[:half].mean(axis=0).tolist(), wrong[half:].mean(axis=0).tolist()]


def toeplitz(name: str, n: int, device: str) -> dict[str, Any]:
    """Test errors of every width and λ: the Toeplitz machine, its closed form, two Parzen windows."""
    X, y, test, truth = data_set(name)
    X = X[:n]
    y = y[:n]
    found: dict[str, Any] = {"toeplitz": [], "equal diagonals": [], "parzen": [], "uncentred": []}
    indefinite = []
    seconds = {"Toeplitz": 0.0, "the others": 0.0}
    for gamma in WIDTHS / X.shape[1]:
        start = time.perf_counter()
        values, most = _trained(gamma, X, y, test)
        middle = time.perf_counter()
        found["toeplitz"].append(errors(values, truth))
        indefinite.append(most)
        column, _ = diagonal_means(RBF(gamma), X)
        pairs = np.arange(n - 1, 0, -1)  # on each diagonal
        dual, _ = equal_diagonals(column[0], pairs @ column[1:] / pairs.sum(), y, LAMBDAS)
        dual = np.concatenate([dual, (y - y.mean())[:, None], y[:, None]], axis=1)
        values = kernel_product(RBF(gamma), test, X, dual)
        for key, columns in (
            ("equal diagonals", slice(0, -2)),
            ("parzen", slice(-2, -1)),
            ("uncentred", slice(-1, None)),
        ):
            found[key].append(errors(values[:, columns], truth))
        seconds["Toeplitz"] += middle - start
        seconds["the others"] += time.perf_counter() - middle
    return found | {"indefinite up to": indefinite, "seconds": seconds}


def _trained(gamma: float, X: Any, y: Any, test: Any) -> tuple[Any, float]:
    """Predictions for every λ, NaN where it is singular, and the largest λ that leaves T indefinite."""
    machine = KernelRidge(gamma=gamma, approximation=Toeplitz(negative="solve"))
    several = np.repeat(y[:, None], len(LAMBDAS), axis=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the rows are not a series")
        try:  # one pass over the kernel values for all λ
            model = machine.set_params(alpha=LAMBDAS).fit(X, several)
            return model.predict(test), float(model.approximation_.get("indefinite_up_to", 0.0))
        except UnsolvableError:
            pass
        values = np.full((len(test), len(LAMBDAS)), np.nan)
        most = 0.0
        for column, value in enumerate(LAMBDAS):
            try:
                model = machine.set_params(alpha=value).fit(X, y)
            except UnsolvableError:
                most = value
                continue
            values[:, column] = model.predict(test)
            most = max(most, float(model.approximation_.get("indefinite_up_to", 0.0)))
    return values, most


def _chosen(name: str, n: int, approximation: Any) -> dict[str, Any]:
    """What three folds of the training rows choose, and the test error of that."""
    X, y, test, truth = data_set(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _chooser(X.shape[1], approximation).fit(X[:n], y[:n])
    return {
        "held-out error": 1 - float(model.best_score_),
        "test error": 1 - right_signs(truth, model.predict(test)),
        "width": float(model.gamma_ * X.shape[1]),
        "lambda": float(model.alpha_),
        "no score": int(np.isnan(model.cv_results_["mean_test_score"]).sum()),
    }


def _chooser(variables: int, approximation: Any) -> KernelRidgeCV:
    """By the error of the sign; the final model is trained as the folds were."""
    return KernelRidgeCV(
        approximation=approximation,
        gammas=list(WIDTHS / variables),
        alphas=list(LAMBDAS),
        cv=3,
        criterion=make_scorer(right_signs),
        refit="same",
        intervals=None,
    )


def selection(name: str, n: int, device: str) -> dict[str, Any]:
    """Chosen with T: held-out rows by the true kernel, as in the paper, and by T; the check of §4.3."""
    start = time.perf_counter()
    by_kernel = Toeplitz(negative="solve")
    found: dict[str, Any] = {
        "kernel": _chosen(name, n, by_kernel),
        "matrix": _chosen(name, n, Toeplitz(validate="matrix", negative="solve")),
    }
    if n == OURS[name][0][0]:
        X, y, *_ = data_set(name)
        chooser = _chooser(X.shape[1], by_kernel).set_params(refit="exact")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checked = trust(chooser, X[: 2 * n], y[: 2 * n], size=n, random_state=0)
        found["trust"] = {"verdict": checked.verdict, "regret": float(checked.regret)}
    return found | {"seconds": time.perf_counter() - start}


def exact_selection(name: str, n: int, device: str) -> dict[str, Any]:
    """Chosen with K."""
    start = time.perf_counter()
    return {"exact": _chosen(name, n, "exact"), "seconds": time.perf_counter() - start}


def dense(name: str, n: int, device: str) -> dict[str, Any]:
    """Gaussian elimination, where it is affordable, and conjugate gradients, on the same matrices."""
    X, y, test, truth = data_set(name)
    X = X[:n]
    y = y[:n]
    if device != "cpu":
        X, y, test = (on_device(part, device) for part in (X, y, test))
    found: dict[str, Any] = {"elimination": [], "cg": [], "residuals": []}
    for gamma in WIDTHS / X.shape[1]:
        K = gram(RBF(gamma), X)
        machines = {}
        machines["cg"], residuals, _ = iterate(K, y, LAMBDAS)
        if n <= _MOST[device]["elimination"]:
            machines["elimination"] = eliminate(K, y)
        del K
        found["residuals"].append(to_numpy(residuals).tolist())
        for method, dual in machines.items():
            found[method].append(errors(kernel_product(RBF(gamma), test, X, dual), truth))
    return {key: value for key, value in found.items() if value} | {"device": device}


def nystroem(name: str, n: int, device: str) -> dict[str, Any]:
    """What to use instead, as a user would."""
    X, y, test, truth = data_set(name)
    grid = {"gammas": list(WIDTHS / X.shape[1]), "alphas": list(LAMBDAS), "cv": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        landmarks = Nystroem(_LANDMARKS, method="uniform")
        model = LSSVCCV(approximation=landmarks, refit="same", **grid).fit(X[:n], y[:n])
    return {
        "nystroem": float(np.mean(model.predict(test) != truth)),
        "constant": float(min(np.mean(truth > 0), np.mean(truth < 0))),
        "seconds": time.perf_counter() - start,
    }


def times(name: str, n: int, device: str) -> dict[str, Any]:
    """Processor seconds of one solve by each method, and of the kernel values it needs (Figure 3).

    One system for all methods: gamma = 4 / variables and λ = 1.
    """
    X, y, *_ = data_set(name)
    with use_threads(1), threadpool_limits(1):
        return _steps(X[:n], y[:n], 4 / X.shape[1])


def _steps(X: Any, y: Any, gamma: float) -> dict[str, Any]:
    n = len(y)
    clock = time.process_time
    found: dict[str, Any] = {}

    start = clock()
    column, _ = diagonal_means(RBF(gamma), X)
    found["diagonal means"] = clock() - start
    column[0] += 1.0
    start = clock()
    scipy.linalg.solve_toeplitz(column, y)
    found["Levinson"] = clock() - start
    matrix = SymmetricToeplitz(column)
    start = clock()
    minres(
        LinearOperator((n, n), lambda v: matrix.product(v.reshape(1, -1))[0]), y, rtol=1e-8, maxiter=1000
    )
    found["FFT"] = clock() - start
    if n > _TIMED:
        return found
    start = clock()
    K = gram(RBF(gamma), X)
    found["kernel matrix"] = clock() - start
    start = clock()
    *_, found["CG iterations"] = iterate(K, y, [1.0])
    found["CG"] = clock() - start
    start = clock()
    cholesky_solve(cholesky(add_to_diagonal(K, 1.0), overwrite=True), y[:, None])
    found["elimination"] = clock() - start
    return found


def jobs(names: Sequence[str], device: str, largest: int, methods: Sequence[str]) -> list[Any]:
    """(set, n, method) of the sets that are there, small ones first."""
    most = {"dense": _MOST[device]["cg"], "exact_selection": _SELECTED}
    found = [
        (name, n, method)
        for name in names
        if (DATA / f"{name}.npz").exists()
        for n in OURS[name][0]
        for method in methods
        if n <= min(largest, most.get(method, largest))
    ]
    return sorted(found, key=lambda job: job[1])


def run_job(job: tuple[str, int, str], device: str, scratch: Path) -> None:
    name, n, method = job
    target = scratch / f"{name}-{n}-{method}.json"
    if target.exists():
        return
    start = time.perf_counter()
    found = globals()[method](name, n, device)
    scratch.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, default=float) + "\n", "utf-8")
    print(f"{name} {n} {method}: {time.perf_counter() - start:.0f} s", flush=True)


def _run_beside(job: tuple[str, int, str], device: str, scratch: Path) -> None:
    """On one thread, as other jobs run at the same time."""
    with use_threads(1), threadpool_limits(1):
        run_job(job, device, scratch)


def gathered(scratch: Path = SCRATCH) -> dict[str, Any]:
    """What the jobs have found: SET → n → numbers of all methods."""
    found: dict[str, Any] = {}
    for name, (sizes, _, _) in OURS.items():
        for n in sizes:
            for method in METHODS:
                path = scratch / f"{name}-{n}-{method}.json"
                if path.exists():
                    here = found.setdefault(name, {}).setdefault(str(n), {})
                    here[method] = json.loads(path.read_text("utf-8"))
    return found


def run_jobs(
    methods: Sequence[str],
    device: str = "cpu",
    scratch: Path = SCRATCH,
    workers: int = 1,
    largest: int = 100_000,
    names: Sequence[str] = tuple(OURS),
) -> dict[str, Any]:
    """Run what is missing and gather it."""
    todo = jobs(names, device, largest, methods)
    if workers == 1:
        for job in todo:
            run_job(job, device, scratch)
    else:
        with ProcessPoolExecutor(workers) as pool:
            for future in [pool.submit(_run_beside, job, device, scratch) for job in reversed(todo)]:
                future.result()
    return gathered(scratch)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--device", choices=_MOST, default="cpu", help="of the dense jobs")
    parser.add_argument("--workers", type=int, default=1, help=f"processes; cores: {os.cpu_count()}")
    parser.add_argument("--largest", type=int, default=100_000, help="training rows")
    parser.add_argument("--sets", nargs="*", default=list(OURS), choices=list(OURS))
    parser.add_argument("--scratch", type=Path, default=SCRATCH)
    options = parser.parse_args()
    run_jobs(
        options.methods,
        options.device,
        options.scratch,
        options.workers,
        options.largest,
        options.sets,
    )


if __name__ == "__main__":
    main()
