"""The plan of a search with learned metrics, and that this is what starts."""

import json

import numpy as np
import pytest

from onefold import LSSVRCV, plan
from onefold.approximations import Auto, Exact, Nystroem, Workload
from onefold.cli import main
from onefold.estimators.setup import set_up
from onefold.machine.speed import Speed

LEARNED = {"kernel": "auto", "metric": "auto", "blend": True}


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    monkeypatch.setattr("onefold.approximations.problem.machine_speed", lambda: Speed(4e10, 1e9))
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 16 * 2**30)


def learned(shape, seconds=300.0, **options):
    return plan(LSSVRCV(approximation=Auto(seconds=seconds), **(LEARNED | options)), shape)


@pytest.mark.parametrize("n", [1200, 3000, 4000, 6000])
@pytest.mark.parametrize("seconds", [5, 60, 1000])
def test_a_fit_starts_what_the_plan_says(n, seconds):
    X = np.random.default_rng(0).standard_normal((n, 5))
    chooser = LSSVRCV(approximation=Auto(seconds=seconds), **LEARNED)
    run = set_up(chooser, X, X[:, 0]).run
    assert run.approximation == plan(chooser, (n, 5)).approximation
    if n > 4000:
        assert (run.load.kernels, run.load.alphas) == (3, 1)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"metric": "auto", "cv": "loo"}, "whole folds"),
        ({"metric": "round"}, "metric must be None or one of"),
        ({"metric": "full", "kernel": "linear"}, "has a metric to learn"),
        ({"metric": "full", "approximation": "toeplitz"}, "no metric is learned with a toeplitz"),
        ({"kernel": "rfb"}, "rfb"),
    ],
)
def test_what_cannot_be_searched_is_refused(settings, word):
    with pytest.raises(ValueError, match=word):
        plan(LSSVRCV(**settings), (100, 3))


def test_the_command_describes_what_tune_runs(tmp_path, capsys):
    table = tmp_path / "t.csv"
    np.savetxt(table, np.random.default_rng(0).random((90, 4)), delimiter=",", header="a,b,c,y")
    base = ["plan", str(table), "--target", "y"]

    def facts(*options):
        assert main([*base, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    default = facts()
    assert default["search"] == {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    simple = facts("--simple")
    assert simple["search"]["kernels"] == ["rbf"]
    assert simple["seconds"] < default["seconds"]
    assert "leave-one-out" in facts("--cv", "loo")["search"]["note"]
    assert main(base) == 0
    assert "search  the kernels of auto, metric auto, a blend" in capsys.readouterr().out


def test_rows_time_and_kernels_decide():
    times = [learned((n, 10), seconds=1e9).seconds for n in (1200, 1900, 8000, 20_000)]
    assert times[0] > 0
    assert times == sorted(times)
    found, rich = learned((20_000, 10)), learned((20_000, 10), seconds=10**5)
    assert isinstance(found.approximation, Nystroem)
    assert rich.approximation == Exact()
    assert rich.seconds > found.seconds
    plain, one, three, linear, blend = (
        plan(LSSVRCV(kernel, blend=blend), (3000, 10)).seconds
        for kernel, blend in (
            ("rbf", False),
            (["rbf"], False),
            ("auto", False),
            ("linear", False),
            ("auto", True),
        )
    )
    assert three == pytest.approx(3 * one)
    assert blend > three
    assert linear < plain / 5
    unknown = plan(LSSVRCV(approximation="cg", **LEARNED), (8000, 10))
    assert unknown.seconds is None
    assert "unknown" in str(unknown)


def test_the_rounds_before_are_within_the_budget_too():
    """The fits of all rows alone would be within it."""
    whole = learned((8000, 10))
    assert whole.approximation == Exact()
    last = Exact().duration(8000, 10, 1, Workload(3, 1, 5), Speed(4e10, 1e9))
    assert last < whole.seconds
    assert learned((8000, 10), seconds=1.05 * whole.seconds).approximation == Exact()
    tight = learned((8000, 10), seconds=(last + whole.seconds) / 2)
    assert isinstance(tight.approximation, Nystroem)
