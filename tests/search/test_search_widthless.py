"""Searches among several kernels, of which one has no width: the table, repr, HTML, pictures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

from onefold import LSSVCCV, LSSVRCV
from onefold.plots import GridDisplay
from onefold.search.ledger import edges

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(8)
X = RNG.standard_normal((90, 3))
CURVED = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(90)
STRAIGHT = X @ [1.0, 2.0, -1.0] + 0.3 * RNG.standard_normal(90)
GRID = {"gammas": [0.1, 0.3, 1.0], "alphas": [0.01, 0.1, 1.0]}
CASES = {
    "curved": (LSSVRCV, CURVED, "rbf"),
    "straight": (LSSVRCV, STRAIGHT, "linear"),
    "labels": (LSSVCCV, CURVED > 0, None),
}


@pytest.fixture(params=CASES)
def model(request):
    kind, y, kernel = CASES[request.param]
    found = kind(kernel=["linear", "rbf"], **GRID).fit(X, y)
    assert kernel in (None, found.kernel_)
    return found


def test_the_table_has_no_width_where_the_kernel_has_none(model) -> None:
    assert ("gamma" in model.best_params_) == (model.kernel_ == "rbf")
    assert_array_equal(
        model.cv_results_["param_gamma"].mask, model.cv_results_["param_kernel"] == "linear"
    )
    assert "linear" in repr(model)
    assert "linear" in model._repr_html_()


def test_pictures(model) -> None:
    axes = GridDisplay.from_estimator(model).plot().ax_
    # Some cells have no width: what is drawn is those of the chosen kernel alone.
    own = model.cv_results_["mean_test_score"][model.cv_results_["param_kernel"] == model.kernel_]
    curve = model.kernel_ == "linear"
    drawn = axes.lines[0].get_ydata() if curve else axes.collections[0].get_array().ravel()
    shown = 1 + own if is_classifier(model) else np.sqrt(-own)  # accuracy, RMSE
    np.testing.assert_allclose(np.sort(drawn), np.sort(shown))


def test_the_end_of_a_grid_of_ridges_is_found_without_a_width() -> None:
    """The ridges of the chosen family alone count, and it has no widths to end."""
    y = X @ [1.0, 2.0, -1.0] + 3.0 * RNG.standard_normal(90)
    model = LSSVRCV(["linear", "rbf"], gammas=[3.0, 10.0, 30.0], alphas=[1e-6, 1e-5, 1e-4]).fit(X, y)
    assert model.kernel_ == "linear"
    best = int(np.argmax(model.cv_results_["param_alpha"] == 1e-4))  # linear comes first
    assert edges(model.cv_results_, best) in ([], ["largest alpha"])
    table = dict(model.cv_results_)
    scores = np.zeros_like(table["mean_test_score"])
    scores[best] = 1.0
    assert edges(table | {"mean_test_score": scores}, best) == ["largest alpha"]
