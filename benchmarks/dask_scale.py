"""Two worker processes of Dask against one process with two threads: the same search of the same rows.

    python -m benchmarks.dask_scale [--rows N] [--turns N] [--quick]

A whole fit of LSSVRCV with uniform landmarks, the rows made by the workers and kept there. Time
on a busy machine says little, so the ratio of processor times stands beside it. From the rate and the
bytes that the reduction moves follows a model of 10⁹ rows on 100 workers.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from benchmarks.common import Row, report
from onefold import LSSVRCV
from onefold.approximations import Nystroem

_FEATURES = 20
_FOLDS = 5
_WORKERS = 2
_GAMMAS = [0.01, 0.03]
_ALPHAS = [0.01, 0.1, 1.0, 10.0]
# Dask's workers look at their own stack a hundred times a second and give memory back at once.
_SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no profiler, memory kept": {
        "distributed.worker.profile.enabled": False,
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**30,
    },
}
_NETWORK = 1e9  # bytes a second between two machines of the model
_ROWS = 10**9
_MACHINES = 100


def block(number: int, rows: int) -> Any:
    """The rows of one partition, the same wherever they are made."""
    return np.random.default_rng(number).standard_normal((rows, _FEATURES)).astype(np.float32)


def targets(X: Any) -> Any:
    """A smooth function of three features, and noise."""
    noise = np.random.default_rng(0).standard_normal(len(X))
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * noise


def search(m: int, **options: Any) -> LSSVRCV:
    """What both fit."""
    return LSSVRCV(
        approximation=Nystroem(m, method="uniform"), gammas=_GAMMAS, alphas=_ALPHAS, cv=_FOLDS, **options
    )


def usage() -> tuple[float, float, float]:
    """Processor time of this process, its peak memory and its memory now."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        found = dict(line.split(":", 1) for line in lines)
    sizes = [1024.0 * int(found[key].split()[0]) for key in ("VmHWM", "VmRSS")]
    return sum(os.times()[:2]), sizes[0], sizes[1]


def received(dask_worker: Any) -> float:
    """Bytes that a worker has taken from others."""
    return float(sum(entry["total"] for entry in dask_worker.transfer_incoming_log))


def in_one_process(X: Any, y: Any, m: int) -> tuple[float, float, LSSVRCV]:
    """Wall and processor time with two threads."""
    start = time.perf_counter()
    before = usage()[0]
    fitted = search(m, n_jobs=_WORKERS).fit(X, y)
    return time.perf_counter() - start, usage()[0] - before, fitted


def on_workers(client: Any, lazy: Any, y: Any, m: int) -> tuple[float, float, LSSVRCV]:
    """Wall time, and processor time of the caller and all workers."""

    def spent() -> float:
        return usage()[0] + sum(one[0] for one in client.run(usage).values())

    start = time.perf_counter()
    before = spent()
    fitted = search(m, client=client, n_jobs=_WORKERS).fit(lazy, y)
    return time.perf_counter() - start, spent() - before, fitted


def compare(n: int, m: int, partitions: int, turns: int, settings: str) -> tuple[Row, str]:
    """Both ways in turn, the memory of the workers, and the model."""
    size = n // partitions
    X = np.concatenate([block(i, size) for i in range(partitions)])
    y = targets(X)
    with (
        dask.config.set(_SETTINGS[settings]),
        distributed.LocalCluster(
            _WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = [
            da.from_delayed(dask.delayed(block)(i, size), (size, _FEATURES), dtype=np.float32)
            for i in range(partitions)
        ]
        lazy = client.persist(da.concatenate(parts))
        distributed.wait(lazy)
        on_workers(client, lazy[: 2 * size], y[: 2 * size], m)  # modules loaded
        rest = [one[2] for one in client.run(usage).values()]
        alone = []
        spread = []
        for _ in range(turns):
            moved = sum(client.run(received).values())
            spread.append(on_workers(client, lazy, y, m))
            moved = sum(client.run(received).values()) - moved
            alone.append(in_one_process(X, y, m))
        peaks = [one[1] for one in client.run(usage).values()]
    best = min(alone, key=lambda one: one[0])
    fastest = min(spread, key=lambda one: one[0])
    scores = [one[2].cv_results_["mean_test_score"] for one in (best, fastest)]
    passes = len(_GAMMAS) + 1  # and the held-out predictions of the chosen one
    row: Row = {
        "Dask's settings": settings,
        "rows": n,
        "landmarks": m,
        "partitions": partitions,
        "one process, s": best[0],
        "two workers, s": fastest[0],
        "ratio": fastest[0] / best[0],
        "processor time, ratio": min(one[1] for one in spread) / min(one[1] for one in alone),
        "rows a second and worker": passes * n / (_WORKERS * fastest[0]),
        "moved between workers, MB": moved / 1e6,
        "a worker's peak above its rows, MB": max(np.subtract(peaks, rest)) / 1e6,
        "scores differ by": float(np.abs(scores[0] - scores[1]).max()),
    }
    return row, model(row, m)


def model(row: Row, m: int) -> str:
    """What 10⁹ rows on 100 workers would take, from what was measured."""
    state = 8.0 * _FOLDS * (m * m + 2 * m + 4)
    partitions = _ROWS // 10**6
    reading = _ROWS / (_MACHINES * row["rows a second and worker"])
    adding = math.ceil(math.log2(partitions)) * state / _NETWORK
    return (
        f"\n10⁹ rows on 100 workers, {m} landmarks, partitions of 10⁶ rows: a pass of a kernel takes "
        f"{reading:.0f} s at the rate above; the sums of a partition are {state / 1e6:.0f} MB, so that "
        f"a worker receives {partitions / _MACHINES * state / 1e6:.0f} MB at most and the longest path "
        f"of the tree moves {adding:.2f} s of them at 1 GB/s; targets, {8e-9 * _ROWS:.0f} GB, and fold "
        f"numbers, {1e-9 * _ROWS:.0f} GB, travel once, {9e-9 * _ROWS * 1e9 / _NETWORK:.0f} s."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer landmarks")
    options = parser.parse_args()
    n, m = (options.rows // 10, 200) if options.quick else (options.rows, 500)
    found = [compare(n, m, 20, options.turns, settings) for settings in _SETTINGS]
    rows = [row for row, _ in found]
    report("dask-scale", "Two worker processes against two threads", rows, found[-1][1])


if __name__ == "__main__":
    main()
