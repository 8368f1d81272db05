"""The most regularised cell within one standard error of the best, by brute force from the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut, RepeatedKFold, ShuffleSplit, cross_val_predict

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidgeCV, load, trust
from onefold.approximations import Nystroem
from onefold.search.ledger import within_error

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")
RNG = np.random.default_rng(8)
N = 80
X = RNG.standard_normal((N, 3))
Y = np.sin(X[:, 0]) + 0.4 * RNG.standard_normal(N)
LABELS = (Y + 0.5 * RNG.standard_normal(N) > 0).astype(int)
GRID = {"gammas": [0.01, 0.1, 0.5, 2.0], "alphas": 2.0 ** np.arange(-8, 6), "cv": 5}


def by_brute_force(results: Any, best: int, family: str | None = None) -> int:
    """The place of the cell to choose, one cell after the other."""
    splits = sum(key.startswith("split") and key.endswith("_test_score") for key in results)
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(splits)])
    inside = []
    for cell, params in enumerate(results["params"]):
        d = scores[best] - scores[cell]
        error = np.sqrt(np.sum((d - d.mean()) ** 2) / (splits * (splits - 1)))
        if d.mean() <= error + 1e-12 and params.get("kernel") == family:
            inside.append(
                (params["alpha"], round(scores[cell].mean(), 12), params.get("gamma", 1.0), cell)
            )
    return max(inside)[3]


@pytest.mark.parametrize("weight", [None, RNG.uniform(0.2, 2.0, N)], ids=["equal", "weights"])
@pytest.mark.parametrize(
    ("kind", "y", "settings"),
    [
        (LSSVRCV, Y, {}),
        (KernelRidgeCV, Y, {}),
        (LSSVCCV, LABELS, {}),
        (LSSVRCV, Y, {"criterion": "neg_mean_absolute_error"}),
        (LSSVRCV, Y, {"criterion": ["mse", "press"]}),
        (LSSVRCV, Y, {"cv": LeaveOneOut()}),
        (LSSVRCV, Y, {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)}),
        (LSSVRCV, Y, {"cv": ShuffleSplit(4, random_state=0)}),
        (LSSVRCV, Y, {"approximation": Nystroem(20)}),
        (LSSVRCV, Y, {"kernel": "linear", "gammas": None}),
        (LSSVRCV, Y, {"alphas": [4.0, 0.1, 4.0, 1.0]}),
    ],
)
def test_the_choice_is_that_of_the_table(kind, y, settings, weight) -> None:
    best = kind(**GRID | settings).fit(X, y, sample_weight=weight)
    found = kind(**GRID | settings, select="1se").fit(X, y, sample_weight=weight)
    for key in [key for key in best.cv_results_ if "_test_" in key]:
        assert found.cv_results_[key].tobytes() == best.cv_results_[key].tobytes()
    expected = by_brute_force(best.cv_results_, best.best_index_)
    assert found.best_params_ == found.cv_results_["params"][expected]
    assert found.best_score_ == found.cv_results_["mean_test_score"][found.best_index_]
    assert found.alpha_ == found.best_params_["alpha"] >= best.alpha_


def test_it_regularises_more_somewhere() -> None:
    assert LSSVRCV(**GRID, select="1se").fit(X, Y).alpha_ > LSSVRCV(**GRID).fit(X, Y).alpha_


@pytest.mark.parametrize(("kind", "fixed", "y"), [(LSSVRCV, LSSVR, Y), (LSSVCCV, LSSVC, LABELS)])
def test_predictions_and_model_are_those_of_the_choice(kind, fixed, y) -> None:
    found = kind(**GRID, select="1se").fit(X, y)
    alone = fixed(gamma=found.gamma_, alpha=found.alpha_)
    method = "predict" if kind is LSSVRCV else "decision_function"
    heldout = cross_val_predict(alone, X, y, cv=5, method=method)
    assert_allclose(found.heldout_prediction_, heldout, rtol=1e-8)
    assert_allclose(getattr(found, method)(X), getattr(alone.fit(X, y), method)(X), rtol=1e-9)


def test_a_family_stays_the_one_chosen() -> None:
    grid = {"kernel": ["rbf", "laplacian", "linear"], "gammas": [0.1, 1.0], "alphas": GRID["alphas"]}
    for kind, y in ((LSSVRCV, Y), (LSSVCCV, LABELS)):
        best, found = kind(**grid).fit(X, y), kind(**grid, select="1se").fit(X, y)
        assert found.kernel_ == best.kernel_
        expected = by_brute_force(best.cv_results_, best.best_index_, best.kernel_)
        assert found.best_index_ == expected


def test_labels_that_mean_nothing_still_go_to_the_flattest_cell() -> None:
    noise = np.random.default_rng(3).permutation(np.arange(N) % 2)
    grid = {"kernel": ["rbf", "laplacian"], "gammas": [0.1, 1.0], "alphas": GRID["alphas"]}
    one, two = (LSSVCCV(**grid, select=select).fit(X, noise) for select in ("min", "1se"))
    assert one.best_params_ == two.best_params_


CELLS = st.lists(st.floats(-1.0, 1.0), min_size=24, max_size=24)


@given(values=CELLS, scale=st.sampled_from([1e-140, 1.0, 1e140]), column=st.integers(0, 3))
def test_within_an_error_whatever_the_unit(values, scale, column) -> None:
    scores = scale * np.array(values).reshape(2, 4, 3)
    mask = within_error(scores, (1, column))
    assert mask[1, column]
    for place in np.ndindex(2, 4):
        d = (scores[1, column] - scores[place]) / scale
        error = d.std(ddof=1) / np.sqrt(3)
        if abs(d.mean() - error) > 1e-9:
            assert mask[place] == (d.mean() < error)


def test_a_hopeless_cell_has_no_say_and_one_without_score_is_out() -> None:
    scores = np.array([[[-1.0, -2.0, -3.0], [-1.1, -1.9, -3.1], [-1e150, -1e150, -1e150], [np.nan] * 3]])
    assert within_error(scores, (0, 0)).tolist() == [[True, True, False, False]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"select": "best"}, 'select must be "min" or "1se"'),
        ({"select": "1se", "cv": "loo"}, "not two of them; use folds"),
        ({"select": "1se", "criterion": "press"}, "criterion of held-out rows"),
        ({"select": "1se", "criterion": ["gcv", "mse"]}, "criterion of held-out rows"),
        ({"select": "1se", "cv": ShuffleSplit(1, random_state=0)}, "not two of them"),
        ({"select": "1se", "metric": "diagonal"}, "leave metric and blend out"),
        ({"select": "1se", "blend": True, "kernel": "auto"}, "leave metric and blend out"),
    ],
)
def test_what_cannot_be_is_refused(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVRCV(**settings).fit(X, Y)


def test_it_is_a_parameter_like_others(tmp_path) -> None:
    model = LSSVRCV(**GRID, select="1se")
    assert clone(model).select == "1se"
    model.fit(X, Y).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.select == "1se"
    assert again.best_params_ == model.best_params_
    assert trust(LSSVRCV(**GRID, select="1se", approximation=Nystroem(30)), X, Y, size=60).verdict
