"""Calibrations in a graph, against what they say themselves."""

import numpy as np
import pytest
from onnx_runs import run

from onefold import LSSVC, calibration
from onefold.expansions import Expansion
from onefold.kernels import Linear

rng = np.random.default_rng(4)
X = rng.standard_normal((90, 2))
SCORE = X[:, 0] + 0.5 * rng.standard_normal(90)
INDEX = {2: (SCORE > 0).astype(int), 4: np.digitize(SCORE, [-0.8, 0.0, 0.8])}


def as_machine(calibrator, columns: int) -> LSSVC:
    """A classifier whose decision values are its rows."""
    model = LSSVC()
    model.expansion_ = Expansion(Linear(), np.eye(columns), np.eye(columns), np.zeros(columns))
    model.n_features_in_, model.calibrator_ = columns, calibrator
    model.classes_ = np.arange(2 if columns == 1 else columns)
    return model


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_every_calibration(name, classes, scale):
    columns = 1 if classes == 2 else classes
    decision = scale * (
        rng.standard_normal((90, columns)) + 2 * (INDEX[classes][:, None] == range(columns))
    )
    if columns == 1:
        decision = scale * SCORE[:, None]
    calibrator = calibration.fit_calibrator(name, decision, INDEX[classes])
    far = scale * np.array([-1e9, -30.0, 0.0, 30.0, 1e9])[:, None] * np.ones(columns)
    rows = np.concatenate([decision, scale * 2 * rng.standard_normal((200, columns)), far])
    model = as_machine(calibrator, columns)
    found = run(model.to_onnx(dtype="float64"), rows)["probabilities"]
    assert found.shape == (len(rows), classes)
    assert np.allclose(found, calibrator.probabilities(rows), rtol=1e-10, atol=1e-13)
    assert np.allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    single = run(model.to_onnx(), rows.astype(np.float32))["probabilities"]
    expected = calibrator.probabilities(rows.astype(np.float32).astype(np.float64))
    assert np.allclose(single, expected, rtol=1e-6, atol=1e-7)
    assert run(model.to_onnx(), np.zeros((0, columns), np.float32))["probabilities"].shape == (
        0,
        classes,
    )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
def test_rows_with_nan_have_nan_for_probabilities(name, classes):
    """Not equal shares, as those of a row that no class wants."""
    model = LSSVC(calibration=name).fit(X, np.digitize(SCORE, [-0.5, 0.5]) % classes)
    rows = np.array([[0.0, 1.0], [np.nan, 1.0], [0.5, np.nan], [np.nan, np.nan]])
    for dtype in ("float32", "float64"):
        found = run(model.to_onnx(dtype=dtype), rows.astype(dtype))["probabilities"]
        assert np.isnan(found).tolist() == [[False] * classes] + [[True] * classes] * 3


@pytest.mark.parametrize("corners", [1, 2, 3, 4, 5, 64, 65])
def test_corners_of_a_staircase(corners):
    x = np.sort(rng.standard_normal(corners))
    p = np.sort(rng.uniform(size=corners))
    calibrator = calibration.Isotonic((x,), (p,))
    between = (x[1:] + x[:-1]) / 2
    rows = np.concatenate([x, np.nextafter(x, 9), np.nextafter(x, -9), between, [-1e300, 1e300]])[
        :, None
    ]
    found = run(as_machine(calibrator, 1).to_onnx(dtype="float64"), rows)["probabilities"]
    assert np.allclose(found, calibrator.probabilities(rows), rtol=0, atol=4e-16)
    assert np.array_equal(found[:corners, 1], p)


def test_columns_of_different_lengths_and_no_class_at_all():
    lengths = (1, 6, 17)
    inputs = tuple(np.sort(rng.standard_normal(n)) for n in lengths)
    outputs = (
        np.zeros(1),
        *(np.concatenate([[0.0], np.sort(rng.uniform(size=n - 1))]) for n in lengths[1:]),
    )
    calibrator = calibration.Isotonic(inputs, outputs)
    rows = np.concatenate([2 * rng.standard_normal((50, 3)), np.full((1, 3), -9.0)])
    found = run(as_machine(calibrator, 3).to_onnx(dtype="float64"), rows)["probabilities"]
    assert np.array_equal(found[-1], [1 / 3] * 3)
    assert np.allclose(found, calibrator.probabilities(rows), rtol=1e-14)


def test_decision_values_in_the_place_of_probabilities():
    skl2onnx = pytest.importorskip("skl2onnx")
    model = as_machine(calibration.Temperature(2.0), 1)
    model.to_onnx()  # registers its class
    raw = {id(model): {"raw_scores": True}}
    rows = np.array([[-0.5], [2.0]])
    found = run(skl2onnx.to_onnx(model, rows[:1], options=raw), rows)
    assert np.array_equal(found["decision"], [[0.5, -0.5], [-2.0, 2.0]])
    assert list(found) == ["label", "decision"]


def test_a_calibration_that_is_not_known():
    class Other:
        name = "beta"

    with pytest.raises(ValueError, match="'beta' cannot be written to ONNX; fit with calibration="):
        as_machine(Other(), 1).to_onnx()
