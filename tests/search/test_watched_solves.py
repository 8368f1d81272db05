"""Long solutions are watched: progress, states that outlive a kill, and stopping in their middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import onefold.search.loop as loop
import onefold.search.watching as watching
from onefold import LSSVRCV
from onefold.approximations import ConjugateGradients, cg
from onefold.approximations.operators import HostOperator
from onefold.cli import entry
from onefold.cli.terminal import Progress
from onefold.machine.iterations import watch_iterations, watcher
from onefold.machine.threads import map_threads, use_threads
from onefold.search import SearchStoppedWarning, StopSearch
from onefold.search.checkpoint import state_path

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 4))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(240)
SETTINGS = {
    "gammas": [0.3, 0.6],
    "alphas": [0.03],
    "cv": 2,
    "approximation": ConjugateGradients(n_components=20, block_rows=20, tolerance=1e-6),
}
FACTS = {"number", "residual", "left"}


def fitted(X=X, y=Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LSSVRCV(**SETTINGS | settings).fit(X, y)


@pytest.fixture
def eager(monkeypatch):
    """Every iteration is told and written."""
    monkeypatch.setattr(watching, "_TELL_SECONDS", 0.0)
    monkeypatch.setattr(watching, "_SAVE_SECONDS", 0.0)


def same(one, two):
    assert one.best_params_ == two.best_params_
    assert one.best_score_ == two.best_score_
    assert_array_equal(one.heldout_prediction_, two.heldout_prediction_)
    assert_array_equal(one.predict(X), two.predict(X))
    for name in ("selected_with", "fitted_with"):
        assert one.approximation_[name]["solves"] == two.approximation_[name]["solves"]


class Crash(BaseException):
    """Ends a fit in its middle, as a kill does, but in this process."""


def crashing(number, evaluations=0):
    """A callback that fails in an iteration, after so many evaluations."""

    def callback(event):
        if event["done"] == evaluations and event.get("iteration", {}).get("number", 0) >= number:
            raise Crash

    return callback


def test_callbacks_hear_of_iterations_between_evaluations(eager):
    events = []
    model = fitted(callback=events.append)
    same(model, fitted())
    whole = [event for event in events if "iteration" not in event]
    assert [event["done"] for event in whole] == [1, 2]
    within = [event for event in events if "iteration" in event and event["part"] == "grid"]
    assert {event["done"] for event in within} == {0, 1}
    assert all(event.keys() == whole[0].keys() | {"iteration"} for event in within)
    assert all(event["iteration"].keys() == FACTS for event in within)
    assert all(isinstance(event["left"], float) for event in events)
    first = [event["iteration"] for event in within if event["done"] == 0]
    numbers = [iteration["number"] for iteration in first]
    assert numbers == sorted(set(numbers))
    assert first[0]["left"] is None
    assert first[-1]["left"] is not None
    assert first[-1]["residual"] < 1e-3 * first[0]["residual"]
    final = [event for event in events if event["part"] == "final fit"]
    assert all(event["done"] == 2 for event in final)


def test_short_solutions_are_not_told_and_write_nothing(tmp_path):
    events = []
    fitted(callback=events.append, checkpoint=tmp_path / "search")
    assert [event["done"] for event in events] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["search"]


@pytest.mark.parametrize(("number", "evaluations"), [(1, 0), (7, 0), (5, 1)])
def test_a_solution_that_crashed_goes_on_to_the_same_digits(
    eager, tmp_path, monkeypatch, number, evaluations
):
    whole = fitted()
    path = tmp_path / "search"
    with pytest.raises(Crash):
        fitted(checkpoint=path, callback=crashing(number, evaluations))
    assert state_path(path).exists()
    products = []
    product = HostOperator.product
    counted = lambda self, V: products.append(1) or product(self, V)  # noqa: E731
    monkeypatch.setattr(HostOperator, "product", counted)
    events = []
    same(fitted(checkpoint=path, callback=events.append), whole)
    first = next(event for event in events if "iteration" in event)
    assert first["iteration"]["number"] == number + 1
    assert not state_path(path).exists()
    resumed = len(products)
    products.clear()
    fitted()
    assert resumed <= len(products) - number


def test_damaged_states_are_passed_over(tmp_path):
    """Wherever a byte of the file has changed, or the file ends."""
    path = tmp_path / "search.iterate"
    state = watching.KeptState()
    state.remember("key", {"X": np.ones(3)})
    state.write(path)
    contents = path.read_bytes()
    for place in range(len(contents)):
        for value in (0x08, 0xFF, contents[place] ^ 0x01):
            path.write_bytes(contents[:place] + bytes([value]) + contents[place + 1 :])
            found = watching.KeptState().find("key", path)
            assert found is None or np.all(found["X"] == 1.0)
        path.write_bytes(contents[:place])
        assert watching.KeptState().find("key", path) is None


def test_states_of_something_else_are_passed_over(eager, tmp_path):
    path = tmp_path / "search"

    def first_iteration(**settings):
        events = []
        fitted(checkpoint=path, callback=events.append, **settings)
        return next(event["iteration"]["number"] for event in events if "iteration" in event)

    def crashed(**settings):
        path.unlink(missing_ok=True)
        with pytest.raises(Crash):
            fitted(checkpoint=path, callback=crashing(6), **settings)
        path.unlink()

    crashed()
    assert first_iteration() == 7  # it is the same search, whose journal was lost
    for change in ({"y": Y + 1e-9}, {"gammas": [0.4, 0.6]}, {"alphas": [0.04]}, {"cv": 3}):
        crashed()
        path.unlink(missing_ok=True)
        assert first_iteration(**change) == 1
    for damaged in (b"", b"PK", b"something else"):
        path.unlink(missing_ok=True)
        state_path(path).write_bytes(damaged)
        assert first_iteration() == 1


def test_a_truncated_state_is_passed_over(eager, tmp_path):
    path = tmp_path / "search"
    with pytest.raises(Crash):
        fitted(checkpoint=path, callback=crashing(6))
    content = state_path(path).read_bytes()
    for end in (10, len(content) // 2, len(content) - 30):
        state_path(path).write_bytes(content[:end])
        assert watching.read_state(state_path(path)) is None
    state_path(path).write_bytes(content)
    arrays = watching.read_state(state_path(path))
    assert int(arrays["correction_iterations"]) == 6


def test_a_disk_that_refuses_is_named_once_and_the_search_ends_the_same(eager, tmp_path):
    path = tmp_path / "search"
    state_path(path).mkdir()
    with pytest.warns(UserWarning, match=r"search\.iterate could not be written") as caught:
        model = LSSVRCV(**SETTINGS, checkpoint=path).fit(X, Y)
    assert len([one for one in caught if "iterate" in str(one.message)]) == 1
    same(model, fitted())


# -- stopping -----------------------------------------------------------------------------------------


def raising(error, done, number=3):
    """A callback that raises once, in an iteration after so many evaluations."""
    raised = []

    def callback(event):
        within = event.get("iteration", {}).get("number", 0)
        if not raised and event["done"] == done and within >= number:
            raised.append(event)
            raise error

    return callback


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyboardInterrupt, "interrupted"), (StopSearch, "stopped by the callback")]
)
def test_a_search_with_a_score_is_stopped_in_the_middle_of_a_solution(eager, tmp_path, error, reason):
    path = tmp_path / "search"
    with pytest.warns(SearchStoppedWarning, match=reason):
        model = LSSVRCV(**SETTINGS, checkpoint=path, callback=raising(error, 1)).fit(X, Y)
    assert model.search_["stopped"] == reason
    assert model.search_["untried"] == [{"gamma": 0.6}]
    assert model.best_params_["gamma"] == 0.3
    events = []
    again = fitted(checkpoint=path, callback=events.append)
    same(again, fitted())
    numbers = [e["iteration"]["number"] for e in events if "iteration" in e and e["part"] == "grid"]
    assert numbers[0] > 1  # from the state that was kept


def test_without_a_score_ctrl_c_ends_the_fit_and_a_callback_waits_for_one(eager, tmp_path):
    path = tmp_path / "search"
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoint=path, callback=raising(KeyboardInterrupt, 0))
    assert state_path(path).exists()
    model = fitted(callback=raising(StopSearch, 0))
    assert model.search_["stopped"] == "stopped by the callback"
    assert len(model.history_) == 1


def test_work_that_is_still_wanted_goes_on_where_ctrl_c_broke_it_off(eager):
    """A stage that has no score yet, after one that has: its first evaluation is made all the same."""
    search = loop.Search(LSSVRCV(**SETTINGS).set_up(X, Y))
    search.stages = 1
    numbers = []

    def callback(event):
        if "iteration" in event:
            numbers.append(event["iteration"]["number"])
            if len(numbers) == 5:
                raise KeyboardInterrupt

    search.callback = callback
    stage = search.stage("grid", search.setup.grid())
    with use_threads(1):
        stage.run([stage.every_cell()])
    assert search.stopped == "interrupted"
    assert numbers[:6] == [1, 2, 3, 4, 5, 6]


CHILD = """
import sys
import time
import onefold.search.watching as watching
from tests.search.test_watched_solves import fitted

watching._TELL_SECONDS = watching._SAVE_SECONDS = 0.0

def callback(event):
    if "iteration" in event:
        print(event["done"], event["iteration"]["number"], flush=True)
        time.sleep(0.02)

model = fitted(checkpoint=sys.argv[1], callback=callback, n_jobs=int(sys.argv[2]))
print("fitted", model.search_["stopped"], flush=True)
"""


def child(path, jobs=1):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + CHILD
    return subprocess.Popen([sys.executable, "-c", script, str(path), str(jobs)], **pipes)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_solution_goes_on_to_the_same_digits(eager, tmp_path, jobs):
    path = tmp_path / "search"
    last = 0
    for line in ("0 4\n", "0 9\n", "1 5\n"):
        with child(path, jobs) as process:
            seen = next(text for text in process.stdout if text >= line and len(text) >= len(line))
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        assert state_path(path).exists()
        last = int(seen.split()[1])
    events = []
    model = fitted(checkpoint=path, callback=events.append)
    first = next(event for event in events if "iteration" in event)
    assert first["iteration"]["number"] >= last
    same(model, fitted())
    assert not state_path(path).exists()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("line", ["0 5\n", "1 5\n"])
def test_control_c_in_a_real_process(eager, tmp_path, line):
    path = tmp_path / "search"
    with child(path) as process:
        next(text for text in process.stdout if text == line)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    if line.startswith("0"):
        assert process.returncode != 0
        assert errors.splitlines()[-1] == "KeyboardInterrupt"
    else:
        assert output.splitlines()[-1] == "fitted interrupted"
        assert process.returncode == 0
    assert state_path(path).exists()
    same(fitted(checkpoint=path), fitted())


def test_ctrl_c_of_the_command_line_ends_what_is_replaceable_and_lets_the_rest_end(capsys):
    class Work:
        def __init__(self, replaceable):
            self.replaceable = replaceable

    event = {"best_score": -1.0}
    for replaceable in (True, False):
        key = entry._CtrlC()
        key.callback = lambda event: None
        key.watch(event)
        with watch_iterations(Work(replaceable)):
            if replaceable:
                with pytest.raises(KeyboardInterrupt):
                    key(signal.SIGINT, None)
                continue
            key(signal.SIGINT, None)
            key.watch(event | {"iteration": {}})  # it goes on
        with pytest.raises(KeyboardInterrupt):
            key.watch(event)
    assert capsys.readouterr().err.count("finishing the fit") == 2


@pytest.fixture
def ctrl_c_raises():
    """SIGINT raises KeyboardInterrupt, which the background jobs of a shell begin without."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


def test_a_product_ends_within_a_tile_of_ctrl_c(ctrl_c_raises):
    """In the thread of the search and in a pool, a tile is the longest step."""
    from onefold.kernels import RBF

    rows = np.random.default_rng(0).standard_normal((6000, 20))
    V = np.ones((6000, 1))
    for threads in (1, 2):
        operator = HostOperator(RBF(0.1), rows, rough=False, keep=False)
        tiles = []
        tile = operator._bound[0]

        def interrupted(part, buffer, tile=tile, tiles=tiles):
            tiles.append(part)
            if len(tiles) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return tile(part, buffer)

        operator._bound[0] = interrupted
        with use_threads(threads), pytest.raises(KeyboardInterrupt):
            operator.product(V)
        assert len(tiles) < 6


# -- words, and threads -------------------------------------------------------------------------------


def test_progress_of_an_iteration_in_words(monkeypatch, capsys):
    iteration = {"number": 7, "residual": 0.0831, "left": 40.2}
    event = {"done": 1, "total": 2, "part": "all rows", "best_score": -0.5, "best_params": {}}
    event |= {"left": 90.0, "seconds": 3.0, "iteration": iteration}
    words = "all rows: 1 of 2 evaluations, iteration 7, residual 0.083, about 40 s left"
    assert loop.progress_words(event) == words
    iteration["left"] = None
    assert loop.progress_words(event) == words.rpartition(", ")[0]
    iteration["left"] = 40.2
    monkeypatch.setattr("onefold.cli.terminal._LOG_EVERY_SECONDS", 0.0)
    Progress(sys.stderr, None)(event)
    assert capsys.readouterr().err == f"onefold: 2 min left, {words}, best so far -0.5\n"
    monkeypatch.setattr(loop, "_LINE_SECONDS", 0.0)
    loop.Progress("LSSVRCV", 1, None)(event)
    assert capsys.readouterr().err == f"[LSSVRCV] {words}, best score -0.5 {{}}\n"
    monkeypatch.setattr(loop, "_LINE_SECONDS", 10.0)
    loop.Progress("LSSVRCV", 1, None)(event)
    assert capsys.readouterr().err == ""


def test_a_thread_of_a_pool_has_no_watcher():
    watcher_of_this_thread = object()
    with watch_iterations(watcher_of_this_thread), use_threads(2):
        assert watcher() is watcher_of_this_thread
        assert list(map_threads(lambda _: watcher(), range(3))) == [None] * 3
    assert watcher() is None


def test_a_solution_without_a_watcher_copies_nothing(monkeypatch):
    monkeypatch.setattr(cg.SolveState, "arrays", partial(pytest.fail, "copied"))
    fitted()


def test_a_state_of_another_array_library_goes_on_to_the_same_digits(eager, tmp_path):
    torch = pytest.importorskip("torch")
    table = {"X": torch.asarray(X), "y": torch.asarray(Y)}
    path = tmp_path / "search"
    with pytest.raises(Crash):
        fitted(**table, checkpoint=path, callback=crashing(6))
    events = []
    again = fitted(**table, checkpoint=path, callback=events.append)
    first = next(event for event in events if "iteration" in event)
    assert first["iteration"]["number"] == 7
    whole = fitted(**table)
    assert again.best_score_ == whole.best_score_
    solves = [model.approximation_["selected_with"]["solves"] for model in (again, whole)]
    assert solves[0] == solves[1]
