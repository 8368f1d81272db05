"""What a fit keeps of its rows: the splits in the order of the table, and a fingerprint."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, SparseLSSVR, load
from onefold.facts.data import equal_rows
from onefold.heldout import GapKFold, unpacked
from onefold.rows import row_hashes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * X[:, 1] ** 2
GROUPS = np.arange(60) // 6
FEW = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1]}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "cv",
    [
        5,
        KFold(4, shuffle=True),  # without a seed
        KFold(4, shuffle=True, random_state=np.random.RandomState(0)),
        iter([(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]),
        RepeatedKFold(n_splits=3, n_repeats=2),
        ShuffleSplit(3),
        TimeSeriesSplit(4),
        GapKFold(4, 3),
        GroupKFold(3),
    ],
    ids=lambda cv: type(cv).__name__,
)
@pytest.mark.parametrize("zeros", [0, 7])
def test_every_splitter_is_kept_as_it_split(cv, zeros, tmp_path):
    if not hasattr(cv, "split") and zeros and not isinstance(cv, int):
        pytest.skip("an iterator serves once")
    weight = np.where(np.arange(60) < zeros, 0.0, 1.0)
    fitted = LSSVRCV(cv=cv, **FEW).fit(X, Y, sample_weight=weight, groups=GROUPS)
    fitted.save(tmp_path / "m")
    for estimator in (fitted, load(tmp_path / "m")):
        splits = unpacked(estimator.splits_)
        place = estimator.best_index_
        assert f"split{len(splits)}_test_score" not in estimator.cv_results_
        for number, (train, test) in enumerate(splits):
            assert weight[train].all()
            assert weight[test].all()
            machine = LSSVR(gamma=estimator.gamma_, alpha=estimator.alpha_).fit(X[train], Y[train])
            score = -np.mean((machine.predict(X[test]) - Y[test]) ** 2)
            assert estimator.cv_results_[f"split{number}_test_score"][place] == pytest.approx(score)


def test_reserved_folds_and_leave_one_out():
    machine = LSSVRCV(metric="diagonal", metric_rows=30, max_rounds=1, **FEW).fit(X, Y)
    tested = np.isfinite(machine.heldout_prediction_)
    assert not tested.all()
    np.testing.assert_array_equal(machine.splits_ >= 0, tested)
    assert LSSVRCV(cv="loo", **FEW).fit(X, Y).splits_ is None
    assert LSSVRCV(criterion="press", **FEW).fit(X, Y).splits_ is None
    classes = LSSVCCV(cv=StratifiedKFold(3), **FEW).fit(X, Y > 0)
    assert classes.splits_.dtype == np.int8
    assert np.bincount(classes.splits_).tolist() == [20, 20, 20]


def test_rows_are_known_by_their_numbers():
    rows = RNG.integers(-1, 2, (500, 4)) / 2.0
    rows[rows == 0] *= -1  # a zero with a sign is a zero
    expected = np.unique(rows + 0.0, axis=0, return_inverse=True)[1].ravel()
    for given in (rows, csr_matrix(rows)):
        assert len(set(zip(equal_rows(given).tolist(), expected.tolist()))) == expected.max() + 1
        assert len(np.unique(equal_rows(given))) == expected.max() + 1
    many = RNG.integers(0, 1000, (200_000, 2)).astype(float)
    assert len(np.unique(row_hashes(many))) == len(np.unique(many, axis=0))


@pytest.mark.parametrize("kind", [LSSVR, LSSVRCV, SparseLSSVR, LSSVC])
def test_the_fingerprint_has_rows_and_targets_of_the_fit(kind, tmp_path):
    y = np.where(Y > 0, "yes", "no") if kind is LSSVC else Y
    weight = np.where(np.arange(60) < 7, 0.0, 1.0)
    kind().fit(X, y, sample_weight=weight).save(tmp_path / "m")
    found = load(tmp_path / "m").fingerprint_
    np.testing.assert_array_equal(found["rows"], np.arange(7, 60))
    np.testing.assert_array_equal(found["hashes"], row_hashes(X[7:].astype(np.float32), np.float32))
    numbers = np.where(y[7:] == "yes", 1.0, -1.0) if kind is LSSVC else Y[7:]
    np.testing.assert_allclose(found["targets"][:, 0], numbers, rtol=1e-12)
