"""A GPU to the edge of its memory and beyond: choices, clusters, exact fits, folds, conjugate gradients.

    python -m benchmarks.device_edges [auto] [kmeans] [exact] [folds] [factor] [blocks] [--quick]

Without names, everything runs, some four minutes on an H200. --quick runs the same code on few rows,
also on a host. A section that fails prints why. "check" is the relative residual on 500 rows.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from onefold.approximations import Auto, ConjugateGradients, Exact, Problem, Workload
from onefold.approximations.auto import choose
from onefold.approximations.problem import Machine
from onefold.basis import BASES
from onefold.kernels import RBF, Matern
from onefold.kernels.tiles import kernel_product

GPU = torch.cuda.is_available()
SHRINK = 100 if "--quick" in sys.argv else 1
DEVICE = "cuda" if GPU else "cpu"
SMOOTH = RBF(0.01)
ROUGH = Matern(0.01, 0.5)


def rows(n: int, d: int = 54, t: int = 7) -> Problem:
    generator = torch.Generator(DEVICE).manual_seed(0)
    given: dict[str, Any] = {"generator": generator, "device": DEVICE, "dtype": torch.float64}
    X = torch.randn(max(200, n // SHRINK), d, **given)
    Y = torch.sin(X @ torch.randn(d, t, **given) / d**0.5)
    return Problem(X, Y + 0.1 * torch.randn(Y.shape, **given), None, True).centred()


@contextmanager
def line(what: str, n: int = 0) -> Iterator[dict[str, Any]]:
    """Print what is known at the end, with the seconds and the peak of the device's memory."""
    if GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    more = dict[str, Any]()
    yield more
    if GPU:
        torch.cuda.synchronize()
        more["GiB"] = f"{torch.cuda.max_memory_allocated() / 2**30:.1f}"
    words = ", ".join(f"{key} {value}" for key, value in more.items())
    spent = time.perf_counter() - start
    print(f"{what:16s} {n:7d} rows {spent:7.2f} s  {words}", flush=True)


def check(problem: Problem, kernel: Any, mu: float, model: Any) -> str:
    some = torch.arange(0, problem.n, max(1, problem.n // 500), device=DEVICE)
    values = kernel_product(kernel, problem.X[some], problem.X, model.coef)
    left = problem.Y[some] - values - mu * model.coef[some] - model.intercept
    return f"{float(left.norm() / problem.Y[some].norm()):.1e}"


def auto() -> None:
    with line("speed") as more:
        machine = Machine.of(DEVICE)
        more |= {name: f"{rate:.2g}" for name, rate in asdict(machine.measure()).items()}
    for n in (5_000, 30_000, 60_000, 100_000, 150_000, 465_000):
        for what, load in (("fit", Workload()), ("search", Workload(13, 11, 5))):
            print(f"{what}: {choose(Auto(), (n, 54, 7), load, machine, timed=True)}", flush=True)


def kmeans() -> None:
    problem = rows(30_000)
    for m in (1000, 1000, 4000):  # the first call loads modules
        with line(f"k-means, {m // SHRINK}", problem.n):
            BASES["kmeans"](SMOOTH, problem.X, m // SHRINK, np.random.default_rng(0))


def exact() -> None:
    for n in (60_000, 100_000):
        problem = rows(n)
        mu = 1e-2
        with line("exact float64", problem.n) as more:
            forecast = Exact().peak_bytes(*problem.shape, problem.machine.load(), 1)
            model = Exact().start(problem, [SMOOTH], Workload()).model(SMOOTH).expansion(mu)
            more |= {"check": check(problem, SMOOTH, mu, model), "forecast": f"{forecast / 2**30:.1f}"}


def folds() -> None:
    problem = rows(36_584, 20)
    five = np.array_split(np.arange(problem.n), 5)
    for parts in (five, five[-1:]):
        with line(f"{len(parts)} of 5 folds", problem.n) as more:
            run = Exact().start(problem, [ROUGH], Workload(folds=5))
            tested = np.concatenate(parts)
            found = torch.cat(run.model(ROUGH).heldout(parts, [1e-2]), 1)[0]
            more["mse"] = f"{float(((found - problem.Y[tested]) ** 2).mean()):.4f}"


def iterated(settings: ConjugateGradients, n: int, cells: list[tuple[Any, float]]) -> None:
    problem = rows(n)
    for kernel, mu in cells:
        with line(f"cg {type(kernel).__name__} {mu:g}", problem.n) as more:
            fitted = settings.model(kernel, problem, Workload(), None)
            start = time.perf_counter()
            model = fitted.expansion(mu)
            (solve,) = fitted.report["solves"]
            seconds = time.perf_counter() - start
            more |= {"seconds": f"{seconds:.1f}", **fitted.report["preconditioner"], **solve}
            more |= {"tiles": fitted.report["tiles"], "check": check(problem, kernel, mu, model)}
        del fitted, model  # and the memory of the factors


def factor() -> None:
    iterated(ConjugateGradients(block_rows=150_000), 150_000, [(SMOOTH, 1e-2), (ROUGH, 1e-4)])


def blocks() -> None:
    settings = ConjugateGradients(max_iterations=30, tolerance=0.03)
    iterated(settings, 465_000, [(SMOOTH, 1e-2), (SMOOTH, 1e-4)])


if __name__ == "__main__":
    sections = {one.__name__: one for one in (auto, kmeans, exact, folds, factor, blocks)}
    for name in [name for name in sys.argv[1:] if name in sections] or sections:
        try:
            sections[name]()
        except Exception:  # noqa: BLE001
            traceback.print_exc()
