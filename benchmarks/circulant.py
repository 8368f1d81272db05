"""Leave-one-out with a circulant matrix, one kernel and one ridge value, against the bare transforms.

    python -m benchmarks.circulant [--quick] [--large]

Errors, and times beside the published ones, are made by ``python -m papers ding2011`` and
``python -m papers edwards2013``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

from benchmarks.common import Row, peak_memory, report, seconds
from onefold import KernelRidgeCV
from onefold.approximations import Circulant, Problem, Workload
from onefold.kernels import RBF
from onefold.machine.threads import use_threads

SPACING = (1.3, 1.7)
KERNEL = RBF(1.0)
ALPHA = 0.5
SMALLEST = 13


def problem_of(n: int, intercept: bool) -> Problem:
    rng = np.random.default_rng(0)
    return Problem(rng.standard_normal((n, 2)), rng.standard_normal((n, 1)), None, intercept)


def approximation() -> Circulant:
    return Circulant(spacing=SPACING, order="given", validate="matrix")


def leave_one_out(problem: Problem, structure: Any) -> Any:
    """On one thread; looking for free memory, once per search, is not the method's."""
    with use_threads(1):
        model = structure.model(KERNEL, problem, Workload(folds=5), None)
        return model.leave_one_out(np.array([ALPHA]))


def unavoidable(problem: Problem) -> None:
    """Kernel values for all cells, written plainly, and three real transforms of that shape."""
    shape = approximation().layout(problem).shape
    left, right = (np.arange(size) * h for size, h in zip(shape, SPACING))
    squared = left[:, None] ** 2 + right**2
    np.negative(squared, out=squared)
    values = np.exp(squared, out=squared)
    spectrum = scipy.fft.rfftn(values, workers=1)
    scipy.fft.rfftn(problem.Y.reshape(shape), workers=1)
    scipy.fft.irfftn(spectrum, s=shape, workers=1)


def arrays_at_peak(n: int, intercept: bool) -> float:
    """Peak memory of the leave-one-out beyond X and y, in arrays of n float64."""
    code = (
        "from benchmarks.circulant import *\n"
        # The first call loads code and scratch that are not the method's.
        f"leave_one_out(problem_of(64, {intercept}), approximation())\n"
        f"setup = lambda: problem_of({n}, {intercept})\n"
        "run = lambda problem: leave_one_out(problem, approximation())\n"
    )
    return peak_memory(code) / (8 * n)


def run(largest: int) -> None:
    powers = range(SMALLEST, largest + 1)
    with threadpool_limits(1):
        times = best_times(powers)
        rows = [one_size(power, times) for power in powers]
    for row, before in zip(rows[1:], rows[:-1]):
        row["× for double n"] = row["LS-SVM s"] / before["LS-SVM s"]
    sizes = np.log([2.0**power for power in powers])
    slopes = {
        name: float(np.polyfit(sizes, np.log([row[f"{name} s"] for row in rows]), 1)[0])
        for name in ("LS-SVM", "ridge")
    }
    notes = "\nSlopes in log-log: " + ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items())
    report("circulant", "Leave-one-out by size, one thread", rows, notes)


def best_times(powers: range) -> dict[str, float]:
    """The best of many rounds through all sizes, so that a busy machine hits all of them alike.

    Each is run once before it is timed: small sizes find their arrays in cache, as they would alone.
    """
    functions: dict[str, Callable[[], object]] = {}
    for power in powers:
        bordered = problem_of(2**power, True)
        plain = problem_of(2**power, False)
        functions[f"unavoidable {power}"] = partial(unavoidable, plain)
        functions[f"LS-SVM {power}"] = partial(leave_one_out, bordered, approximation())
        functions[f"ridge {power}"] = partial(leave_one_out, plain, approximation())
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(40):
        for name, function in functions.items():
            function()
            best[name] = min(best[name], seconds(function))
    return best


def one_size(power: int, times: dict[str, float]) -> Row:
    n = 2**power
    unavoidable_time = times[f"unavoidable {power}"]
    problem = problem_of(n, True)
    return {
        "n": f"2^{power}",
        "LS-SVM s": times[f"LS-SVM {power}"],
        "ridge s": times[f"ridge {power}"],
        "kernel values + 3 FFT s": unavoidable_time,
        "LS-SVM ratio": times[f"LS-SVM {power}"] / unavoidable_time,
        "ridge ratio": times[f"ridge {power}"] / unavoidable_time,
        "× for double n": None,
        "arrays of n at peak": arrays_at_peak(n, True) if power >= 18 else None,
        "whole fit s": seconds(lambda: whole_fit(problem)),
    }


def whole_fit(problem: Problem) -> None:
    """The estimator's whole fit: checks, search of one cell, scoring, and the final coefficients."""
    KernelRidgeCV(
        gammas=[1.0], alphas=[ALPHA], approximation=approximation(), cv="loo", refit="same", n_jobs=1
    ).fit(problem.X, problem.Y[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 2^16")
    parser.add_argument("--large", action="store_true", help="sizes up to 2^22")
    arguments = parser.parse_args()
    run(16 if arguments.quick else 22 if arguments.large else 20)


if __name__ == "__main__":
    main()
