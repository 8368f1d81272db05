"""Threads over kernel candidates and tiles, with one BLAS thread each: a budget in the context.

NumPy's linear algebra releases the interpreter lock, so Python threads run on separate cores.
BLAS threads, by contrast, wait for each other inside every call and lose badly when another
process is busy; wherever there are several independent pieces of work, they are spread over
Python threads and BLAS is held to one thread.

How many threads there may be is set once, by whoever starts the work (`use_threads`), and asked for
where threads are started (`map_threads`). Inside such a thread the budget is one: what runs there runs
in it alone.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

from joblib import cpu_count

from onefold.machine.blas import limit_blas
from onefold.machine.cgroups import cgroup_folders, read_number

__all__ = [
    "check_stop",
    "count_workers",
    "keep_threads",
    "limit_blas",
    "map_all",
    "map_threads",
    "thread_budget",
    "use_threads",
]

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_workers(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: ``None`` and -1 mean every core this process may use.

    That is what its affinity and its container leave, and no more than ``OMP_NUM_THREADS`` where that
    is set: joblib sets it in its worker processes, so that a search inside a search does not start
    cores² threads.
    """
    number = -1
    if n_jobs is not None:
        try:
            number = operator.index(n_jobs)
        except TypeError:
            raise ValueError(f"n_jobs must be a whole number or None; got {n_jobs!r}.") from None
    if number == 0:
        raise ValueError("n_jobs=0 has no meaning; use n_jobs=1, a larger number, or -1 for all.")
    if number > 0:
        return number
    return max(1, min([cpu_count(), *_quotas(), *_omp_limit()]) + 1 + number)


_BUDGET: ContextVar[int | None] = ContextVar("onefold_threads", default=None)


def thread_budget() -> int:
    """How many threads work may run on here: what `use_threads` set, or every core."""
    budget = _BUDGET.get()
    return _every_core(os.environ.get("OMP_NUM_THREADS", "")) if budget is None else budget


@cache
def _every_core(omp_threads: str) -> int:
    """Found once for each setting of OMP_NUM_THREADS: to look takes longer than a short transform."""
    return count_workers(None)


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Let work inside the context run on ``n_jobs`` threads, see :func:`count_workers`."""
    token = _BUDGET.set(count_workers(n_jobs))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def keep_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """As :func:`use_threads`; ``None`` keeps the budget there is, for work that others also start."""
    return use_threads(thread_budget() if n_jobs is None else n_jobs)


def _omp_limit() -> Iterator[int]:
    """OMP_NUM_THREADS, which may be a list: its first number is that of the outermost level."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isascii() and first.isdigit() and int(first) > 0:
        yield int(first)


def _quotas(proc: Path = Path("/proc/self")) -> Iterator[int]:
    """Cores that the processor quotas around this process come to, rounded up."""
    for version, folder in cgroup_folders("cpu", proc):
        if version == 2:
            quota, period = _cpu_max(folder / "cpu.max")
        else:
            quota = read_number(folder / "cpu.cfs_quota_us")
            period = read_number(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:  # -1 is no quota
            yield math.ceil(quota / period)


def _cpu_max(path: Path) -> tuple[int | None, int | None]:
    try:
        quota, period = path.read_text("ascii").split()
        return int(quota), int(period)
    except (OSError, ValueError):  # not there, or "max" for no quota
        return None, None


class _Call:
    """One call of `map_threads`, and the one inside which it was made."""

    def __init__(self) -> None:
        self._outer = _CALL.get()
        self._over = False

    def end(self) -> None:
        self._over = True

    @property
    def over(self) -> bool:
        return self._over or (self._outer is not None and self._outer.over)


_CALL: ContextVar[_Call | None] = ContextVar("onefold_call", default=None)


class Stopped(BaseException):
    """Ends a piece of work that nobody waits for; never seen outside its own thread."""


def check_stop() -> None:
    """Leave this piece of work if the call that it belongs to has failed or was interrupted.

    Costs nothing and belongs between any two long steps, wherever they may run in a thread of
    `map_threads`: between tiles, ridges, folds, and before a factorisation. In the calling thread
    itself Python raises KeyboardInterrupt and nothing needs to be asked.
    """
    call = _CALL.get()
    if call is not None and call.over:
        raise Stopped


def map_threads(
    function: Callable[[Item], Result], items: Iterable[Item], at_most: int | None = None
) -> Iterator[Result]:
    """Yield ``function(item)`` as each finishes, on as many threads as the budget has, or `at_most`.

    With one thread the items run in the calling one, and the budget is theirs. An exception, also
    ``KeyboardInterrupt``, or a consumer that leaves early, stops the hand-out of further items at once
    and ends those that run at their next `check_stop`; all have ended when the exception goes on.
    """
    workers = thread_budget() if at_most is None else min(thread_budget(), at_most)
    if workers <= 1:
        for item in items:
            check_stop()
            yield function(item)
        return
    call = _Call()

    def work(item: Item) -> Result:
        _CALL.set(call)  # threads of a pool start without their caller's context
        _BUDGET.set(1)
        check_stop()
        with limit_blas(1):
            return function(item)

    queue = iter(items)
    with limit_blas(1), ThreadPoolExecutor(workers) as pool:
        try:
            running = {pool.submit(work, item) for item in islice(queue, workers)}
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                # Refill before yielding, so that the consumer's work does not leave a core idle.
                running |= {pool.submit(work, item) for item in islice(queue, len(finished))}
                for future in finished:
                    yield future.result()
        finally:
            call.end()


def map_all(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]``, side by side in threads."""
    listed = list(items)
    found = dict(map_threads(lambda i: (i, function(listed[i])), range(len(listed))))
    return [found[i] for i in range(len(listed))]
