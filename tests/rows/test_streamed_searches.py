"""A search on streamed rows, or on tensors, is the search on rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

import onefold.approximations.nystroem as coordinates
from onefold import LSSVCCV, LSSVR, LSSVRCV
from onefold.approximations import Nystroem

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * RNG.standard_normal((90, 2))
WEIGHT = RNG.uniform(0.1, 3.0, 90) * (np.arange(90) % 30 != 3)
OWN = 1.5 * RNG.standard_normal((8, 3))
SPLITS = {
    "scattered": KFold(4, shuffle=True, random_state=1),
    "overlapping": ShuffleSplit(4, test_size=0.4, random_state=0),
    "incomplete": TimeSeriesSplit(3),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "twice": [(np.arange(60), np.array([70, 61, 61, 75])), (np.arange(30, 90), np.array([5, 0, 2, 2]))],
    "loo": "loo",
}


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setattr("onefold.rows._MOVED_AT_ONCE", 0)
    monkeypatch.setattr("onefold.rows.device._BLOCK_ROWS", 7)


@pytest.fixture(params=["factors", "whitened sums", "sums"])
def training(request, monkeypatch):
    if request.param != "factors":
        monkeypatch.setattr("onefold.basis.factors._WORK", 0)
    if request.param == "sums":
        monkeypatch.setattr(coordinates, "_SMALL_WORK", 0)
        monkeypatch.setattr(coordinates, "_MEDIUM_WORK", 0)
    return request.param


def search(kind: Any, rows: Any, y: Any, cv: Any, device: Any = None, approximation: Any = None) -> Any:
    machine = kind(
        gammas=[0.2, 1.0], alphas=[0.1, 3.0], cv=cv, approximation=approximation, device=device
    )
    return machine.fit(rows, y, sample_weight=WEIGHT if kind is LSSVRCV else None)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
@pytest.mark.parametrize("cv", SPLITS.values(), ids=SPLITS)
def test_same_scores_and_heldout_predictions(training, kind, cv):
    y = Y if kind is LSSVRCV else np.digitize(Y[:, 0], [-0.5, 0.5])
    plain = search(kind, X, y, cv, approximation=Nystroem(OWN))
    assert plain.approximation_["selected_with"]["training"] == training
    for rows, device in ((X, "cpu"), (torch.asarray(X), None), (scipy.sparse.csr_array(X), None)):
        found = search(kind, rows, y, cv, device, Nystroem(OWN))
        scores = "mean_test_score"
        np.testing.assert_allclose(found.cv_results_[scores], plain.cv_results_[scores], atol=1e-9)
        heldout = np.asarray(found.heldout_prediction_)
        np.testing.assert_allclose(heldout, plain.heldout_prediction_, atol=1e-8)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost", "press", "radius_margin"])
@pytest.mark.parametrize("predict", ["landmarks", "rows"])
def test_same_criteria_of_the_whole_smoother(training, criterion, predict):
    own = Nystroem(OWN, predict=predict)
    machine = LSSVRCV(gammas=[0.2], alphas=[0.1, 3.0], criterion=criterion, approximation=own)
    plain = machine.fit(X, Y, WEIGHT).cv_results_["mean_test_score"]
    inputs = [(torch.asarray(X), None), (scipy.sparse.csr_array(X), None)]
    if predict == "landmarks":
        inputs.append((X, "cpu"))
    for rows, device in inputs:
        found = machine.set_params(device=device).fit(rows, Y, WEIGHT)
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], plain, rtol=1e-8)


@pytest.mark.parametrize("rows", [X, torch.asarray(X), scipy.sparse.csr_array(X)], ids=type)
def test_own_landmarks_of_any_kind_serve_rows_of_any_kind(rows):
    plain = search(LSSVRCV, X, Y, 3, approximation=Nystroem(OWN)).cv_results_["mean_test_score"]
    for own in (torch.asarray(OWN), scipy.sparse.csr_array(OWN), scipy.sparse.coo_array(OWN)):
        found = search(LSSVRCV, rows, Y, 3, approximation=Nystroem(own))
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], plain, atol=1e-9)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("turn", [lambda a: a[::-1], lambda a: np.asfortranarray(a)[::2]])
def test_views_are_streamed_as_they_are(turn):
    own = Nystroem(OWN)
    plain, found = (
        LSSVRCV(gammas=[0.2], alphas=[0.1], cv=3, approximation=own, device=device).fit(turn(X), turn(Y))
        for device in (None, "cpu")
    )
    np.testing.assert_allclose(found.heldout_prediction_, plain.heldout_prediction_, atol=1e-9)


@pytest.mark.parametrize("approximation", ["exact", Nystroem(OWN)], ids=["exact", "nystroem"])
def test_rows_that_require_a_gradient(approximation):
    plain = LSSVR(gamma=0.3, approximation=approximation).fit(X, Y).predict(X)
    rows = torch.tensor(X, requires_grad=True)
    found = LSSVR(gamma=0.3, approximation=approximation).fit(rows, torch.tensor(Y)).predict(rows)
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), plain, atol=1e-9)
