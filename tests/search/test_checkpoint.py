"""A search that was killed goes on where it was, with the same answer; another search is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV, load
from onefold.approximations import Nystroem
from onefold.kernels import RBF
from onefold.machine.journal import Journal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 3))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.standard_normal(120)
SMALL = {"gammas": [0.1, 1.0, 4.0], "alphas": [1e-3, 0.1, 3.0]}
METRIC = {"kernel": ["rbf", "laplacian"], "metric": "auto", "blend": True, "max_rounds": 2}
METRIC |= {"gammas": [0.3, 1.0], "alphas": [1e-3, 0.1], "cv": 3}

SEARCHES = {
    "grid": (LSSVRCV(**SMALL), Y),
    "classes": (LSSVCCV(**SMALL), np.digitize(Y, [-0.3, 0.3])),
    "landmarks": (LSSVRCV(**SMALL, approximation=Nystroem(40)), Y),
    "several targets": (KernelRidgeCV(**SMALL), np.column_stack([Y, X[:, 2]])),
    "kernels": (LSSVRCV(["rbf", "linear"], **SMALL, blend=True), Y),
    "metric of every fold": (LSSVRCV(**METRIC), Y),
    "metric, reserved folds": (LSSVCCV(**METRIC, metric_rows=50), Y > 0),
    "metric, landmarks": (LSSVRCV(**METRIC, metric_rows=50, approximation=Nystroem(40)), Y),
}


def fitted(estimator: Any, y: Any = Y, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(estimator).set_params(**settings).fit(X, y)


def same(one: Any, two: Any) -> None:
    """Equal to the last bit, but for times and the order in which evaluations finished."""
    assert one.best_params_ == two.best_params_
    assert one.best_score_ == two.best_score_
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.heldout_prediction_, two.heldout_prediction_)
    assert one.blend_ == two.blend_
    for key, values in one.cv_results_.items():
        if "time" not in key:
            assert_array_equal(np.ma.filled(values, 0) if "param_g" in key else values,
                               np.ma.filled(two.cv_results_[key], 0) if "param_g" in key
                               else two.cv_results_[key])  # fmt: skip


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
def test_a_search_that_crashed_goes_on_and_ends_the_same(name: str, tmp_path: Path) -> None:
    estimator, y = SEARCHES[name]
    evaluations: list[Any] = []
    whole = fitted(estimator, y, callback=evaluations.append)
    total, path = len(evaluations), str(tmp_path / "search")
    each = max(1, total // 4)
    for _ in range(3 if total > 3 else 2):
        with pytest.raises(Crash):
            fitted(estimator, y, callback=Fuse(each), checkpoint=path, n_jobs=1)
    rest: list[Any] = []
    again = fitted(estimator, y, callback=rest.append, checkpoint=path)
    assert len(rest) == total - (3 if total > 3 else 2) * each
    same(whole, again)
    with Journal(path) as journal:
        keys = [(record["key"], str(record.get("alphas"))) for record in journal.records[1:]]
    assert len(set(keys)) == len(keys)  # nothing was done twice, no metric learned twice


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


@pytest.mark.parametrize(("kernel", "metric"), [("rbf", ""), ("auto", "auto")])
def test_killed_in_the_middle_of_a_record(kernel: str, metric: str, tmp_path: Path) -> None:
    def run(path: str, kill: int) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", PROCESS, kernel, metric, path, str(kill)]
        return subprocess.run(call, capture_output=True, text=True, env=os.environ, timeout=120)

    whole = run("", 0)
    assert whole.returncode == 0, whole.stderr
    path = str(tmp_path / "search")
    for kill in (1, 2, 3) if not metric else (6, 20):
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


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"kernel": "laplacian"}, "kernel"),
        ({"kernel": RBF(2.0)}, "kernel"),
        ({"cv": 4}, "splits"),
        ({"cv": KFold(5, shuffle=True, random_state=1)}, "splits"),
        ({"criterion": "mape"}, "criterion"),
        ({"criterion": "gcv"}, "criterion, splits"),
        ({"approximation": Nystroem(30)}, "approximation"),
        ({"random_state": 3}, "random_state"),
        ({"metric": "diagonal"}, "metric"),
    ],
)  # fmt: skip
def test_another_search_is_refused_before_any_work(
    settings: Any, difference: str, tmp_path: Path
) -> None:
    path, events = str(tmp_path / "search"), []
    fitted(LSSVRCV(**SMALL), checkpoint=path)
    before = Path(path).read_bytes()
    with pytest.raises(ValueError, match=rf"another search, which differs in {difference}; delete it"):
        fitted(LSSVRCV(**SMALL), checkpoint=path, callback=events.append, **settings)
    assert not events
    assert Path(path).read_bytes() == before


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


@pytest.mark.parametrize("name", SEARCHES)
def test_of_a_finished_search_hardly_anything_is_done_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where a model or an expansion came with the evaluation of what is chosen."""
    import onefold.search.loop as run

    estimator, y = SEARCHES[name]
    path = str(tmp_path / "search")
    fitted(estimator, y, checkpoint=path)
    solves, solve = [], run.solve
    monkeypatch.setattr(run, "solve", lambda *a, **k: solves.append(1) or solve(*a, **k))
    again = fitted(estimator, y, checkpoint=path)
    if name == "landmarks":
        assert len(solves) == 1  # its statistics serve the final fit
    elif estimator.metric is not None and estimator.metric_rows is not None:
        assert len(solves) <= len(again.metric_history_)  # its members on all rows
    else:
        assert not solves
