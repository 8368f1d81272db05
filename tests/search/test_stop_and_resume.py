"""A search that was stopped uses the best so far; one that was killed goes on and ends the same."""

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import GroupKFold, KFold

import onefold.search.loop as loop
import onefold.search.paths as paths
from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV, load
from onefold.approximations import Circulant, Nystroem, auto
from onefold.kernels import RBF
from onefold.machine.journal import Journal
from onefold.rows import rows_of
from onefold.search import Halving, SearchStoppedWarning, StopSearch
from onefold.search.checkpoint import described, rows_checksum

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(120)
MORE = np.random.default_rng(0).standard_normal((400, 3))
SMALL = {"gammas": [0.1, 1.0, 4.0], "alphas": [1e-3, 0.1, 3.0]}
METRIC = {"kernel": ["rbf", "laplacian"], "metric": "auto", "blend": True, "max_rounds": 2}
METRIC |= {"gammas": [0.3, 1.0], "alphas": [1e-3, 0.1], "cv": 3}
HALF = {"gammas": 4.0 ** np.arange(-4, 3), "alphas": 4.0 ** np.arange(-4, 3), "search": Halving(2, 40)}
FLAT = SMALL | {"alphas": [0.1, 1e4]}
NARROW = {"gammas": [1e-3, 1.5], "alphas": [1e-4, 2.0], "cv": 3}


def refuses_flat(estimator, rows, y):
    predicted = estimator.predict(rows)
    if np.ptp(predicted) < 0.2:
        raise ValueError("nearly constant predictions")
    return -float(np.mean((predicted - y) ** 2))


SEARCHES = {
    "grid": (LSSVRCV(**SMALL), Y),
    "landmarks": (LSSVRCV(**SMALL, approximation=Nystroem(40)), Y),
    "several targets": (KernelRidgeCV(**SMALL), np.column_stack([Y, X[:, 2]])),
    "kernels": (LSSVRCV(["rbf", "linear"], **SMALL, blend=True), Y),
    "kernels of a classifier": (LSSVCCV(["linear", "rbf"], **SMALL), Y > 0),  # by squared errors
    "metric of every fold": (LSSVRCV(**METRIC), Y),
    "metric, reserved folds": (LSSVCCV(**METRIC, metric_rows=50), Y > 0),
    "metric, landmarks": (LSSVRCV(**METRIC, metric_rows=50, approximation=Nystroem(40)), Y),
    "halving": (LSSVRCV(**HALF), Y),
    "several criteria": (LSSVRCV(**SMALL, cv="loo", criterion=["mse", "press", "r2"]), Y),
    "no score for some": (LSSVRCV(**FLAT, criterion=refuses_flat), Y),
    "no splits": (LSSVRCV(**SMALL, criterion="evidence"), Y),
    "unsolvable cells": (LSSVRCV(**NARROW, approximation=Circulant(spacing=1.0, order="given")), Y),
}


def fitted(estimator, y=Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(estimator).set_params(**settings).fit(X, y)


def after(count, error=KeyboardInterrupt):
    """A callback that raises in every evaluation from the `count`-th on, for one that ends all of it."""
    seen = []

    def callback(event):
        seen.append(event)
        if len(seen) == count or (len(seen) > count and error is StopSearch):
            raise error

    return callback


def same(one, two):
    """Equal to the last bit, but for times and the order in which evaluations finished."""
    for name in ("best_params_", "best_score_", "search_", "blend_"):
        assert getattr(one, name) == getattr(two, name)
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.heldout_prediction_, two.heldout_prediction_)
    assert list(one.cv_results_) == list(two.cv_results_)
    for key, values in one.cv_results_.items():
        other = two.cv_results_[key]
        if isinstance(values, np.ma.MaskedArray):
            assert repr(values) == repr(other)
        elif "time" not in key:
            assert_array_equal(values, other, strict=isinstance(values, np.ndarray))


class Crash(Exception):
    """Ends a fit in the middle, as a kill does, but in this process."""


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_crashed_goes_on_and_ends_the_same(name, tmp_path, monkeypatch):
    estimator, y = SEARCHES[name]
    evaluations = []
    whole = fitted(estimator, y, callback=evaluations.append)
    total = len(evaluations)
    path = str(tmp_path / "search")
    each = max(1, total // 4)
    crashes = min(3, total - 1)
    for _ in range(crashes):
        with pytest.raises(Crash):
            fitted(estimator, y, callback=after(each, Crash), checkpoint=path, n_jobs=1)
    rest = []
    again = fitted(estimator, y, callback=rest.append, checkpoint=path)
    assert len(rest) == total - crashes * each
    same(whole, again)
    with Journal(path) as journal:
        keys = [(record["key"], str(record.get("alphas"))) for record in journal.records[1:]]
    assert len(set(keys)) == len(keys)  # nothing was done twice, no metric learned twice
    if name in ("no score for some", "unsolvable cells"):
        assert np.isnan(whole.cv_results_["mean_test_score"]).any()
        assert {one["why"] for one in whole.history_} != {None} or name == "unsolvable cells"

    # A search that is finished is replayed, reasons included. Only where a model or an expansion came
    # with the evaluation of what is chosen, something is solved again.
    solves = []
    solve = loop.solve
    monkeypatch.setattr(loop, "solve", lambda *a, **k: solves.append(1) or solve(*a, **k))
    once_more = fitted(estimator, y, callback=pytest.fail, checkpoint=path)
    same(again, once_more)
    assert sorted(map(repr, once_more.history_)) == sorted(map(repr, again.history_))
    if estimator.metric is not None and estimator.metric_rows is not None:
        assert len(solves) <= len(again.metric_history_)  # its members on all rows
    else:
        serves = "landmarks" in name or name == "no splits"  # the model of the search is the final one
        assert len(solves) == serves


LARGER = {"gammas": [0.01, *SMALL["gammas"], 9.0], "alphas": [*SMALL["alphas"], 30.0]}
WIDER = METRIC | {"gammas": [0.05, 0.3, 1.0, 4.0]}


@pytest.mark.parametrize("rows", [None, 50])
@pytest.mark.parametrize("alphas", [[1e-5, 1e-3, 0.1, 1.0], [1e-3, 0.01, 0.1]])
def test_a_larger_grid_takes_no_metric_of_another_path(rows, alphas, tmp_path):
    path = str(tmp_path / "search")
    larger = WIDER | {"metric_rows": rows, "alphas": alphas}
    fitted(LSSVRCV(**METRIC, metric_rows=rows), checkpoint=path)
    again = fitted(LSSVRCV(**larger), checkpoint=path)
    whole = fitted(LSSVRCV(**larger))
    assert again.best_params_ == whole.best_params_
    assert_allclose(again.predict(X), whole.predict(X), rtol=1e-9, atol=1e-12)


def test_a_larger_grid_does_only_what_is_new(tmp_path):
    path = str(tmp_path / "search")
    events = []
    fitted(LSSVRCV(**SMALL), checkpoint=path)
    again = fitted(LSSVRCV(**LARGER), checkpoint=path, callback=events.append)
    assert len(events) == 5
    scores = [one.cv_results_["mean_test_score"] for one in (again, fitted(LSSVRCV(**LARGER)))]
    assert_allclose(*scores, rtol=1e-10)


def absolute(y, predicted):
    return -float(np.abs(y - predicted).mean())


def with_factor(factor, estimator, X, y):
    return factor * absolute(y, estimator.predict(X))


def gaussian(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1))


def wider(A, B):
    return gaussian(A / 2, B / 2)


class Error:
    """A scorer with a setting."""

    def __call__(self, estimator, X, y):
        return with_factor(1.0, estimator, X, y)


SCORE = make_scorer(absolute)
LOSS = make_scorer(absolute, greater_is_better=False)
OTHERS = [
    ({}, {"kernel": RBF(2.0)}, "kernel"),
    ({"kernel": gaussian, "gammas": None}, {"kernel": wider, "gammas": None}, "kernel"),
    ({}, {"cv": KFold(5, shuffle=True, random_state=1)}, "splits"),
    ({}, {"criterion": ["mse", "press"]}, "criterion"),
    ({"criterion": SCORE}, {"criterion": make_scorer(mean_absolute_error)}, "criterion"),
    ({"criterion": SCORE}, {"criterion": LOSS}, "criterion"),
    ({"criterion": partial(with_factor, 1.0)}, {"criterion": partial(with_factor, 2.0)}, "criterion"),
    ({}, {"criterion": "gcv"}, "criterion, splits"),
    ({"approximation": Nystroem(5)}, {"approximation": "auto"}, "approximation"),
    ({}, {"random_state": 3}, "random_state"),
    ({}, {"metric": "diagonal"}, "metric"),
]


@pytest.mark.parametrize(("first", "second", "difference"), OTHERS)
def test_another_search_is_refused_before_any_work(first, second, difference, tmp_path):
    path = tmp_path / "search"
    one, again = (fitted(LSSVRCV(**SMALL), checkpoint=path, **first) for _ in range(2))
    assert again.best_score_ == one.best_score_
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=rf"another search, which differs in {difference}; delete the file"
    ):
        fitted(LSSVRCV(**SMALL), checkpoint=path, callback=pytest.fail, **second)
    assert path.read_bytes() == before


SWAPPED = X[[0, 1, 2, 4, 3, *range(5, 120)]]
ONE = np.arange(120) == 5
GROUPS = np.arange(120) % 7
DATA = {"X": X, "y": Y, "sample_weight": np.ones(120), "groups": GROUPS}
CHANGES = [
    ("rows", {"X": SWAPPED}),
    ("targets", {"y": np.where(ONE, np.nextafter(Y, np.inf), Y)}),
    ("weights", {"sample_weight": 1.0 + ONE}),
    ("splits", {"groups": np.arange(120) % 6}),
    ("(rows, )?shape", {"X": X[:, :2]}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_data_are_refused(tmp_path):
    model = LSSVRCV(**SMALL, cv=GroupKFold(3), checkpoint=tmp_path / "search").fit(**DATA)
    model.fit(**DATA | {"X": np.asfortranarray(X), "y": list(Y)})  # the same numbers
    for name, change in CHANGES:
        with pytest.raises(ValueError, match=f"differs in {name}"):
            model.fit(**DATA | change)


def test_auto_goes_on_with_what_it_had_chosen_and_models_are_saved_without_journals(
    tmp_path, monkeypatch
):
    """Its choice depends on the machine and on the grid; a search that has begun must not change it."""
    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 10)
    estimator = LSSVRCV(**SMALL, approximation="auto", checkpoint=tmp_path / "search")
    first = fitted(estimator)
    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 10**6)
    other = auto.Plan(Nystroem(20), 0, 0, None, None, None, "another day, another choice")
    monkeypatch.setattr(auto, "choose", lambda *_: other)
    again = fitted(estimator)
    assert again.approximation_["selected_with"]["name"] == first.approximation_["selected_with"]["name"]
    same(first, again)
    again.save(tmp_path / "model")
    same(again, load(tmp_path / "model"))


NAMELESS = [
    ("criterion", lambda e, X, y: absolute(y, e.predict(X))),
    ("criterion", make_scorer(lambda y, p: absolute(y, p))),
    ("criterion", partial(lambda k, e, X, y: k, 1.0)),
    ("criterion", Error()),
    ("criterion", ["mse", Error().__call__]),
    ("kernel", lambda A, B: A @ B.T),
]


@pytest.mark.parametrize(("setting", "value"), NAMELESS)
def test_functions_without_a_name_are_refused_before_any_work(setting, value, tmp_path):
    given = {setting: value, "gammas": None, "checkpoint": tmp_path / "search"}
    with pytest.raises(
        ValueError, match=r"functions by their import name.* define it with def at the top"
    ):
        fitted(LSSVRCV(**SMALL), callback=pytest.fail, **given)


def describe():
    scorers = make_scorer(mean_absolute_error), get_scorer("roc_auc")
    return described([mean_absolute_error, *scorers, {"b", "a"}, object(), RBF(2.0)])


def test_a_description_is_the_same_in_another_process():
    script = "import tests.search.test_stop_and_resume as here; print(here.describe())"
    seed = "2" if [*{"b", "a"}] == ["a", "b"] else "1"  # that of the other order
    call = [sys.executable, "-c", script]
    env = os.environ | {"PYTHONHASHSEED": seed}
    assert subprocess.check_output(call, env=env, text=True, cwd=ROOT) == f"{describe()}\n"


@pytest.mark.parametrize(
    ("y", "lines", "words"),
    [
        (Y[::-1], slice(1, None), r"search (belongs to another|starts a second) search.*; delete"),
        (Y[::-1], slice(2, 3), r"search belongs to another search; delete"),
        (Y, slice(1, None), r"two processes wrote .* delete"),
    ],
)
def test_records_of_another_search_are_not_taken(y, lines, words, tmp_path):
    """Of the same grid, on other targets or again, whose evaluations have the same keys."""
    path = tmp_path / "search"
    other = tmp_path / "other"
    fitted(LSSVRCV(**SMALL), checkpoint=path)
    fitted(LSSVRCV(**SMALL), y, checkpoint=other)
    count = len(path.read_bytes().splitlines())
    with path.open("ab") as file:
        file.writelines(other.read_bytes().splitlines(keepends=True)[lines])
    with pytest.raises(ValueError, match=rf"^line {count + 1} of .*{words}"):
        fitted(LSSVRCV(**SMALL), checkpoint=path)


def test_the_checksum_tells_columns_of_zeros_and_ones_apart():
    """The bits of 1.0 are all at the upper end: of a factor, a product modulo 2⁶⁴ keeps twelve."""
    d = 10_000
    columns = [*range(100), 9477, 9986]  # two of whose factors end with twelve zeros

    def checksum(rows):
        return rows_checksum(rows_of(rows, np.zeros((2, 1)), None, None), d)

    tables = [csr_array(([v], ([0], [column])), shape=(2, d)) for v in (1.0, -3.0) for column in columns]
    seen = {checksum(rows) for rows in tables}
    assert seen == {checksum(rows.toarray()) for rows in tables}
    assert len(seen | {checksum(csr_array((2, d)))}) == 1 + len(tables)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_metric_of_more_rows_is_another_on_all_rows(tmp_path, monkeypatch):
    """A search that is stopped goes to all rows with metrics of few; the one that goes on, of more."""
    monkeypatch.setattr(auto, "FIRST_ROWS", 100)
    y = np.sin(2 * MORE[:, 0]) * MORE[:, 1] + np.random.default_rng(1).standard_normal(400)
    settings = {"metric": "diagonal", "max_rounds": 1, "gammas": [1.0], "alphas": [1.0]}
    settings |= {"metric_rows": 300, "random_state": 0}
    parts = []
    kept = settings | {"checkpoint": tmp_path / "search"}
    whole = LSSVRCV(**settings, callback=lambda event: parts.append(event["part"])).fit(MORE, y)
    assert "second pass on more rows" in parts
    stop = after(parts.count("learning the metric"))
    assert LSSVRCV(**kept, callback=stop, n_jobs=1).fit(MORE, y).search_["stopped"] == "interrupted"
    again = LSSVRCV(**kept).fit(MORE, y)
    assert again.best_params_ == whole.best_params_
    scores = [one.cv_results_["mean_test_score"] for one in (again, whole)]
    assert_allclose(*scores, rtol=1e-12)
    assert_array_equal(again.predict(MORE), whole.predict(MORE))


# -- a time budget, Ctrl-C and callbacks ---------------------------------------------------------------
ROUNDS = {"kernel": "auto", "metric": "auto", "blend": True, "cv": 3, "n_jobs": 1}


@pytest.mark.parametrize(
    ("stop", "tried", "reason", "words"),
    [
        (after(3), 3, "interrupted", "the search was interrupted"),
        (after(2, StopSearch), 2, "stopped by the callback", "the search was stopped by the callback"),
        (None, 1, "time_budget", "the search reached its time_budget of 1e-09 s"),
    ],
)
def test_the_best_of_what_was_tried_is_used(stop, tried, reason, words):
    gammas = [0.01, 0.1, 1.0, 4.0, 9.0]
    budget = 1e-9 if stop is None else None
    words = f"{words}; the best so far is used, and {5 - tried} candidates were not tried: gamma="
    with pytest.warns(SearchStoppedWarning, match=words):
        model = LSSVRCV(gammas=gammas, n_jobs=1, callback=stop, time_budget=budget).fit(X, Y)
    best = LSSVRCV(gammas=gammas[:tried], n_jobs=1).fit(X, Y)
    assert model.best_params_ == best.best_params_
    assert_array_equal(model.predict(X), best.predict(X))
    assert_array_equal(model.heldout_prediction_, best.heldout_prediction_)
    untried = [{"gamma": gamma} for gamma in gammas[tried:]]
    assert model.search_ == {"method": "grid", "stopped": reason, "untried": untried}


def test_a_time_budget_that_is_enough_changes_nothing_and_what_is_none_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SearchStoppedWarning)
        model = LSSVCCV(time_budget=1e6).fit(X, Y > 0)
    assert model.search_ == {"method": "grid", "stopped": None, "untried": []}
    for budget in (0, "1", True, float("nan")):
        with pytest.raises(ValueError, match="time_budget must be a number of seconds greater than 0"):
            LSSVRCV(time_budget=budget).fit(X, Y)


@pytest.mark.parametrize("rows", [None, 30])
def test_rounds_of_a_metric_are_stopped_anywhere(rows):
    """In round 0, in later rounds, in the second pass and in the fits of all rows; or at once."""
    X = MORE[:70]
    y = np.sin(2 * MORE[:70, 0])
    events = []
    settings = METRIC | {"metric_rows": rows, "n_jobs": 1}
    whole = LSSVRCV(**settings, callback=events.append).fit(X, y)
    places = [1, *(len(events) * k // 4 for k in (1, 2, 3)), len(events)]
    for stop in [*map(after, places), after(2, StopSearch)]:
        with pytest.warns(SearchStoppedWarning, match="^the search was .* best so far is used"):
            model = LSSVRCV(**settings, callback=stop).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert len(model.cv_results_["params"]) <= len(whole.cv_results_["params"])
    assert model.search_["stopped"] == "stopped by the callback"  # which says so in every part
    with pytest.warns(SearchStoppedWarning):
        hurried = LSSVCCV(**settings, time_budget=1e-9).fit(X, y > 0)
    assert hurried.score(X, y > 0) > 0.5


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "exact"),
        ({"time_budget": 1e6}, "exact"),
        ({"time_budget": 1e-9}, "nystroem"),
        ({"callback": after(2, StopSearch)}, "nystroem"),
        ({"callback": after(2)}, "nystroem"),
    ],
)
def test_no_fit_with_the_true_kernel_begins_once_the_time_is_up(settings, name, monkeypatch):
    """A search with landmarks that was stopped returns what they have found."""
    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 0)
    X = MORE[:70]
    hurried = METRIC | {"metric_rows": 30, "n_jobs": 1, "approximation": auto.Auto(seconds=1e-9)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchStoppedWarning)
        model = LSSVRCV(**hurried | settings).fit(X, np.sin(2 * MORE[:70, 0]))
    facts = model.approximation_["selected_with"]
    assert facts["name"] == name
    assert ("and no time is left" in facts["chosen"]) == (name == "nystroem")
    assert np.isfinite(model.predict(X)).all()


def test_a_callback_stops_whoever_asks_an_objective():
    objective = LSSVRCV(callback=after(1, StopSearch)).objective(X, Y)
    with pytest.raises(StopSearch, match="uses the best so far"):
        objective(gamma=0.1, alpha=0.1)
    assert objective.fit().search_["stopped"] == "stopped by the callback"


def pressed(*arguments, **options):
    raise KeyboardInterrupt


def test_interruptions_that_end_the_fit(monkeypatch):
    with pytest.raises(KeyboardInterrupt):  # the second part of the search has the second one
        LSSVRCV(**ROUNDS, metric_rows=50, callback=pressed).fit(X, Y)
    with monkeypatch.context() as patch:  # while metrics of the second pass are learned, on no row yet
        learn = paths.next_round
        patch.setattr(auto, "FIRST_ROWS", 50)
        patch.setattr(
            paths,
            "next_round",
            lambda last, run, *a, **k: pressed() if run.problem.n > 150 else learn(last, run, *a, **k),
        )
        with pytest.raises(KeyboardInterrupt):
            LSSVRCV(metric="diagonal", metric_rows=300, random_state=0).fit(MORE, np.sin(3 * MORE[:, 0]))
    monkeypatch.setattr("onefold.search.loop.solve", pressed)  # nothing was found yet
    with pytest.raises(KeyboardInterrupt):
        LSSVRCV(n_jobs=1).fit(X, Y)


CONTROL_C = """
from tests.search.test_stop_and_resume import LSSVRCV, X, Y, np, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it

def slow(event):
    print(event["done"], flush=True)
    time.sleep(0.05)

model = LSSVRCV(gammas=np.geomspace(1e-3, 1e3, 400), callback=slow, n_jobs=int(sys.argv[1])).fit(X, Y)
print("fitted", model.search_["stopped"], len(model.history_) + len(model.search_["untried"]))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_control_c_in_a_real_process(n_jobs):
    call = [sys.executable, "-c", CONTROL_C, str(n_jobs)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(call, **pipes) as process:
        next(line for line in process.stdout if line == "4\n")
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert output.splitlines()[-1] == "fitted interrupted 400"
    assert "SearchStoppedWarning: the search was interrupted" in errors
    assert process.returncode == 0
