"""Threads over kernel candidates and tiles, with one BLAS thread each: a budget in the context.

NumPy's linear algebra releases the interpreter lock, so Python threads run on separate cores.
BLAS threads, by contrast, wait for each other inside every call and lose badly when another
process is busy; wherever there are several independent pieces of work, they are spread over
Python threads and BLAS is held to one thread.

The number of threads is set once, where the work begins (`use_threads`), and read where threads are
started (`map_threads`, `map_in_order`). Inside such a thread the budget is one: work there starts no
further threads.

Floating-point sums depend on their order. Whatever is added up from pieces that ran in threads is added
in the order of the pieces (`map_in_order`), never in the order in which they happened to finish.

OpenBLAS has one number of threads for the whole process. threadpoolctl lets only one Python thread
change it, and ignores the others: a limit that one thread sets and another lifts would stay for good.
Here every thread may change it (`limit_blas`), through limits that all threads share. Other libraries
(MKL, OpenMP) have a number for each thread.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakSet

from joblib import cpu_count
from sklearn import config_context, get_config
from threadpoolctl import ThreadpoolController

from onefold.machine.warning import STARTED_FROM, user_line

Item = TypeVar("Item")
Result = TypeVar("Result")


# Pieces of a range


def spans(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at most `step` that cover range(n)."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def even_spans(n: int, longest: int) -> Iterator[slice]:
    """As few slices as cover range(n) with at most `longest` each, all of nearly the same length."""
    pieces = max(1, -(-n // longest))
    return spans(n, max(1, -(-n // pieces)))


# Locks that a forked process finds free

# A forked process has a copy of every lock, and none of the threads that would release those that were
# held: whoever asks for such a lock there waits forever. So all locks of the package are of the kind
# below, and are kept in two lists, to be renewed in the forked process.

_LOCKS: WeakSet[Lock] = WeakSet()
_PROPERTIES: list[cached_property[Any]] = []


class Lock(AbstractContextManager[None]):
    """A reentrant lock that is free in a forked process, whoever held it in the parent."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for it."""
        self._lock.acquire()

    def release(self) -> None:
        """Free it for other threads."""
        self._lock.release()

    def renew(self) -> None:
        """Replace it by a free one, in a forked process that lacks the thread which held it."""
        self._lock = threading.RLock()


class cached_property(functools.cached_property[Result]):
    """That of functools, whose lock (Python 3.11 has one for each) is free in a forked process."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        _PROPERTIES.append(self)

    def renew(self) -> None:
        """Replace the lock by a free one, if there is one."""
        if hasattr(self, "lock"):
            self.lock = threading.RLock()


# How many threads

# The largest n_jobs that a fit or a model file may have: a larger one is a slip.
MOST_JOBS = 4096


def count_workers(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: ``None`` and -1 mean every core this process may use."""
    try:
        number = -1 if n_jobs is None else operator.index(n_jobs)
    except TypeError:
        raise ValueError(f"n_jobs must be a whole number or None; got {n_jobs!r}.") from None
    if number == 0:
        raise ValueError("n_jobs must not be 0; use 1, a larger number, or -1 for all cores.")
    if abs(number) > MOST_JOBS:
        raise ValueError(f"n_jobs must be at most {MOST_JOBS}; got {number}; use -1 for all cores.")
    if number > 0:
        return number
    cores = cpu_count()
    # joblib sets it in its workers, so that a search inside a search does not start cores² threads. A
    # list has a number for each level of threads in threads; the first is that of the outermost.
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if limit.isascii() and limit.isdigit() and int(limit) > 0:
        cores = min(cores, int(limit))
    return max(1, cores + 1 + number)


_BUDGET: ContextVar[int | None] = ContextVar("onefold_threads", default=None)


def thread_budget() -> int:
    """How many threads work may run on here: what `use_threads` set, or every core."""
    budget = _BUDGET.get()
    return _every_core(os.environ.get("OMP_NUM_THREADS", "")) if budget is None else budget


@cache
def _every_core(omp_threads: str) -> int:
    """Counted once for each setting of OMP_NUM_THREADS: counting takes longer than a short transform."""
    return count_workers(None)


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Let work inside the context run on ``n_jobs`` threads, see :func:`count_workers`."""
    token = _BUDGET.set(count_workers(n_jobs))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def inherit_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """As :func:`use_threads`; ``None`` keeps the budget there is, for work that others also start."""
    return use_threads(thread_budget() if n_jobs is None else n_jobs)


# BLAS


# Held while any of the following is read or changed.
_BLAS = Lock()
# The loaded libraries that have threads, by their files.
_LIBRARIES: dict[str, Any] = {}
# How many modules had been imported when these libraries were last looked for.
_MODULES = [0]


def _libraries() -> list[Any]:
    """The loaded libraries that have threads; those of modules that were imported since are added."""
    # Finding them takes milliseconds, so it is done again only when something has been imported.
    with _BLAS:
        modules = len(sys.modules)
        if modules != _MODULES[0]:
            for library in ThreadpoolController().lib_controllers:
                _LIBRARIES.setdefault(library.filepath, library)
            _MODULES[0] = modules
        return list(_LIBRARIES.values())


def _is_process_wide(library: Any) -> bool:
    """Whether a library has one number of threads for the whole process, and not one per thread."""
    return bool(library.internal_api == "openblas" and library.threading_layer != "openmp")


def process_wide_libraries() -> list[Any]:
    """The loaded libraries that have one number of threads for the whole process."""
    return [library for library in _libraries() if _is_process_wide(library)]


def set_process_wide(library: Any, threads: int) -> None:
    """Set the number of threads of OpenBLAS from whichever thread this is."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


# The limits in force, one for each `limit_blas` that has not ended yet.
_LIMITS: dict[object, int | None] = {}
# Process-wide libraries with their numbers of threads before the first of these limits.
_BEFORE: list[tuple[Any, int]] = []


@contextmanager
def limit_blas(threads: int | None) -> Iterator[None]:
    """Limit BLAS to `threads` threads inside the context; ``None`` sets no limit."""
    # In a library with one number for the process, the lowest limit holds for all threads, and the last
    # context to end restores the number from before the first. If each restored the number from before
    # itself, the second of two that overlap would restore the limit of the first, for good.
    key = object()
    thread_limited = []
    try:  # an interrupt on the way in leaves nothing behind either
        with _BLAS:
            if not _LIMITS:
                _BEFORE.clear()
            limited = [library for library, _ in _BEFORE]
            added = [library for library in process_wide_libraries() if library not in limited]
            _BEFORE.extend((library, library.num_threads) for library in added)
            _LIMITS[key] = threads
            _apply()
        if threads is not None:
            thread_limited = [
                (library, library.num_threads)
                for library in _libraries()
                if not _is_process_wide(library)
            ]
            for library, before in thread_limited:
                library.set_num_threads(min(before, threads))
        yield
    finally:
        with _BLAS:
            _LIMITS.pop(key, None)
            _apply()
        for library, before in thread_limited:
            library.set_num_threads(before)


def _apply() -> None:
    """Give every process-wide library its own number of threads, or the lowest limit in force."""
    lowest = min((threads for threads in _LIMITS.values() if threads is not None), default=None)
    for library, before in _BEFORE:
        allowed = before if lowest is None else min(before, lowest)
        if library.num_threads != allowed:
            set_process_wide(library, allowed)


def _start_again() -> None:
    """In a forked process, which has none of the other threads that hold locks and limits."""
    for lock in _LOCKS:
        lock.renew()
    for cached in _PROPERTIES:
        cached.renew()
    _LIMITS.clear()
    _apply()


if hasattr(os, "register_at_fork"):
    # No fork while a thread looks for libraries: it holds a lock of the C library, which would stay held
    # in the forked process, and whatever loads a library there would wait forever.
    os.register_at_fork(before=_BLAS.acquire, after_in_parent=_BLAS.release, after_in_child=_start_again)


# Work in threads


_CALLS: ContextVar[tuple[threading.Event, ...]] = ContextVar("onefold_calls", default=())
"""In a thread of a pool: the call that it works for and those around it, each set once it is over."""


class Stopped(BaseException):
    """Ends a piece of work whose result is no longer needed; it never leaves its own thread."""


def check_stop() -> None:
    """Leave this piece of work if its call has failed or was interrupted; for between long steps."""
    if any(call.is_set() for call in _CALLS.get()):
        raise Stopped


def map_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    at_most: int | None = None,
    *,
    in_order: bool = False,
) -> Iterator[Result]:
    """Yield ``function(item)`` as each finishes, on as many threads as the budget has, or `at_most`.

    After an exception, or when the consumer stops early, no more items are handed out, and those that
    run end at their next `check_stop`; all have ended when the exception reaches the caller.
    """
    workers = thread_budget() if at_most is None else min(thread_budget(), at_most)
    if workers <= 1:
        for item in items:
            check_stop()
            yield function(item)
        return
    ended = threading.Event()
    line = user_line()
    queue = iter(items)
    calls = (*_CALLS.get(), ended)
    configuration = get_config()  # of scikit-learn, which keeps one for each thread

    def work(item: Item) -> Result:
        _CALLS.set(calls)  # threads of a pool start without their caller's context
        _BUDGET.set(1)
        STARTED_FROM.set(line)
        check_stop()
        with config_context(**configuration), limit_blas(1):
            return function(item)

    with limit_blas(1), ThreadPoolExecutor(workers) as pool:
        try:
            first = islice(queue, 2 * workers - 1 if in_order else workers)
            running = [pool.submit(work, item) for item in first]
            while running:
                if in_order:
                    finished = running[:1]
                    running = running[1:]
                else:
                    wait(running, return_when=FIRST_COMPLETED)
                    finished = [future for future in running if future.done()]
                    running = [future for future in running if future not in finished]
                # Refill before yielding, so that the consumer's work does not leave a core idle.
                running += [pool.submit(work, item) for item in islice(queue, len(finished))]
                for future in finished:
                    yield future.result()
        finally:
            ended.set()


map_in_order = partial(map_threads, in_order=True)
"""As :func:`map_threads`, item after item, so that sums of the results have the same digits.

A slow item holds the others back: at most twice as many results as threads wait for it.
"""


def map_all(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """``[function(item) for item in items]``, side by side in threads."""
    return list(map_in_order(function, items))
