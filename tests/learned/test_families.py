"""Several kernels in one search: the scores of GridSearchCV, one table, the simplest of equals."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Problem
from onefold.criteria import ErrorRate, SquaredError, Task
from onefold.heldout import Splits
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onefold.search import GridEdgeWarning
from onefold.search.choice import Leader, choose, paired_difference
from onefold.search.evaluation import Candidate, Evaluation
from onefold.search.ledger import edges
from tests.search.ledgers import empty_ledger

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(12)
N = 60
X = RNG.standard_normal((N, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
LABELS = np.digitize(Y, [-0.7, 0.7])
WEIGHTS = RNG.uniform(0.2, 3.0, N)
WIDTHS, ALPHAS = [0.3, 1.0, 3.0], [0.01, 0.3]


def means(weights):
    """Mean over pairs of the squared distance, the distance and the sum of absolute differences."""
    v = np.ones(N) if weights is None else weights
    delta = X[:, None, :] - X[None, :, :]
    squares = np.sum(delta**2, axis=2)
    tables = squares, np.sqrt(squares), np.abs(delta).sum(axis=2)
    return [v @ table @ v / v.sum() ** 2 for table in tables]


def absolute(name, width, weights=None):
    """The kernel that falls to exp(−width) at the mean distance."""
    squares, lengths, sums = means(weights)
    if name == "rbf":
        return RBF(width / squares)
    if name == "laplacian":
        return Laplacian(width / sums)
    nu = {"matern12": 0.5, "matern32": 1.5}[name]
    return Matern((width / lengths) ** 2 / (4 * nu), nu=nu)


CASES = [
    (LSSVRCV, LSSVR, Y, None, KFold(4), "neg_mean_squared_error"),
    (
        KernelRidgeCV,
        KernelRidge,
        np.column_stack([Y, Y**2]),
        WEIGHTS,
        KFold(3),
        "neg_mean_squared_error",
    ),
    (LSSVCCV, LSSVC, LABELS, None, StratifiedKFold(4, shuffle=True, random_state=0), "accuracy"),
    (LSSVCCV, LSSVC, LABELS == 1, WEIGHTS, ShuffleSplit(3, random_state=0), "accuracy"),
]


@pytest.mark.parametrize(("tuned", "fixed", "y", "weights", "cv", "scoring"), CASES)
@pytest.mark.parametrize("kernels", ["auto", ["matern32", "rbf"]], ids=str)
def test_scores_are_those_of_a_grid_search(tuned, fixed, y, weights, cv, scoring, kernels) -> None:
    model = tuned(kernels, gammas=WIDTHS, alphas=ALPHAS, cv=cv).fit(X, y, weights)
    names = ["rbf", "matern12", "laplacian"] if kernels == "auto" else kernels
    same = [absolute(name, width, weights) for name in names for width in WIDTHS]
    grid = {"alpha": ALPHAS, "kernel": same}
    search = GridSearchCV(fixed(), grid, cv=cv, scoring=scoring, refit=False)
    search.fit(X, y, **({} if weights is None else {"sample_weight": weights}))
    offset = 1.0 if scoring == "accuracy" else 0.0
    for key in [f"split{i}_test_score" for i in range(cv.get_n_splits())] + ["mean_test_score"]:
        wanted = search.cv_results_[key] - offset
        assert_allclose(model.cv_results_[key], wanted, rtol=1e-8, atol=1e-10)
    table = model.cv_results_
    assert table["param_kernel"].tolist() == [n for _ in ALPHAS for n in names for _ in WIDTHS]
    assert table["param_gamma"].tolist() == WIDTHS * len(names) * len(ALPHAS)
    best = model.best_index_
    assert table["params"][best] == model.best_params_
    assert table["mean_test_score"][best] == model.best_score_
    kernel = absolute(model.best_params_["kernel"], model.best_params_["gamma"], weights)
    assert model.kernel_ == model.best_params_["kernel"]
    assert_allclose(model.gamma_, kernel.gamma, rtol=1e-10)
    again = fixed(kernel, alpha=model.alpha_).fit(X, y, weights)
    predict = "decision_function" if tuned is LSSVCCV else "predict"
    rows = X[:8] + 0.1
    assert_allclose(getattr(model, predict)(rows), getattr(again, predict)(rows), rtol=1e-8, atol=1e-8)


def test_families_without_a_metric_tie_by_score_alone() -> None:
    """All are equally simple: the best score wins."""
    model = LSSVRCV("auto", gammas=WIDTHS, alphas=ALPHAS).fit(X, Y)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert model.cv_results_["rank_test_score"][model.best_index_] == 1


def test_kernels_of_any_kind_side_by_side() -> None:
    kernels = ["linear", RBF([0.5, 0.1, 0.2]), Laplacian() + Linear(), Polynomial(degree=2), RBF()]
    model = LSSVRCV(kernels, gammas=WIDTHS, alphas=ALPHAS, cv=3).fit(X, Y)
    names = list(dict.fromkeys(model.cv_results_["param_kernel"].tolist()))
    assert names[0] == "linear"
    assert len(names) == 5
    assert names[4] == "rbf #2"
    gammas = model.cv_results_["param_gamma"]
    assert gammas.mask.sum() == len(ALPHAS)
    assert all(gammas.mask == (model.cv_results_["param_kernel"] == "linear"))
    for name in ("mean_test_score", "split0_test_score"):
        assert np.isfinite(model.cv_results_[name]).all()


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        ([], "empty list"),
        (["rbf", "precomputed"], "cannot be one of several"),
        (["rbf", "best"], "best"),
        (["rbf", 3], "kernel"),
    ],
)
def test_lists_that_make_no_sense(kernel, match) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        LSSVRCV(kernel).fit(X, Y)


# The rule of choice, by hand: four rows or eight, predictions that are written down.


def scene(losses, groups, *, weight=None):
    """Leaders whose squared errors are `losses` (leaders, rows), their scoring and their ledger."""
    losses = np.asarray(losses, dtype=float)
    n = losses.shape[1]
    problem = Problem(np.zeros((n, 1)), np.zeros((n, 1)), None, True)
    rows = [np.arange(n)]
    task = Task(problem.X, np.zeros(n), None, weight)
    scoring = SquaredError().start(problem, task, Splits(n, rows, rows))
    params = [{"kernel": k, "metric": m, "round": r, "gamma": 1.0} for k, m, r in groups]
    ledger = empty_ledger(params, [0.1, 1.0], 1)
    v = np.ones(n) if weight is None else weight
    found = -(losses @ v) / v.sum()
    leaders = []
    for i, names in enumerate(params):
        ledger.append(Evaluation(i, np.array([1]), found[i].reshape(1, 1), 0.0, None, {}))
        candidate = Candidate(SimpleNamespace(), RBF(1.0), names)
        leaders.append(Leader(candidate, i, 1, 1.0, np.sqrt(losses[i])[:, None]))
    return leaders, scoring, ledger


PLAIN, FIRST, THIRD = ("rbf", "none", 0), ("rbf", "full", 1), ("rbf", "full", 3)


def picked(*args, **options):
    leaders, scoring, ledger = scene(*args, **options)
    return leaders.index(choose(leaders, scoring, ledger))


def test_a_simpler_group_within_the_noise_is_chosen() -> None:
    # d = (3, -1, 1, 1): mean 1, standard error √(4+4+0+0)/4 = 0.707 < 1: the later round wins by more.
    assert picked([[4, 1, 2, 2], [1, 2, 1, 1]], [PLAIN, FIRST]) == 1
    # d = (4, -2, 1, 1): the same mean, standard error √(9+9)/4 = 1.06 > 1: noise.
    assert picked([[5, 0, 2, 2], [1, 2, 1, 1]], [PLAIN, FIRST]) == 0


def test_of_several_within_the_noise_the_simplest_then_the_best() -> None:
    best = [1, 2, 1, 1]
    near, nearer = [5, 0, 2, 2], [4, 0, 2, 1.5]
    assert picked([near, nearer, best], [PLAIN, FIRST, THIRD]) == 0
    assert picked([near, nearer, best], [PLAIN, ("matern12", "none", 0), THIRD]) == 1
    assert picked([nearer, near, best], [FIRST, ("matern12", "diagonal", 1), THIRD]) == 1
    # None within the noise but the best itself.
    assert picked([[9, 9, 9, 9], [8, 8, 8, 8], best], [PLAIN, FIRST, THIRD]) == 2


def test_the_best_is_never_left_for_an_equally_simple_or_later_one() -> None:
    best, near = [1, 2, 1, 1], [5, 0, 2, 2]
    assert picked([near, best], [("laplacian", "none", 0), PLAIN]) == 1
    assert picked([near, best], [THIRD, PLAIN]) == 1


def test_weights_count_in_the_comparison() -> None:
    losses = [[5, 0, 2, 2], [1, 2, 1, 1]]
    weight = np.array([1.0, 1e-3, 3.0, 3.0])  # the row that speaks for the simple one hardly counts
    assert picked(losses, [PLAIN, FIRST], weight=weight) == 1
    mean, error = paired_difference(np.array(losses[0]), np.array(losses[1]), weight)
    d = np.array([4.0, -2.0, 1.0, 1.0])
    assert_allclose(mean, weight @ d / weight.sum())
    assert_allclose(error, np.sqrt(np.sum(weight**2 * (d - mean) ** 2)) / weight.sum())


def test_rows_that_were_not_tested_do_not_count() -> None:
    one, two = np.array([5.0, np.nan, 2.0]), np.array([1.0, 3.0, 2.0])
    assert_allclose(paired_difference(one, two, None), (2.0, np.sqrt(2)))
    assert paired_difference(one * np.nan, two, None) == (0.0, 0.0)


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_the_comparison_is_that_of_the_losses_times_a_constant(size) -> None:
    losses = np.array([[5.0, 0, 2, 2], [1, 2, 1, 1]])
    mean, error = paired_difference(*losses, None)
    assert_allclose(paired_difference(*(size * losses), None), (size * mean, size * error), rtol=1e-12)


def test_equal_scores_go_to_the_simplest() -> None:
    same = [[1, 2, 1, 1]] * 3
    assert picked(same, [THIRD, PLAIN, FIRST]) == 1
    assert picked(same, [("rbf", "full", 1), ("rbf", "diagonal", 1), THIRD]) == 1


def test_a_classifier_counts_errors() -> None:
    """Squared errors would say the opposite."""
    truth = np.array([1.0, 1.0, -1.0, -1.0])[:, None]
    problem = Problem(np.zeros((4, 1)), truth, None, True)
    rows = [np.arange(4)]
    task = Task(problem.X, truth[:, 0] > 0, np.array([False, True]))
    scoring = ErrorRate().start(problem, task, Splits(4, rows, rows))
    params = [{"kernel": "rbf", "metric": m, "round": r, "gamma": 1.0} for _, m, r in (PLAIN, FIRST)]
    ledger = empty_ledger(params, [0.1], 1)
    values = [np.array([9.0, 9.0, -9.0, -9.0]), np.array([1.0, 1.0, -1.0, -1.0])]
    leaders = []
    for i, value in enumerate(values):
        ledger.append(Evaluation(i, np.array([0]), np.zeros((1, 1)), 0.0, None, {}))
        candidate = Candidate(SimpleNamespace(), RBF(1.0), params[i])
        leaders.append(Leader(candidate, i, 0, 1.0, value[:, None]))
    assert choose(leaders, scoring, ledger) is leaders[0]


# The end of a grid


def table(cells):
    """Results of cells (kernel, metric, round, gamma, alpha, score)."""
    names = ("kernel", "metric", "round", "gamma", "alpha")
    columns = {
        f"param_{name}": np.ma.MaskedArray([one[i] for one in cells]) for i, name in enumerate(names)
    }
    return columns | {"mean_test_score": np.array([one[5] for one in cells])}


def test_the_end_of_a_grid_is_looked_for_within_a_family() -> None:
    rbf = [("rbf", "none", 0, g, 1.0, -abs(g - 0.1)) for g in (0.1, 1.0, 10.0)]
    other = [("laplacian", "none", 0, g, 1.0, 0.0) for g in (0.1, 1.0, 10.0)]
    assert edges(table(rbf + other), 0) == ["smallest gamma"]
    flat = [("rbf", "none", 0, g, 1.0, s) for g, s in ((0.1, 1.0), (1.0, 1.0), (10.0, 0.0))]
    falling = [("laplacian", "none", 0, g, 1.0, -g) for g in (0.1, 1.0, 10.0)]
    assert edges(table(flat + falling), 0) == []


def test_widths_of_later_rounds_have_no_end_but_ridges_do() -> None:
    first = [("rbf", "none", 0, 1.0, a, -1.0) for a in (0.01, 0.1, 1.0)]
    later = [("rbf", "full", 1, g, 0.01, -g) for g in (0.5, 1.0, 2.0)]
    ridge = [("rbf", "full", 1, 0.5, 0.1, -0.9)]
    assert edges(table(first + later + ridge), 3) == ["smallest alpha"]


def test_one_cell_of_each_track_has_no_neighbours_to_tell() -> None:
    cells = [(k, "full", 1, g, g, -g) for k, g in (("rbf", 0.1), ("matern12", 0.3), ("laplacian", 1.0))]
    assert edges(table(cells), 0) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        LSSVRCV("auto", metric="auto", gammas=WIDTHS, alphas=ALPHAS, metric_rows=30).fit(X, Y)
