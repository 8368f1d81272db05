"""Progress of a search: lines with the part and the time left."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.machine.speed import duration_words

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)
GRID = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.01, 0.1, 1.0]}


def test_verbose_names_the_part_and_the_time_left(capsys):
    LSSVRCV(**GRID, verbose=1, n_jobs=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"[LSSVRCV] {i}/4 kernels" for i in (1, 2, 3, 4)]
    assert all(line.endswith(" s left") for line in lines[:3])
    assert "left" not in lines[3]
    LSSVRCV(metric="diagonal", metric_rows=40, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[LSSVRCV] learning the metric: 1/6 kernels, best score ")
    assert lines[-1].startswith("[LSSVRCV] all rows: ")


def test_the_time_left_is_that_of_the_part_at_its_own_pace(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("onefold.search.loop.time.monotonic", lambda: float(next(clock)))
    events = []
    settings = {"n_jobs": 1, "checkpoint": tmp_path / "search", "callback": events.append}
    LSSVRCV(**GRID | {"gammas": [0.03, 0.1]}, **settings).fit(X, Y)
    assert [event["done"] for event in events] == [1, 2]
    assert events[1]["left"] == 0.0
    events.clear()
    LSSVRCV(**GRID, **settings).fit(X, Y)
    assert [event["done"] for event in events] == [3, 4]  # two came from a journal, at no cost
    assert events[0]["left"] >= 10.0
    assert events[1]["left"] == 0.0
    events.clear()
    LSSVRCV(**GRID, n_jobs=1, callback=events.append).fit(X, Y)
    began = events[0]["seconds"] - events[0]["left"] / 3
    for event in events:
        pace = (event["seconds"] - began) / event["done"]
        assert event["left"] == pytest.approx(pace * (4 - event["done"]))


def test_durations_in_words():
    seconds = [0.2, 8.4, 59.9, 60, 61, 3569, 3600, 4800, 90000]
    assert [duration_words(one) for one in seconds] == [
        "1 s", "8 s", "60 s", "1 min", "1 min", "59 min", "1 h", "1 h 20 min", "25 h",
    ]  # fmt: skip
