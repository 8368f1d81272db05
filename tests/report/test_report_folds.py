"""The splits of the fit once more, or the reason why there are others."""

from __future__ import annotations

import numpy as np
import pytest
from report_cases import FEW
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, StratifiedKFold, TimeSeriesSplit

from onefold import LSSVR, LSSVRCV, load
from onefold.heldout import GapKFold
from onefold.report import gather
from onefold.report.folds import _spelled, folds_again

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + 0.1 * X[:, 1] ** 2


def fitted(cv, **more):
    return LSSVRCV(cv=cv, **FEW).fit(X, Y, **more)


@pytest.mark.parametrize(
    "cv",
    [5, KFold(4, shuffle=True, random_state=3), RepeatedKFold(n_splits=3, n_repeats=2, random_state=1)],
)
def test_the_same_splits_again(cv):
    estimator = fitted(cv)
    found = folds_again(estimator, Y)
    assert found.same
    scores = [estimator.cv_results_[f"split{i}_test_score"][estimator.best_index_]
              for i in range(len(found.splits))]  # fmt: skip
    for (train, test), score in zip(found.splits, scores):
        machine = LSSVR(gamma=estimator.gamma_, alpha=estimator.alpha_).fit(X[train], Y[train])
        assert score == pytest.approx(-np.mean((machine.predict(X[test]) - Y[test]) ** 2), rel=1e-6)


@pytest.mark.parametrize(
    ("cv", "why"),
    [
        (KFold(4, shuffle=True), "without a seed"),
        (KFold(4, shuffle=True, random_state=np.random.RandomState(0)), "random generator"),
        (iter([(np.arange(30), np.arange(30, 60))]), "iterator"),
    ],
)
def test_splits_that_cannot_be_had_again(cv, why):
    found = folds_again(fitted(cv), Y)
    assert not found.same
    assert why in found.words
    assert len(found.splits) == 5


def test_groups_are_asked_for():
    groups = np.arange(60) // 6
    estimator = fitted(GroupKFold(3), groups=groups)
    assert "groups=" in folds_again(estimator, Y).words
    found = folds_again(estimator, Y, groups)
    assert found.same
    assert not any(np.isin(groups[test], groups[train]).any() for train, test in found.splits)
    assert gather(estimator, X, Y, groups=groups).as_dict()["scores"]["same_splits"]


def test_leave_one_out_is_too_many_fits():
    found = folds_again(fitted("loo"), Y)
    assert not found.same
    assert len(found.splits) == 10


def test_a_model_file_remembers_its_splitter(tmp_path):
    estimator = fitted(KFold(4, shuffle=True, random_state=3))
    estimator.save(tmp_path / "m")
    found, own = folds_again(load(tmp_path / "m"), Y), folds_again(estimator, Y)
    assert found.same
    assert all((a == b).all() for a, b in zip(found.tests, own.tests))


def test_splitters_are_read_from_their_repr_and_nothing_else_is():
    for splitter in (StratifiedKFold(3), GapKFold(4, 2), TimeSeriesSplit(3)):
        found = _spelled(repr(splitter))
        assert type(found) is type(splitter)
        assert vars(found) == vars(splitter)
    for text in ("exit()", "KFold(__import__('os'))", "os.system('x')", "KFold(", "KFold(x=1)", ""):
        assert _spelled(text) is None


def test_training_parts_with_gaps_stay_so():
    train, test = folds_again(fitted(GapKFold(4, 3)), Y).splits[1]
    assert np.abs(train[:, None] - test[None, :]).min() == 4
