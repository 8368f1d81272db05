"""A search that was killed goes on where it was and ends the same; another search is refused."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, KFold

import onefold.search.loop as loop
from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV, load
from onefold.approximations import Circulant, Nystroem
from onefold.kernels import RBF
from onefold.machine.journal import Journal
from onefold.rows import rows_of
from onefold.search import Halving
from onefold.search.checkpoint import rows_checksum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(120)
SMALL = {"gammas": [0.1, 1.0, 4.0], "alphas": [1e-3, 0.1, 3.0]}
METRIC = {"kernel": ["rbf", "laplacian"], "metric": "auto", "blend": True, "max_rounds": 2}
METRIC |= {"gammas": [0.3, 1.0], "alphas": [1e-3, 0.1], "cv": 3}
FLAT = {"gammas": SMALL["gammas"], "alphas": [0.1, 1e4]}
HALF = {"gammas": 4.0 ** np.arange(-4, 3), "alphas": 4.0 ** np.arange(-4, 3), "search": Halving(2, 40)}
NARROW = {"gammas": [1e-3, 1.5], "alphas": [1e-4, 2.0], "cv": 3}


def refuses_flat(estimator: Any, rows: Any, y: Any) -> float:
    predicted = estimator.predict(rows)
    if np.ptp(predicted) < 0.2:
        raise ValueError("nearly constant predictions")
    return -float(np.mean((predicted - y) ** 2))


SEARCHES = {
    "grid": (LSSVRCV(**SMALL), Y),
    "classes": (LSSVCCV(**SMALL), np.digitize(Y, [-0.3, 0.3])),
    "landmarks": (LSSVRCV(**SMALL, approximation=Nystroem(40)), Y),
    "several targets": (KernelRidgeCV(**SMALL), np.column_stack([Y, X[:, 2]])),
    "kernels": (LSSVRCV(["rbf", "linear"], **SMALL, blend=True), Y),
    "kernels of a classifier": (LSSVCCV(["linear", "rbf"], **SMALL), Y > 0),  # by squared errors
    "metric of every fold": (LSSVRCV(**METRIC), Y),
    "metric, reserved folds": (LSSVCCV(**METRIC, metric_rows=50), Y > 0),
    "metric, landmarks": (LSSVRCV(**METRIC, metric_rows=50, approximation=Nystroem(40)), Y),
    "halving": (LSSVRCV(**HALF), Y),
    "halving, landmarks": (LSSVRCV(**HALF, approximation=Nystroem(50)), Y),
    "leave one out": (LSSVRCV(**SMALL, cv="loo"), Y),
    "several criteria": (LSSVRCV(**SMALL, criterion=["mse", "press", "r2"]), Y),
    "no score for some": (LSSVRCV(**FLAT, criterion=refuses_flat), Y),
    "no splits": (LSSVRCV(**SMALL, criterion="evidence"), Y),
    "no width": (LSSVRCV("linear", alphas=[0.1, 1.0]), Y),
    "circulant": (LSSVRCV(**SMALL, approximation=Circulant(), refit="same"), Y),
    "unsolvable cells": (LSSVRCV(**NARROW, approximation=Circulant(spacing=1.0, order="given")), Y),
}


def fitted(estimator: Any, y: Any = Y, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(estimator).set_params(**settings).fit(X, y)


def same(one: Any, two: Any) -> None:
    """Equal to the last bit, but for times and the order in which evaluations finished."""
    assert one.best_params_ == two.best_params_
    assert one.best_score_ == two.best_score_
    assert one.search_ == two.search_
    assert one.blend_ == two.blend_
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


class Fuse:
    """A callback that crashes after some evaluations."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, event: dict[str, Any]) -> None:
        self._left -= 1
        if not self._left:
            raise Crash


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_crashed_goes_on_and_ends_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, y = SEARCHES[name]
    evaluations: list[Any] = []
    whole = fitted(estimator, y, callback=evaluations.append)
    total, path = len(evaluations), str(tmp_path / "search")
    each, crashes = max(1, total // 4), min(3, total - 1)
    for _ in range(crashes):
        with pytest.raises(Crash):
            fitted(estimator, y, callback=Fuse(each), checkpoint=path, n_jobs=1)
    rest: list[Any] = []
    again = fitted(estimator, y, callback=rest.append, checkpoint=path)
    assert len(rest) == total - crashes * each
    same(whole, again)
    with Journal(path) as journal:
        keys = [(record["key"], str(record.get("alphas"))) for record in journal.records[1:]]
    assert len(set(keys)) == len(keys)  # nothing was done twice, no metric learned twice

    # A search that is finished is replayed. Only where a model or an expansion came with the evaluation
    # of what is chosen, something is solved again.
    solves, solve = [], loop.solve
    monkeypatch.setattr(loop, "solve", lambda *a, **k: solves.append(1) or solve(*a, **k))
    once_more = fitted(estimator, y, callback=pytest.fail, checkpoint=path)
    same(again, once_more)
    assert sorted(map(repr, once_more.history_)) == sorted(map(repr, again.history_))
    if estimator.metric is not None and estimator.metric_rows is not None:
        assert len(solves) <= len(again.metric_history_)  # its members on all rows
    else:
        serves = "landmarks" in name or name == "no splits"  # the model of the search is the final one
        assert len(solves) == serves


@pytest.mark.parametrize("name", ["no score for some", "unsolvable cells"])
def test_cells_without_a_score_keep_their_reason(name: str, tmp_path: Path) -> None:
    first, again = (fitted(*SEARCHES[name], checkpoint=tmp_path / "search") for _ in range(2))
    assert np.isnan(first.cv_results_["mean_test_score"]).any()
    reasons = [str(one["why"]) for one in first.history_]
    assert sorted(reasons) == sorted(str(one["why"]) for one in again.history_)
    assert set(reasons) != {"None"} or name == "unsolvable cells"  # which need no more words


PROCESS = """
import os, sys, warnings
import numpy as np
from onefold import LSSVRCV
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(120)
kernel, metric, path, kill = sys.argv[1], sys.argv[2] or None, sys.argv[3] or None, int(sys.argv[4])
records = 0
put = os.pwrite

def watched(file, line, place):
    global records
    records += 1
    if records == kill:
        put(file, line[: len(line) // 2], place)  # in the middle of a record
        os.kill(os.getpid(), 9)
    return put(file, line, place)

os.pwrite = watched
model = LSSVRCV(kernel, metric=metric, blend=bool(metric), max_rounds=2, cv=3, checkpoint=path,
                gammas=[0.3, 1.0], alphas=[1e-3, 0.1]).fit(X, y)
print(model.best_params_, repr(model.best_score_), model.predict(X).tobytes().hex())
"""


def test_killed_in_the_middle_of_a_record(tmp_path: Path) -> None:
    def run(path: str, kill: int) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", PROCESS, "rbf", "diagonal", path, str(kill)]
        return subprocess.run(call, capture_output=True, text=True, env=os.environ, timeout=120)

    whole, path = run("", 0), str(tmp_path / "search")
    assert whole.returncode == 0, whole.stderr
    for kill in (1, 6):
        assert run(path, kill).returncode == -9
    again = run(path, 0)
    assert again.stdout == whole.stdout, again.stderr


def test_a_larger_grid_does_only_what_is_new(tmp_path: Path) -> None:
    path, events = str(tmp_path / "search"), []
    fitted(LSSVRCV(**SMALL), checkpoint=path)
    larger = {"gammas": [0.01, *SMALL["gammas"], 9.0], "alphas": [*SMALL["alphas"], 30.0]}
    again = fitted(LSSVRCV(**larger), checkpoint=path, callback=events.append)
    assert len(events) == 5
    whole = fitted(LSSVRCV(**larger))
    np.testing.assert_allclose(
        again.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], rtol=1e-10
    )
    assert again.best_params_ == whole.best_params_


@pytest.mark.parametrize("alphas", [[1e-5, 1e-3, 0.1, 1.0], [1e-3, 0.01, 0.1]])
@pytest.mark.parametrize("rows", [None, 50])
def test_a_larger_grid_of_a_metric_search_takes_no_metric_of_another_path(
    rows: int | None, alphas: list[float], tmp_path: Path
) -> None:
    path = str(tmp_path / "search")
    fitted(LSSVRCV(**METRIC, metric_rows=rows), checkpoint=path)
    larger = METRIC | {"gammas": [0.05, 0.3, 1.0, 4.0], "alphas": alphas, "metric_rows": rows}
    again, whole = fitted(LSSVRCV(**larger), checkpoint=path), fitted(LSSVRCV(**larger))
    assert again.best_params_ == whole.best_params_
    np.testing.assert_allclose(again.predict(X), whole.predict(X), rtol=1e-9, atol=1e-12)


def absolute(y: Any, predicted: Any) -> float:
    return -float(np.abs(y - predicted).mean())


def largest(y: Any, predicted: Any) -> float:
    return -float(np.abs(y - predicted).max())


def with_factor(factor: float, estimator: Any, X: Any, y: Any) -> float:
    return factor * absolute(y, estimator.predict(X))


def gaussian(A: Any, B: Any) -> Any:
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1))


def wider(A: Any, B: Any) -> Any:
    return gaussian(A / 2, B / 2)


class Error:
    """A scorer with a setting."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        return with_factor(self.factor, estimator, X, y)


OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"kernel": "laplacian"}, "kernel"),
    ({}, {"kernel": RBF(2.0)}, "kernel"),
    ({"kernel": gaussian, "gammas": None}, {"kernel": wider, "gammas": None}, "kernel"),
    ({}, {"cv": 4}, "splits"),
    ({}, {"cv": KFold(5, shuffle=True, random_state=1)}, "splits"),
    ({}, {"criterion": "mape"}, "criterion"),
    ({}, {"criterion": ["mse", "press"]}, "criterion"),
    ({"criterion": make_scorer(absolute)}, {"criterion": make_scorer(largest)}, "criterion"),
    (
        {"criterion": make_scorer(largest)},
        {"criterion": make_scorer(largest, greater_is_better=False)},
        "criterion",
    ),
    ({"criterion": partial(with_factor, 1.0)}, {"criterion": partial(with_factor, 2.0)}, "criterion"),
    ({}, {"criterion": "gcv"}, "criterion, splits"),
    ({}, {"approximation": Nystroem(30)}, "approximation"),
    ({"approximation": Nystroem(5)}, {"approximation": "auto"}, "approximation"),
    ({}, {"random_state": 3}, "random_state"),
    ({}, {"metric": "diagonal"}, "metric"),
]


@pytest.mark.parametrize(("first", "second", "difference"), OTHERS)
def test_another_search_is_refused_before_any_work(
    first: Any, second: Any, difference: str, tmp_path: Path
) -> None:
    path = tmp_path / "search"
    one = fitted(LSSVRCV(**SMALL), checkpoint=path, **first)
    assert fitted(LSSVRCV(**SMALL), checkpoint=path, **first).best_score_ == one.best_score_
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"another search, which differs in {difference}; delete it"):
        fitted(LSSVRCV(**SMALL), checkpoint=path, callback=pytest.fail, **second)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", ["rows", "targets", "weights", "splits", "shape"])
def test_other_data_are_refused(change: str, tmp_path: Path) -> None:
    path = str(tmp_path / "search")
    groups, weights = np.arange(120) % 7, np.ones(120)
    model = LSSVRCV(**SMALL, cv=GroupKFold(3), checkpoint=path)
    rows, y = X.copy(), Y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(rows, y, weights, groups)
        model.fit(np.asfortranarray(rows), list(y), weights, groups)  # the same numbers
        if change == "rows":
            rows[[3, 4]] = rows[[4, 3]]  # in another order
        elif change == "targets":
            y[5] = np.nextafter(y[5], np.inf)
        elif change == "weights":
            weights[7] = 2.0
        elif change == "splits":
            groups = np.arange(120) % 6
        else:
            rows = rows[:, :2]
        with pytest.raises(ValueError, match=f"differs in (rows, )?{change}"):
            model.fit(rows, y, weights, groups)


def test_auto_goes_on_with_what_it_had_chosen(tmp_path: Path, monkeypatch: Any) -> None:
    """Its choice depends on the machine and on the grid; a search that has begun must not change it."""
    from onefold.approximations import auto

    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 10)
    path = str(tmp_path / "search")
    estimator = LSSVRCV(**SMALL, approximation="auto", checkpoint=path)
    first = fitted(estimator)
    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 10**6)
    other = auto.Plan(Nystroem(20), 0, 0, None, None, None, "another day, another choice")
    monkeypatch.setattr(auto, "choose", lambda *_: other)
    again = fitted(estimator)
    assert again.approximation_["selected_with"]["name"] == first.approximation_["selected_with"]["name"]
    same(first, again)


def test_a_fitted_model_is_saved_without_its_journal(tmp_path: Path) -> None:
    model = fitted(LSSVRCV(**SMALL), checkpoint=tmp_path / "search")
    model.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_array_equal(back.predict(X), model.predict(X))
    assert back.search_ == model.search_


def nested() -> Callable[..., float]:
    def error(estimator: Any, X: Any, y: Any) -> float:
        return absolute(y, estimator.predict(X))

    return error


REFUSED: dict[str, tuple[str, Any]] = {
    "lambda": ("criterion", lambda e, X, y: absolute(y, e.predict(X))),
    "lambda of a scorer": ("criterion", make_scorer(lambda y, p: absolute(y, p))),
    "lambda of a partial": ("criterion", partial(lambda k, e, X, y: k, 1.0)),
    "nested": ("criterion", nested()),
    "callable object": ("criterion", Error(1.0)),
    "bound method": ("criterion", Error(1.0).__call__),
    "one of several": ("criterion", ["mse", nested()]),
    "kernel": ("kernel", lambda A, B: A @ B.T),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_a_name_are_refused_before_any_work(name: str, tmp_path: Path) -> None:
    setting, value = REFUSED[name]
    words = r"compares functions by the name.* define it with def at the top"
    given = {setting: value, "gammas": None, "checkpoint": tmp_path / "search"}
    with pytest.raises(ValueError, match=words):
        fitted(LSSVRCV(**SMALL), callback=pytest.fail, **given)


DESCRIBED = """
from sklearn.metrics import make_scorer, mean_absolute_error, get_scorer
from onefold.kernels import RBF
from onefold.search.checkpoint import described

def score(estimator, X, y):
    return 0.0

found = [score, make_scorer(mean_absolute_error), get_scorer("roc_auc"), {"b", "a"}, object(), RBF(2.0)]
print(described(found))
"""


def test_a_description_is_the_same_in_another_process() -> None:
    def run(seed: str) -> str:
        call, env = [sys.executable, "-c", DESCRIBED], os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(call, capture_output=True, text=True, env=env, check=True).stdout

    assert run("1") == run("2") != ""


@pytest.mark.parametrize(
    ("y", "lines", "words"),
    [
        (Y[::-1], slice(1, None), r"search (is of another|begins a) search.*; delete"),
        (Y[::-1], slice(2, 3), r"search is of another search; delete"),
        (Y, slice(1, None), r"two processes wrote .* delete"),
    ],
    ids=["all of another", "an evaluation", "begun twice"],
)
def test_records_of_another_search_are_not_taken(
    y: Any, lines: slice, words: str, tmp_path: Path
) -> None:
    """Of the same grid, on other targets or again, whose evaluations have the same keys."""
    path, other = tmp_path / "search", tmp_path / "other"
    fitted(LSSVRCV(**SMALL), checkpoint=path)
    fitted(LSSVRCV(**SMALL), y, checkpoint=other)
    count = len(path.read_bytes().splitlines())
    with path.open("ab") as file:
        file.writelines(other.read_bytes().splitlines(keepends=True)[lines])
    with pytest.raises(ValueError, match=rf"^line {count + 1} of .*{words}"):
        fitted(LSSVRCV(**SMALL), checkpoint=path)


def test_without_a_journal_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    import onefold.search.checkpoint as checkpoint

    def never(*arguments: Any) -> None:
        raise AssertionError("there is no journal")

    monkeypatch.setattr(checkpoint, "packed", never)
    monkeypatch.setattr(checkpoint, "_sorted", never)
    for settings in ({}, {"metric": "diagonal", "max_rounds": 1}):
        LSSVRCV(**SMALL | settings).fit(X, Y)


def test_the_checksum_tells_columns_of_zeros_and_ones_apart() -> None:
    """The bits of 1.0 are all at the upper end: of a factor, a product modulo 2⁶⁴ keeps twelve."""
    d, columns = 10_000, [*range(100), 9477, 9986]  # two of whose factors end with twelve zeros

    def checksum(rows: Any) -> str:
        return rows_checksum(rows_of(rows, np.zeros((2, 1)), None, None), d)

    seen = {checksum(csr_array((2, d)))}
    for value in (1.0, 2.0, 3.0, -1.0):
        for column in columns:
            rows = csr_array(([value], ([0], [column])), shape=(2, d))
            seen.add(checksum(rows))
            assert checksum(rows.toarray()) in seen
    assert len(seen) == 1 + 4 * len(columns)


def test_a_metric_of_more_rows_is_another_on_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that is stopped goes to all rows with metrics of few; the one that goes on, of more."""
    import onefold.search.metric as metric

    monkeypatch.setattr(metric, "FIRST_ROWS", 100)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 3))
    y = np.sin(2 * rows[:, 0]) * rows[:, 1] + rng.standard_normal(400)
    settings = {"metric": "diagonal", "max_rounds": 1, "gammas": [1.0], "alphas": [1.0]}
    settings |= {"metric_rows": 300, "random_state": 0}
    events: list[Any] = []

    def stop(event: dict[str, Any]) -> None:
        events.append(event)
        if len(events) == rounds:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        parts: list[str] = []
        whole = LSSVRCV(**settings, callback=lambda event: parts.append(event["part"])).fit(rows, y)
        rounds = parts.count("learning the metric")
        assert "second pass on more rows" in parts
        path = tmp_path / "search"
        stopped = LSSVRCV(**settings, checkpoint=path, callback=stop, n_jobs=1).fit(rows, y)
        again = LSSVRCV(**settings, checkpoint=path).fit(rows, y)
    assert stopped.search_["stopped"] == "interrupted"
    assert again.best_params_ == whole.best_params_
    np.testing.assert_allclose(
        again.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], rtol=1e-12
    )
    assert_array_equal(again.predict(rows), whole.predict(rows))
