"""Paths found on few rows and gone again on many; scores from folds set aside: literal refits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.search import learning, subsamples
from tests.learned.comparison import same_search
from tests.learned.literal_search import Cell, best, leaders, path, replay, rounds
from tests.learned.literal_twin import Data

pytestmark = pytest.mark.filterwarnings("ignore:the search chose", "ignore:The groups parameter")

RNG = np.random.default_rng(4)
N, D, FEW, ALONE = 80, 3, 24, 2
X = RNG.standard_normal((N, D)) + np.array([0.0, 2.0, 0.0])
NEW = RNG.standard_normal((6, D)) + np.array([0.0, 2.0, 0.0])
CLEAN = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 2]
SIGNAL = CLEAN + 0.3 * RNG.standard_normal(N)  # so that no track is hopeless
WEIGHTS = RNG.uniform(0.2, 3.0, N)
GROUPS = np.repeat(np.arange(20), 4)
WIDTHS, ALPHAS, ROUNDS = [0.3, 1.0, 3.0], [0.01, 0.1, 1.0], 2
GRID = {"gammas": WIDTHS, "alphas": ALPHAS, "max_rounds": ROUNDS}
SPLITTERS = [
    KFold(5, shuffle=True, random_state=1),
    GroupKFold(4),
    ShuffleSplit(4, test_size=0.2, random_state=0),
    TimeSeriesSplit(4),
    [(np.arange(20, 80), np.arange(20)), (np.arange(60), np.arange(60, 80))],
    [(np.arange(60), np.arange(62, 80))],
]
AUTO = [("rbf", "full"), ("matern12", "diagonal"), ("matern12", "full"), ("laplacian", "diagonal")]
# All rows; more than the paths were found on; hardly more, where going again does not pay.
METRIC_ROWS = [None, 40, FEW + 2]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Small numbers in place of thousands."""
    monkeypatch.setattr(learning, "FIRST_ROWS", FEW)
    monkeypatch.setattr(learning, "_CHEAP_ROWS", 0)  # the best cell alone, as with many rows
    monkeypatch.setattr(subsamples, "_ASIDE_ROWS", 20)
    monkeypatch.setattr(subsamples, "_JUDGES", 12)


class Twin:
    """The rows that the library draws; everything after that by itself."""

    def __init__(self, model, y, Y, weights, *, labels=False, intercept=True):
        setup = model.set_up(X, y, weights, GROUPS)
        splits, seed = setup.scoring.splits, setup.seed or 0
        pairs = [
            (np.setdiff1d(np.arange(N), left), test) for left, test in zip(splits.left_out, splits.tests)
        ]
        size, self.all = model.metric_rows or FEW, model.metric_rows is None
        found = subsamples.divide(splits, setup.task, size, seed, set_aside=not self.all)
        generator = np.random.default_rng([seed, 1])
        few = subsamples.drawn(found.teachers, setup.task, FEW, generator)
        aside = np.concatenate([[], *(splits.left_out[i] for i in found.aside)])
        assert (aside.size == 0) == self.all
        # Rows set aside neither teach nor judge, judges do not teach.
        assert not np.isin(aside, [*found.teachers, *found.judges]).any()
        assert not np.isin(found.judges, found.teachers).any()
        assert set(few) <= set(found.teachers)
        assert found.judges.size <= 12 + 2
        self.few, self.teachers = few.size, found.teachers.size
        options = {"intercept": intercept, "whole": False}
        self.first, self.again = (
            Data(X[rows], Y[rows], [part], None if weights is None else weights[rows], **options)
            for some in (few, found.teachers)
            for rows in [np.concatenate([some, found.judges])]
            for part in [(np.arange(some.size), np.arange(some.size, rows.size))]
        )
        scored = pairs if self.all else [pairs[i] for i in found.aside]
        self.whole = Data(X, Y, scored, weights, intercept=intercept, labels=labels)

    def search(self, tracks):
        """The cells that are compared, and what led each group on the way."""
        paths, history = {}, []
        for family, kind in tracks:
            cells = rounds(self.first, family, kind, WIDTHS, ALPHAS, ROUNDS)
            history += [(one, self.few) for one in leaders(cells)]
            went = path(cells, self.first)
            paths.setdefault((family, kind if len(went) > 1 else "none"), (kind, went))
        least = 1.5 * max(went[-1].rank for _, went in paths.values())
        hopeful = [(kind, went) for kind, went in paths.values() if went[-1].rank >= least]
        if self.all:
            return self.on_all_rows(hopeful, history)
        members = [went[-1] for _, went in hopeful]
        if self.teachers > 1.3 * FEW:
            members = [best(replay(self.again, kind, went, ALPHAS)) for kind, went in hopeful]
            history += [(one, self.teachers) for one in members]
        members.sort(key=lambda one: -one.rank)
        return [self.with_its_metric(one) for one in members[:ALONE]], history

    def on_all_rows(self, paths, history):
        """Every path again, and the families as they are."""
        wanted = {(w[0].family, kind if len(w) > 1 else "none"): (kind, w) for kind, w in paths}
        wanted |= {(w[0].family, "none"): (kind, w[:1]) for kind, w in paths}
        cells = [one for kind, went in wanted.values() for one in replay(self.whole, kind, went, ALPHAS)]
        return cells, history + [(one, N) for one in leaders(cells)]

    def with_its_metric(self, top):
        """The cell on all rows, with the metric that the teachers gave."""
        found = self.whole.cell([top.whole] * len(self.whole.splits), top.width, top.alpha)
        return Cell(top.family, top.metric, top.round, top.width, top.alpha, *found, top.whole)


def compare(model, twin, tracks=AUTO):
    cells, history = twin.search(tracks)
    return same_search(model, cells, twin.whole, NEW, history)


@pytest.mark.parametrize("rows", METRIC_ROWS)
@pytest.mark.parametrize(("cv", "estimator"), list(zip(SPLITTERS, [LSSVRCV, KernelRidgeCV] * 3)))
def test_every_splitter(estimator, cv, rows) -> None:
    model = estimator("auto", metric="auto", cv=cv, metric_rows=rows, **GRID)
    model.fit(X, SIGNAL, WEIGHTS, GROUPS)
    compare(model, Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV))


@pytest.mark.parametrize("rows", METRIC_ROWS)
@pytest.mark.parametrize(
    ("what", "weights"), [("two", None), ("labels", None), ("labels", WEIGHTS), ("classes", WEIGHTS)]
)
def test_every_task(what, weights, rows) -> None:
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
    kind = LSSVCCV if labels else LSSVRCV
    model = kind("auto", metric="auto", cv=cv, metric_rows=rows, random_state=5, **GRID)
    compare(model.fit(X, y, weights), Twin(model, y, Y, weights, labels=labels))


def test_the_regimes_are_all_there() -> None:
    """Rounds that were learned, paths gone again, no more than two cells beyond `metric_rows`."""
    found = {}
    for rows in METRIC_ROWS:
        model = LSSVRCV("auto", metric="auto", cv=SPLITTERS[0], metric_rows=rows, **GRID).fit(X, CLEAN)
        found[rows] = model
        assert any(one["round"] for one in model.metric_history_)
    told = {rows: {one["rows"] for one in model.metric_history_} for rows, model in found.items()}
    # Of 80 rows two folds of 16 are set aside, a third one judges: 32 are left to teach.
    assert told == {None: {FEW, N}, 40: {FEW, 32}, FEW + 2: {FEW}}
    assert len(found[None].cv_results_["params"]) > 3 * ALONE
    assert len(found[40].cv_results_["params"]) <= ALONE
    assert np.isfinite(found[None].heldout_prediction_).all()
    assert np.isfinite(found[40].heldout_prediction_).sum() == 32


@pytest.mark.parametrize("rows", METRIC_ROWS[1:])
def test_the_metrics_never_see_a_target_of_the_folds_set_aside(rows) -> None:
    """Other targets there, and the metric and the held-out model of these folds are the same."""
    settings = {"metric": "full", "gammas": WIDTHS, "alphas": [0.1], "cv": KFold(5), "metric_rows": rows}
    one = LSSVRCV("rbf", **settings).fit(X, CLEAN)
    tested = np.isfinite(one.heldout_prediction_)
    assert 0 < tested.sum() <= N / 2
    other = LSSVRCV("rbf", **settings).fit(X, np.where(tested, -3 * CLEAN[::-1] + 1, CLEAN))
    for first, second in zip(one.metric_history_, other.metric_history_, strict=True):
        assert first["gamma"] == second["gamma"]
        assert_allclose(first["score"], second["score"], rtol=1e-9)
    assert one.best_params_["round"] > 0
    assert_allclose(one.metric_, other.metric_, rtol=1e-9, atol=1e-12)
