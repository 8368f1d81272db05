"""The automatic choice, its estimates, that a fit starts what the plan says, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import LeaveOneOut

from onefold import LSSVRCV, plan
from onefold.approximations import Auto, Circulant, Exact, Nystroem, Toeplitz, Workload
from onefold.cli import main
from onefold.estimators.setup import set_up
from onefold.machine.speed import Speed, duration_words, machine_speed

FAST = Speed(multiply_adds=4e10, exponentials=1e9)
FREE = 16 * 2**30
LEARNED = {"kernel": "auto", "metric": "auto", "blend": True}


def timed(shape, seconds=300.0, **settings):
    """The plan of a search with such a budget."""
    return plan(LSSVRCV(approximation=Auto(seconds=seconds, random_state=4), **settings), shape)


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    monkeypatch.setattr("onefold.approximations.problem.machine_speed", lambda: FAST)
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: FREE)


def test_budget_and_memory_decide(monkeypatch):
    assert timed((5000, 10), 1e6).approximation == Exact()
    assert "would take" in timed((5000, 10), 10).reason
    rich = timed((100_000, 10), 1e6).approximation.n_components
    poor = timed((100_000, 10), 120).approximation.n_components
    assert rich > poor
    assert "even 500 landmarks would take" in timed((10**7, 10), 1).reason
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 2**30)
    assert timed((100_000, 10), 1e6).approximation.n_components < rich


def test_plan_of_a_given_approximation_and_its_words():
    given = plan(LSSVRCV(approximation="exact"), np.zeros((3000, 4)))
    assert (given.approximation, given.reason) == (Exact(), "as requested")
    assert "3000 rows, 4 features" in str(given)
    too_much = plan(LSSVRCV(approximation="exact"), (10**6, 2))
    assert not too_much.fits
    assert "not enough" in str(too_much)
    unknown = plan(LSSVRCV(approximation="toeplitz"), (8000, 10))
    assert unknown.seconds is None
    assert "unknown" in str(unknown)


@pytest.mark.parametrize("n", [1200, 3000, 6000])
@pytest.mark.parametrize("seconds", [5, 60, 1000])
def test_a_fit_starts_what_the_plan_says(n, seconds):
    X = np.random.default_rng(0).standard_normal((n, 5))
    chooser = LSSVRCV(approximation=Auto(seconds=seconds), **LEARNED)
    run = set_up(chooser, X, X[:, 0]).run
    assert run.approximation == plan(chooser, (n, 5)).approximation
    if n > 4000:
        assert (run.load.kernels, run.load.alphas) == (3, 1)


def test_the_rounds_before_are_within_the_budget_too():
    """The fits of all rows alone would be within it."""
    last = Exact().duration(8000, 10, 1, Workload(3, 1, 5), FAST)
    assert timed((8000, 10), 10 * last, **LEARNED).approximation == Exact()
    tight = timed((8000, 10), 1.05 * last, **LEARNED)
    assert isinstance(tight.approximation, Nystroem)


def test_the_announced_time_is_less_than_what_decides():
    """Rounds end early, and tracks are dropped: announced times were two to six times too long."""
    announced = timed((3000, 10), **LEARNED).seconds
    most = timed((3000, 10), announced, **LEARNED)
    assert isinstance(most.approximation, Nystroem)  # it might take longer than this
    assert timed((3000, 10), 20 * announced, **LEARNED).approximation == Exact()


def test_speed_is_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine_speed.cache_clear()
    first = machine_speed()
    files = list(tmp_path.rglob("speed-*.json"))
    assert len(files) == 1
    machine_speed.cache_clear()
    assert machine_speed() == first
    files[0].write_text("nonsense")
    machine_speed.cache_clear()
    assert machine_speed().multiply_adds > 1e6


FRAME = pd.DataFrame(np.zeros((50, 3)))
SPARSE = csr_matrix((50, 3))
NO_SHAPE = r"plan takes an array of rows, or a shape such as \(1000, 20\)"
NO_ROWS = [5, None, "rows", (5,), [5, 3], (5, "x"), (10, 2, 3), (1 + 2j, 3), {}, np.zeros(5)]


@pytest.mark.parametrize(
    ("shape", "settings", "words"),
    [
        *((given, {}, NO_SHAPE) for given in [*NO_ROWS, np.zeros((3, 2, 1))]),
        ((0, 3), {}, "rows"),
        ((10, 2.5), {}, "features"),
        ((10, 2), {"alphas": []}, "alphas"),
        ((10, 2), {"cv": 1}, "cv"),
        ((10, 2), {"cv": iter([([0], [1])])}, "an iterator of splits, which can be used only once"),
        ((10, 2), {"metric": "auto", "cv": "loo"}, "whole folds"),
        ((10, 2), {"metric": "round"}, "metric must be None or one of"),
        ((10, 2), {"metric": "full", "kernel": "linear"}, "no metric can be learned"),
        ((10, 2), {"metric": "full", "approximation": "toeplitz"}, "a metric cannot be learned with"),
    ],
)
def test_rows_or_their_shape_and_what_means_nothing(shape, settings, words):
    for given in (np.zeros((50, 3)), [[0.0] * 3] * 50, (np.int64(50), 3.0), FRAME, SPARSE):
        found = plan(LSSVRCV(), given)
        assert (found.rows, found.features) == (50, 3)
    with pytest.raises(ValueError, match=words):
        plan(LSSVRCV(**settings), shape)


def test_command_describes_what_tune_runs(tmp_path, capsys, monkeypatch):
    table = tmp_path / "t.csv"
    asked = []
    rows = (f"{i},{['red', 'green', 'blue'][i % 3]},1,{'abcde'[i % 5]}" for i in range(100))
    table.write_text("\n".join(["a,colour,constant,y", *rows]) + "\n")
    monkeypatch.setattr("onefold.tuning.plan", lambda *given: asked.append(given[2]) or plan(*given))

    def facts(target, *options):
        assert main(["plan", str(table), "--json", "--target", target, *options]) == 0
        return json.loads(capsys.readouterr().out)

    default = facts("a")
    simple = facts("a", "--simple")
    assert default["search"] == {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    assert default["fits"] is True
    assert simple["search"]["kernels"] == ["rbf"]
    assert simple["seconds"] < default["seconds"]
    assert "leave-one-out" in facts("a", "--cv", "loo")["search"]["note"]
    monkeypatch.setattr("onefold.tables.store.available_memory", lambda: 1000)
    labels = facts("y")
    assert "are kept on disk" in labels["search"]["note"]
    assert (labels["rows"], labels["features"]) == (100, 4)  # a and three colours
    assert [len(np.unique(targets)) for targets in asked] == [100, 100, 100, 5]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (179, "3 min"),
        (4800, "1 h 20 min"),
        (7200, "2 h"),
        (10.6 * 3600, "11 h"),
        (47.4 * 3600, "47 h"),
        (4281 * 3600, "178 days"),
    ],
)
def test_long_times_are_rounded(seconds, words):
    assert duration_words(seconds) == words


def test_a_kernel_matrix_that_a_criterion_needs_is_counted() -> None:
    n = 4000
    for approximation in (Nystroem(100), Toeplitz(), Circulant()):
        plain, formed = (
            approximation.peak_bytes(n, 5, 1, Workload(alphas=3, smoother=True, matrix=matrix), 1)
            for matrix in (False, True)
        )
        assert formed - plain == pytest.approx(16 * n**2, abs=2)


@pytest.mark.parametrize("approximation", ["state_space", Toeplitz(validate="matrix")])
def test_leave_one_out_counts_a_score_for_every_row(approximation) -> None:
    """Of `LeaveOneOut`, for which `cv_results_` has a column for each row; "loo" has one score."""
    shape = (200_000, 1)
    cells = 13 * 11
    each, pooled = (
        plan(LSSVRCV("matern32", approximation=approximation, cv=cv), shape).bytes
        for cv in (LeaveOneOut(), "loo")
    )
    assert 5 * 8 * shape[0] * cells < each - pooled < 8 * 8 * shape[0] * cells


def test_a_search_by_leave_one_out_asks_for_the_memory_that_its_plan_says() -> None:
    X = np.arange(50.0)[:, None]
    for cv, each in ((LeaveOneOut(), True), ("loo", False), (5, False)):
        assert set_up(LSSVRCV(cv=cv), X, X[:, 0]).run.load.scored_rows == each


def test_leave_one_out_with_all_rows_counts_its_columns() -> None:
    shape = (50_000, 5, 1)
    load = Workload(alphas=3, folds=1, single=True)
    landmarks, rows = (
        Nystroem(500, predict=p).peak_bytes(*shape, load, 1) for p in ("landmarks", "rows")
    )
    assert rows - landmarks >= 5 * 8 * 50_000 * 500
