"""What `plan` says of a search with learned metrics, and that this is what starts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.model_selection import KFold

from onefold import LSSVRCV, plan
from onefold.approximations import Auto, Exact, Nystroem
from onefold.cli import main
from onefold.criteria import Task
from onefold.estimators.setting_up import set_up
from onefold.heldout import make_splits
from onefold.machine.speed import Speed
from onefold.search.planning import Size
from onefold.search.subsamples import divide

LEARNED = {"kernel": "auto", "metric": "auto", "blend": True}


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    monkeypatch.setattr("onefold.approximations.run.machine_speed", lambda: Speed(4e10, 1e9))
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 16 * 2**30)


def test_the_steps_of_many_rows_and_what_they_leave_out():
    found = plan((8000, 10), **LEARNED)
    assert found.approximation == Exact()
    told = [step.what for step in found.steps]
    assert told == ["rounds on 1500 rows", "again on 4000", "3 fits of 8000 rows"]
    assert sum(step.seconds for step in found.steps) == pytest.approx(found.seconds)
    text = str(found)
    assert "; 3 fits of 8000 rows: " in text
    assert "without some of 4 kernels: those without weight in a first blend are not fitted" in text
    assert "without 4 of 5 folds: the 1 set aside score" in text
    assert "landmarks" not in text


def test_few_rows_go_all_rounds_and_leave_nothing_out():
    few, some = plan((1200, 10), **LEARNED), plan((1900, 10), **LEARNED)
    assert [step.what for step in few.steps] == ["rounds on all 1200 rows, fold by fold"]
    assert few.left_out == ()
    assert [step.what for step in some.steps][-1] == "again on all 1900 rows, fold by fold"
    assert some.left_out == ("rounds of all rows: those found on 1500 are gone again",)
    assert some.seconds > few.seconds > 0


def test_landmarks_take_the_place_of_the_true_kernel_where_time_is_short():
    found = plan((20_000, 10), **LEARNED)
    assert isinstance(found.approximation, Nystroem)
    assert found.left_out[-1] == "the true kernel: landmarks stand for it"
    rich = plan((20_000, 10), seconds=10**5, **LEARNED)
    assert rich.approximation == Exact()
    assert rich.seconds > found.seconds


def test_the_rounds_before_are_within_the_budget_too():
    """The fits of all rows alone would be within it."""
    whole = plan((8000, 10), **LEARNED)
    last = whole.steps[-1].seconds
    assert plan((8000, 10), seconds=1.05 * whole.seconds, **LEARNED).approximation == Exact()
    tight = plan((8000, 10), seconds=(last + whole.seconds) / 2, **LEARNED)
    assert isinstance(tight.approximation, Nystroem)


@pytest.mark.parametrize("n", [1200, 3000, 4000, 6000])
@pytest.mark.parametrize("seconds", [5, 60, 1000])
def test_a_fit_starts_what_the_plan_says(n, seconds):
    X = np.random.default_rng(0).standard_normal((n, 5))
    chooser = LSSVRCV(approximation=Auto(seconds=seconds), **LEARNED)
    run = set_up(chooser, X, X[:, 0]).run
    assert run.approximation == plan((n, 5), seconds=seconds, **LEARNED).approximation
    if n > 4000:
        assert (run.load.kernels, run.load.alphas) == (3, 1)


@pytest.mark.parametrize("n", [1600, 2500, 4100, 9000, 30_000])
@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_rows_are_divided_as_the_search_divides_them(n, folds):
    y = np.zeros(n)
    splits = make_splits(KFold(folds), y[:, None], y, n=n, labels=None, groups=None, kept=None)
    task = Task(y[:, None], y, None)
    size = Size(n, 1, 1, folds, 14)
    for wanted in (1500, 4000):
        division = divide(splits, task, wanted, 0, set_aside=True)
        assert size.aside == len(division.aside)
        assert abs(size.teachers(wanted, set_aside=True) - division.teachers.size) <= 2
        division = divide(splits, task, wanted, 0, set_aside=False)
        assert abs(size.teachers(wanted, set_aside=False) - division.teachers.size) <= 2


def test_without_a_metric_it_is_the_plain_search():
    assert plan((3000, 10)).steps == ()
    one, three = plan((3000, 10), kernel=["rbf"]), plan((3000, 10), kernel="auto")
    assert three.seconds == pytest.approx(3 * one.seconds)
    assert plan((3000, 10), kernel="auto", blend=True).seconds > three.seconds
    assert plan((3000, 10), kernel="linear").seconds < plan((3000, 10)).seconds / 5


def test_a_way_without_an_estimate_says_so():
    found = plan((8000, 10), approximation="cg", **LEARNED)
    assert found.seconds is None
    assert "3 fits of 8000 rows: unknown" in str(found)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"metric": "auto", "cv": 0}, "whole folds"),
        ({"metric": "auto", "cv": "loo"}, "whole folds"),
        ({"metric": "round"}, "metric must be None or one of"),
        ({"metric": "full", "kernel": "linear"}, "has a metric to learn"),
        ({"metric": "full", "approximation": "toeplitz"}, "no metric is learned with a toeplitz"),
        ({"kernel": "rfb"}, "rfb"),
    ],
)
def test_what_cannot_be_searched_is_refused(settings, word):
    with pytest.raises(ValueError, match=word):
        plan((100, 3), **settings)


def test_the_command_describes_what_tune_runs(tmp_path, capsys):
    table = tmp_path / "t.csv"
    np.savetxt(table, np.random.default_rng(0).random((90, 4)), delimiter=",", header="a,b,c,y")
    base = ["plan", str(table), "--target", "y"]

    def facts(*options):
        assert main([*base, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    default = facts()
    assert default["search"] == {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    assert default["steps"][0]["what"] == "rounds on all 90 rows, fold by fold"
    simple = facts("--simple")
    assert (simple["search"]["kernels"], simple["steps"]) == (["rbf"], [])
    assert "cv='loo'" in facts("--cv", "loo")["search"]["note"]
    assert main(base) == 0
    assert "search  the kernels of auto, metric auto, a blend" in capsys.readouterr().out


def test_sparse_tables_have_fewer_kernels_to_choose_among(tmp_path, capsys):
    lines = [f"{i % 2} 1:{i} 3:{i % 7}" for i in range(60)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    assert main(["plan", str(tmp_path / "t.svm"), "--json"]) == 0
    sparse = json.loads(capsys.readouterr().out)
    dense = plan((sparse["rows"], sparse["features"]), classes=2, **LEARNED)
    assert sparse["seconds"] < dense.seconds
