"""Which rows calibrate which: never a row itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from onefold.calibration import CalibrationFolds, fit_calibrator
from onefold.heldout import Splits


def splits_of(n, tests):
    return Splits(n, [np.asarray(t) for t in tests], [np.unique(t) for t in tests])


@given(
    n=st.integers(6, 20),
    seed=st.integers(0, 10**6),
    count=st.integers(1, 5),
    name=st.sampled_from(["temperature", "sigmoid", "isotonic"]),
)
def test_a_row_has_no_say_in_its_own_probability(n, seed, count, name):
    rng = np.random.default_rng(seed)
    splits = splits_of(n, [rng.choice(n, rng.integers(2, n), replace=False) for _ in range(count)])
    folds = CalibrationFolds.of(splits)
    decision, index = rng.normal(size=(1, folds.rows.size, 1)), rng.integers(0, 2, n)
    plain = folds.probabilities(name, decision, index, None)
    row = int(folds.rows[0])
    other = index.copy()
    other[row] = 1 - other[row]
    changed = folds.probabilities(name, decision, other, None)
    assert_allclose(changed[:, folds.rows == row], plain[:, folds.rows == row])
    means = folds.mean_by_row(plain[0], n)
    assert_allclose(means[row], plain[0][folds.rows == row].mean(axis=0))
    assert np.isnan(means).all(axis=1).sum() == n - np.unique(folds.rows).size


def test_many_models_in_batches_are_each_by_itself(monkeypatch):
    rng = np.random.default_rng(0)
    folds = CalibrationFolds.of(splits_of(12, np.arange(12).reshape(3, 4)))
    decision, index = rng.normal(size=(7, 12, 3)), np.arange(12) % 3
    whole = folds.probabilities("sigmoid", decision, index, np.ones(12))
    monkeypatch.setattr("onefold.calibration.crossfitting._AT_ONCE", 80)
    assert_allclose(folds.probabilities("sigmoid", decision, index, np.ones(12)), whole, atol=1e-10)
    alone = fit_calibrator("sigmoid", decision[5, 4:], index[4:])
    assert_allclose(whole[5, :4], alone.probabilities(decision[5, :4]), atol=1e-10)


def test_one_row_has_no_other():
    with pytest.raises(ValueError, match="there is one only"):
        CalibrationFolds.of(splits_of(5, [[2]]))
