"""Threads over kernel candidates and tiles, with one BLAS thread each.

NumPy's linear algebra releases the interpreter lock, so Python threads run on separate cores.
BLAS threads, by contrast, wait for each other inside every call and lose badly when another
process is busy; wherever there are several independent pieces of work, they are spread over
Python threads and BLAS is held to one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_workers(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: ``None`` and -1 mean every core this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use n_jobs=1, a larger number, or -1 for all.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


@cache
def _controller() -> ThreadpoolController:
    # Finding the loaded BLAS libraries takes milliseconds; they do not change afterwards.
    return ThreadpoolController()


def limit_blas(threads: int | None) -> AbstractContextManager[Any]:
    """Hold BLAS to `threads` threads inside the context; ``None`` leaves it alone."""
    return nullcontext() if threads is None else _controller().limit(limits=threads)


def map_threads(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield ``function(item)`` as each finishes, at most `workers` at a time.

    With one worker the items run in the calling thread. An exception, also ``KeyboardInterrupt``,
    stops the hand-out of further items at once.
    """
    if workers <= 1:
        for item in items:
            yield function(item)
        return
    queue = iter(items)
    with limit_blas(1), ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(function, item) for item in islice(queue, workers)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            # Refill before yielding, so that the consumer's work does not leave a core idle.
            running |= {pool.submit(function, item) for item in islice(queue, len(finished))}
            for future in finished:
                yield future.result()
