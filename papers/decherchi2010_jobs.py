"""The machines behind Figures 2 and 3 of decherchi2010, one job for each data set, size and method.

    python -m papers.decherchi2010_jobs [--workers 2] [--device cuda] [--scratch DIR] [METHOD ...]

A job keeps its numbers in SET-N-METHOD.json in the scratch folder and is not run again where that file
exists, so that jobs can be run in several goes and on several machines. Sizes that a method cannot reach
in memory or time are left out: Gaussian elimination and conjugate gradients go further with
``--device cuda``.
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
from scipy.sparse.linalg import LinearOperator, eigsh, minres
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA, RESULTS
from onefold import LSSVCCV, trust
from onefold.approximations import Nystroem, Toeplitz
from onefold.kernels import RBF
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import namespace, on_device, to_numpy
from onefold.linalg.dense import add_to_diagonal, cholesky, cholesky_solve
from onefold.linalg.iterate import conjugate_gradients
from onefold.machine.threads import spans, use_threads
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
METHODS = ("toeplitz", "dense", "nystroem", "times")
LAMBDAS = 10.0 ** np.arange(-3, 3)
WIDTHS = 4.0 ** np.arange(-1, 8)  # gamma times the number of variables: each is four times the last
_MOST = {"cpu": {"elimination": 10_000, "cg": 20_000}, "cuda": {"elimination": 50_000, "cg": 100_000}}
_TIMED = 10_000  # rows up to which Gaussian elimination and conjugate gradients are timed
CG = {"tolerance": 1e-6, "limit": 100}  # Matlab's default, and the paper's limit
_LANDMARKS = 1000
_STRIP = 2**14  # rows of K in one product: less than 2³¹ numbers, more of which not all of CUDA takes


def data_set(name: str) -> tuple[Any, Any, Any, Any]:
    """Rows shuffled with seed 0, coordinates in [−1, 1], labels ±1: (X, y, test X, test y)."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y_binary"] if "y_binary" in file else file["y"]
    if name == "mnist":
        pick = np.isin(y, (3, 8))
        X, y = X[pick], y[pick]
    sizes, test, variables = OURS[name]
    rows = np.random.default_rng(0).permutation(len(y))[: sizes[-1] + test]
    X, y = X[rows].astype(np.float64), np.where(y[rows] == y.max(), 1.0, -1.0)
    if X.shape[1] > variables:
        X = X - X.mean(axis=0)
        X = X @ scipy.linalg.eigh(X.T @ X)[1][:, ::-1][:, :variables]  # principal components
    span = np.ptp(X, axis=0)
    X = 2 * (X - X.min(axis=0)) / np.where(span > 0, span, 1) - 1
    return X[:-test], y[:-test], X[-test:], y[-test:]


def diagonal_means(X: Any, gamma: float, count: int, rows: int = 256, columns: int = 2048) -> Any:
    r"""Means (count, n) of the diagonals of exp(−4ᵏ gamma ‖x_i − x_j‖²), k = 0 … count − 1.

    One pass over the distances serves all widths: the fourth power of a kernel value is that of the next
    width. Distances of a block are skewed so that diagonals become columns, with ∞ (kernel value 0) in
    the places that are left over. O(n) memory, n²/2 exponentials.
    """
    n = len(X)
    X = X - X.mean(axis=0)
    squares, sums = np.einsum("ij,ij->i", X, X), np.zeros((count, n))
    for left in spans(n, rows):
        for some in spans(n - left.start, columns):
            right = slice(left.start + some.start, left.start + some.stop)
            block = squares[left, None] + squares[None, right] - 2 * X[left] @ X[right].T
            p, q = block.shape
            frame = np.full((p, q + p), np.inf)
            frame[:, :q] = np.maximum(block[::-1], 0)
            values = frame.ravel()[: p * (q + p - 1)].reshape(p, q + p - 1)
            values = np.exp(-gamma * values)
            first = right.start - left.start - (p - 1)  # the diagonal of the first column
            skip = max(0, -first)  # below the main diagonal: counted on the other side
            for k in range(count):
                if k:
                    np.square(values, out=values)
                    np.square(values, out=values)
                sums[k, first + skip : first + q + p - 1] += values.sum(axis=0)[skip:]
    return sums / (n - np.arange(n))


def solve_toeplitz(column: Any, y: Any) -> tuple[Any, float]:
    """α of (T + λI) α = y for every λ (n, λ), T possibly indefinite, and T's least eigenvalue."""
    matrix = SymmetricToeplitz(column)

    def operator(shift: float) -> LinearOperator:
        return LinearOperator((len(y),) * 2, lambda v: matrix.product(v.reshape(1, -1), shift)[0])

    least = eigsh(
        operator(0.0), k=1, which="SA", tol=1e-2, return_eigenvectors=False, v0=np.ones(len(y))
    )
    found = [minres(operator(value), y, rtol=1e-8, maxiter=1000)[0] for value in LAMBDAS]
    return np.stack(found, axis=1), float(least[0])


def eliminate(K: Any, y: Any) -> Any:
    """α of (K + λI) α = y for every λ by Cholesky factors; NaN where K + λI has none."""
    xp, found = namespace(K), []
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
    X, y, test, truth = data_set(name)
    X, y = X[:n], y[:n]
    gammas, start = WIDTHS / X.shape[1], time.perf_counter()
    columns = diagonal_means(X, gammas[0], len(gammas))
    passed, found, least = time.perf_counter(), [], []
    for gamma, column in zip(gammas, columns):
        dual, lowest = solve_toeplitz(column, y)
        # The last column is a Parzen window: the difference of the classes' mean kernel values.
        dual = np.concatenate([dual, (y - y.mean())[:, None]], axis=1)
        found.append(errors(kernel_product(RBF(gamma), test, X, dual), truth))
        least.append(lowest)
    end = time.perf_counter()
    return {
        "toeplitz": [[half[:-1] for half in width] for width in found],
        "parzen": [[half[-1:] for half in width] for width in found],
        "least eigenvalue": least,
        "seconds": {"diagonal means": passed - start, "solve and predict": end - passed},
    }


def dense(name: str, n: int, device: str) -> dict[str, Any]:
    """Gaussian elimination, where it is affordable, and conjugate gradients, on the same matrices."""
    X, y, test, truth = data_set(name)
    X, y = X[:n], y[:n]
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
    """What to use instead, as a user would, and §4.3's check on a thousand rows of the smallest size."""
    X, y, test, truth = data_set(name)
    grid = {"gammas": list(WIDTHS / X.shape[1]), "alphas": list(LAMBDAS), "cv": 3}
    verdict = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if n == OURS[name][0][0]:
            chooser = LSSVCCV(approximation=Toeplitz(), refit="same", **grid)
            checked = trust(chooser, X[: 2 * n], y[: 2 * n], size=n, random_state=0)
            verdict = {"verdict": checked.verdict, "regret": float(checked.regret)}
        start = time.perf_counter()
        landmarks = Nystroem(_LANDMARKS, method="uniform")
        model = LSSVCCV(approximation=landmarks, refit="same", **grid).fit(X[:n], y[:n])
    return {
        "nystroem": float(np.mean(model.predict(test) != truth)),
        "constant": float(min(np.mean(truth > 0), np.mean(truth < 0))),
        "trust": verdict,
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
    n, clock = len(y), time.process_time
    found: dict[str, Any] = {}

    start = clock()
    column = diagonal_means(X, gamma, 1)[0]
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
    found = [
        (name, n, method)
        for name in names
        if (DATA / f"{name}.npz").exists()
        for n in OURS[name][0]
        for method in methods
        if n <= min(largest, _MOST[device]["cg"] if method == "dense" else largest)
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
            for future in [pool.submit(run_job, job, device, scratch) for job in todo]:
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
