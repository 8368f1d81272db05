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

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_workers(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: ``None`` and -1 mean every core this process may use.

    That is what its affinity and its container leave, and no more than ``OMP_NUM_THREADS`` where that
    is set: joblib sets it in its worker processes, so that a search inside a search does not start
    cores² threads.
    """
    cores = cpu_count()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        cores = min(cores, int(limit))
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
    """Hold BLAS to `threads` threads inside the context, if it has more; ``None`` leaves it alone."""
    if threads is None:
        return nullcontext()
    now = max((library.num_threads for library in _controller().lib_controllers), default=threads)
    return _controller().limit(limits=min(threads, now))


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
