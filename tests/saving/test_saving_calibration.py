"""Calibrators and held-out probabilities through a file, and some that fit nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from saving_standins import forge, metadata_of, through_file

from onefold import LSSVC, LSSVCCV, LSSVR, SparseLSSVC, saving
from onefold.calibration import CALIBRATIONS, Isotonic, Sigmoid, Temperature
from onefold.saving import ModelFileError
from onefold.saving.codec import Encoder

RNG = np.random.default_rng(9)
X = RNG.normal(size=(40, 3))
TWO, THREE = np.arange(40) % 2, np.array(["a", "b", "c"])[np.arange(40) % 3]
ONE = {"gammas": [0.1], "alphas": [0.1]}


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", CALIBRATIONS)
@pytest.mark.parametrize(
    "kind",
    [LSSVC(gamma=0.1), LSSVCCV(**ONE), SparseLSSVC(**ONE, n_centres=9)],
    ids=lambda e: type(e).__name__,
)
def test_probabilities_keep_their_bits(tmp_path, kind, name, y):
    model = kind.set_params(calibration=name).fit(X, y)
    loaded = through_file(model, tmp_path)
    assert type(loaded.calibrator_) is CALIBRATIONS[name]
    assert loaded.calibration == name
    assert loaded.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    if isinstance(kind, LSSVCCV):
        assert_array_equal(loaded.heldout_proba_, model.heldout_proba_)


def test_none_comes_back_as_none(tmp_path):
    loaded = through_file(LSSVCCV(**ONE, calibration=None).fit(X, TWO), tmp_path)
    assert loaded.calibrator_ is loaded.heldout_proba_ is loaded.calibration is None
    assert not hasattr(loaded, "predict_proba")


def test_files_from_before_there_were_probabilities(tmp_path):
    model = LSSVCCV(**ONE).fit(X, TWO)
    del model.calibrator_, model.heldout_proba_
    loaded = through_file(model, tmp_path)
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert not hasattr(loaded, "predict_proba")


def test_rows_that_were_not_tested_stay_so(tmp_path):
    model = LSSVCCV(**ONE, cv=[(np.arange(20), np.arange(20, 30)), (np.arange(20), np.arange(30, 40))])
    loaded = through_file(model.fit(X, THREE), tmp_path)
    assert np.isnan(loaded.heldout_proba_[:20]).all()


STEP = np.array([0.0, 1.0])
WRONG = {
    "calibrator_": [
        0.5,
        "temperature",
        {"slope": 1.0},
        Sigmoid(np.ones(3), np.ones(3)),
        Isotonic((STEP,) * 4, (STEP,) * 4),
        LSSVC(),
    ],
    "heldout_proba_": [
        np.ones((40, 2)),
        np.full((40, 3), 1 / 3),
        np.full((39, 2), 0.5),
        np.tile([1.5, -0.5], (40, 1)),
        np.tile([np.nan, 1.0], (40, 1)),
        np.full(40, 0.5),
        "none",
        [0.5],
    ],
    "calibration": ["platt", 1, True, ["sigmoid"]],
}


@pytest.mark.parametrize(("key", "value"), [(key, v) for key, all_ in WRONG.items() for v in all_])
def test_what_does_not_fit_is_not_saved(tmp_path, key, value):
    model = LSSVCCV(**ONE).fit(X, TWO)
    setattr(model, key, value)
    with pytest.raises(ValueError, match=key):
        saving.save(model, tmp_path / "m")


def test_a_regression_has_no_calibrator(tmp_path):
    model = LSSVR().fit(X, X[:, 0])
    model.calibrator_ = Temperature(1.0)
    with pytest.raises(ValueError, match="calibrator_"):
        saving.save(model, tmp_path / "m")


FORGED = [
    ("Temperature", {"slope": -1.0}),
    ("Temperature", {"slope": float("nan")}),
    ("Temperature", {"slope": "2"}),
    ("Temperature", {}),
    ("Temperature", {"slope": 1.0, "more": 1}),
    ("Sigmoid", {"slope": np.ones(2), "intercept": np.ones(2)}),
    ("Sigmoid", {"slope": np.ones(3), "intercept": np.ones(1)}),
    ("Sigmoid", {"slope": np.ones(1) * np.inf, "intercept": np.ones(1)}),
    ("Sigmoid", {"slope": 1.0, "intercept": 0.0}),
    ("Isotonic", {"inputs": (STEP[::-1],), "outputs": (STEP,)}),
    ("Isotonic", {"inputs": (STEP,), "outputs": (2 * STEP,)}),
    ("Isotonic", {"inputs": (STEP,), "outputs": (STEP * np.nan,)}),
    ("Isotonic", {"inputs": (), "outputs": ()}),
    ("Isotonic", {"inputs": STEP, "outputs": STEP}),
    ("Calibrator", {}),
]


@pytest.mark.parametrize(("kind", "fields"), FORGED)
def test_forged_calibrators_are_refused(tmp_path, kind, fields):
    encoder = Encoder()
    nodes = {key: encoder.encode(value, key) for key, value in fields.items()}
    path = forge(tmp_path / "m", metadata_of({"$object": kind, "fields": nodes}), encoder.arrays)
    with pytest.raises(ModelFileError):
        saving.load(path)
