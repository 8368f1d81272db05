"""Whatever an evaluation depends on tells one journal from another: settings, rows, learned metrics."""

from __future__ import annotations

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
from sklearn.metrics import make_scorer

from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.rows import rows_of
from onefold.search.checkpoint import rows_checksum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1]}


def fitted(path: Path, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LSSVRCV(**SMALL | settings, checkpoint=path).fit(X, Y)


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


OTHERS: dict[str, tuple[str, Any, Any]] = {
    "scorers": ("criterion", make_scorer(absolute), make_scorer(largest)),
    "signs": ("criterion", make_scorer(largest), make_scorer(largest, greater_is_better=False)),
    "partial": ("criterion", partial(with_factor, 1.0), partial(with_factor, 2.0)),
    "kernels": ("kernel", gaussian, wider),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_functions_are_compared_by_name_and_settings(name: str, tmp_path: Path) -> None:
    setting, one, other = OTHERS[name]
    first = fitted(tmp_path / "search", **{setting: one, "gammas": None})
    assert fitted(tmp_path / "search", **{setting: one, "gammas": None}).best_score_ == first.best_score_
    with pytest.raises(ValueError, match=f"differs in {setting}"):
        fitted(tmp_path / "search", **{setting: other, "gammas": None})


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
    events: list[Any] = []
    with pytest.raises(
        ValueError, match=r"compares functions by the name.* define it with def at the top"
    ):
        fitted(tmp_path / "search", callback=events.append, **{setting: value, "gammas": None})
    assert not events


PROCESS = """
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
        call, env = [sys.executable, "-c", PROCESS], os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(call, capture_output=True, text=True, env=env, check=True).stdout

    assert run("1") == run("2") != ""


@pytest.mark.parametrize("lines", [slice(1, None), slice(2, 3)], ids=["all", "an evaluation"])
def test_records_of_another_search_are_not_taken(lines: slice, tmp_path: Path) -> None:
    """Of the same grid on other targets, whose evaluations have the same keys."""
    fitted(tmp_path / "search")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        LSSVRCV(**SMALL, checkpoint=tmp_path / "other").fit(X, Y[::-1])
    foreign = (tmp_path / "other").read_bytes().splitlines(keepends=True)[lines]
    count = len((tmp_path / "search").read_bytes().splitlines())
    with (tmp_path / "search").open("ab") as file:
        file.writelines(foreign)
    with pytest.raises(
        ValueError, match=rf"^line {count + 1} of .*search (is of another|begins a) search.*; delete"
    ):
        fitted(tmp_path / "search")


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


def test_auto_does_not_take_over_what_was_asked_for(tmp_path: Path) -> None:
    fitted(tmp_path / "search", approximation=Nystroem(5))
    with pytest.raises(ValueError, match="differs in approximation"):
        fitted(tmp_path / "search", approximation="auto")


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


def test_a_search_that_begins_twice_in_one_file_is_refused(tmp_path: Path) -> None:
    fitted(tmp_path / "search")
    lines = (tmp_path / "search").read_bytes().splitlines(keepends=True)
    (tmp_path / "search").write_bytes(b"".join([*lines, *lines[1:]]))
    with pytest.raises(ValueError, match=rf"line {len(lines) + 1} of .* two processes wrote .* delete"):
        fitted(tmp_path / "search")
