"""The loop and its ledger: ranks, the best cell, one standard error, proposals, what is worth a fit."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.approximations import Exact, Model, Nystroem, Problem, Workload
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import Splits, make_splits
from onefold.kernels import RBF
from onefold.machine.journal import Journal
from onefold.plots import GridDisplay
from onefold.search.checkpoint import Checkpoint
from onefold.search.choice import constant_predictions
from onefold.search.evaluation import Candidate, Evaluation, solve
from onefold.search.ledger import best_cell, within_error
from onefold.search.loop import Search
from onefold.smoothers.base import UnsolvableError
from tests.search.ledgers import empty_ledger

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")


def evaluation(number, ridges, scores, **more):
    """An entry of scores (ridges, splits)."""
    given = {"seconds": 0.5, "why": None, "report": {}} | more
    return Evaluation(number, np.atleast_1d(ridges), np.atleast_2d(scores), **given)


def small():
    """Two candidates, two ridges, two splits."""
    return empty_ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2)


def test_the_best_cell_is_that_of_the_whole_table_in_any_order():
    rng = np.random.default_rng(5)
    gammas, alphas = [0.5, 4.0, 1.0, 2.0], [3.0, 0.1, 1.0]
    table = rng.integers(0, 3, (4, 3)).astype(float)  # ties abound
    ledger = empty_ledger([{"gamma": g} for g in gammas], alphas, 1)
    assert ledger.progress()["best_score"] is None
    for number in rng.permutation(4):
        ledger.append(evaluation(int(number), np.arange(3), table[number][:, None]))
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
        (LSSVCCV, LABELS, {}),
        (LSSVCCV, LABELS, FAMILIES),
        *(
            (LSSVRCV, Y, settings)
            for settings in [
                {"criterion": "neg_mean_absolute_error"},
                {"criterion": ["mse", "press"]},
                {"cv": LeaveOneOut()},
                {"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)},
                {"cv": ShuffleSplit(4, random_state=0)},
                {"approximation": Nystroem(20)},
                {"kernel": "linear", "gammas": None},
                FAMILIES,
                {"alphas": [4.0, 0.1, 4.0, 1.0]},
            ]
        ),
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


def test_a_hopeless_cell_has_no_say_and_one_without_score_is_out():
    hopeless, unknown = [-1e150] * 3, [np.nan] * 3
    scores = np.array([[[-1.0, -2.0, -3.0], [-1.1, -1.9, -3.1], hopeless, unknown]])
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


# -- the constant, one evaluation -----------------------------------------------


@pytest.mark.parametrize(
    "cv", ["loo", LeaveOneOut(), 5, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_constant_is_the_mean_of_the_rows_that_each_split_trains_on(cv, weighted):
    y, rows = np.where(np.arange(10) < 3, 1.0, -1.0), np.zeros((10, 1))
    v = np.random.default_rng(0).uniform(0.5, 2.0, 10) if weighted else np.ones(10)
    problem = Problem(rows, y[:, None], np.sqrt(v) if weighted else None, True)
    start, splits = resolve_criterion("mse", classifier=False).start, make_splits(cv, rows, y, n=10)
    found = constant_predictions(start(problem, Task(None, y, None), splits))
    pairs = make_splits(LeaveOneOut() if isinstance(cv, str) else cv, rows, y, n=10)
    literal = [[] for _ in y]
    for test, left in zip(pairs.tests, pairs.left_out):
        train = np.setdiff1d(np.arange(10), left)
        for row in test:
            literal[row].append(np.average(y[train], weights=v[train]))
    assert_allclose(found[:, 0], [np.mean(one) for one in literal], rtol=1e-13)


SIX, FOLDS = np.arange(6.0)[:, None], [np.arange(3), np.arange(3, 6)]


class Fragile(Model):
    """Predicts μ everywhere; fails with any of the bad μ, and learns nothing from it."""

    leave_one_out = expansion = None

    def __init__(self, bad):
        self.bad, self.asked, self.report = bad, 0, {}

    def heldout(self, parts, alphas):
        self.asked += 1
        if np.isin(alphas, self.bad).any():
            raise UnsolvableError(f"no solution at {self.bad}; use a larger alpha.")
        return [np.broadcast_to(np.asarray(alphas)[:, None, None], (len(alphas), 3, 1)) for _ in parts]


@pytest.mark.parametrize("bad", [(), (2.0,), (1.0, 4.0), (1.0, 2.0, 3.0, 4.0)])
@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_only_unsolvable_ridges_have_no_score(criterion, bad):
    problem, task = Problem(SIX, SIX, None, False), Task(SIX, SIX[:, 0], None)
    chosen = resolve_criterion(criterion, classifier=False)
    scoring = chosen.start(problem, task, Splits(6, FOLDS, FOLDS))
    mu, model = np.array([1.0, 2.0, 3.0, 4.0]), Fragile(bad)
    candidate = SimpleNamespace(model=lambda n_alphas: model)
    found = solve([candidate], scoring, mu, False, (0, np.arange(4)))()
    assert_array_equal(np.isnan(found.means), np.isin(mu, bad))
    assert found.unsolved == len(bad)
    assert (found.why is None) == (not bad)
    assert model.asked <= 2 + mu.size
    for number in np.flatnonzero(~np.isin(mu, bad)):
        errors = np.array([np.mean((SIX[rows] - mu[number]) ** 2) for rows in FOLDS])
        expected = -errors if criterion == "mse" else 1 - errors / [np.var(SIX[rows]) for rows in FOLDS]
        assert_allclose(found.scores[number], expected, rtol=1e-14)
        assert_array_equal(found.heldout(scoring, int(number))[0], np.full((6, 1), mu[number]))


# -- among several kernels one has no width: the table, repr, HTML, pictures, ends of grids -------------
CURVED = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
STRAIGHT = X @ [1.0, 2.0, -1.0] + 0.3 * RNG.standard_normal(N)


@pytest.mark.parametrize(
    ("kind", "y", "kernel"),
    [(LSSVRCV, CURVED, "rbf"), (LSSVRCV, STRAIGHT, "linear"), (LSSVCCV, CURVED > 0, None)],
)
def test_a_kernel_without_a_width_among_others(kind, y, kernel):
    model = kind(["linear", "rbf"], gammas=[0.1, 0.3, 1.0], alphas=[0.01, 0.1, 1.0]).fit(X, y)
    assert kernel in (None, model.kernel_)
    found = model.cv_results_
    assert ("gamma" in model.best_params_) == (model.kernel_ == "rbf")
    assert_array_equal(found["param_gamma"].mask, found["param_kernel"] == "linear")
    assert "linear" in repr(model)
    assert "linear" in model._repr_html_()
    axes = GridDisplay.from_estimator(model).plot().ax_
    # Some cells have no width: what is drawn is those of the chosen kernel alone.
    own = found["mean_test_score"][found["param_kernel"] == model.kernel_]
    curve = model.kernel_ == "linear"
    drawn = axes.lines[0].get_ydata() if curve else axes.collections[0].get_array().ravel()
    assert_allclose(np.sort(drawn), np.sort(1 + own if kind is LSSVCCV else np.sqrt(-own)))


# -- the seam between strategies and the loop: rounds, resumption, fewer cells --------------------------
ALPHAS = np.array([1e-3, 0.1, 2.0])


def scoring(criterion="mse"):
    splits, y = make_splits(KFold(4), X, Y, n=N), Y[:, None]
    start = resolve_criterion(criterion, classifier=False).start
    return start(Problem(X, y, None, True), Task(X, Y, None), splits)


def candidate(gamma):
    run = Exact().start(Problem(X, Y[:, None], None, True), [RBF(gamma)], Workload(alphas=3, folds=4))
    return Candidate(run, RBF(gamma), {"gamma": gamma})


def run_grid(candidates, alphas, score, search=None, name="grid"):
    """Every candidate with every ridge."""
    stage = (search or Search()).stage(name, candidates, scoring=score, alphas=alphas)
    return stage.run([stage.every_cell()]).found()


@pytest.mark.parametrize(("approximation", "kept"), [(Exact(), False), (Nystroem(20), True)])
def test_the_model_that_is_chosen_is_kept_where_it_is_small(approximation, kept):
    kernels, score = [RBF(g) for g in (0.1, 0.5, 2.0)], scoring()
    load = Workload(3, ALPHAS.size, folds=4, parts=score.parts)
    run = approximation.start(score.problem, kernels, load)
    candidates = [Candidate(run, kernel, {"gamma": kernel.gamma}) for kernel in kernels]
    leader = run_grid(candidates, ALPHAS, score).leader
    assert (leader.model is not None) is kept
    assert leader.candidate is candidates[leader.index]
    assert leader.alpha == ALPHAS[leader.ridge]


def test_no_score_at_all_is_an_error_and_some_without_one_a_warning():
    def refuses(estimator, rows, y):
        raise ValueError("never")

    def sometimes(estimator, rows, y):
        if np.ptp(estimator.predict(rows)) < 1e-3:
            raise ValueError("flat")
        return 0.0

    with pytest.raises(ValueError, match=r"^3 of 3 combinations .*refuses their predictions \(never\)"):
        run_grid([candidate(1.0)], ALPHAS, scoring(refuses))
    with pytest.warns(UserWarning, match=r"^1 of 2 combinations .*\(flat\)"):
        run_grid([candidate(1.0)], [0.1, 1e7], scoring(sometimes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_grid([candidate(1.0)], [0.1, 1.0], scoring(sometimes))


def test_parts_of_a_search_do_not_take_each_others_evaluations(tmp_path):
    events = []
    with Journal(tmp_path / "search") as journal:
        journal.append({"version": "this"})
        for part in ("grid", "another", "grid"):
            search = Search(None, events.append, checkpoint=Checkpoint(journal))
            run_grid([candidate(0.5)], ALPHAS, scoring(), search, part)
    assert [event["part"] for event in events] == ["grid", "another"]
