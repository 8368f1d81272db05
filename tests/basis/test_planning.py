"""The automatic choice, its estimates, that a fit starts what the plan says, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import KFold, RepeatedKFold

from onefold import LSSVCCV, LSSVRCV, plan
from onefold.approximations import (
    Auto,
    Circulant,
    ConjugateGradients,
    Exact,
    Nystroem,
    Toeplitz,
    Workload,
)
from onefold.cli import main
from onefold.estimators.setup import set_up
from onefold.machine.speed import Speed, machine_speed
from onefold.machine.threads import use_threads

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
    assert "still would take" in timed((10**7, 10), 1).reason
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 2**30)
    assert timed((100_000, 10), 1e6).approximation.n_components < rich


def test_estimates_grow_with_the_work(monkeypatch):
    one, search = Workload(1, 1, 0), Workload(13, 11, 5)
    for kind in (Exact(), Nystroem(500), Toeplitz(), Circulant()):
        assert kind.memory(10**3, 10, 1, search, FREE) < kind.memory(10**6, 10, 1, search, FREE)
        assert kind.memory(3000, 10, 1, one, FREE) < kind.memory(3000, 10, 1, search, FREE)
        assert kind.memory(3000, 10, 1, search, FREE) < kind.memory(3000, 10, 500, search, FREE)
    for module in ("problem", "nystroem"):
        monkeypatch.setattr(f"onefold.approximations.{module}.count_workers", lambda n_jobs: 4)
    for name, kind in (("exact", Exact()), ("nystroem", Nystroem(500))):
        small, large = (kind.duration(n, 10, 1, search, FAST) for n in (10**3, 10**6))
        assert small < large
        assert kind.duration(3000, 10, 1, one, FAST) < kind.duration(3000, 10, 1, search, FAST)
        alone, four, many = (
            plan(LSSVRCV(approximation=name, n_jobs=n_jobs), (50_000, 20)).seconds
            for n_jobs in (1, 4, 64)
        )
        assert 2 * four < alone < 5 * four  # fewer threads take longer
        assert many == four


def test_plan_of_a_given_approximation_and_its_words():
    given = plan(LSSVRCV(approximation="exact"), np.zeros((3000, 4)))
    assert (given.approximation, given.reason) == (Exact(), "as asked for")
    assert "3000 rows, 4 features" in str(given)
    too_much = plan(LSSVRCV(approximation="exact"), (10**6, 2))
    assert not too_much.fits
    assert "not enough" in str(too_much)
    unknown = plan(LSSVRCV(approximation="cg", **LEARNED), (8000, 10))
    assert unknown.seconds is None
    assert "unknown" in str(unknown)


def test_classes_and_threads_count():
    few, many = (plan(LSSVCCV(), (1500, 4), np.arange(classes)).bytes for classes in (2, 26))
    assert many > 1.1 * few  # coefficients of every fold, ridge and class beside the factors
    one, two = (plan(LSSVRCV(n_jobs=n_jobs), (1500, 4)).bytes for n_jobs in (1, 2))
    assert two > 1.5 * one
    assert plan(LSSVRCV(cv="loo"), (1500, 4)).bytes <= plan(LSSVRCV(), (1500, 4)).bytes
    basis = {"approximation": Nystroem(100), "n_jobs": 1}
    regression, labels = (plan(kind(**basis), (4_000_000, 4)).bytes for kind in (LSSVRCV, LSSVCCV))
    assert labels > regression  # squared errors hold no predictions of every ridge, not even some


def test_models_run_side_by_side_only_where_memory_allows():
    for free, at_once in ((None, 2), (10**10, 2), (5 * 10**8, 1), (10, 1)):
        with use_threads(2):
            assert Exact().at_once(2000, 5, 1, Workload(13, 11, 5), free) == at_once
            # Predictions of many targets.
            assert Exact().at_once(2000, 5, 3000, Workload(13, 11, 5), free) == 1


def test_the_machine_is_timed_only_where_that_matters(monkeypatch):
    asked = []
    monkeypatch.setattr("onefold.approximations.problem.machine_speed", lambda: asked.append(1) or FAST)
    X = np.random.default_rng(0).standard_normal((6000, 4))
    LSSVRCV(gammas=[0.1], alphas=[1.0], cv=3).fit(X[:150], X[:150, 0])
    set_up(LSSVRCV(), X[:2000], X[:2000, 0])  # exact anyway
    assert plan(LSSVRCV(), (150, 4)).seconds < 1
    plan(LSSVRCV(approximation=ConjugateGradients()), (10**6, 5))
    assert not asked
    plan(LSSVRCV(), (10_000, 5))
    assert asked
    asked.clear()
    set_up(LSSVRCV(), X, X[:, 0])
    assert asked


@pytest.mark.parametrize("n", [1200, 3000, 6000])
@pytest.mark.parametrize("seconds", [5, 60, 1000])
def test_a_fit_starts_what_the_plan_says(n, seconds):
    X = np.random.default_rng(0).standard_normal((n, 5))
    chooser = LSSVRCV(approximation=Auto(seconds=seconds), **LEARNED)
    run = set_up(chooser, X, X[:, 0]).run
    assert run.approximation == plan(chooser, (n, 5)).approximation
    if n > 4000:
        assert (run.load.kernels, run.load.alphas) == (3, 1)


def test_rows_time_and_kernels_decide_about_learned_metrics():
    times = [timed((n, 10), 1e9, **LEARNED).seconds for n in (1200, 1900, 8000, 20_000)]
    assert times[0] > 0
    assert times == sorted(times)
    found, rich = (timed((20_000, 10), seconds, **LEARNED) for seconds in (300, 10**5))
    assert isinstance(found.approximation, Nystroem)
    assert rich.approximation == Exact()
    assert rich.seconds > found.seconds
    kernels = [("rbf", False), (["rbf"], False), ("auto", False), ("linear", False), ("auto", True)]
    plain, one, three, linear, blend = (
        plan(LSSVRCV(kernel, blend=blend), (3000, 10)).seconds for kernel, blend in kernels
    )
    assert three == pytest.approx(3 * one)
    assert blend > three
    assert linear < plain / 5


def test_the_rounds_before_are_within_the_budget_too():
    """The fits of all rows alone would be within it."""
    whole = timed((8000, 10), **LEARNED)
    assert whole.approximation == Exact()
    last = Exact().duration(8000, 10, 1, Workload(3, 1, 5), FAST)
    assert last < whole.seconds
    assert timed((8000, 10), 1.05 * whole.seconds, **LEARNED).approximation == Exact()
    tight = timed((8000, 10), (last + whole.seconds) / 2, **LEARNED)
    assert isinstance(tight.approximation, Nystroem)


def test_fits_say_what_was_chosen_and_why(monkeypatch):
    monkeypatch.setattr("onefold.approximations.auto._ALWAYS_EXACT", 100)
    X = np.random.default_rng(0).standard_normal((300, 3))
    fitted = LSSVRCV(gammas=[0.1], cv=3, approximation=Auto(seconds=1e-9)).fit(X, X[:, 0])
    assert fitted.approximation_["fitted_with"]["name"] == "nystroem"
    assert "would take" in fitted.approximation_["fitted_with"]["chosen"]
    assert fitted.expansion_.n_centres <= 75


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


def test_overlapping_folds_count_by_the_groups_of_rows_that_they_make():
    n, m = 400, 20
    X, y = np.random.default_rng(0).random((n, 2)), np.arange(float(n))

    def load(cv):
        return set_up(LSSVRCV(approximation=Nystroem(m), cv=cv), X, y).run.load

    assert [load(cv).groups for cv in (5, "loo", KFold(3, shuffle=True))] == [0, 0, 0]
    assert load(RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)).groups == 16
    few, many = (Workload(13, 11, 8, groups=groups) for groups in (0, 100))
    for rows in (4000, 10**6):  # trained from factors, and from sums
        with use_threads(1):
            more, less = (Nystroem(100).memory(rows, 2, 1, load, FREE) for load in (many, few))
        assert more - less > 90 * 8 * 100**2 / 3


FRAME, SPARSE = pd.DataFrame(np.zeros((50, 3))), csr_matrix((50, 3))


@pytest.mark.parametrize(
    "given", [np.zeros((50, 3)), [[0.0] * 3] * 50, (50, 3), (np.int64(50), 3.0), FRAME, SPARSE]
)
def test_rows_or_their_shape(given):
    found = plan(LSSVRCV(), given)
    assert (found.rows, found.features) == (50, 3)


NO_SHAPE = r"plan takes an array of rows, or a shape such as \(1000, 20\)"
NO_ROWS = [5, None, "rows", (5,), [5, 3], (5, "x"), (10, 2, 3), (1 + 2j, 3), {}, np.zeros(5)]


@pytest.mark.parametrize(
    ("shape", "settings", "words"),
    [
        *((given, {}, NO_SHAPE) for given in [*NO_ROWS, np.zeros((3, 2, 1))]),
        ((0, 3), {}, "rows"),
        ((10, 2.5), {}, "features"),
        ((10, 2, 3), {}, r"got \(10, 2, 3\)"),
        ((10, 2), {"alphas": []}, "alphas"),
        ((10, 2), {"cv": "five"}, "cv"),
        ((10, 2), {"cv": 1}, "cv"),
        ((10, 2), {"cv": iter([([0], [1])])}, "an iterator of splits, which serves once"),
        ((10, 2), {"n_jobs": 0}, "n_jobs"),
        ((10, 2), {"approximation": "nystrom"}, "unknown approximation"),
        ((10, 2), {"metric": "auto", "cv": "loo"}, "whole folds"),
        ((10, 2), {"metric": "round"}, "metric must be None or one of"),
        ((10, 2), {"metric": "full", "kernel": "linear"}, "has a metric to learn"),
        (
            (10, 2),
            {"metric": "full", "approximation": "toeplitz"},
            "no metric is learned with a toeplitz",
        ),
        ((10, 2), {"kernel": "rfb"}, "rfb"),
    ],
)
def test_what_means_nothing_is_refused_by_name(shape, settings, words):
    with pytest.raises(ValueError, match=words):
        plan(LSSVRCV(**settings), shape)


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """`onefold plan` on a table of 100 rows: its status, what it prints, the targets that it counted."""
    table, asked = tmp_path / "t.csv", {}
    rows = (f"{i},{['red', 'green', 'blue'][i % 3]},1,{'abcde'[i % 5]}" for i in range(100))
    table.write_text("\n".join(["a,colour,constant,y", *rows]) + "\n")
    monkeypatch.setattr("onefold.cli.tune.plan", lambda *given: asked.update(y=given[2]) or plan(*given))

    def run(*options):
        code, out = main(["plan", str(table), *options]), capsys.readouterr()
        return code, out.out + out.err, asked.get("y")

    return run


@pytest.mark.parametrize("free", [2**40, 1000])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--target y", "100 rows, 4 features: "),  # a and three colours
        ("--target y --drop colour", "100 rows, 1 features"),
        ("--target a --id y --gammas 1,2 --alphas 1", "100 rows, 3 features"),
        ("--target z", "target: t.csv has no column 'z'"),
        ("--target y --drop z", "drop: t.csv has no column 'z'"),
        ("", "name the column to predict"),
    ],
)
def test_command(command, monkeypatch, free, options, words):
    monkeypatch.setattr("onefold.tables.training.available_memory", lambda: free)
    code, out, targets = command(*options.split())
    assert words in out
    assert (code == 0) == (targets is not None)
    if targets is not None:
        assert len(np.unique(targets)) == (5 if "--target y" in options else 100)


def test_command_describes_what_tune_runs(command):
    def facts(*options):
        return json.loads(command("--target", "a", "--json", *options)[1])

    default, simple = facts(), facts("--simple")
    assert default["search"] == {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    assert default["fits"] is True
    assert simple["search"]["kernels"] == ["rbf"]
    assert simple["seconds"] < default["seconds"]
    assert "leave-one-out" in facts("--cv", "loo")["search"]["note"]
    assert "search  the kernels of auto, metric auto, a blend" in command("--target", "a")[1]
