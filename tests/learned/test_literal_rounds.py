"""Rounds of learned metrics are literal cross-validation: a twin tries, scores and chooses alike."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.search import metrics
from tests.learned.comparison import same_search
from tests.learned.literal_search import leaders, rounds
from tests.learned.literal_twin import Data

pytestmark = pytest.mark.filterwarnings("ignore:the search chose", "ignore:The groups parameter")

RNG = np.random.default_rng(8)
N, D = 48, 3
X = RNG.standard_normal((N, D)) * [1.0, 1.5, 0.7] + [0.0, 3.0, -1.0]
NEW = RNG.standard_normal((7, D)) + np.array([0.0, 3.0, -1.0])
SIGNAL = np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 0] * (X[:, 1] - 3) + 0.05 * RNG.standard_normal(N)
SECOND = np.cos(X[:, 1]) + 2.0 + 0.05 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
WIDTHS, ALPHAS, ROUNDS = [0.3, 1.0, 3.0], [0.01, 0.1, 1.0], 3
TRACKS = [("rbf", "full"), ("rbf", "diagonal"), ("matern12", "full"), ("laplacian", "diagonal")]
GROUPS = np.repeat(np.arange(12), 4)
LISTED = [(np.arange(16, 48), np.arange(10)), (np.arange(30), np.r_[33:48, 40])]
SPLITTERS = [
    KFold(4, shuffle=True, random_state=1),
    GroupKFold(3),
    ShuffleSplit(3, test_size=0.4, random_state=0),
    TimeSeriesSplit(3, gap=2),
    LISTED,
]


def targets(what):
    """The labels or numbers of a task, and its targets (n, t)."""
    if what == "two":
        Y = np.column_stack([SIGNAL, SECOND])
        return Y, Y
    if what == "number":
        return SIGNAL, SIGNAL[:, None]
    if what == "labels":
        y = SIGNAL > 0.1
        return np.where(y, "yes", "no"), np.where(y, 1.0, -1.0)[:, None]
    y = np.digitize(SIGNAL, [-0.4, 0.5])
    return y, np.where(y[:, None] == np.arange(3), 1.0, -1.0)


def compare(model, data, tracks):
    """Every cell of the tracks, the choice, its held-out predictions and the final model."""
    cells = [one for track in tracks for one in rounds(data, *track, WIDTHS, ALPHAS, ROUNDS)]
    return same_search(model, cells, data, NEW, [(one, N) for one in leaders(cells)])


def split(cv, y, groups=None):
    if isinstance(cv, list):
        return cv
    return list(cv.split(X, y, groups))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("what", ["number", "two", "labels", "classes"])
@pytest.mark.parametrize("track", TRACKS, ids=" ".join)
def test_every_task_with_and_without_weights(track, what, weights) -> None:
    y, Y = targets(what)
    labels = what in ("labels", "classes")
    cv = StratifiedKFold(4, shuffle=True, random_state=2) if labels else SPLITTERS[0]
    model = (LSSVCCV if labels else LSSVRCV)(
        track[0], metric=track[1], gammas=WIDTHS, alphas=ALPHAS, cv=cv, max_rounds=ROUNDS
    )
    data = Data(X, Y, split(cv, y), weights, labels=labels)
    compare(model.fit(X, y, weights), data, [track])


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
def test_every_splitter_with_and_without_intercept(estimator, cv) -> None:
    y, Y = targets("number")
    track = TRACKS[SPLITTERS.index(cv) % 4]
    model = estimator(
        track[0], metric=track[1], gammas=WIDTHS, alphas=ALPHAS[::-1], cv=cv, max_rounds=ROUNDS
    )
    data = Data(X, Y, split(cv, y, GROUPS), WEIGHTS, intercept=estimator is LSSVRCV)
    compare(model.fit(X, y, WEIGHTS, groups=GROUPS), data, [track])


def test_families_and_kinds_of_metric_compete() -> None:
    y, Y = targets("number")
    cv = SPLITTERS[0]
    model = LSSVRCV("auto", metric="auto", gammas=WIDTHS, alphas=ALPHAS, cv=cv, max_rounds=ROUNDS)
    tracks = [TRACKS[0], ("matern12", "diagonal"), TRACKS[2], TRACKS[3]]
    compare(model.fit(X, y), Data(X, Y, split(cv, y)), tracks)


@pytest.mark.parametrize("track", TRACKS, ids=" ".join)
@pytest.mark.parametrize("seed", [None, 3])
def test_gradients_and_mean_distances_at_rows_drawn(track, seed, monkeypatch) -> None:
    """Longer tables take both from some of their rows: the same ones, drawn from the seed."""
    monkeypatch.setattr(metrics, "GRADIENT_ROWS", 25)
    monkeypatch.setattr(metrics, "_PAIRS_OF", 20)
    number = seed or 0

    def pairs(n):
        return np.sort(np.random.default_rng(number).choice(n, 20, replace=False))

    def gradients(n, last):
        return np.sort(np.random.default_rng([number, last]).choice(n, 25, replace=False))

    y, Y = targets("two")
    cv = SPLITTERS[0]
    model = LSSVRCV(
        track[0],
        metric=track[1],
        gammas=WIDTHS,
        alphas=ALPHAS,
        cv=cv,
        max_rounds=ROUNDS,
        random_state=seed,
    )
    draws = {"pairs": pairs, "gradients": gradients}
    compare(model.fit(X, y, WEIGHTS), Data(X, Y, split(cv, y), WEIGHTS, draws=draws), [track])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_labels_that_nothing_tells_apart_get_the_flattest_cell(weights) -> None:
    """Its count of errors is not the best of many, and the blend is no way around."""
    y = np.random.default_rng(0).permutation(np.arange(N) % 2)
    cv = StratifiedKFold(4, shuffle=True, random_state=2)
    settings = {"gammas": WIDTHS, "alphas": ALPHAS, "cv": cv, "max_rounds": ROUNDS}
    model = LSSVCCV("rbf", metric="full", **settings).fit(X, y, weights)
    data = Data(X, np.where(y == 1, 1.0, -1.0)[:, None], split(cv, y), weights, labels=True)
    chosen = compare(model, data, TRACKS[:1])
    assert (chosen.round, chosen.width, chosen.alpha) == (0, min(WIDTHS), max(ALPHAS))
    assert model.best_score_ < model.cv_results_["mean_test_score"].max()
    blend = LSSVCCV("rbf", metric="full", blend=True, **settings).fit(X, y, weights)
    assert [one["weight"] for one in blend.blend_] == [1.0]
    assert blend.blend_score_ == model.best_score_
