"""What a search chooses: one standard error, ridges without a solution, kernels without a width."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import LeaveOneOut, ShuffleSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.approximations import Model, Nystroem, Problem
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import Splits
from onefold.plots import GridDisplay
from onefold.search.crossfit import Cell, crossfit_of
from onefold.search.evaluation import Work, evaluate, solve
from onefold.search.ledger import within_error
from onefold.smoothers.base import UnsolvableError

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")


# -- one standard error ------------------------------------------------------------------------------
RNG = np.random.default_rng(8)
N = 80
X = RNG.standard_normal((N, 3))
Y = np.sin(X[:, 0]) + 0.4 * RNG.standard_normal(N)
LABELS = (Y + 0.5 * RNG.standard_normal(N) > 0).astype(int)
GRID = {"gammas": [0.01, 0.1, 0.5, 2.0], "alphas": 2.0 ** np.arange(-8, 6), "cv": 5}


def by_brute_force(results, best, family=None):
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


FAMILIES = {"kernel": ["rbf", "laplacian", "linear"], "gammas": [0.1, 1.0]}


@pytest.mark.parametrize("weight", [None, RNG.uniform(0.2, 2.0, N)], ids=["equal", "weights"])
@pytest.mark.parametrize(
    ("kind", "y", "settings"),
    [
        (LSSVRCV, Y, {}),
        (KernelRidgeCV, Y, {}),
        (LSSVCCV, LABELS, FAMILIES),
        (LSSVRCV, Y, {"criterion": ["neg_mean_absolute_error", "press"]}),
        (LSSVRCV, Y, {"cv": LeaveOneOut()}),
        (LSSVRCV, Y, {"cv": ShuffleSplit(4, random_state=0)}),
        (LSSVRCV, Y, {"approximation": Nystroem(20)}),
        (LSSVRCV, Y, {"kernel": "linear", "gammas": None}),
        (LSSVRCV, Y, {"alphas": [4.0, 0.1, 4.0, 1.0]}),
    ],
)
def test_the_most_regularised_cell_within_one_standard_error(kind, y, settings, weight):
    best, found = (
        kind(**GRID | settings, select=select).fit(X, y, sample_weight=weight)
        for select in ("min", "1se")
    )
    for key in [key for key in best.cv_results_ if "_test_" in key]:
        assert found.cv_results_[key].tobytes() == best.cv_results_[key].tobytes()
    family = best.best_params_.get("kernel")  # which stays
    expected = by_brute_force(best.cv_results_, best.best_index_, family)
    assert found.best_params_ == found.cv_results_["params"][expected]
    assert found.best_score_ == found.cv_results_["mean_test_score"][found.best_index_]
    assert found.alpha_ == found.best_params_["alpha"] >= best.alpha_
    assert found.alpha_ > best.alpha_ or weight is not None or settings or kind is not LSSVRCV
    if not settings:  # model and held-out predictions are those of the choice
        cell = GRID | {"gammas": [found.gamma_], "alphas": [found.alpha_]}
        alone = kind(**cell).fit(X, y, sample_weight=weight)
        assert_allclose(found.heldout_prediction_, alone.heldout_prediction_, rtol=1e-8)
        assert_allclose(found.expansion_.predict(X), alone.expansion_.predict(X), rtol=1e-9)


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


def test_a_hopeless_cell_has_no_say_and_one_without_score_is_out():
    scores = np.array([[[-1.0, -2.0, -3.0], [-1.1, -1.9, -3.1], [-1e150] * 3, [np.nan] * 3]])
    assert within_error(scores, (0, 0)).tolist() == [[True, True, False, False]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"select": "best"}, 'select must be "min" or "1se"'),
        ({"select": "1se", "cv": "loo"}, "at least two splits; use folds"),
        ({"select": "1se", "criterion": "press"}, "criterion of held-out rows"),
        ({"select": "1se", "criterion": ["gcv", "mse"]}, "criterion of held-out rows"),
        ({"select": "1se", "cv": ShuffleSplit(1, random_state=0)}, "at least two splits"),
        ({"select": "1se", "metric": "diagonal"}, "or metric=None and blend=False"),
        ({"select": "1se", "blend": True, "kernel": "auto"}, "or metric=None and blend=False"),
    ],
)
def test_what_cannot_be_is_refused(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVRCV(**settings).fit(X, Y)


# -- one evaluation -----------------------------------------------------------------------------------


SIX = np.arange(6.0)[:, None]
FOLDS = [np.arange(3), np.arange(3, 6)]


class Fragile(Model):
    """Predicts μ everywhere; fails with any of the bad μ, and learns nothing from it."""

    leave_one_out = expansion = None

    def __init__(self, bad):
        self.bad = bad
        self.asked = 0
        self.report = {}

    def heldout(self, parts, alphas):
        self.asked += 1
        if np.isin(alphas, self.bad).any():
            raise UnsolvableError(f"no solution at {self.bad}; use a larger alpha.")
        return [np.broadcast_to(np.asarray(alphas)[:, None, None], (len(alphas), 3, 1)) for _ in parts]


@pytest.mark.parametrize("bad", [(), (2.0,), (1.0, 4.0), (1.0, 2.0, 3.0, 4.0)])
@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_only_unsolvable_ridges_have_no_score(criterion, bad):
    problem = Problem(SIX, SIX, None, False)
    task = Task(SIX, SIX[:, 0], None)
    chosen = resolve_criterion(criterion, classifier=False)
    scoring = chosen.start(problem, task, Splits(6, FOLDS, FOLDS))
    mu = np.array([1.0, 2.0, 3.0, 4.0])
    model = Fragile(bad)
    candidate = SimpleNamespace(model=lambda n_alphas: model, parts=None)
    scorings = {"score": scoring}
    solved = solve(Work(candidate, 0, np.arange(4), mu, scorings, with_expansion=False))
    found = evaluate(solved, scorings)
    assert_array_equal(np.isnan(found.means), np.isin(mu, bad))
    assert len(found.failures) == len(bad)
    for alpha, reason in zip(mu, found.reasons):
        assert (reason is not None) == (alpha in bad)
        assert reason is None or "no solution at" in reason
    assert model.asked <= 2 + mu.size
    for number in np.flatnonzero(~np.isin(mu, bad)):
        errors = np.array([np.mean((SIX[rows] - mu[number]) ** 2) for rows in FOLDS])
        expected = -errors if criterion == "mse" else 1 - errors / [np.var(SIX[rows]) for rows in FOLDS]
        assert_allclose(found.scores[number], expected, rtol=1e-14)
        fit = crossfit_of(solved, Cell(candidate, mu[number], 0, int(number)), scoring)
        assert_array_equal(fit.predictions.by_row, np.full((6, 1), mu[number]))


# -- among several kernels one has no width ------------------------------------------------------------
CURVED = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
STRAIGHT = X @ [1.0, 2.0, -1.0] + 0.3 * RNG.standard_normal(N)


@pytest.mark.parametrize(("y", "kernel"), [(CURVED, "rbf"), (STRAIGHT, "linear")])
def test_a_kernel_without_a_width_among_others(y, kernel):
    model = LSSVRCV(["linear", "rbf"], gammas=[0.1, 0.3, 1.0], alphas=[0.01, 0.1, 1.0]).fit(X, y)
    found = model.cv_results_
    assert model.kernel_ == kernel
    assert ("gamma" in model.best_params_) == (kernel == "rbf")
    assert_array_equal(found["param_gamma"].mask, found["param_kernel"] == "linear")
    assert "linear" in model._repr_html_()
    axes = GridDisplay.from_estimator(model).plot().ax_  # draws the cells of the chosen kernel alone
    own = found["mean_test_score"][found["param_kernel"] == kernel]
    drawn = axes.lines[0].get_ydata() if kernel == "linear" else axes.collections[0].get_array().ravel()
    assert_allclose(np.sort(drawn), np.sort(np.sqrt(-own)))
