"""A time budget and Ctrl-C end a search with the best so far, and say what was not tried."""

import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pytest

from onefold import LSSVCCV, LSSVRCV
from onefold.search import SearchStoppedWarning, StopSearch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(120)
METRIC = {"kernel": "auto", "metric": "auto", "blend": True, "cv": 3, "n_jobs": 1}


def stopped_after(count: int, **settings: Any) -> tuple[Any, str]:
    """A fit that is interrupted in its `count`-th evaluation, and the warning."""
    seen: list[Any] = []

    def stop(event: dict[str, Any]) -> None:
        seen.append(event)
        if len(seen) == count:
            raise KeyboardInterrupt

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LSSVRCV(**settings, callback=stop).fit(X, Y)
    messages = [str(one.message) for one in caught if one.category is SearchStoppedWarning]
    assert len(messages) == 1
    return model, messages[0]


def test_the_best_of_what_was_tried_is_used() -> None:
    model, message = stopped_after(3, gammas=[0.01, 0.1, 1.0, 4.0, 9.0], n_jobs=1)
    best = LSSVRCV(gammas=[0.01, 0.1, 1.0], n_jobs=1).fit(X, Y)
    assert model.best_params_ == best.best_params_
    assert np.array_equal(model.predict(X), best.predict(X))
    assert np.array_equal(model.heldout_prediction_, best.heldout_prediction_)
    assert message == (
        "the search was interrupted; the best so far is used, and 2 candidates were not tried: "
        "gamma=4.0; gamma=9.0."
    )
    assert model.search_ == {
        "method": "grid",
        "stopped": "interrupted",
        "untried": [{"gamma": 4.0}, {"gamma": 9.0}],
    }


def test_a_time_budget_of_nothing_tries_something() -> None:
    with pytest.warns(SearchStoppedWarning, match="ended with its time_budget of 1e-09 s"):
        model = LSSVRCV(time_budget=1e-9, n_jobs=1).fit(X, Y)
    assert model.search_["stopped"] == "time_budget"
    assert len(model.history_) == 1
    assert len(model.search_["untried"]) == 12


def test_a_time_budget_that_is_enough_changes_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SearchStoppedWarning)
        model = LSSVCCV(time_budget=1e6).fit(X, Y > 0)
    assert model.search_ == {"method": "grid", "stopped": None, "untried": []}


@pytest.mark.parametrize("budget", [0, -1.0, "1", True, float("nan")])
def test_what_is_no_budget(budget: Any) -> None:
    with pytest.raises(ValueError, match="time_budget must be a number of seconds greater than 0"):
        LSSVRCV(time_budget=budget).fit(X, Y)


def test_a_second_interruption_ends_the_fit() -> None:
    def always(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # the second part of the search hears the second one
        LSSVRCV(**METRIC, metric_rows=50, callback=always).fit(X, Y)


@pytest.mark.parametrize("rows", [None, 50])
def test_a_callback_that_stops_the_search_is_no_interruption(rows: int | None) -> None:
    """It may go on saying so in the parts that are left."""
    settings = {"gammas": [0.01, 0.1, 1.0, 4.0], "n_jobs": 1} if rows is None else METRIC
    seen: list[Any] = []

    def enough(event: dict[str, Any]) -> None:
        seen.append(event)
        if len(seen) >= 2:
            raise StopSearch

    with pytest.warns(SearchStoppedWarning, match="the search was stopped by the callback; the best"):
        model = LSSVRCV(**settings, metric_rows=rows, callback=enough).fit(X, Y)
    assert model.search_["stopped"] == "stopped by the callback"
    assert np.isfinite(model.predict(X)).all()
    if rows is None:
        assert model.search_["untried"] == [{"gamma": 1.0}, {"gamma": 4.0}]
        best = LSSVRCV(gammas=[0.01, 0.1], n_jobs=1).fit(X, Y)
        assert np.array_equal(model.predict(X), best.predict(X))


def test_a_callback_stops_whoever_asks_an_objective() -> None:
    def enough(event: dict[str, Any]) -> None:
        raise StopSearch

    objective = LSSVRCV(callback=enough).objective(X, Y)
    with pytest.raises(StopSearch, match="takes the best so far"):
        objective(gamma=0.1, alpha=0.1)
    assert objective.fit().search_["stopped"] == "stopped by the callback"


def test_an_interruption_before_a_stage_has_anything_to_finish_is_one(monkeypatch: Any) -> None:
    """While the metrics of the second pass are learned, there is no candidate on its rows yet."""
    import onefold.search.metric as metric

    learn = metric.next_round

    def pressed(last: Any, run: Any, *arguments: Any, **options: Any) -> Any:
        if run.problem.n > 150:
            raise KeyboardInterrupt
        return learn(last, run, *arguments, **options)

    monkeypatch.setattr(metric, "FIRST_ROWS", 50)
    monkeypatch.setattr(metric, "next_round", pressed)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 3))
    y = np.sin(3 * rows[:, 0]) + 0.1 * rng.standard_normal(400)
    with pytest.raises(KeyboardInterrupt):
        LSSVRCV(metric="diagonal", metric_rows=300, random_state=0, n_jobs=1).fit(rows, y)


@pytest.mark.parametrize("rows", [None, 50])
def test_rounds_of_a_metric_are_stopped_anywhere(rows: int | None) -> None:
    """In round 0, in later rounds, in the second pass and in the fits of all rows; or at once."""
    whole = LSSVRCV(**METRIC, metric_rows=rows).fit(X, Y)
    for count in (1, 12, 20, 25, 31):
        model, message = stopped_after(count, **METRIC, metric_rows=rows)
        assert message.startswith("the search was interrupted; the best so far is used, and ")
        assert np.isfinite(model.predict(X)).all()
        assert len(model.cv_results_["params"]) <= len(whole.cv_results_["params"])
    with pytest.warns(SearchStoppedWarning):
        hurried = LSSVCCV(**METRIC, metric_rows=rows, time_budget=1e-9).fit(X, Y > 0)
    assert hurried.score(X, Y > 0) > 0.5


def test_nothing_found_yet_is_an_interruption(monkeypatch: Any) -> None:
    def pressed(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onefold.search.loop.solve", pressed)
    with pytest.raises(KeyboardInterrupt):
        LSSVRCV(n_jobs=1).fit(X, Y)


PROCESS = """
import signal, sys, time, warnings
import numpy as np
from onefold import LSSVRCV
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
rng = np.random.default_rng(0)
X = rng.standard_normal((600, 3))
y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(600)

def slow(event):
    print(event["done"], flush=True)
    time.sleep(0.05)

model = LSSVRCV(gammas=np.geomspace(1e-3, 1e3, 400), callback=slow, n_jobs=int(sys.argv[1])).fit(X, y)
print("fitted", model.search_["stopped"], len(model.history_) + len(model.search_["untried"]))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_control_c_in_a_real_process(n_jobs: int) -> None:
    call = [sys.executable, "-c", PROCESS, str(n_jobs)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "4\n":
                break
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert output.splitlines()[-1] == "fitted interrupted 400"
    assert "SearchStoppedWarning: the search was interrupted" in errors
    assert process.returncode == 0
