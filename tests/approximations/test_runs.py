"""What is decided once, when a run starts, and who looks at it; rows that are streamed to a device."""

from typing import Any

import numpy as np
import pytest

from onefold import LSSVC, LSSVR, LSSVRCV
from onefold.approximations import (
    Approximation,
    Auto,
    Circulant,
    ConjugateGradients,
    Exact,
    Nystroem,
    Problem,
    Toeplitz,
    Workload,
    auto,
)
from onefold.kernels import RBF, Precomputed

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 2))
Y = np.sin(X).sum(axis=1)
GRID: dict[str, Any] = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 4}


def started(approximation: Approximation, **settings: Any) -> Any:
    problem = Problem(X, Y[:, None], None, True)
    return approximation.start(problem, [RBF(0.5)], Workload(2, 3, 4, **settings))


@pytest.mark.filterwarnings("ignore:the rows are no series")
def test_refits_of_an_approximation(monkeypatch):
    for approximation in (Exact(), Auto()):
        run = started(approximation, refit="same")
        assert (run.approximation, run.refits_exactly, run.refit) == (Exact(), True, None)
    assert not started(Nystroem(9), refit="auto").refits_exactly
    assert started(Nystroem(9), refit="exact").refit.approximation == Exact()
    monkeypatch.setattr("onefold.approximations.base.LARGEST_DENSE", 50)
    assert started(Nystroem(9), refit="exact").refit.approximation == ConjugateGradients()
    for structured in (Circulant(negative="clip"), Toeplitz()):
        assert started(structured, refit="auto").refits_exactly
    monkeypatch.setattr("onefold.approximations.base.LARGEST_UNASKED", 50)
    assert not started(Circulant(), refit="auto").refits_exactly


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
    started(Nystroem(2))
    with pytest.raises(MemoryError, match=r"a fit with Exact\(\)"):
        started(Nystroem(2), refit="exact")


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


@pytest.mark.parametrize(
    ("n", "place", "given", "free", "chosen", "reason"),
    [
        (10**6, "memory", True, None, "Exact", "a kernel matrix is given"),
        (100, "dask", False, None, "Nystroem", "on Dask's workers"),
        (100, "streamed", False, None, "Nystroem", "streamed to the device"),
        (2000, "memory", False, None, "Exact", "at most 2000 rows"),
        (2000, "memory", False, 10**8, "Nystroem", "would need"),
        (3000, "memory", False, 10**11, "Exact", "within"),
        (10**6, "memory", False, 10**12, "Nystroem", "would need"),
        (50_000, "memory", False, None, "Nystroem", "would take"),
    ],
)
def test_the_table_of_decisions(monkeypatch, n, place, given, free, chosen, reason):
    monkeypatch.setattr("onefold.approximations.problem.machine_speed", lambda: auto.NOMINAL)
    found = auto.choose(Auto(), (n, 5, 1), Workload(13, 11, 5), free, place=place, given=given)
    assert type(found.approximation).__name__ == chosen
    assert reason in found.reason


@pytest.mark.parametrize(
    ("kind", "setting", "values"),
    [
        (Nystroem, "rank", [1.5, 0]), (Toeplitz, "tolerance", [1.5]), (Auto, "seconds", [0.0, "short"]),
        (ConjugateGradients, "n_components", [0, 2.5]), (ConjugateGradients, "max_iterations", [0]),
        (ConjugateGradients, "tolerance", [0.0, 2.0]),
    ],
)  # fmt: skip
def test_refused_by_name(kind, setting, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{setting} must"):
            kind(**{setting: value})


# -- rows that are streamed to a device: the answers are those of the host ---------------------------
THREE, LABELS = RNG.standard_normal((400, 3)), np.digitize(RNG.standard_normal(400), [-0.4, 0.4])
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
