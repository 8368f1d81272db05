"""Progress of a search: lines with the part and the time left."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.machine.speed import duration_words
from onefold.search.progress import Remaining

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


def test_the_time_left_is_that_of_the_part_at_its_own_pace():
    def event(part, done, total, seconds):
        return {"part": part, "done": done, "total": total, "seconds": seconds}

    remaining = Remaining()
    assert remaining.seconds(event("rounds", 1, 5, 2.0)) == 8.0
    assert remaining.seconds(event("rounds", 2, 5, 6.0)) == 9.0
    assert remaining.seconds(event("rounds", 5, 5, 9.0)) == 0.0
    # Six of the next part came from a journal, at no cost.
    assert remaining.seconds(event("all rows", 7, 10, 19.0)) == 30.0
    assert remaining.seconds(event("all rows", 9, 10, 29.0)) == pytest.approx(20 / 3)
    assert remaining.seconds(event("all rows", 12, 10, 30.0)) == 0.0


def test_durations_in_words():
    seconds = [0.2, 8.4, 59.9, 60, 61, 3569, 3600, 4800, 90000]
    assert [duration_words(one) for one in seconds] == [
        "1 s", "8 s", "60 s", "1 min", "1 min", "59 min", "1 h", "1 h 20 min", "25 h",
    ]  # fmt: skip
