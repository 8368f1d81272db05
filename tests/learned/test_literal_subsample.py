"""Metrics from some of the rows, scores from the folds set aside: refits that literally do so."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.search import learning
from tests.learned.literal_twin import Cell, Data, Space, best, choice, cross, leaders, rounds

pytestmark = pytest.mark.filterwarnings("ignore:the search chose", "ignore:The groups parameter")

RNG = np.random.default_rng(4)
N, D, SOME = 80, 3, 30
X = RNG.standard_normal((N, D)) + np.array([0.0, 2.0, 0.0])
NEW = RNG.standard_normal((6, D)) + np.array([0.0, 2.0, 0.0])
SIGNAL = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 2] + 0.05 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
GROUPS = np.repeat(np.arange(20), 4)
WIDTHS, ALPHAS, ROUNDS = [0.3, 1.0, 3.0], [0.01, 0.1, 1.0], 2
SPLITTERS = [
    KFold(5, shuffle=True, random_state=1),
    GroupKFold(4),
    ShuffleSplit(4, test_size=0.2, random_state=0),
    TimeSeriesSplit(4),
    [(np.arange(20, 80), np.arange(20)), (np.arange(60), np.arange(60, 80))],
    [(np.arange(60), np.arange(62, 80))],
]
AUTO = [("rbf", "full"), ("matern12", "diagonal"), ("matern12", "full"), ("laplacian", "diagonal")]


class Twin:
    """The rows and splits that the library draws; everything after that by itself."""

    def __init__(self, model, y, Y, weights, *, labels=False, intercept=True):
        setup = model.set_up(X, y, weights, GROUPS)
        splits = setup.scoring.splits
        aside = learning._set_aside(splits)
        left = np.concatenate([splits.left_out[i] for i in aside])
        self.rows = learning._drawn(setup, setup.learning.rows, left)
        judging = learning._judging(splits, self.rows, aside, setup.seed or 0)
        pairs = [self.pair(judging, i, len(self.rows)) for i in range(len(judging.tests))]
        assert not np.isin(self.rows, left).any()
        weight = None if weights is None else weights[self.rows]
        part = X[self.rows], Y[self.rows]
        self.small = Data(*part, pairs, weight, intercept=intercept, whole=False)
        self.whole = Data(
            X, Y, [self.pair(splits, i, N) for i in aside], weights, intercept=intercept, labels=labels
        )

    @staticmethod
    def pair(splits, i, n):
        return np.setdiff1d(np.arange(n), splits.left_out[i]), splits.tests[i]

    def learn(self, tracks):
        """The best cell of every track on the rows drawn, tried again on all rows."""
        found, history = {}, []
        for family, kind in tracks:
            cells = rounds(self.small, family, kind, WIDTHS, ALPHAS, ROUNDS)
            history += leaders(cells)
            # The best round of a track against the kernel before anything is learned.
            rivals = {best(leaders(cells)).key, *(one.key for one in leaders(cells) if not one.round)}
            top = choice([one for one in leaders(cells) if one.key in rivals], self.small)
            found[top.key] = top
        return list(found.values()), {cell.key for cell in history}

    def again(self, top):
        spaces = [top.whole] * len(self.whole.splits)
        scores, heldout = self.whole.cell(spaces, top.width, top.alpha)
        return Cell(top.family, top.metric, top.round, top.width, top.alpha, scores, heldout, top.whole)


def compare(model, twin, tracks):
    tops, history = twin.learn(tracks)
    known = {top.key: twin.again(top) for top in tops}
    names = ("kernel", "metric", "round", "gamma", "alpha")
    table = model.cv_results_
    found = [tuple(one[name] for name in names) for one in table["params"]]
    found = [(*one[:3], round(one[3], 10), one[4]) for one in found]
    assert set(found) == set(known)
    for place, key in enumerate(found):
        scores = [table[f"split{i}_test_score"][place] for i in range(len(twin.whole.splits))]
        assert_allclose(scores, known[key].scores, rtol=1e-8, atol=1e-10, err_msg=str(key))
    chosen = choice(list(known.values()), twin.whole)
    assert found[model.best_index_] == chosen.key
    heldout = model.heldout_prediction_.reshape(N, -1)
    assert_allclose(heldout, chosen.heldout, rtol=1e-8, atol=1e-8)
    final = twin.whole.fit(chosen.whole, chosen.width, chosen.alpha, np.arange(N))
    assert_allclose(model.expansion_.predict(NEW), final(NEW), rtol=1e-8, atol=1e-8)
    keys = {
        (*(h[n] for n in names[:3]), round(h["gamma"], 10), h["alpha"]) for h in model.metric_history_
    }
    assert keys == history
    assert {h["rows"] for h in model.metric_history_} == {len(twin.rows)}


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
def test_every_splitter(estimator, cv) -> None:
    model = estimator(
        "auto", metric="auto", gammas=WIDTHS, alphas=ALPHAS, cv=cv, max_rounds=ROUNDS, metric_rows=SOME
    ).fit(X, SIGNAL, WEIGHTS, GROUPS)
    twin = Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV)
    compare(model, twin, AUTO)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("what", ["two", "labels", "classes"])
def test_every_task(what, weights) -> None:
    if what == "two":
        y = Y = np.column_stack([SIGNAL, X[:, 1] ** 2])
    elif what == "labels":
        y = SIGNAL > 0.1
        Y = np.where(y, 1.0, -1.0)[:, None]
    else:
        y = np.digitize(SIGNAL, [-0.4, 0.5])
        Y = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    labels = what != "two"
    cv = StratifiedKFold(5, shuffle=True, random_state=0) if labels else SPLITTERS[0]
    model = (LSSVCCV if labels else LSSVRCV)(
        "auto",
        metric="auto",
        gammas=WIDTHS,
        alphas=ALPHAS,
        cv=cv,
        max_rounds=ROUNDS,
        metric_rows=SOME,
        random_state=5,
    ).fit(X, y, weights)
    compare(model, Twin(model, y, Y, weights, labels=labels), AUTO)


def test_the_metrics_never_see_a_target_of_the_folds_set_aside() -> None:
    """Other targets there, and the metric and the held-out model of these folds are the same."""
    cv = KFold(5)
    settings = {"metric": "full", "gammas": WIDTHS, "alphas": [0.1], "cv": cv, "metric_rows": SOME}
    one = LSSVRCV("rbf", **settings).fit(X, SIGNAL)
    tested = np.isfinite(one.heldout_prediction_)
    assert 0 < tested.sum() <= N / 2
    other = LSSVRCV("rbf", **settings).fit(X, np.where(tested, -3 * SIGNAL[::-1] + 1, SIGNAL))
    for first, second in zip(one.metric_history_, other.metric_history_, strict=True):
        assert first["gamma"] == second["gamma"]
        assert_allclose(first["score"], second["score"], rtol=1e-9)


def test_a_first_look_starts_round_0(monkeypatch) -> None:
    """Of a long table: width and ridge of each family are those that are best on some of its rows."""
    monkeypatch.setattr(learning, "_LOOK", 20)
    cv = KFold(4, shuffle=True, random_state=3)
    model = LSSVRCV("laplacian", metric="diagonal", gammas=WIDTHS, alphas=ALPHAS, cv=cv, max_rounds=1)
    model.fit(X, SIGNAL, WEIGHTS)
    rows = np.sort(np.random.default_rng([0, 1]).choice(N, 20, replace=False))
    place = np.full(N, -1)
    place[rows] = np.arange(20)
    pairs = [(place[np.intersect1d(a, rows)], place[np.intersect1d(b, rows)]) for a, b in cv.split(X)]
    small = Data(X[rows], SIGNAL[rows, None], pairs, WEIGHTS[rows])
    found = leaders(rounds(small, "laplacian", "diagonal", WIDTHS, ALPHAS, 0))[0]
    first = [one for one in model.cv_results_["params"] if one["round"] == 0]
    wanted = cross(found.width, found.alpha, ALPHAS)
    assert sorted((one["gamma"], one["alpha"]) for one in first) == sorted(wanted)
    spaces = [Space.of("laplacian", np.eye(D), X)] * 4
    whole = Data(X, SIGNAL[:, None], list(cv.split(X)), WEIGHTS)
    for place, one in enumerate(model.cv_results_["params"]):
        if one["round"] == 0:
            scores, _ = whole.cell(spaces, one["gamma"], one["alpha"])
            assert_allclose(model.cv_results_["mean_test_score"][place], scores.mean(), rtol=1e-8)
