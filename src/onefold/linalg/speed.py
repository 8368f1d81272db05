"""How fast a GPU is, measured once per process in a fraction of a second: for estimates of time.

The Cholesky factorisation is that of this folder, at a size at which it reaches its full speed. Calls
are queued, so one number of each result is fetched, to be sure that the result is ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from onefold.linalg import Array, device_of, exp_in_place, namespace
from onefold.linalg.dense import add_to_diagonal, cholesky
from onefold.machine.speed import Speed

# Rows of the square matrices that are multiplied.
_SIZE = 4096
# Rows of the matrix that is factorised.
_FACTOR = 8192
# The speeds measured by this process, by the names of the devices.
_MEASURED: dict[str, Speed] = {}


def device_speed(reference: Array) -> Speed:
    """The speed of the device that an array lies on."""
    name = str(device_of(reference))
    if name not in _MEASURED:
        _MEASURED[name] = measure(reference, _SIZE, _FACTOR)
    return _MEASURED[name]


def measure(reference: Array, size: int, factor: int) -> Speed:
    """The speed with products of `size` rows and factorisations of `factor` rows."""
    xp = namespace(reference)
    device = device_of(reference)
    double, single = (xp.ones((size, size), dtype=t, device=device) for t in (xp.float64, xp.float32))

    def cholesky_rate(dtype: Any) -> float:
        def factorised() -> Array:
            ones = xp.ones((factor, factor), dtype=dtype, device=device)
            return cholesky(add_to_diagonal(ones, float(factor)), overwrite=True)

        return factor**3 / (6 * _best(factorised))

    return Speed(
        multiply_adds=size**3 / _best(lambda: double @ double),
        exponentials=size**2 / _best(lambda: exp_in_place(xp.zeros_like(double))),
        single=size**3 / _best(lambda: single @ single),
        cholesky=cholesky_rate(xp.float64),
        single_cholesky=cholesky_rate(xp.float32),
    )


def _best(function: Callable[[], Array]) -> float:
    """Seconds of the faster of two calls, after one that loads what is used for the first time."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        float(function()[0, 0])
        times.append(time.perf_counter() - start)
    return max(min(times[1:]), 1e-9)
