"""Metrics of kernels through a file, and files with metrics that fit nothing."""

from __future__ import annotations

import numpy as np
import pytest
from saving_standins import forge, metadata_of
from scipy import sparse

from onefold import LSSVR, LSSVRCV, saving
from onefold.kernels import RBF, Laplacian, Matern
from onefold.saving import ModelFileError
from onefold.saving.codec import Encoder

RNG = np.random.default_rng(0)
X, S = RNG.normal(size=(30, 3)), RNG.normal(size=(3, 3))


def forged(path, metric, kernel="RBF", centres=None, values=True):
    """An expansion whose kernel has `metric`, past the checks of the classes."""
    encoder = Encoder()
    node = encoder.encode(metric, "metric")
    node = {"$object": "Metric", "fields": {"values": node}} if values else node
    centres = np.ones((3, 2)) if centres is None else centres
    rest = {"centres": centres, "coef": np.ones((3, 1)), "intercept": np.zeros(1)}
    fields = {key: encoder.encode(value, key) for key, value in rest.items()}
    fields["kernel"] = {"$object": kernel, "fields": {"gamma": 1.0, "metric": node}}
    return forge(path, metadata_of({"$object": "Expansion", "fields": fields}), encoder.arrays)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.1, metric=S),
        RBF(0.1, metric=np.asfortranarray(S)),
        Matern(0.1, nu=0.5, metric=S),
        Laplacian(0.2, metric=[1, 0, 3]),
        RBF(0.1, metric=S) + Laplacian((0.1, 0.2, 0.3)),
    ],
    ids=repr,
)
def test_predictions_keep_their_bits(tmp_path, kernel):
    grid = {"gammas": [0.5, 1.0], "alphas": [0.1, 1.0]}
    for model in (LSSVR(kernel, alpha=0.1), LSSVRCV(kernel, **grid)):
        saving.save(model.fit(X, np.sin(X[:, 0])), tmp_path / "m")
        loaded = saving.load(tmp_path / "m")
        assert loaded.kernel == kernel
        assert loaded.expansion_.kernel == model.expansion_.kernel
        assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
        assert loaded.expansion_.gradient(X).tobytes() == model.expansion_.gradient(X).tobytes()


def test_the_forgery_of_a_good_metric_loads(tmp_path):
    for metric, values in [
        (np.eye(2), True),
        (np.ones(2), True),
        (np.eye(2), False),
        ([1.0, 2.0], False),
    ]:
        loaded = saving.load(forged(tmp_path / "m", metric, values=values))
        assert loaded.predict(np.ones((1, 2))).tolist() == [[3.0]]


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(
    "metric",
    [
        np.ones((2, 3)), np.eye(3), np.ones(3), np.ones(1), np.ones((2, 2, 2)), np.empty(0),
        np.zeros((2, 2)), np.array([1.0, np.nan]), np.array([1.0, -1.0]), np.full((2, 2), 1e200),
        np.float64(1.0),
        "full", 1.0, {"a": 1.0}, [[1.0], [1.0, 2.0]], np.array(["a", "b"]),
        np.array([None, "x"], dtype=object), sparse.csr_array(np.eye(2)), RBF(1.0),
    ],
)  # fmt: skip
def test_a_metric_that_fits_nothing_is_refused(tmp_path, metric, values):
    with pytest.raises(ModelFileError, match=r"metric|widths|not valid"):
        saving.load(forged(tmp_path / "m", metric, values=values))


def test_a_matrix_for_the_laplacian_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="no matrix"):
        saving.load(forged(tmp_path / "m", np.eye(2), kernel="Laplacian"))


def test_a_metric_that_overflows_is_refused(tmp_path):
    centres = np.diag([1e100, 1e100, 1.0])[:, :2]
    with pytest.raises(ModelFileError, match="infinite or undefined"):
        saving.load(forged(tmp_path / "m", np.full(2, 1e149), centres=centres))
