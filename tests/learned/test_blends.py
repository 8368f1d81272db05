"""The blend: its weights, its honest held-out predictions and its score by hand; when it is used."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.model_selection import (
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.estimators.final import finish
from onefold.expansions import Blend
from onefold.search import choice
from onefold.search.choice import Leader, blend_leaders
from onefold.search.loop import Search

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(3)
N = 70
X = RNG.standard_normal((N, 3))
NEW = RNG.standard_normal((9, 3))
SIGNAL = np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.3 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.05, 0.5], "max_rounds": 2}
CLASSES = np.digitize(SIGNAL, [0.0, 0.7])
CASES = {
    "numbers": (LSSVRCV, SIGNAL, None, KFold(4)),
    "no intercept": (KernelRidgeCV, SIGNAL + 1.0, None, KFold(4)),
    "weighted": (LSSVRCV, SIGNAL, WEIGHTS, KFold(4)),
    "two targets": (LSSVRCV, np.column_stack([SIGNAL, X[:, 2] ** 2]), WEIGHTS, KFold(3)),
    "labels": (LSSVCCV, SIGNAL > 0.2, None, StratifiedKFold(4)),
    "classes": (LSSVCCV, CLASSES, WEIGHTS, StratifiedKFold(4)),
    "shuffled": (LSSVRCV, SIGNAL, WEIGHTS, ShuffleSplit(5, test_size=0.3, random_state=0)),
    "repeated": (LSSVRCV, SIGNAL, None, RepeatedKFold(n_splits=2, n_repeats=3, random_state=0)),
    "one split": (LSSVRCV, SIGNAL, None, [(np.arange(40), np.arange(40, 70))]),
}


def encoded(y):
    if y.dtype.kind == "f":
        return y.reshape(N, -1)
    labels = np.unique(y)
    if labels.size == 2:
        return np.where(y == labels[1], 1.0, -1.0)[:, None]
    return np.where(y[:, None] == labels, 1.0, -1.0)


def weights_of(H, Y, v, intercept):
    """Least squares with weights ≥ 0 and a free intercept, as one dense problem: b = b₊ − b₋."""
    groups, n, targets = H.shape
    columns = [h.reshape(-1) for h in H]
    if intercept:
        for t in range(targets):
            column = np.zeros((n, targets))
            column[:, t] = 1.0
            columns += [column.reshape(-1), -column.reshape(-1)]
    root = np.repeat(np.sqrt(v), targets)
    found, _ = nnls(np.array(columns).T * root[:, None], Y.reshape(-1) * root, maxiter=10_000)
    b = found[groups:].reshape(targets, 2) if intercept else np.zeros((targets, 2))
    return found[:groups], b[:, 0] - b[:, 1]


@cache
def searched(case, some=None):
    """The estimator fitted, and the search that it made, made again."""
    kind, y, weights, cv = CASES[case]
    options = {"metric": "auto", "blend": True, "metric_rows": some, **GRID}
    model = kind("auto", cv=cv, **options).fit(X, y, weights)
    setup = model.set_up(X, y, weights)
    return model, setup, setup.strategy.run(Search(setup))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("some", [None, 36], ids=["crossfitted", "subsample"])
def test_weights_predictions_and_score(case, some) -> None:
    _, y, weights, cv = CASES[case]
    model, setup, search = searched(case, some)
    leaders, scoring = search.leaders, search.scoring
    kept = scoring.problem.kept
    order = np.arange(N) if kept is None else kept
    Y, v = encoded(y)[order], (np.ones(N) if weights is None else weights)[order]
    H = np.stack([leader.heldout for leader in leaders])
    tested = np.isfinite(H).all(axis=(0, 2))
    intercept = setup.problem.fit_intercept
    splits = list(scoring.splits.tests)
    if some is None and not isinstance(cv, list):
        assert [list(a) for a in splits] == [list(test) for _, test in cv.split(X, y)]
    parts = splits if len(splits) > 1 else [np.sort(splits[0])[i::5] for i in range(5)]
    total, count = np.zeros(Y.shape), np.zeros((N, 1))
    apart = leaders[0].of_splits is not None
    assert apart == (np.bincount(np.concatenate(splits)).max() > 1)
    of_splits = []
    for number, part in enumerate(parts):
        rest = np.setdiff1d(np.flatnonzero(tested), part)
        w, b = weights_of(H[:, rest], Y[rest], v[rest], intercept)
        total[part] += np.einsum("g,git->it", w, H[:, part]) + b
        count[part] += 1
        if apart:
            values = np.stack([leader.of_splits[number] for leader in leaders])
            of_splits.append(np.einsum("g,git->it", w, values) + b)
    with np.errstate(invalid="ignore"):
        honest = total / count
    single = search.leader.heldout
    losses = [np.nansum(v[:, None] * (one - Y) ** 2) for one in (honest, single)]
    of_single = search.leader.of_splits or [single[rows] for rows in splits]
    of_blend = of_splits or [honest[rows] for rows in splits]
    fallen = (
        falls(of_blend, of_single, Y, v, splits, y)
        if y.dtype.kind == "f"
        else errs_more(honest, single, Y, v, y)
    )
    better = losses[0] < losses[1] and not fallen
    result = blend_leaders(leaders, search.leader, scoring)
    assert model.blend_score_ == result.score
    wanted = honest if better else single
    assert_allclose(result.heldout, wanted, rtol=1e-6, atol=1e-7)
    assert_allclose(model.heldout_prediction_.reshape(N, -1)[order], wanted, rtol=1e-6, atol=1e-7)
    literal = scores(of_blend if better else of_single, Y, v, splits, y).mean()
    assert_allclose(model.blend_score_, literal, rtol=1e-6)
    if not better:
        assert result.weights.tolist() == [1.0]
        return
    w, _ = weights_of(H[:, tested], Y[tested], v[tested], intercept)
    kept = np.flatnonzero(w > 0.01 * w.sum())
    w, b = weights_of(H[kept][:, tested], Y[tested], v[tested], intercept)
    kept, w = kept[w > 0], w[w > 0]
    assert_allclose(result.weights, w, rtol=1e-5, atol=1e-7)
    assert_allclose(result.intercept, b, rtol=1e-5, atol=1e-7)
    assert [leaders.index(one) for one in result.members] == kept.tolist()
    assert_allclose(sorted(one["weight"] for one in model.blend_), sorted(w), rtol=1e-5, atol=1e-7)


def row_losses(predictions, Y, y):
    if y.dtype.kind == "f":
        return np.mean((predictions - Y) ** 2, axis=1)
    if Y.shape[1] == 1:
        return ((predictions > 0) != (Y > 0))[:, 0] * 1.0
    return (predictions.argmax(axis=1) != Y.argmax(axis=1)) * 1.0


def scores(of_splits, Y, v, splits, y):
    return np.array(
        [
            -np.average(row_losses(values, Y[rows], y), weights=v[rows])
            for values, rows in zip(of_splits, splits)
        ]
    )


def falls(blended, single, Y, v, splits, y):
    """Whether the blend's score is lower by more than a standard error over splits."""
    d = scores(single, Y, v, splits, y) - scores(blended, Y, v, splits, y)
    return d.mean() > d.std() / np.sqrt(d.size)


def errs_more(blended, single, Y, v, y):
    """Whether the blend has more wrong labels, by more than a standard error over rows."""
    known = np.isfinite(blended).all(axis=1)
    d, v = (row_losses(blended, Y, y) - row_losses(single, Y, y))[known], v[known] / v[known].sum()
    return v @ d > np.sqrt(np.sum(v**2 * (d - v @ d) ** 2))


@pytest.mark.parametrize("case", CASES)
def test_prediction_gradient_and_importances_are_the_members_sums(case) -> None:
    model, setup, search = searched(case)
    final, blend = finish(search, blend=True), model.expansion_
    assert isinstance(blend, Blend)
    members = [finish(replace(search, leader=one), blend=False).expansion for one in final.leaders]
    total = sum(w * one.predict(NEW) for w, one in zip(final.blend.weights, members))
    total = total + final.blend.intercept
    assert_allclose(blend.predict(NEW), total, rtol=1e-8, atol=1e-8)
    values = model.decision_function(NEW) if isinstance(model, LSSVCCV) else model.predict(NEW)
    assert_allclose(values.reshape(len(NEW), -1), total, rtol=1e-8, atol=1e-8)
    h, gradient = 1e-5, blend.gradient(NEW)
    for j in range(3):
        step = h * np.eye(3)[j]
        slope = (blend.predict(NEW + step) - blend.predict(NEW - step)) / (2 * h)
        assert_allclose(gradient[:, j], slope, rtol=1e-5, atol=1e-6)
    problem = setup.problem
    v = np.ones(problem.n) if problem.root_weight is None else problem.root_weight**2
    slopes = np.average(np.sum(blend.gradient(problem.X) ** 2, axis=2), axis=0, weights=v)
    about = problem.X - np.average(problem.X, axis=0, weights=v)
    moved = slopes * np.average(about**2, axis=0, weights=v)
    assert_allclose(model.feature_importances_, moved / moved.sum(), rtol=1e-8)
    weights = [one["weight"] for one in model.blend_]
    assert weights == sorted(weights, reverse=True)
    assert set(model.blend_[0]) == {"kernel", "metric", "round", "gamma", "alpha", "weight"}


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
@pytest.mark.parametrize("some", [None, 30], ids=["crossfitted", "subsample"])
def test_rows_of_weight_0_change_nothing(kind, some) -> None:
    y = SIGNAL if kind is LSSVRCV else CLASSES
    weights = np.ones(N)
    weights[::7] = 0.0
    kept = np.flatnonzero(weights)
    pairs = list(KFold(4, shuffle=True, random_state=0).split(X))
    place = np.full(N, -1)
    place[kept] = np.arange(kept.size)
    inside = [(place[np.intersect1d(a, kept)], place[np.intersect1d(b, kept)]) for a, b in pairs]
    options = {"metric": "auto", "blend": True, "metric_rows": some, **GRID}
    whole = kind("auto", cv=pairs, **options).fit(X, y, weights)
    part = kind("auto", cv=inside, **options).fit(X[kept], y[kept])
    assert whole.best_params_ == part.best_params_
    assert_allclose(whole.heldout_prediction_[kept], part.heldout_prediction_, rtol=1e-9, atol=1e-9)
    assert_allclose(whole.expansion_.predict(NEW), part.expansion_.predict(NEW), rtol=1e-9, atol=1e-9)
    assert np.isnan(whole.heldout_prediction_[weights == 0]).all()


def test_where_no_weights_help_the_chosen_one_stays() -> None:
    y = RNG.standard_normal(N)
    model = LSSVRCV("auto", blend=True, gammas=[1.0], alphas=[1e6], cv=4).fit(X, y)
    assert [one["weight"] for one in model.blend_] == [1.0]
    assert model.blend_score_ == model.best_score_
    assert_array_equal(model.expansion_.intercept, np.zeros(1))
    alone = LSSVRCV("auto", gammas=[1.0], alphas=[1e6], cv=4).fit(X, y)
    assert alone.blend_ is None
    assert alone.blend_score_ is None
    assert_allclose(model.predict(NEW), alone.predict(NEW), rtol=1e-12)
    assert_allclose(model.heldout_prediction_, alone.heldout_prediction_)


# -- rows that several splits test: scores are those of each split's model ---------------------------
REPEATED = {
    "folds": (LSSVRCV, SIGNAL, RepeatedKFold(n_splits=2, n_repeats=4, random_state=1)),
    "shuffled": (LSSVRCV, SIGNAL, ShuffleSplit(4, test_size=0.5, random_state=1)),
    "classes": (LSSVCCV, CLASSES, RepeatedStratifiedKFold(n_splits=2, n_repeats=4, random_state=1)),
}


@pytest.mark.parametrize("case", REPEATED)
def test_predictions_of_splits_give_the_scores_of_the_search(case) -> None:
    kind, y, cv = REPEATED[case]
    model = kind("auto", metric="auto", blend=True, cv=cv, **GRID).fit(X, y)
    setup = model.set_up(X, y)
    search = setup.strategy.run(Search(setup))
    tests, table = search.scoring.splits.tests, model.cv_results_
    for leader in search.leaders:
        literal = scores(leader.of_splits, encoded(y), np.ones(N), tests, y)
        place = search.ledger.index_of(leader.index, leader.ridge)
        assert_allclose(literal.mean(), table["mean_test_score"][place], rtol=1e-9)
        total, count = np.zeros(leader.heldout.shape), np.zeros((N, 1))
        for values, rows in zip(leader.of_splits, tests):
            total[rows] += values
            count[rows] += 1
        with np.errstate(invalid="ignore"):
            assert_allclose(total / count, leader.heldout, rtol=1e-9, atol=1e-12)
    alone = kind("rbf", blend=True, cv=cv, **GRID).fit(X, y)  # a member alone has the search's score
    assert [one["weight"] for one in alone.blend_] == [1.0]
    assert_allclose(alone.blend_score_, alone.best_score_, rtol=1e-12)


def test_no_weights_from_the_rows_they_are_judged_by() -> None:
    """Both splits test the same rows: no blend of them could have an honest score."""
    test, rest = np.arange(50, N), np.arange(50)
    pairs = [(rest[:30], test), (rest[20:], test)]
    model = LSSVRCV("auto", blend=True, metric="auto", cv=pairs, **GRID).fit(X, SIGNAL)
    assert [one["weight"] for one in model.blend_] == [1.0]
    assert_allclose(model.blend_score_, model.best_score_, rtol=1e-12)


# -- a lower loss is not enough where the criterion falls by more than noise -------------------------
ROWS = np.arange(200)
EVEN, RARE = ROWS % 2, (ROWS % 20 == 0).astype(int)
FEW, OTHERS, MANY = ROWS[::25], ROWS[3::25], ROWS[1::9]
COMMON, HALF = ROWS[1::20], ROWS[RARE == 1][::2]
BALANCED, TENTH = {"class_weight": "balanced"}, {"sample_weight": np.where(ROWS % 10 == 0, 0.1, 1.0)}


def scoring_of(y, criterion=None, class_weight=None, sample_weight=None):
    model = LSSVCCV(cv=StratifiedKFold(4), class_weight=class_weight, criterion=criterion)
    return model.set_up(ROWS[:, None] * 1.0, y, sample_weight).scoring


def deciding(y, wrong, size=1.0):
    """Decision values with the wrong sign in some rows."""
    return (np.where(np.isin(ROWS, wrong), -1.0, 1.0) * size * (2 * y - 1))[:, None]


REFUSED = [  # labels, rows where the blend is wrong, rows where the single one is, settings, refused?
    *(
        (EVEN, blended, single, {"criterion": criterion}, blended is MANY)
        for criterion in (None, "accuracy", "balanced_accuracy")
        for blended, single in ((MANY, FEW), (FEW, MANY), (FEW, FEW), (FEW, OTHERS), (OTHERS, FEW))
    ),
    # Falls of 0.4, 0, 0 and −0.02: 0.095 ± 0.088, and ± 0.102 with one degree of freedom less.
    (EVEN, ROWS[:20], ROWS[150:151], {"criterion": "balanced_accuracy"}, False),
    (EVEN, [*ROWS[:20], 50, 100, 150], [], {"criterion": "balanced_accuracy"}, True),
    # Half of the rare class right, at the price of some of the common one, is what weights ask for.
    (RARE, COMMON, HALF, {}, True),
    (RARE, COMMON, HALF, BALANCED, False),
    (RARE, HALF, COMMON, BALANCED, True),
    (RARE, HALF, COMMON, {}, False),
    (EVEN, ROWS[::10], ROWS[1::25], {}, True),
    (EVEN, ROWS[::10], ROWS[1::25], TENTH, False),
]


@pytest.mark.parametrize(("y", "blended", "single", "options", "refused"), REFUSED)
def test_errors_beyond_the_noise_of_the_comparison(y, blended, single, options, refused) -> None:
    one, other = ((deciding(y, wrong), None) for wrong in (blended, single))
    assert choice._scores_worse(one, other, scoring_of(y, **options)) == refused


def test_a_lower_loss_with_more_errors_is_no_blend(monkeypatch) -> None:
    """Decision values near 0 on the right side against ones that are sure, and wrong in some rows."""
    scoring, wrong = scoring_of(EVEN), ROWS[::5]
    right = deciding(EVEN, [], np.where(ROWS % 3 == 0, 0.02, 1.8))
    sure = deciding(EVEN, wrong, np.where(ROWS % 5 == 0, 0.3, 1.0))
    leaders = [Leader(None, number, 0, 1.0, values) for number, values in enumerate([right, sure])]
    kept = choice.blend_leaders(leaders, leaders[0], scoring)
    assert [one.index for one in kept.members] == [0]
    assert kept.weights.tolist() == [1.0]
    assert kept.score == 0.0
    monkeypatch.setattr(choice, "_scores_worse", lambda *given: False)
    blended = choice.blend_leaders(leaders, leaders[0], scoring)
    assert 1 in [one.index for one in blended.members]
    assert blended.score < -0.02
