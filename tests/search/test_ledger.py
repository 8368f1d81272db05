"""What a ledger of evaluations says: ranks, the best cell, one standard error, what is worth a fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit, cross_val_predict

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidgeCV, load, trust
from onefold.approximations import Model, Nystroem, Problem
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import Splits, make_splits
from onefold.search.choice import Leader, constant_predictions, worth_fitting
from onefold.search.evaluation import Evaluation, solve
from onefold.search.ledger import Ledger, best_cell, within_error
from onefold.smoothers.base import UnsolvableError
from tests.search.ledgers import empty_ledger

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")


def evaluation(number: int, ridges: Any, scores: Any, **more: Any) -> Evaluation:
    """An entry of scores (ridges, splits)."""
    given = {"seconds": 0.5, "why": None, "report": {}} | more
    return Evaluation(number, np.atleast_1d(ridges), np.atleast_2d(scores), **given)


def small(**more: Any) -> Ledger:
    """Two candidates, two ridges, two splits."""
    return empty_ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2)


def test_the_best_cell_is_that_of_the_whole_table_in_any_order() -> None:
    rng = np.random.default_rng(5)
    gammas, alphas = [0.5, 4.0, 1.0, 2.0], [3.0, 0.1, 1.0]
    table = rng.integers(0, 3, (4, 3)).astype(float)  # ties abound
    for order in (np.arange(4), rng.permutation(4)):
        ledger = empty_ledger([{"gamma": g} for g in gammas], alphas, 1)
        assert ledger.progress()["best_score"] is None
        for number in order:
            entry = Evaluation(int(number), np.arange(3), table[number][:, None], 0.1, None, {})
            ledger.append(entry)
        assert ledger.best() == best_cell(table, gammas, alphas)


def test_the_last_evaluation_of_a_cell_counts() -> None:
    ledger = small()
    for number in range(2):
        ledger.append(evaluation(number, [0, 1], [[0.1, np.nan], [0.2, 0.3]], why="no"))
    ledger.append(evaluation(0, 1, [5.0, 7.0], seconds=0.25, report={"name": "again"}))
    assert ledger.best() == (0, 1)
    assert ledger.entry(0).report == {"name": "again"}
    table = ledger.cv_results()
    assert table["mean_test_score"][2] == 6.0
    assert np.isnan(table["mean_test_score"][0])
    assert table["mean_fit_time"][0] == 0.75 / 4
    assert ledger.progress()["done"] == 3


def test_ranks_choose_and_scores_are_reported() -> None:
    """By their scores the first candidate is best, by their ranks the second."""
    ledger, scores = small(), np.array([[-0.1, -0.1], [-0.2, -0.2]])
    ledger.append(evaluation(0, [0, 1], scores, ranks=np.array([-0.7, np.nan])))
    ledger.append(evaluation(1, [0, 1], scores - 0.1, ranks=np.array([-0.6, -0.5])))
    assert ledger.best() == (1, 1)
    assert ledger.best([0]) == (0, 0)
    assert ledger.ranks[1, 1] == -0.5
    assert ledger.means[1, 1] == pytest.approx(-0.3)
    assert ledger.progress()["best_score"] == ledger.means[1, 1]
    assert ledger.cv_results()["rank_test_score"].tolist() == [1, 2, 2, 4]
    ledger.append(evaluation(0, 1, [-0.9, -0.9], ranks=np.array([-0.4])))
    assert ledger.best() == (0, 1)


# -- one standard error ------------------------------------------------------------------------------
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
        (LSSVRCV, Y, {"kernel": ["rbf", "laplacian", "linear"], "gammas": [0.1, 1.0]}),
        (LSSVCCV, LABELS, {"kernel": ["rbf", "laplacian", "linear"], "gammas": [0.1, 1.0]}),
        (LSSVRCV, Y, {"alphas": [4.0, 0.1, 4.0, 1.0]}),
    ],
)
def test_the_most_regularised_cell_within_one_standard_error(kind, y, settings, weight) -> None:
    best = kind(**GRID | settings).fit(X, y, sample_weight=weight)
    found = kind(**GRID | settings, select="1se").fit(X, y, sample_weight=weight)
    for key in [key for key in best.cv_results_ if "_test_" in key]:
        assert found.cv_results_[key].tobytes() == best.cv_results_[key].tobytes()
    family = best.best_params_.get("kernel")  # which stays
    expected = by_brute_force(best.cv_results_, best.best_index_, family)
    assert found.best_params_ == found.cv_results_["params"][expected]
    assert found.best_score_ == found.cv_results_["mean_test_score"][found.best_index_]
    assert found.alpha_ == found.best_params_["alpha"] >= best.alpha_
    assert found.alpha_ > best.alpha_ or weight is not None or settings or kind is not LSSVRCV


@pytest.mark.parametrize(("kind", "fixed", "y"), [(LSSVRCV, LSSVR, Y), (LSSVCCV, LSSVC, LABELS)])
def test_predictions_and_model_are_those_of_the_choice(kind, fixed, y) -> None:
    found = kind(**GRID, select="1se").fit(X, y)
    alone = fixed(gamma=found.gamma_, alpha=found.alpha_)
    method = "predict" if kind is LSSVRCV else "decision_function"
    heldout = cross_val_predict(alone, X, y, cv=5, method=method)
    assert_allclose(found.heldout_prediction_, heldout, rtol=1e-8)
    assert_allclose(getattr(found, method)(X), getattr(alone.fit(X, y), method)(X), rtol=1e-9)


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


# -- leaders worth a fit, the constant, one evaluation -----------------------------------------------


def test_which_leaders_are_fitted_on_all_rows_where_each_fit_is_dear() -> None:
    rng = np.random.default_rng(1)
    y, noise = rng.standard_normal(60), rng.standard_normal((4, 60))
    # The best, a copy of it with more noise, one that is wrong where the best is right, pure noise.
    heldout = [y + 0.5 * noise[0], y + 0.5 * noise[0] + 0.3 * noise[1], y - 0.6 * noise[0]]
    heldout.append(noise[3] - 3 * y)
    scoring = LSSVRCV(cv=KFold(3)).set_up(np.zeros((60, 1)), y).scoring
    scores = [-np.mean((values - y) ** 2) for values in heldout]
    ledger = empty_ledger([{"gamma": 1.0}] * 4, [1.0], 3)
    for number, score in enumerate(scores):
        ledger.append(evaluation(number, 0, [score] * 3))
    leaders = [Leader(None, number, 0, 1.0, values[:, None]) for number, values in enumerate(heldout)]

    def kept(blend, among=(3, 2, 1, 0)):
        found = worth_fitting([leaders[i] for i in among], ledger, scoring, blend=blend)
        return [one.index for one in found]

    assert kept(False) == np.argsort(scores)[::-1][:2].tolist()  # the two best, for a choice
    assert kept(False, [3]) == kept(True, [3]) == [3]
    assert kept(True) == [0, 2]  # errors that cancel are worth more than a small error of one's own
    assert kept(True, [3, 1]) == [1]


@pytest.mark.parametrize(
    "cv", ["loo", LeaveOneOut(), 5, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_constant_is_the_mean_of_the_rows_that_each_split_trains_on(cv, weighted):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(10) < 3, 1.0, -1.0)
    v = rng.uniform(0.5, 2.0, 10) if weighted else np.ones(10)
    root = np.sqrt(v) if weighted else None
    problem, task = Problem(rng.normal(size=(10, 2)), y[:, None], root, True), Task(None, y, None)
    splits = make_splits(cv, np.zeros((10, 1)), y, n=10)
    found = constant_predictions(resolve_criterion("mse", classifier=False).start(problem, task, splits))
    splitter = LeaveOneOut() if isinstance(cv, str) else cv
    pairs = make_splits(splitter, np.zeros((10, 1)), y, n=10)
    literal: list[list[float]] = [[] for _ in y]
    for test, left in zip(pairs.tests, pairs.left_out):
        train = np.setdiff1d(np.arange(10), left)
        for row in test:
            literal[row].append(np.average(y[train], weights=v[train]))
    np.testing.assert_allclose(found[:, 0], [np.mean(one) for one in literal], rtol=1e-13)


SIX, FOLDS = np.arange(6.0)[:, None], [np.arange(3), np.arange(3, 6)]


class Fragile(Model):
    """Predicts μ everywhere; fails with any of the bad μ, and learns nothing from it."""

    def __init__(self, bad: tuple[float, ...]) -> None:
        self.bad, self.asked, self.report = bad, 0, {}

    def heldout(self, parts: Any, alphas: Any) -> Any:
        self.asked += 1
        if np.isin(alphas, self.bad).any():
            raise UnsolvableError(f"no solution at {self.bad}; use a larger alpha.")
        return [np.broadcast_to(np.asarray(alphas)[:, None, None], (len(alphas), 3, 1)) for _ in parts]

    def leave_one_out(self, alphas: Any) -> Any:
        raise NotImplementedError

    def expansion(self, alpha: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Given:
    """A candidate whose model is given."""

    made: Model

    def model(self, n_alphas: int) -> Model:
        return self.made


@pytest.mark.parametrize("bad", [(), (2.0,), (1.0, 4.0), (1.0, 2.0, 3.0, 4.0)])
@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_only_unsolvable_ridges_have_no_score(criterion: str, bad: tuple[float, ...]) -> None:
    problem, task = Problem(SIX, SIX, None, False), Task(SIX, SIX[:, 0], None)
    scoring = resolve_criterion(criterion, classifier=False).start(
        problem, task, Splits(6, FOLDS, FOLDS)
    )
    mu, model = np.array([1.0, 2.0, 3.0, 4.0]), Fragile(bad)
    candidate: Any = Given(model)
    found = solve([candidate], scoring, mu, False, (0, np.arange(4)))()
    assert_array_equal(np.isnan(found.means), np.isin(mu, bad))
    assert found.unsolved == len(bad)
    assert (found.why is None) == (not bad)
    assert model.asked <= 2 + mu.size
    for number in np.flatnonzero(~np.isin(mu, bad)):
        errors = [np.mean((SIX[rows] - mu[number]) ** 2) for rows in FOLDS]
        spread = [np.var(SIX[rows]) for rows in FOLDS]
        expected = [-e if criterion == "mse" else 1 - e / v for e, v in zip(errors, spread)]
        np.testing.assert_allclose(found.scores[number], expected, rtol=1e-14)
        heldout, _ = found.heldout(scoring, int(number))
        assert_array_equal(heldout, np.full((6, 1), mu[number]))
