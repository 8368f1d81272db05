"""Splitters of any make: they see what the user gave, and serve once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.model_selection import GridSearchCV, KFold

import onefold
from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV, SparseLSSVR

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + 0.05 * RNG.normal(size=60)
GRID = {"gammas": [0.1, 0.5, 2.0], "alphas": [1e-3, 0.1]}


class ByFeature:
    """Folds of neighbours along the first feature: another library's splitter, with no base class."""

    def split(self, X, y=None, groups=None):
        column = X["first"].to_numpy() if isinstance(X, pd.DataFrame) else np.asarray(X)[:, 0]
        order = np.argsort(column)
        for test in np.array_split(order, 4):
            yield np.setdiff1d(order, test), test

    def get_n_splits(self, X=None, y=None, groups=None):
        return 4


class NeedsFrame(ByFeature):
    def split(self, X, y=None, groups=None):
        if not isinstance(X, pd.DataFrame) or not isinstance(y, pd.Series):
            raise TypeError("a frame and a series are needed")
        return super().split(X, y, groups)


def peer(rows, y, cv):
    grid = {"gamma": GRID["gammas"], "alpha": GRID["alphas"]}
    search = GridSearchCV(SklearnRidge(kernel="rbf"), grid, cv=cv, scoring="neg_mean_squared_error")
    return search.fit(rows, y).cv_results_["mean_test_score"].reshape(2, 3)


@pytest.mark.parametrize("cv", [ByFeature(), NeedsFrame()])
def test_splitters_are_handed_the_users_table(cv) -> None:
    frame, series = pd.DataFrame(X, columns=["first", "second"]), pd.Series(Y)
    found = KernelRidgeCV(**GRID, cv=cv).fit(frame, series)
    wanted = peer(frame, series, cv)
    assert_allclose(found.cv_results_["mean_test_score"].reshape(2, 3), wanted, rtol=1e-9)


def test_an_array_too() -> None:
    found = KernelRidgeCV(**GRID, cv=ByFeature()).fit(X, Y)
    wanted = peer(X, Y, ByFeature())
    assert_allclose(found.cv_results_["mean_test_score"].reshape(2, 3), wanted, rtol=1e-9)
    classes = LSSVCCV(**GRID, cv=ByFeature()).fit(X, Y > 0)
    folds = LSSVCCV(**GRID, cv=list(ByFeature().split(X))).fit(X, Y > 0)
    assert_allclose(classes.heldout_prediction_, folds.heldout_prediction_)
    sparse = SparseLSSVR(**GRID, cv=ByFeature()).fit(X, Y)
    assert_allclose(
        sparse.path_["mean_test_score"],
        SparseLSSVR(**GRID, cv=list(ByFeature().split(X))).fit(X, Y).path_["mean_test_score"],
    )


def test_an_iterator_serves_the_trust_check_and_the_search() -> None:
    one = LSSVRCV(**GRID, approximation="nystroem", cv=KFold(3).split(X), check=True).fit(X, Y)
    two = LSSVRCV(**GRID, approximation="nystroem", cv=KFold(3)).fit(X, Y)
    assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert one.approximation_["trust"]["verdict"] == "applies"


def test_given_splits_are_followed_into_a_subsample() -> None:
    mask = np.arange(60) % 3 == 0
    for cv in ([(np.flatnonzero(~mask), np.flatnonzero(mask))], [(~mask, mask)]):
        chooser = LSSVRCV(**GRID, approximation="nystroem", cv=cv)
        assert onefold.trust(chooser, X, Y, size=30, random_state=0).verdict == "applies"


def test_the_trust_check_hands_rows_of_the_table_to_the_splitter() -> None:
    frame, series = pd.DataFrame(X, columns=["first", "second"]), pd.Series(Y)
    chooser = LSSVRCV(**GRID, approximation="nystroem", cv=ByFeature())
    one = onefold.trust(chooser, frame, series, size=30, random_state=0)
    two = onefold.trust(chooser, X, Y, size=30, random_state=0)
    assert one == two


def test_one_split_has_its_column() -> None:
    split = [(np.arange(40), np.arange(40, 60))]
    found = LSSVRCV(**GRID, cv=split).fit(X, Y)
    assert_allclose(found.cv_results_["split0_test_score"], found.cv_results_["mean_test_score"])
    assert "split0_test_score" not in LSSVRCV(**GRID, criterion="gcv").fit(X, Y).cv_results_


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        ([(np.ones(5, dtype=bool), np.arange(3))], "mask has 5 entries for 60 rows"),
        ([(np.arange(30.0), np.arange(30, 60))], "whole numbers"),
    ],
)
def test_splits_that_are_no_row_numbers(cv, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVRCV(cv=cv).fit(X, Y)
