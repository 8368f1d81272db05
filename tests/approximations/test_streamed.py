"""Rows that are streamed to a device: who can serve them, and that the answers are those of the host."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.approximations import Nystroem

pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(400)
LABELS = np.digitize(Y, [-0.4, 0.4])


@pytest.fixture(autouse=True)
def too_many(monkeypatch):
    monkeypatch.setattr("onefold.rows._MOVED_AT_ONCE", 0)


@pytest.mark.parametrize(
    ("estimator", "y"), [(LSSVRCV, Y), (LSSVCCV, LABELS)], ids=["numbers", "labels"]
)
@pytest.mark.parametrize("method", ["uniform", "rpcholesky"])
def test_a_search_over_streamed_rows_is_that_of_the_host(estimator, y, method):
    given = {"gammas": [0.05, 0.5], "alphas": [0.01, 1.0], "approximation": Nystroem(40, method)}
    weight = RNG.uniform(0.5, 2.0, 400)
    host = estimator(**given).fit(X, y, sample_weight=weight)
    streamed = estimator(**given, device="cpu").fit(X, y, sample_weight=weight)
    assert streamed.best_params_ == host.best_params_
    assert_allclose(
        streamed.cv_results_["mean_test_score"], host.cv_results_["mean_test_score"], rtol=1e-8
    )
    assert_allclose(streamed.heldout_prediction_, host.heldout_prediction_, atol=1e-7)
    predicted = streamed.predict(X[:9])
    assert isinstance(predicted, np.ndarray)
    assert_allclose(predicted, host.predict(X[:9]), atol=1e-7)


def test_auto_takes_landmarks():
    model = LSSVRCV(gammas=[0.5], alphas=[0.1], device="cpu").fit(X, Y)
    assert "streamed" in model.approximation_["selected_with"]["chosen"]
    assert model.approximation_["selected_with"]["name"] == "nystroem"


@pytest.mark.parametrize("name", ["exact", "cg", "toeplitz", "grid"])
def test_others_say_that_they_need_all_rows_there(name):
    with pytest.raises(ValueError, match="needs all rows on the device"):
        LSSVR(approximation=name, device="cpu").fit(X, Y)


def test_fixed_estimators():
    streamed = LSSVC(approximation=Nystroem(40), device="cpu").fit(X, LABELS)
    host = LSSVC(approximation=Nystroem(40)).fit(X, LABELS)
    np.testing.assert_array_equal(streamed.predict(X), host.predict(X))
