"""Threads: how many there may be, that nobody gets more than they were given, and that they stop."""

import os
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from threadpoolctl import ThreadpoolController

import onefold.machine.threads as threads
from onefold import LSSVRCV
from onefold.approximations import Circulant, Exact, Grid, Nystroem, Problem, Toeplitz, Workload
from onefold.kernels import RBF
from onefold.kernels.tiles import tile_side
from onefold.machine.threads import (
    check_stop,
    count_workers,
    limit_blas,
    map_in_order,
    map_threads,
    process_wide_libraries,
    set_process_wide,
    thread_budget,
    use_threads,
)


def _now() -> int:
    return max(library.num_threads for library in process_wide_libraries())


@pytest.fixture
def four_blas_threads():
    """BLAS with four threads, whatever the machine and its environment say."""
    before = [(library, library.num_threads) for library in process_wide_libraries()]
    if not before:
        pytest.skip("this BLAS has a number of threads for each thread")
    for library, _ in before:
        set_process_wide(library, 4)
    yield
    for library, number in before:
        set_process_wide(library, number)


def test_a_worker_of_joblib_starts_no_more_threads_than_its_share(monkeypatch):
    monkeypatch.setattr(threads, "cpu_count", lambda: 8)
    texts = {"1": 1, "2,1": 2, " 3 , 2": 3, "16": 8}
    nonsense = dict.fromkeys(("", "0", "many", "-2", ",2", "0,4", "1.5"), 8)
    if sys.getfilesystemencoding() == "utf-8":  # a digit to Python that ASCII does not have
        nonsense["²"] = 8
    for text, number in (texts | nonsense).items():
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert count_workers(None) == count_workers(-1) == number
        assert count_workers(-2) == max(1, number - 1)
        assert count_workers(3) == count_workers(np.int64(3)) == 3  # asked for by name
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert count_workers(None) == 8
    for refused in (0, "2", 1.5, [1]):
        with pytest.raises(ValueError, match="n_jobs"):
            count_workers(refused)


@pytest.mark.usefixtures("four_blas_threads")
@given(st.lists(st.sampled_from([1, 2, 3, 8, None]), min_size=1, max_size=6), st.randoms())
def test_contexts_that_overlap_in_any_order_leave_blas_as_it_was(limits, random):
    contexts = [limit_blas(limit) for limit in limits]
    held = {}
    events = [*contexts, *contexts]
    random.shuffle(events)
    for context in events:  # the first time it comes it enters, the second time it leaves
        if context in held:
            context.__exit__(None, None, None)
            del held[context]
        else:
            context.__enter__()
            held[context] = limits[contexts.index(context)]
        assert _now() == min([4, *(limit for limit in held.values() if limit is not None)])
    assert _now() == 4


@pytest.mark.usefixtures("four_blas_threads")
def test_blas_is_as_before_when_something_raises_or_was_changed_inside():
    with pytest.raises(KeyboardInterrupt), limit_blas(1):
        raise KeyboardInterrupt
    assert _now() == 4
    with limit_blas(None):  # another library's race, such as that of two k-means
        ThreadpoolController().limit(limits=1, user_api="blas").__enter__()
    assert _now() == 4


@pytest.mark.usefixtures("four_blas_threads")
def test_concurrent_fits_share_blas_and_give_it_back():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X.sum(axis=1)
    seen = []
    settings = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0]}

    def fit(number):
        approximation = Nystroem(20) if number % 2 else "exact"
        target = y if number % 5 else np.full(60, np.nan)
        model = LSSVRCV(**settings, approximation=approximation, n_jobs=1 + number % 3)
        try:
            return model.set_params(callback=lambda _: seen.append(_now())).fit(X, target).alpha_
        except ValueError:
            return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit, range(15)))
    assert _now() == 4
    assert found.count(None) == 3
    assert max(seen) <= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_holds_no_limits_of_threads_it_does_not_have():
    program = """
import os, threading
import numpy as np
from onefold.machine.threads import limit_blas, process_wide_libraries, set_process_wide
def now(): return max(library.num_threads for library in process_wide_libraries())
for library in process_wide_libraries(): set_process_wide(library, 2)
entered, leave = threading.Event(), threading.Event()
def other():
    with limit_blas(1):
        entered.set()
        leave.wait()
thread = threading.Thread(target=other)
thread.start()
entered.wait()
child = os.fork()
if child == 0:
    with limit_blas(1):
        pass
    os._exit(now())
status = os.waitpid(child, 0)[1]
leave.set()
thread.join()
print(os.waitstatus_to_exitcode(status), now())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "2"]


def test_libraries_that_are_loaded_after_the_first_fit_are_limited_too(monkeypatch):
    """The list of libraries was found once: torch, imported after a fit, kept all its threads."""

    class Library:
        internal_api = "openblas"
        threading_layer = "pthreads"
        filepath = "/loaded/later.so"
        num_threads = 4

        def set_num_threads(self, number):
            self.num_threads = number

    loaded = ThreadpoolController().lib_controllers
    later = Library()
    with limit_blas(1):
        monkeypatch.setattr(
            threads,
            "ThreadpoolController",
            lambda: types.SimpleNamespace(lib_controllers=[*loaded, later]),
        )
        monkeypatch.setitem(sys.modules, "imported_later", types.ModuleType("imported_later"))
        assert later.num_threads == 4  # nobody has begun anything since
        with limit_blas(2):
            assert later.num_threads == 1  # as the context around it says
        assert later.num_threads == 1
    assert later.num_threads == 4
    monkeypatch.delitem(threads._LIBRARIES, later.filepath)


def test_the_settings_of_scikit_learn_hold_in_every_thread():
    """They belong to a thread: working_memory had its default wherever a search ran in threads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    with config_context(working_memory=1), use_threads(2):
        found = list(map_threads(lambda _: tile_side(), range(4)))
        assert found == [tile_side()] * 4
        scores = [
            LSSVRCV(gammas=[0.01, 0.1, 1.0], alphas=[1e-6, 0.1], n_jobs=n_jobs)
            .fit(X, y)
            .cv_results_["mean_test_score"]
            for n_jobs in (1, 2)
        ]
    np.testing.assert_array_equal(*scores)
    assert tile_side() > found[0]


_FORKED = """
import os, signal, sys, threading
import numpy as np
import onefold.machine.threads as threads
from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.rows import HostRows
from onefold.rows import dask as dask_rows

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
y = X.sum(axis=1)
settings = dict(gammas=[0.1, 1.0], alphas=[0.1, 1.0], n_jobs=2)
objective = LSSVRCV(**settings).objective(X, y)
rows = HostRows(X, None, None)
model = Nystroem(10, method="uniform")

def fits():
    LSSVRCV(**settings).fit(X, y)
    LSSVRCV(**settings, approximation=model).fit(X, y)

def forked(use):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        use()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def _forked(program):
    """The lines that a program prints, which may fork, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", _FORKED + program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_waits_for_no_lock_of_a_thread_that_it_does_not_have():
    """A lock that another thread held at the fork stayed held in the child, which then hung."""
    program = """
def held(lock, use):
    entered, leave = threading.Event(), threading.Event()
    def hold():
        with lock:
            entered.set()
            leave.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    print(forked(use))
    leave.set()
    thread.join()

held(objective._lock, lambda: objective(gamma=1.0, alpha=0.5))
held(rows._lock, lambda: rows.grouped_by([np.arange(3)]))
held(dask_rows._ONE_AT_A_TIME, dask_rows._ONE_AT_A_TIME.acquire)
fits()
for cached in threads._PROPERTIES:
    if hasattr(cached, "lock"):
        held(cached.lock, fits)
"""
    found = _forked(program)
    assert len(found) >= 3
    assert set(found) == {"0"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_no_process_is_forked_while_a_thread_looks_for_libraries():
    """Whoever looks holds a lock of the C library; the child of a fork meanwhile hung in its fit."""
    program = """
import ctypes, time
from threadpoolctl import ThreadpoolController
fits()
entered = threading.Event()

def slowly():
    def wait(info, size, data):
        entered.set()
        time.sleep(0.3)  # a fork meanwhile is what the test is about
        return 1
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(wait), None)
    return ThreadpoolController()

def look():
    threads.ThreadpoolController = slowly
    threads._MODULES[0] = 0
    fits()

def look_too():
    threads.ThreadpoolController = ThreadpoolController
    threads._MODULES[0] = 0
    fits()

thread = threading.Thread(target=look)
thread.start()
entered.wait()
print(forked(look_too))
thread.join()
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("the lock is one of Linux's C library")
    assert _forked(program) == ["0"]


def test_the_budget_is_one_inside_a_thread_and_whole_in_the_calling_one():
    with use_threads(3):
        assert list(map_threads(lambda _: thread_budget(), range(4))) == [1] * 4
        assert list(map_threads(lambda _: thread_budget(), range(4), 1)) == [3] * 4
        assert thread_budget() == 3
    assert thread_budget() == 2


def test_results_in_order_wait_for_the_first_in_bounded_number():
    for workers in (1, 2, 5):
        assert list(map_in_order(lambda i: i * i, range(20), workers)) == [i * i for i in range(20)]
    first = threading.Event()
    handed = []

    def items():
        for i in range(50):
            handed.append(i)
            yield i

    results = map_in_order(lambda i: first.wait() if i == 0 else i, items(), 2)
    threading.Timer(0.05, first.set).start()
    next(results)
    assert len(handed) == 4  # twice as many as threads
    results.close()


@pytest.fixture(autouse=True)
def two_threads():
    with use_threads(2):
        yield


class Steps:
    """Items of many steps that never end by themselves, and note each step."""

    def __init__(self, expected: int) -> None:
        self.started: list[int] = []
        self.all_running = threading.Barrier(expected + 1)
        self.ended: list[int] = []

    def __call__(self, item: int) -> None:
        self.started.append(item)
        self.all_running.wait()
        try:
            while True:
                check_stop()
        finally:
            self.ended.append(item)


@pytest.fixture
def interrupted(monkeypatch):
    """A function that has this thread's wait for results interrupted when `ready` returns."""
    here = threading.current_thread()
    real = threads.wait

    def prepare(ready):
        def wait(*arguments, **settings):
            if threading.current_thread() is not here:
                return real(*arguments, **settings)
            ready()
            raise KeyboardInterrupt

        monkeypatch.setattr(threads, "wait", wait)

    return prepare


def test_an_interrupt_ends_running_items_at_their_next_step_and_starts_no_other(
    interrupted, monkeypatch
):
    steps = Steps(2)
    interrupted(steps.all_running.wait)
    with pytest.raises(KeyboardInterrupt):
        list(map_threads(steps, range(50), 2))
    assert sorted(steps.started) == sorted(steps.ended) == [0, 1]
    monkeypatch.undo()
    # The flag belongs to the call that was interrupted: the next one runs.
    assert sorted(map_threads(lambda i: check_stop() or i, range(9), 2)) == list(range(9))
    check_stop()


def test_loops_within_loops_stop_too(interrupted):
    """Pools in a pool, and plain loops in those: all belong to the call that was interrupted."""
    steps = Steps(4)

    def outer(number):
        with use_threads(2):  # a budget of its own, where it would be one
            for _ in map_threads(lambda i: list(map_threads(steps, [10 * number + i], 1)), range(9)):
                pass

    interrupted(steps.all_running.wait)
    with pytest.raises(KeyboardInterrupt):
        list(map_threads(outer, range(9), 2))
    assert sorted(steps.started) == sorted(steps.ended) == [0, 1, 10, 11]


def test_one_item_that_fails_ends_the_others_and_its_error_goes_on():
    steps = Steps(1)

    def work(item):
        if item == 0:
            steps.all_running.wait()
            raise OSError("the reason")
        steps(item)

    with pytest.raises(OSError, match="the reason"):
        list(map_threads(work, range(9), 2))
    assert steps.started == steps.ended == [1]


def test_a_consumer_that_leaves_early_ends_the_rest():
    steps = Steps(2)
    found = map_threads(lambda i: i if i == 0 else steps(i), range(9), 2)
    assert next(found) == 0
    steps.all_running.wait()  # item 2 was handed out before item 0 was yielded
    found.close()
    assert sorted(steps.started) == sorted(steps.ended) == [1, 2]


@pytest.mark.filterwarnings("ignore:the rows are not a series")
@pytest.mark.parametrize(
    ("approximation", "gamma", "n_alphas"),
    [
        (Exact(), 1.0, 11), (Exact(), 1.0, 1), (Exact(), 0.001, 11),  # the last of low rank
        (Nystroem(60), 1.0, 11), (Nystroem(60, method="rpcholesky"), 1.0, 11), (Toeplitz(), 1.0, 11),
        (Circulant(spacing="data"), 1.0, 11), (Grid(), 1.0, 11),
    ],
)  # fmt: skip
def test_every_route_asks_whether_to_stop(approximation, gamma, n_alphas):
    X = np.random.default_rng(0).standard_normal((1200, 2))
    problem = Problem(X, X[:, :1] ** 2, None, True)
    parts = [np.arange(start, 1200, 5) for start in range(5)]
    alphas = 2.0 ** np.arange(n_alphas)
    load = Workload(alphas=n_alphas, folds=5, parts=parts)
    run = approximation.start(problem, [RBF(gamma)], load)
    over = threading.Event()
    earlier = threads._CALLS.set((over,))
    try:
        solved = run.model(RBF(gamma))
        over.set()
        for model in (lambda: solved, lambda: run.model(RBF(gamma))):
            with pytest.raises(threads.Stopped):
                model().heldout(parts, alphas)
    finally:
        threads._CALLS.reset(earlier)
