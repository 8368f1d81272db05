"""Series at irregular times by their state space: one ridge, a whole grid, two peers, two real series.

    python -m benchmarks.series [--quick] [ridge] [grid] [peers] [real]

`peers` installs tinygp and celerite2 into environments of their own (benchmarks.peers.environments) and
runs them before and after this package in the same call, on one core. `real` needs the data of
benchmarks.common.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import PredefinedSplit

from benchmarks.common import Row, data_sets, run_parts, seconds
from benchmarks.peers.environments import CannotInstall, interpreter
from onefold import LSSVRCV
from onefold.approximations import StateSpace
from onefold.kernels.line import LineKernel, LineSums
from onefold.machine.threads import limit_blas, use_threads
from onefold.smoothers.state_space import StateSpaceSmoother

NAMES = {1: "1/2", 2: "3/2", 3: "5/2"}
MU = 0.1
SCALE = 20.0  # widths of the kernel in mean steps
GAMMAS = 2.0 ** np.arange(-15, 10, 2)
ALPHAS = 2.0 ** np.arange(-15, 6, 2)
WORKER = Path(__file__).with_name("series_peers.py")


def series(n: int) -> tuple[Any, Any]:
    """Irregular times with a mean step of 1, and a wave with noise."""
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.exponential(1.0, n))
    return times, np.sin(times / 50) + 0.3 * rng.standard_normal(n)


def of_order(times: Any, dimension: int) -> StateSpaceSmoother:
    """With an intercept, at the width of all parts."""
    rate = np.sqrt(2 * (dimension - 0.5)) / SCALE
    return StateSpaceSmoother(rate * np.diff(times), dimension, root=None, intercept=True)


def processor_seconds(function: Callable[[], object], repeats: int) -> float:
    """The shortest processor time of some calls, which other processes hardly change."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return min(spent)


def ridge(quick: bool) -> list[Row]:
    """One ridge on one core, in seconds of its processor."""
    n = 10**5 if quick else 10**6
    times, y = series(n)
    Y = (y - y.mean())[:, None]
    rows: list[Row] = []
    with use_threads(1), limit_blas(1):
        for dimension in (1, 2, 3):
            of_order(times[:50], dimension).leave_one_out(Y[:50], [MU])  # compiles
            smoother = of_order(times, dimension)
            sums = LineSums(LineKernel(dimension, 1.0 / SCALE), times, Y)
            steps: dict[str, Callable[[], object]] = {
                "transitions": partial(of_order, times, dimension),
                "residuals": partial(smoother.residuals, Y, [MU]),
                "log-determinant": partial(smoother.logdet, [MU]),
                "leave-one-out": partial(smoother.leave_one_out, Y, [MU]),
                "predict n rows": partial(sums.values, times),
            }
            row: Row = {"n": n, "nu": NAMES[dimension]}
            row |= {what: processor_seconds(step, 2 if quick else 5) for what, step in steps.items()}
            row["a new width, with leave-one-out"] = row["transitions"] + row["leave-one-out"]
            rows.append(row)
    return rows


def grid(quick: bool) -> list[Row]:
    """13 widths × 11 ridges, leave-one-out and five folds, with the final fit."""
    n = 10**4 if quick else 10**6
    times, y = series(n)
    rows: list[Row] = []
    for cv in ("loo", 5):
        for jobs in (1, -1) if cv == "loo" else (-1,):
            model = LSSVRCV(
                "matern52", gammas=GAMMAS / SCALE**2, alphas=ALPHAS, cv=cv, approximation=StateSpace(),
                intervals=None, n_jobs=jobs,
            )  # fmt: skip
            start = time.perf_counter()
            model.fit(times[:, None], y)
            cores = 1 if jobs == 1 else os.cpu_count()
            row = {"n": n, "cv": cv, "cores": cores, "seconds": time.perf_counter() - start}
            rows.append(row | {"seconds per cell": row["seconds"] / (GAMMAS.size * ALPHAS.size)})
    return rows


def peers(quick: bool) -> list[Row]:
    """The same quantities by tinygp and celerite2, beside this package in the same call, on one core."""
    n, repeats = (10**4, 2) if quick else (10**6, 3)
    times, y = series(n)
    smoothers = {dimension: of_order(times, dimension) for dimension in (2, 3)}
    Y = (y - y.mean())[:, None]
    for smoother in smoothers.values():
        smoother.residuals(Y, [MU])

    def own() -> dict[str, float]:
        """From the times and the width on, as the peers start."""
        with use_threads(1), limit_blas(1):
            found: dict[str, float] = {}
            for dimension, name in ((2, "3/2"), (3, "5/2")):
                for what, function in _QUANTITIES.items():

                    def step(dimension: int = dimension, function: Any = function) -> None:
                        function(of_order(times, dimension), Y)

                    found[f"{what} {name}"] = processor_seconds(step, repeats)
        return found

    before = own()
    theirs = {name: _peer(name, n, repeats) for name in ("tinygp", "celerite2")}
    after = own()
    rows: list[Row] = []
    for what, first in before.items():
        ours = min(first, after[what])
        row: Row = {"what": f"{what}, n = {n}", "onefold [s]": ours}
        for name, found in theirs.items():
            value = found.get(what)
            row[f"{name} [s]"] = value
            row[f"{name} / onefold"] = value / ours if isinstance(value, float) else None
        rows.append(row)
    for name, found in theirs.items():
        if "missing" in found:
            rows.append({"what": f"{name} is not at hand: {found['missing']}"})
    return rows


def _likelihood(smoother: StateSpaceSmoother, Y: Any) -> float:
    """yᵀG⁻¹y + log det G."""
    solved = smoother.solve(Y, smoother.filter_without(None, MU))
    return float(Y[:, 0] @ solved.duals[:, 0] + np.log(solved.kalman.C[:, 0] + MU).sum())


_QUANTITIES: dict[str, Callable[[StateSpaceSmoother, Any], object]] = {
    "likelihood": _likelihood,
    "solution": lambda smoother, Y: smoother.residuals(Y, [MU]),
    "mean and variance": lambda smoother, Y: smoother.leave_one_out(Y, [MU]),
}
"""The variance of f at a row is that of its noise less noise² · (G⁻¹)_ii: what leave-one-out needs."""


def _peer(name: str, n: int, repeats: int) -> dict[str, Any]:
    try:
        python = interpreter(name)
    except CannotInstall as error:
        return {"missing": str(error)}
    one_core = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    command = [python, str(WORKER), name, str(n), str(repeats), str(MU), str(SCALE)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_core)
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["it failed"])[-1][:200]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def real(quick: bool) -> list[Row]:
    """Removed blocks of two real series that have gaps already, filled in; a line between neighbours."""
    rows: list[Row] = []
    for name, times, y, lengths in _real_series():
        for length in lengths[:1] if quick else lengths:
            removed = _blocks(len(y), length)
            rest = np.setdiff1d(np.arange(len(y)), removed)
            # Folds of blocks as long as the gaps: neighbours of a row would tell its value.
            folds = PredefinedSplit(np.arange(rest.size) // length % 5)
            row: Row = {"series": name, "rows": rest.size, "gap [steps]": length, "values": removed.size}
            row["mean"] = _rmse(y[rest].mean(), y[removed])
            row["line"] = _rmse(np.interp(times[removed], times[rest], y[rest]), y[removed])
            for kernel in ("laplacian", "matern32", "matern52"):
                model = LSSVRCV(
                    kernel, gammas=_widths(kernel, times), alphas=2.0 ** np.arange(-15, 4, 2),
                    cv=folds, approximation="state_space", intervals=None,
                )  # fmt: skip
                spent = seconds(partial(model.fit, times[rest, None], y[rest]))
                row[kernel] = _rmse(model.predict(times[removed, None]), y[removed])
                row[f"{kernel} [s]"] = spent
            rows.append(row)
    return rows


def _real_series() -> Iterator[tuple[str, Any, Any, tuple[int, ...]]]:
    """Name, times in days or years, values, and lengths of gaps in steps."""
    for name, data in data_sets(("co2_maunaloa_weekly", "household_power_hourly")):
        yield name, data["X"][:, 0], data["y"], (1, 4, 26) if "co2" in name else (1, 6, 48)


def _blocks(n: int, length: int) -> Any:
    """Places of blocks that make a twentieth of a series."""
    count = max(1, n // (20 * length))
    starts = np.random.default_rng(0).choice(n // length - 2, count, replace=False) + 1
    return np.sort((starts[:, None] * length + np.arange(length)).ravel())


def _widths(kernel: str, times: Any) -> Any:
    """Length scales from two steps to the whole series."""
    lengths = np.geomspace(2 * np.median(np.diff(times)), times[-1] - times[0], 10)
    return 1 / lengths if kernel == "laplacian" else 1 / (2 * lengths**2)


def _rmse(predicted: Any, y: Any) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


PARTS = {
    "ridge": ("One ridge of an irregular series: seconds of one core", ridge),
    "grid": ("13 widths by 11 ridges, Matérn 5/2, with the final fit", grid),
    "peers": ("Beside tinygp and celerite2: seconds of one core, from the times to the result", peers),
    "real": ("Gaps of real series: root mean squared errors", real),
}

if __name__ == "__main__":
    run_parts("series", __doc__, PARTS)
