"""Ctrl-C, SIGTERM and time budgets: what is kept, what is said, and that nothing is half-written."""

from __future__ import annotations

import json
import re
import signal

import pytest
from cli_arguments import SMALL, TUNE, begun, files, wait_for_lines, write_table

from onefold import load
from onefold.cli import entry, main

TABLE = ["t.parquet", "--target", "y"]
SLOW = [*TABLE, "--simple", "--approximation", "exact", "--gammas", "2^-9:2^3:500", "--jobs", "1"]
KEPT = "onefold: stopping: the best so far will be kept (Ctrl-C again to stop at once) …\n"
STOPPED = "onefold: stopping …\nonefold: interrupted; no file is left half-written\n"


@pytest.mark.parametrize(
    ("number", "code", "last", "jobs"),
    [(signal.SIGINT, 130, STOPPED, "2"), (signal.SIGTERM, 143, "", "1")],
)
def test_before_the_first_evaluation_nothing_is_left_behind(tmp_path, number, code, last, jobs):
    write_table(tmp_path / "t.parquet", 2500)
    process = begun(tmp_path, *SLOW, "--jobs", jobs, "--resume")
    wait_for_lines(tmp_path / "t-onefold.journal", 2, process)  # the search has begun
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (code, "")
    assert err.endswith(last)
    assert "Traceback" not in err
    # What the journal was begun with is of use to the next run with --resume.
    assert files(tmp_path) == ["t-onefold.journal", "t.parquet"]


def test_the_first_ctrl_c_keeps_the_best_so_far(tmp_path):
    write_table(tmp_path / "t.parquet", 400)
    process = begun(tmp_path, *SLOW, "--jobs", "2", "--resume", "--json")
    wait_for_lines(tmp_path / "t-onefold.journal", 8, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, KEPT)
    found = json.loads(out)
    search = found["search"]
    assert (search["method"], search["stopped"]) == ("grid", "interrupted")
    tried = found["candidates"] // 11
    assert 5 <= tried < 500
    assert len(search["untried"]) == 500 - tried
    assert found["notes"][0] == (
        f"the search was interrupted, and {500 - tried} candidates were not tried"
    )
    assert found["edge"] is None
    model = load(tmp_path / "t-onefold" / "model.onefold")
    assert model.estimator_.search_["stopped"] == "interrupted"
    assert model.estimator_.best_params_ == found["best_params"]
    # There is something to go on with.
    assert files(tmp_path) == ["t-onefold", "t-onefold.journal", "t.parquet"]


def test_rounds_of_metrics_are_ended_too(tmp_path):
    write_table(tmp_path / "t.parquet", 150)
    process = begun(tmp_path, *TABLE, "--gammas", "0.01:100:300", "--resume")
    wait_for_lines(tmp_path / "t-onefold.journal", 8, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert KEPT in err
    assert err.endswith("t-onefold.journal is kept: the same command with --force goes on\n")
    assert re.search(r"note: the search was interrupted, and \d+ candidates were not tried", out)


def event(score: float | None) -> dict:
    return {"done": 1, "total": 2, "best_score": score, "best_params": {}, "part": "grid", "left": 1.0}


@pytest.fixture
def key():
    """Ctrl-C as the command line hears it, without a signal."""
    found = entry._CtrlC()
    earlier = signal.signal(signal.SIGINT, found)
    yield found
    signal.signal(signal.SIGINT, earlier)


def test_without_a_score_the_first_one_stops(key, capsys):
    with entry.best_kept(lambda event: None) as callback:
        callback(event(None))
        with pytest.raises(entry.Interrupted):
            key(signal.SIGINT, None)
        key(signal.SIGINT, None)  # does not disturb the tidying up
    assert capsys.readouterr().err == "onefold: stopping …\nonefold: still stopping\n"


def test_the_search_is_ended_once_between_evaluations(key, capsys):
    with entry.best_kept(lambda event: None) as callback:
        callback(event(-1.0))
        key(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            callback(event(-1.0))
        callback(event(None))  # of the parts that are left
        with pytest.raises(entry.Interrupted):
            key(signal.SIGINT, None)
    assert capsys.readouterr().err == KEPT + "onefold: stopping …\n"


def test_after_the_search_the_next_one_stops(key):
    with entry.best_kept(lambda event: None) as callback:
        callback(event(-1.0))
        key(signal.SIGINT, None)  # in the final fit, say, which calls nobody back
    with pytest.raises(entry.Interrupted):
        key(signal.SIGINT, None)


# Time budgets


def test_a_time_budget_ends_the_search_and_the_result_says_so(table, capsys):
    assert main([*TUNE, *SMALL, "--time-budget", "0.000001s", "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["search"]["stopped"] == "time_budget"
    assert found["candidates"] == 3  # of one kernel
    assert [one["gamma"] for one in found["search"]["untried"]] == pytest.approx([0.5, 2.0])
    assert found["notes"][0] == (
        "the search ended with its time budget, and 2 candidates were not tried (gamma 0.5; gamma 2)"
    )
    assert main(["inspect", "t-onefold"]) == 0
    assert "ended with its time budget" in capsys.readouterr().out


def test_enough_time_changes_nothing(table, capsys):
    assert main([*TUNE, *SMALL, "--time-budget", "1h", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["search"]["stopped"], found["search"]["untried"]) == (None, [])
    assert not any("search" in note for note in found["notes"])
