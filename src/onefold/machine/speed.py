"""How fast this machine is, measured once: the yardstick of every time estimate.

Two numbers describe the host: multiply-adds per second of a matrix product on all cores, and
exponentials per second on one. Measuring them takes half a second, on one core; the best of many short
runs counts, so that other work on the machine hardly shows. They are kept in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from onefold.machine.files import atomic_write
from onefold.machine.threads import count_workers, limit_blas

# Rows of the square matrices that are multiplied: a product takes milliseconds, at its full speed.
_PRODUCT_ROWS = 384
# Numbers whose exponentials are taken: half a MiB, which stays in a core's cache.
_EXPONENTIALS = 2**16
# Seconds for which a function is called again and again; the fastest call counts.
_TRIAL_SECONDS = 0.2
# Seconds: a call counts as no faster, so that a rate is finite where the clock is coarse.
_SHORTEST = 1e-9


@dataclass(frozen=True)
class Speed:
    """Rates per second, of a host or of a GPU as a whole (:mod:`onefold.linalg.speed`)."""

    multiply_adds: float  # of a float64 matrix product on all cores
    exponentials: float  # of float64 numbers, on a host on one core
    single: float = 0.0  # multiply-adds of a float32 matrix product; of GPUs only
    cholesky: float = 0.0  # multiply-adds of a Cholesky factorisation, n³/6 of them; of GPUs only
    single_cholesky: float = 0.0  # the same in float32


@cache
def machine_speed() -> Speed:
    """The speed of this machine: from this process, from the cache folder, or measured now."""
    cache_home = os.environ.get("XDG_CACHE_HOME")
    name = f"speed-{platform.node()}-{count_workers(None)}-numpy{np.__version__}.json"
    try:
        path = (Path(cache_home) if cache_home else Path.home() / ".cache") / "onefold" / name
    except RuntimeError:  # a user without a home, as in some containers
        return measure()
    with suppress(OSError, ValueError, TypeError):  # no such file, or not one of ours: measure again
        speed = Speed(**json.loads(path.read_text("utf-8")))
        if speed.multiply_adds > 0 and speed.exponentials > 0:
            return speed
    speed = measure()
    with suppress(OSError):  # a home that cannot be written to: the next process measures again
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(asdict(speed)), "utf-8")
    return speed


def measure() -> Speed:
    """Measure, in about half a second."""
    rng = np.random.default_rng(0)
    A, B = rng.random((2, _PRODUCT_ROWS, _PRODUCT_ROWS))
    values = rng.random(_EXPONENTIALS) - 1.0
    with limit_blas(1):
        multiply_adds = count_workers(None) * _PRODUCT_ROWS**3 / _best(lambda: A @ B)
    return Speed(multiply_adds, exponentials=values.size / _best(lambda: np.exp(values)))


def _best(function: Callable[[], object]) -> float:
    """Seconds of the fastest of many calls."""
    best = float("inf")
    end = time.perf_counter() + _TRIAL_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return max(best, _SHORTEST)


def duration_words(seconds: float) -> str:
    """A duration as people say it: ``8 s``, ``3 min``, ``1 h 20 min``, ``30 h``, ``12 days``."""
    if seconds < 60:
        return f"{max(seconds, 1.0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{round(seconds / 86400)} days"
    if hours >= 10:
        return f"{round(seconds / 3600)} h"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
