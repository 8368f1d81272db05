"""The time left is that of the whole fit, at the pace so far; parts that are left out take none."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.search import SearchStoppedWarning
from onefold.search.schedule import FINAL_FIT, INTERVALS, Schedule


def test_a_part_without_a_cost_takes_as_long_as_its_evaluations():
    schedule = Schedule()
    schedule.begin("grid", 0.0)
    assert schedule.seconds_left(7.0, 3.0) == 7.0
    schedule.begin(FINAL_FIT, 10.0)
    assert schedule.seconds_left(0.0, 11.0) == 0.0


def test_the_pace_of_what_has_run_is_that_of_what_is_to_come():
    schedule = Schedule({"look": 1.0, "rounds": 4.0, "all": 2.0})
    schedule.begin("look", 100.0)
    # Two of four evaluations in 3 s: 6 s for a cost of 1, so 24 s and 12 s for the other parts.
    assert schedule.seconds_left(3.0, 103.0) == pytest.approx(3.0 + 6.0 * 6.0)
    schedule.begin("rounds", 106.0)
    assert schedule.seconds_left(1.0, 110.0) == pytest.approx(20.0 + 12.0)
    # It ends early, so that the pace is faster: 10 s for a cost of 5.
    schedule.begin("all", 110.0)
    assert schedule.seconds_left(0.0, 110.0) == pytest.approx(4.0)
    # It takes longer than it should.
    assert schedule.seconds_left(6.0, 120.0) == pytest.approx(6.0)


def test_parts_that_are_left_out_or_unknown_take_no_time():
    schedule = Schedule({"look": 1.0, "rounds": 4.0, "all": 2.0})
    schedule.begin("look", 0.0)
    schedule.begin("all", 2.0)
    assert schedule.seconds_left(0.0, 2.0) == pytest.approx(4.0)
    schedule.begin("something else", 7.0)
    assert schedule.seconds_left(3.0, 8.0) == pytest.approx(3.0)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(400)


@pytest.mark.parametrize(
    "options",
    [
        {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1]},
        {"search": "halving", "gammas": [0.1, 1.0], "alphas": [0.01, 0.1]},
        {"metric": "diagonal", "gammas": [0.3, 1.0], "alphas": [0.01, 0.1], "max_rounds": 1},
        {"kernel": "auto", "blend": True, "gammas": [0.3, 1.0], "alphas": [0.01, 0.1]},
    ],
)
def test_every_strategy_knows_the_parts_that_it_goes_through(options):
    events = []
    model = LSSVRCV(**options, callback=events.append, random_state=0)
    setup = model.set_up(X, Y)
    costs = setup.strategy.costs(setup)
    model.fit(X, Y)
    assert list(dict.fromkeys(event["part"] for event in events)) == list(costs)[:-1]
    assert list(costs)[-1] == FINAL_FIT
    assert min(costs.values()) > 0.0
    assert all(event["left"] > 0.0 for event in events)


def test_ctrl_c_says_at_once_what_it_does(capsys):
    def press(event):
        raise KeyboardInterrupt

    model = LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1], callback=press, n_jobs=1)
    with pytest.warns(SearchStoppedWarning):
        model.fit(X, Y)
    line = "[LSSVRCV] finishing the fit of the best so far; Ctrl-C again to stop\n"
    assert capsys.readouterr().err == line


def test_steps_after_the_search_are_told_to_callbacks_that_listen():
    class Listener:
        def __init__(self):
            self.parts = []

        def __call__(self, event):
            self.parts.append(event["part"])

        def begin_part(self, event):
            assert event["left"] >= 0.0
            self.parts.append(event["part"])

    listener = Listener()
    LSSVRCV(gammas=[0.1], alphas=[0.1], callback=listener).fit(X, Y)
    assert listener.parts == ["grid", FINAL_FIT, INTERVALS]
