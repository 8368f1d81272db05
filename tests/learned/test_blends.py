"""The blend: its weights, its honest held-out predictions and its score, computed again by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, StratifiedKFold

import onefold
from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.estimators.final import finish
from onefold.expansions import Blend
from onefold.search.choice import blend_leaders
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
    final = finish(search, blend=True)
    blend = model.expansion_
    assert isinstance(blend, Blend)
    members = [finish(replaced(search, one), blend=False).expansion for one in final.leaders]
    total = (
        sum(w * one.predict(NEW) for w, one in zip(final.blend.weights, members)) + final.blend.intercept
    )
    assert_allclose(blend.predict(NEW), total, rtol=1e-8, atol=1e-8)
    values = model.decision_function(NEW) if isinstance(model, LSSVCCV) else model.predict(NEW)
    assert_allclose(values.reshape(len(NEW), -1), total, rtol=1e-8, atol=1e-8)
    h, gradient = 1e-5, blend.gradient(NEW)
    for j in range(3):
        step = h * np.eye(3)[j]
        slope = (blend.predict(NEW + step) - blend.predict(NEW - step)) / (2 * h)
        assert_allclose(gradient[:, j], slope, rtol=1e-5, atol=1e-6)
    if model.metric is None:
        assert model.feature_importances_ is None
        return
    problem = setup.problem
    v = np.ones(problem.n) if problem.root_weight is None else problem.root_weight**2
    slopes = np.average(np.sum(blend.gradient(problem.X) ** 2, axis=2), axis=0, weights=v)
    about = problem.X - np.average(problem.X, axis=0, weights=v)
    moved = slopes * np.average(about**2, axis=0, weights=v)
    assert_allclose(model.feature_importances_, moved / moved.sum(), rtol=1e-8)


def replaced(search, leader):
    """The same search with another leader chosen."""
    return replace(search, leader=leader)


@pytest.mark.parametrize("case", CASES)
def test_a_saved_blend_is_the_blend(case, tmp_path) -> None:
    model, *_ = searched(case)
    model.save(tmp_path / "model.onefold")
    again = onefold.load(tmp_path / "model.onefold")
    assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert_array_equal(again.expansion_.gradient(NEW), model.expansion_.gradient(NEW))
    assert_array_equal(again.heldout_prediction_, model.heldout_prediction_)
    assert again.blend_ == model.blend_
    assert again.blend_score_ == model.blend_score_
    assert again.metric_history_ == model.metric_history_
    assert again.best_params_ == model.best_params_
    for name in ("metric_", "feature_importances_"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.cv_results_["params"] == model.cv_results_["params"]


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


def test_a_blend_of_one_kernel_is_that_kernel() -> None:
    one = LSSVRCV("rbf", blend=True, gammas=[0.3], alphas=[0.1], cv=4).fit(X, SIGNAL)
    assert len(one.blend_) == 1
    assert isinstance(one.expansion_, Blend)


def test_members_are_told_heaviest_first() -> None:
    model, *_ = searched("numbers")
    weights = [one["weight"] for one in model.blend_]
    assert weights == sorted(weights, reverse=True)
    for one in model.blend_:
        assert set(one) == {"kernel", "metric", "round", "gamma", "alpha", "weight"}
