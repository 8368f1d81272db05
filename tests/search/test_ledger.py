"""A ledger replayed from a journal gives the same table, bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Circulant
from onefold.search.evaluation import Evaluation
from onefold.search.ledger import Ledger, best_cell
from tests.search.ledgers import empty_ledger

RNG = np.random.default_rng(2)
X = RNG.standard_normal((40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(40)
GRID = {"gammas": [0.1, 1.0, 4.0], "alphas": [1e-3, 0.1, 3.0], "cv": 4}


def refuses_flat(estimator: Any, rows: Any, y: Any) -> float:
    predicted = estimator.predict(rows)
    if np.ptp(predicted) < 0.2:
        raise ValueError("nearly constant predictions")
    return -float(np.mean((predicted - y) ** 2))


SEARCHES = {
    "squared error": (LSSVRCV(**GRID), Y),
    "labels": (LSSVCCV(**GRID), np.where(Y > 0, "up", "down")),
    "leave one out": (LSSVRCV(**GRID | {"cv": "loo"}), Y),
    "a scorer": (LSSVRCV(**GRID, criterion="r2"), Y),
    "a scorer with no score for some": (
        LSSVRCV(**GRID | {"alphas": [0.1, 1e4]}, criterion=refuses_flat),
        Y,
    ),
    "no splits": (LSSVRCV(**GRID, criterion="evidence"), Y),
    "no width": (LSSVRCV("linear", alphas=[0.1, 1.0]), Y),
    "circulant": (LSSVRCV(**GRID, approximation=Circulant(), refit="same"), Y),
    "cells that cannot be solved": (
        LSSVRCV(
            gammas=[1e-3, 1.5],
            alphas=[1e-4, 2.0],
            approximation=Circulant(spacing=1.0, order="given"),
            cv=3,
        ),
        Y,
    ),
}  # fmt: skip


def same(one: Any, two: Any) -> None:
    """Equal in type, value and bit pattern."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes()
    else:
        assert repr(one) == repr(two)


def fitted(name: str, path: Path, events: list[Any] | None = None) -> Any:
    """The estimator fitted with a journal at `path`."""
    estimator, y = SEARCHES[name]
    estimator = clone(estimator).set_params(
        checkpoint=str(path), callback=None if events is None else events.append
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.fit(X, y)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_replayed_from_its_journal_is_the_same(name: str, tmp_path: Path) -> None:
    events: list[Any] = []
    first = fitted(name, tmp_path / "search")
    again = fitted(name, tmp_path / "search", events)
    assert not events  # nothing was evaluated again
    assert list(first.cv_results_) == list(again.cv_results_)
    for key, values in again.cv_results_.items():
        if "time" not in key:
            same(values, first.cv_results_[key])
    assert (again.best_index_, again.best_params_) == (first.best_index_, first.best_params_)
    assert_array_equal(again.predict(X), first.predict(X))
    if first.heldout_prediction_ is not None:
        assert_array_equal(again.heldout_prediction_, first.heldout_prediction_)
    by_name = sorted(map(repr, first.history_))
    assert sorted(map(repr, again.history_)) == by_name


@pytest.mark.parametrize("name", ["a scorer with no score for some", "cells that cannot be solved"])
def test_cells_without_a_score_keep_their_reason(name: str, tmp_path: Path) -> None:
    first, again = (fitted(name, tmp_path / "search") for _ in range(2))
    assert np.isnan(first.cv_results_["mean_test_score"]).any()
    reasons = [one["why"] for one in first.history_]
    assert sorted(map(str, reasons)) == sorted(str(one["why"]) for one in again.history_)
    assert any(reasons) or name == "cells that cannot be solved"  # which need no more words


def small() -> Ledger:
    ledger = empty_ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2)
    for number in range(2):
        scores = np.array([[0.1, np.nan], [0.2, 0.3]])
        ledger.append(Evaluation(number, np.arange(2), scores, 0.5, "no", {"name": "exact"}))
    return ledger


def test_the_best_cell_is_that_of_the_whole_table_in_any_order() -> None:
    rng = np.random.default_rng(5)
    gammas, alphas = [0.5, 4.0, 1.0, 2.0], [3.0, 0.1, 1.0]
    table = rng.integers(0, 3, (4, 3)).astype(float)  # ties abound
    for order in (np.arange(4), rng.permutation(4)):
        ledger = empty_ledger([{"gamma": g} for g in gammas], alphas, 1)
        assert ledger.progress()["best_score"] is None
        for number in order:
            entry = Evaluation(int(number), np.arange(3), table[number][:, None], 0.1, None, {})
            ledger.append(entry)
        assert ledger.best() == best_cell(table, gammas, alphas)


def test_the_last_evaluation_of_a_cell_counts() -> None:
    ledger = small()
    ledger.append(Evaluation(0, np.array([1]), np.array([[5.0, 7.0]]), 0.25, None, {"name": "again"}))
    assert ledger.best() == (0, 1)
    assert ledger.entry(0).report == {"name": "again"}
    table = ledger.cv_results()
    assert table["mean_test_score"][2] == 6.0
    assert np.isnan(table["mean_test_score"][0])
    assert table["mean_fit_time"][0] == 0.75 / 4
    assert ledger.progress()["done"] == 3
