"""Held-out predictions of the estimators against literal refits, for every kind of splitter."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem
from onefold.heldout import GapKFold, make_splits

RNG = np.random.default_rng(3)
N = 40
X = RNG.standard_normal((N, 3))
LABELS = np.where(X[:, 0] + 0.5 * RNG.standard_normal(N) > 0, "yes", "no")
NUMBERS = np.sin(X[:, 0]) + 3 + 0.1 * RNG.standard_normal(N)
GROUPS = np.arange(N) % 8
WEIGHTS = RNG.uniform(0.1, 3.0, N)

SPLITTERS = [
    KFold(4),
    KFold(7, shuffle=True, random_state=0),
    StratifiedKFold(5),
    GroupKFold(4),
    StratifiedGroupKFold(3),
    LeaveOneGroupOut(),
    RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    ShuffleSplit(4, test_size=0.2, train_size=0.3, random_state=0),
    StratifiedShuffleSplit(3, test_size=0.25, random_state=0),
    TimeSeriesSplit(3, gap=2),
    PredefinedSplit(np.where(np.arange(N) < 30, np.arange(N) % 3, -1)),
    GapKFold(4, gap=3),
    LeaveOneOut(),
]


def literal(estimator, splitter, y, weights):
    """Mean held-out prediction of each row by refitting, NaN where never held out."""
    total, count = np.zeros(N), np.zeros(N)
    groups = GROUPS if "Group" in type(splitter).__name__ else None
    for train, test in splitter if isinstance(splitter, list) else splitter.split(X, y, groups):
        model = clone(estimator).fit(X[train], y[train], None if weights is None else weights[train])
        values = model.decision_function if hasattr(model, "decision_function") else model.predict
        total[test] += values(X[test])
        count[test] += 1
    with np.errstate(invalid="ignore"):
        return total / count


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    ("fixed", "chosen", "y"),
    [(LSSVC, LSSVCCV, LABELS), (LSSVR, LSSVRCV, NUMBERS), (KernelRidge, KernelRidgeCV, NUMBERS)],
    ids=["LSSVC", "LSSVR", "KernelRidge"],
)
def test_every_splitter_gives_what_refitting_gives(fixed, chosen, y, splitter, weights) -> None:
    if y is NUMBERS and "Stratified" in type(splitter).__name__:
        splitter = list(splitter.split(X, LABELS, GROUPS))  # as an iterable of (train, test)
    groups = GROUPS if "Group" in type(splitter).__name__ else None
    found = chosen(gammas=[0.4], alphas=[0.02], cv=splitter).fit(X, y, weights, groups=groups)
    expected = literal(fixed(gamma=0.4, alpha=0.02), splitter, y, weights)
    assert_allclose(found.heldout_prediction_, expected, rtol=1e-9, atol=1e-9)


def test_loo_by_name_is_leave_one_out_scored_together() -> None:
    pooled = LSSVRCV(gammas=[0.4], alphas=[0.02], cv="loo").fit(X, NUMBERS)
    single = LSSVRCV(gammas=[0.4], alphas=[0.02], cv=LeaveOneOut()).fit(X, NUMBERS)
    assert_allclose(pooled.heldout_prediction_, single.heldout_prediction_)
    assert pooled.best_score_ == pytest.approx(single.best_score_, rel=1e-12)
    assert "split1_test_score" not in pooled.cv_results_
    assert_allclose(pooled.cv_results_["split0_test_score"], pooled.cv_results_["mean_test_score"])
    r2 = LSSVRCV(gammas=[0.4], alphas=[0.02], cv="loo", criterion="r2").fit(X, NUMBERS)
    error = ((NUMBERS - pooled.heldout_prediction_) ** 2).sum()
    assert r2.best_score_ == pytest.approx(1 - error / ((NUMBERS - NUMBERS.mean()) ** 2).sum())


class TestGapKFold:
    def test_blocks_cover_every_row_once_with_a_gap_on_both_sides(self) -> None:
        seen = np.zeros(23, dtype=int)
        for train, test in GapKFold(4, gap=2).split(np.zeros((23, 1))):
            seen[test] += 1
            assert_allclose(np.diff(test), 1)
            distance = np.abs(train[:, None] - test[None, :]).min(axis=1)
            assert distance.min() == 3
            assert len(train) + len(test) >= 23 - 4
        assert (seen == 1).all()

    @pytest.mark.parametrize(
        ("splitter", "words"),
        [
            (GapKFold(1), "at least 2"),
            (GapKFold(30), "at most the number of rows"),
            (GapKFold(2, gap=-1), "negative"),
            (GapKFold(2, gap=20), "nothing to train on"),
        ],
    )
    def test_impossible_blocks_are_named(self, splitter, words) -> None:
        with pytest.raises(ValueError, match=words):
            list(splitter.split(np.zeros((20, 1))))


class TestWrongSplits:
    def of(self, cv, y=NUMBERS, labels=None):
        return make_splits(cv, X, y, n=len(y), labels=labels)

    @pytest.mark.parametrize(
        ("cv", "words"),
        [
            ("5-fold", '"loo" or a splitter'),
            (1, "at least 2"),
            (41, "at most the number of rows"),
            ([(np.array([0, 0, 1]), np.array([2]))], "trains on a row twice"),
            ([(np.array([0, 1]), np.array([1]))], "tests rows that it trains on"),
            ([(np.array([0, 99]), np.array([1]))], "beyond the 40 rows"),
            ([(np.array([], dtype=int), np.array([1]))], "no rows to train on"),
            ([(np.array([1]), np.array([], dtype=int))], "no rows to test"),
            ([], "no split"),
        ],
    )
    def test_each_is_one_sentence(self, cv, words) -> None:
        with pytest.raises(ValueError, match=words):
            self.of(cv)

    def test_a_training_part_with_one_class_is_named(self) -> None:
        y = np.array(["a"] * 39 + ["b"])
        for cv in ("loo", KFold(4), LeaveOneOut()):
            with pytest.raises(ValueError, match=r"one class only \(.*'a'"):
                self.of(cv, y, labels=y)

    def test_boolean_and_negative_row_numbers(self) -> None:
        mask = np.arange(N) < 30
        splits = self.of([(mask, ~mask), (np.arange(30), np.array([-1, -2]))])
        assert_allclose(splits.tests[0], np.arange(30, 40))
        assert_allclose(splits.tests[1], [39, 38])

    def test_fewer_rows_of_a_class_than_folds(self) -> None:
        y = np.array(["a"] * 37 + ["b"] * 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            LSSVCCV(gammas=[1.0], cv=5).fit(X, y)
        with pytest.raises(ValueError, match="n_splits=5"):
            LSSVCCV(gammas=[1.0], cv=5).fit(X[:8], np.array(list("aabbaabb")))


def test_no_fold_of_a_long_table_is_sorted(monkeypatch) -> None:
    """Rows are counted in a few passes: sorting their numbers took longer than the model on a device."""
    n, rng = 20_000, np.random.default_rng(0)
    rows = rng.standard_normal((n, 2))

    def short(function, values, *args, **kwargs):
        assert np.size(values) < n // 5, function
        return function(values, *args, **kwargs)

    for name in ("unique", "sort", "argsort", "lexsort"):
        monkeypatch.setattr(np, name, partial(short, getattr(np, name)))
    machine = LSSVRCV(approximation=Nystroem(20, method="uniform"), gammas=[0.3], alphas=[0.1, 1.0])
    assert machine.fit(rows, np.sin(rows[:, 0])).conformity_scores_.shape == (n,)
