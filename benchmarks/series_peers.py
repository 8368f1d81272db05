"""A peer of benchmarks.series, run by an interpreter that has it: seconds of what it can do, as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def series(n: int) -> tuple[Any, Any]:
    """As in benchmarks.series, which this interpreter cannot import."""
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.exponential(1.0, n))
    return times, np.sin(times / 50) + 0.3 * rng.standard_normal(n)


def processor_seconds(function: Callable[[], object], repeats: int) -> float:
    """The shortest processor time of all threads, after a call that compiles."""
    function()
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return min(spent)


def tinygp(n: int, repeats: int, mu: float, scale: float) -> dict[str, float]:
    """Its quasi-separable solver in float64, compiled by XLA."""
    import jax
    from tinygp import GaussianProcess, kernels

    jax.config.update("jax_enable_x64", True)
    times, y = series(n)
    y = y - y.mean()
    found = {}
    for name, kernel in (("3/2", kernels.quasisep.Matern32), ("5/2", kernels.quasisep.Matern52)):

        def process(t: Any, kernel: Any = kernel) -> Any:
            return GaussianProcess(kernel(scale=scale), t, diag=mu)

        def likelihood(t: Any, y: Any, process: Any = process) -> Any:
            return process(t).log_probability(y)

        def conditioned(t: Any, y: Any, process: Any = process) -> Any:
            posterior = process(t).condition(y).gp
            return posterior.loc, posterior.variance

        def solution(t: Any, y: Any, process: Any = process) -> Any:
            return process(t).condition(y).gp.loc

        for what, function in (
            ("likelihood", likelihood),
            ("mean and variance", conditioned),
            ("solution", solution),
        ):
            compiled = jax.jit(function)
            found[f"{what} {name}"] = processor_seconds(
                lambda f=compiled: jax.block_until_ready(f(times, y)), repeats
            )
    return found


def celerite2(n: int, repeats: int, mu: float, scale: float) -> dict[str, float]:
    """Matérn 3/2 as it has it, to a relative accuracy of 0.01; it has no variances in O(n)."""
    import celerite2
    from celerite2 import terms

    times, y = series(n)
    y = y - y.mean()
    process = celerite2.GaussianProcess(terms.Matern32Term(sigma=1.0, rho=scale))
    noise = np.full(n, mu)

    def likelihood() -> Any:
        process.compute(times, diag=noise)
        return process.log_likelihood(y)

    def solution() -> Any:
        process.compute(times, diag=noise)
        return process.apply_inverse(y)

    return {
        "likelihood 3/2": processor_seconds(likelihood, repeats),
        "solution 3/2": processor_seconds(solution, repeats),
    }


if __name__ == "__main__":
    name, *numbers = sys.argv[1:]
    rows = int(numbers[0])
    repeats = int(numbers[1])
    functions = {"tinygp": tinygp, "celerite2": celerite2}
    print(json.dumps(functions[name](rows, repeats, float(numbers[2]), float(numbers[3]))))
