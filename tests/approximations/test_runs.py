"""What is decided once, when a run starts, and who looks at it; rows that are streamed to a device."""

import sys
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from onefold import LSSVC, LSSVR, LSSVRCV, plan
from onefold.approximations import (
    Approximation,
    Auto,
    Circulant,
    ConjugateGradients,
    Exact,
    Nystroem,
    Problem,
    Run,
    Toeplitz,
    Workload,
    auto,
)
from onefold.approximations.auto import rows_within, with_true_kernel
from onefold.approximations.problem import Machine
from onefold.kernels import RBF, Laplacian, Precomputed
from onefold.linalg import distances
from onefold.machine.speed import Speed
from onefold.machine.threads import use_threads
from onefold.search import GridEdgeWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 2))
Y = np.sin(X).sum(axis=1)
GRID: dict[str, Any] = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 4}


def started(approximation: Approximation, **settings: Any) -> Any:
    problem = Problem(X, Y[:, None], None, True)
    return approximation.start(problem, [RBF(0.5)], Workload(2, 3, 4, **settings))


@pytest.mark.filterwarnings("ignore:the rows are not a series")
def test_refits_of_an_approximation(monkeypatch):
    for approximation in (Exact(), Auto()):
        run = started(approximation, refit="same")
        assert (run.approximation, run.refits_exactly, run.refit) == (Exact(), True, None)
    assert not started(Nystroem(9), refit="auto").refits_exactly
    assert started(Nystroem(9), refit="exact").refit.approximation == Exact()
    for structured in (Circulant(negative="clip"), Toeplitz()):
        assert started(structured, refit="auto").refits_exactly
    monkeypatch.setattr("onefold.approximations.auto._DIRECT_SECONDS", 0.0)
    monkeypatch.setattr(Exact, "duration", lambda *_: 100.0)  # others are quicker
    assert started(Nystroem(9), refit="exact").refit.approximation == ConjugateGradients()
    monkeypatch.setattr(ConjugateGradients, "duration", lambda *_: 100.0)
    assert not started(Circulant(), refit="auto").refits_exactly


@pytest.mark.parametrize(
    ("seconds", "free", "expected"),
    [
        (300.0, 10**10, Exact()),  # quick
        (300.0, 2 * 10**6, ConjugateGradients()),  # its matrix takes too much
        (1.0, 10**10, None),
    ],
)
def test_landmarks_of_auto_are_refitted_where_that_is_quick(monkeypatch, seconds, free, expected):
    monkeypatch.setattr(Exact, "duration", lambda self, n, d, t, load, speed: 1e4 if load.folds else 5.0)
    monkeypatch.setattr("onefold.approximations.auto._ALWAYS_EXACT", 10)
    monkeypatch.setattr("onefold.approximations.exact.exact_bytes", lambda *_: 10**7)
    monkeypatch.setattr(Nystroem, "peak_bytes", lambda *_: 1000)
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: free)
    run = started(Auto(seconds=seconds), refit="auto")
    assert isinstance(run.approximation, Nystroem)
    assert (None if run.refit is None else run.refit.approximation) == expected
    assert started(Auto(seconds=seconds), refit="same").refit is None


def test_memory_is_asked_for_before_anything_else(monkeypatch):
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 1000)
    for approximation in (Exact(), Nystroem(9), Toeplitz(), Circulant()):
        with pytest.raises(MemoryError, match="a search with"):
            started(approximation)
    with pytest.raises(MemoryError, match=r"Exact\(\)"):  # also for a matrix that is given
        Auto().start(Problem(X @ X.T, Y[:, None], None, True), [Precomputed()], Workload())
    with pytest.raises(MemoryError, match=r"Exact\(\)"):
        LSSVRCV("precomputed", alphas=[1.0]).fit(X @ X.T, Y)


def test_what_cannot_be_refitted_is_refused_at_the_start(monkeypatch):
    small = Nystroem(2).memory(80, 2, 1, Workload(2, 3, 4), 10**9)
    monkeypatch.setattr("onefold.approximations.exact.exact_bytes", lambda *_: 10 * small)
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 2 * small)
    problem = Problem(csr_array(X), Y[:, None], None, True)
    load = Workload(2, 3, 4, refit="exact")
    Nystroem(2).start(problem, [RBF(0.5)], replace(load, refit="same"))
    with pytest.raises(MemoryError, match=r"a fit with Exact\(\)"):  # no other takes sparse rows
        Nystroem(2).start(problem, [RBF(0.5)], load)


def test_criteria_that_hold_nothing_out_build_no_splits(monkeypatch):
    class Splitter:
        def get_n_splits(self, X=None, y=None, groups=None):
            return 2

        def split(self, X, y=None, groups=None):
            raise AssertionError("nobody needs these")

    for criterion in ("gcv", "press", "evidence", "cost"):
        settings = {"gammas": [0.5], "alphas": [0.1], "criterion": criterion}
        found = LSSVRCV(**settings, cv=Splitter()).fit(X, Y)
        assert found.heldout_prediction_ is None
        for cv in ("five", 1, 1000):
            with pytest.raises(ValueError, match="cv"):
                LSSVRCV(**settings, cv=cv).fit(X, Y)


HOST = Speed(4e10, 3e8)
H200 = Speed(3e13, 2.5e11, single=2.5e13, cholesky=1.3e13, single_cholesky=2e13)
GPU = Machine(148 * 10**9, lambda: H200, gpu=True)
CORES = Machine(2**35, lambda: Speed(5e10, 1.2e9))  # two of them


def host(free: int | None = None) -> Machine:
    return Machine(free, lambda: HOST)


@pytest.mark.parametrize(
    ("n", "place", "given", "machine", "chosen", "reason"),
    [
        (10**6, "memory", True, host(), "Exact", "the kernel matrix is given"),
        (100, "dask", False, host(), "Nystroem", "on Dask workers"),
        (100, "streamed", False, GPU, "Nystroem", "streamed to the device"),
        (2000, "memory", False, host(), "Exact", "at most 2000 rows"),
        (2000, "memory", False, host(10**8), "Nystroem", "would need"),
        (3000, "memory", False, host(10**11), "Exact", "at most 5 min and fits in memory"),
        (10**6, "memory", False, host(10**12), "Nystroem", "would need"),
        (50_000, "memory", False, host(), "Nystroem", "would take"),
        (30_000, "memory", False, host(10**12), "Nystroem", "would take"),
        (30_000, "memory", False, GPU, "Exact", "at most 5 min and fits in memory on the GPU"),
        (30_000, "memory", False, replace(GPU, free=2**33), "Nystroem", "8.0 GiB free on the GPU"),
        (60_000, "memory", False, GPU, "Nystroem", "on the GPU; 4000 landmarks fit in time and memory"),
    ],
)
def test_the_table_of_decisions(n, place, given, machine, chosen, reason):
    found = auto.choose(Auto(), (n, 5, 1), Workload(13, 11, 5), machine, place=place, precomputed=given)
    assert type(found.approximation).__name__ == chosen
    assert reason in found.reason


@pytest.mark.parametrize(
    ("n", "machine", "load", "chosen"),
    [
        (2000, host(10**11), Workload(13, 11, 5), "Exact"),
        (2001, host(10**11), Workload(13, 11, 5), "StateSpace"),
        (10**7, host(10**8), Workload(13, 11, 5), "StateSpace"),  # it says itself that memory is short
        (3000, GPU, Workload(13, 11, 5), "Exact"),
        (3000, host(10**11), Workload(13, 11, 5, matrix=True), "Exact"),
    ],
)
def test_series_go_to_the_state_space(n, machine, load, chosen):
    found = auto.choose(Auto(), (n, 1, 1), load, machine, series=True)
    assert type(found.approximation).__name__ == chosen


@pytest.mark.parametrize(
    ("kernel", "rows", "chosen"),
    [
        ("matern32", 2500, "state_space"),
        (["laplacian", "matern12"], 2500, "state_space"),
        (["rbf", "matern12"], 2100, "exact"),
    ],
)
def test_auto_finds_series_by_their_kernels(kernel, rows, chosen):
    pytest.importorskip("numba")
    t = np.random.default_rng(0).uniform(0, 100, rows)
    model = LSSVRCV(kernel, gammas=[1.0], alphas=[0.1, 1.0], cv=2, intervals=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        model.fit(t[:, None], np.sin(t))
    assert model.approximation_["selected_with"]["name"] == chosen
    assert plan(model, t[:, None]).approximation.name == chosen


@pytest.mark.parametrize(
    ("machine", "n", "d", "seconds", "expected"),
    [
        (CORES, 8_000, 13, 60.0, Exact()),
        (CORES, 13_900, 13, 60.0, ConjugateGradients()),
        (CORES, 200_000, 13, 60.0, None),
        (CORES, 200_000, 13, None, ConjugateGradients()),  # as it was asked for
        (CORES, 100_000, 13, 1e9, ConjugateGradients()),
        (replace(CORES, free=2**30), 100_000, 13, 1e9, ConjugateGradients()),  # by smaller blocks
        (replace(CORES, free=2**25), 100_000, 13, 1e9, None),  # which has no room for its vectors
        (GPU, 100_000, 54, 60.0, ConjugateGradients()),  # its blocks are quicker than one factor
        (GPU, 150_000, 54, 60.0, ConjugateGradients()),  # by a float32 factor,
        (GPU, 400_000, 54, 60.0, None),  # beyond, nobody knows how many iterations it takes
        (GPU, 400_000, 54, None, ConjugateGradients()),
        (replace(GPU, free=2**34), 100_000, 54, 60.0, ConjugateGradients()),  # of smaller blocks
    ],
)
def test_what_fits_the_true_kernel_depends_on_the_machine(machine, n, d, seconds, expected):
    X = np.broadcast_to(np.zeros((1, d)), (n, d))
    problem = Problem(X, X[:, :1], None, True)
    vars(problem)["machine"] = machine
    with use_threads(2):
        assert with_true_kernel(problem, RBF(1.0), seconds) == expected


def test_a_search_whose_members_find_no_memory_fits_them_as_it_searched():
    """It does not fail at its end, and says what was missing."""
    X = np.broadcast_to(np.zeros((1, 13)), (100_000, 13))
    problem = Problem(X, X[:, :1], None, True)
    vars(problem)["machine"] = replace(CORES, free=2**26)
    run = Run(Nystroem(2000), problem, Workload(), reason="2000 landmarks fit")
    with use_threads(2):
        found, members = auto.choose_for_members(run, RBF(1.0), 3, 1)
    assert (found.approximation, members) == (run.approximation, 3)
    assert found.reason.startswith("2000 landmarks fit; the true kernel of all rows would need ")
    assert found.reason.endswith(" GiB, more than the 0.1 GiB free")


@pytest.mark.parametrize(
    ("seconds", "name", "most", "words"),
    [
        (np.inf, "cg", 3, "fitted to all rows with the true kernel"),
        (1e4, "cg", 3, "fitted to all rows with the true kernel"),
        (8.0, "cg", 1, "fitted to all rows with the true kernel"),
        (1.0, "nystroem", 3, ", and 1 s is left"),
        (0.0, "nystroem", 3, ", and no time is left"),
    ],
)
def test_members_have_the_true_kernel_if_the_time_that_is_left_is_enough(seconds, name, most, words):
    """After an interruption none is left, and landmarks have found what is returned."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 3))
    problem = Problem(X, X[:, :1], None, True)
    vars(problem)["machine"] = CORES
    run = Nystroem(100).start(problem, [RBF(1.0)], Workload(1, 1))
    run = replace(run, reason="100 landmarks fit")
    with use_threads(2):
        found, members = auto.choose_for_members(run, RBF(1.0), 3, 1, seconds)
    assert found.approximation.name == name
    assert 1 <= members <= most
    assert found.reason.startswith("100 landmarks fit; ")
    assert found.reason.endswith(words)


def test_how_many_rows_are_worked_on_exactly_is_bounded_by_time_and_memory():
    """Of one H200, as measured, a fifth of the rows held out; of a small one; of a host in no time."""
    X = np.broadcast_to(np.zeros((1, 54)), (464_809, 54))
    problem = Problem(X, X[:, :7], None, True)
    fits = Workload(3, 1)
    speed = Speed(3.1e13, 1.4e11, single=2.5e13, cholesky=1.1e13, single_cholesky=1e13)
    vars(problem)["machine"] = large = Machine(149 * 10**9, lambda: speed, gpu=True)
    assert 100_000 < rows_within(100.0, problem, fits) < 120_000
    assert 15_000 < rows_within(10.0, problem, Workload(100, 1)) < 20_000
    vars(problem)["machine"] = replace(large, free=2**34)
    found = rows_within(100.0, problem, fits)
    assert Exact().peak_bytes(found, 54, 7, replace(fits, folds=5, gpu=2**34), 1) < 2**34
    vars(problem)["machine"] = CORES
    assert rows_within(1e-3, problem, fits) == 4000  # at least


def test_tensors_in_host_memory_are_the_hosts_and_a_device_is_measured(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 12345)
    rows = Problem(torch.asarray(X), torch.asarray(Y)[:, None], None, True)
    assert rows.machine == Problem(X, Y[:, None], None, True).machine == Machine(12345)
    assert auto.make_plan(Auto(), 100, 5, 1, Workload(), "cpu").free_bytes == 12345
    monkeypatch.setattr("onefold.linalg.on_accelerator", lambda x: True)
    machine = Problem(torch.asarray(X), torch.asarray(Y)[:, None], None, True).machine
    assert machine.gpu
    monkeypatch.setattr("onefold.linalg.speed._SIZE", 64)
    monkeypatch.setattr("onefold.linalg.speed._FACTOR", 64)
    monkeypatch.setattr("onefold.linalg.speed._MEASURED", {})
    assert min(asdict(machine.measure()).values()) > 0


@pytest.mark.parametrize(
    ("kind", "setting", "values"),
    [
        (Nystroem, "rank", [1.5, 0]), (Toeplitz, "tolerance", [1.5]), (Auto, "seconds", [0.0, "short"]),
        (ConjugateGradients, "n_components", [-1, 2.5]), (ConjugateGradients, "max_iterations", [0]),
        (ConjugateGradients, "tolerance", [0.0, 2.0]), (ConjugateGradients, "block_rows", [0, 1.5]),
    ],
)  # fmt: skip
def test_refused_by_name(kind, setting, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{setting} must"):
            kind(**{setting: value})


# -- rows that are streamed to a device: the answers are those of the host ---------------------------
THREE = RNG.standard_normal((400, 3))
LABELS = np.digitize(RNG.standard_normal(400), [-0.4, 0.4])
NUMBERS = np.sin(THREE[:, 0]) + 0.1 * RNG.standard_normal(400)


@pytest.fixture
def streamed(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("onefold.rows._MOVED_AT_ONCE", 0)
    return {"device": "cpu"}


def test_auto_takes_landmarks_for_streamed_rows_and_others_refuse_them(streamed):
    model = LSSVRCV(gammas=[0.5], alphas=[0.1], **streamed).fit(THREE, NUMBERS)
    assert "streamed" in model.approximation_["selected_with"]["chosen"]
    assert model.approximation_["selected_with"]["name"] == "nystroem"
    fixed = LSSVC(approximation=Nystroem(40), **streamed).fit(THREE, LABELS).predict(THREE)
    host = LSSVC(approximation=Nystroem(40)).fit(THREE, LABELS).predict(THREE)
    np.testing.assert_array_equal(fixed, host)
    for name in ("exact", "cg", "toeplitz", "grid", Nystroem(8, predict="rows")):
        with pytest.raises(ValueError, match="needs all rows on the device"):
            LSSVR(approximation=name, **streamed).fit(THREE, NUMBERS)


def test_tiles_without_triton_leave_a_trace(monkeypatch):
    """On a GPU without a C compiler Laplacian tiles are slower, and nothing said so."""
    problem = Problem(np.eye(4), np.ones((4, 1)), None, True)
    run = Exact().start(problem, [RBF()], Workload())
    distances._triton.cache_clear()
    monkeypatch.setitem(sys.modules, "onefold.linalg.tile_triton", None)  # its import fails
    assert distances.without_triton(problem.X) is None
    monkeypatch.setattr(distances, "_suits_triton", lambda x: True)
    reason = distances.without_triton(problem.X)
    assert "ImportError" in reason or "ModuleNotFound" in reason
    assert "without_triton" not in run.model(Laplacian()).report
    monkeypatch.setattr(Problem, "on_device", True)
    assert "without_triton" not in run.model(RBF()).report
    for kernel in (Laplacian(), RBF() + Laplacian() * RBF()):
        assert "without Triton, which is faster" in run.model(kernel).report["without_triton"]
    distances._triton.cache_clear()
