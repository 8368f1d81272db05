"""Paths found on few rows, repeated on many; scores from reserved folds: literal refits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.heldout import drawn
from onefold.search import metric
from onefold.search.metric import FINER
from tests.learned.comparison import key_of, same_search
from tests.learned.literal_search import Cell, best, cross, leaders, path, replay, rounds
from tests.learned.literal_twin import Data

pytestmark = pytest.mark.filterwarnings("ignore:the search chose", "ignore:The groups parameter")

RNG = np.random.default_rng(4)
N, D, FEW = 80, 3, 24
X = RNG.standard_normal((N, D)) + np.array([0.0, 2.0, 0.0])
NEW = RNG.standard_normal((6, D)) + np.array([0.0, 2.0, 0.0])
CLEAR = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 2]
SIGNAL = CLEAR + 0.3 * RNG.standard_normal(N)
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
CASES = list(zip(SPLITTERS, [LSSVRCV, KernelRidgeCV] * 3))
AUTO = [("rbf", "full"), ("matern12", "diagonal"), ("matern12", "full"), ("laplacian", "diagonal")]
# All rows; more than the paths were found on; hardly more, where going again does not pay.
METRIC_ROWS = [None, 40, FEW + 2]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Small numbers in place of thousands."""
    monkeypatch.setattr(metric, "FIRST_ROWS", FEW)
    monkeypatch.setattr(metric, "RESERVED_ROWS", 20)
    monkeypatch.setattr(metric, "_VALIDATION", 12)


def last_folds(splits):
    """As few of the last splits as leave out 20 rows, but no more than half of all; one at least."""
    count = len(splits.left_out)
    sizes = [
        len({row for part in splits.left_out[count - c :] for row in part}) for c in range(count + 1)
    ]
    allowed = [c for c in range(1, count + 1) if c == 1 or sizes[c] <= N / 2]
    chosen = next((c for c in allowed if sizes[c] >= 20), allowed[-1])
    return list(range(count - chosen, count))


def check_division(found, splits, few, reserved):
    """Reserved rows have no part, training and validation rows come from the last other split."""
    assert found.reserved == reserved
    hidden = {row for i in reserved for row in splits.left_out[i]}
    training, validation = set(found.training), set(found.validation)
    assert not hidden & (training | validation)
    assert not validation & training
    assert set(few) <= training
    assert 0 < len(validation) <= 12 + 2  # the share of each class is rounded up
    for number in reversed([i for i in range(len(splits.tests)) if i not in reserved]):
        tested, left = set(splits.tests[number]) - hidden, set(splits.left_out[number])
        if tested and set(range(N)) - hidden - left:
            assert validation <= tested
            assert not training & left
            break


class Twin:
    """The rows that the library draws; everything after that by itself."""

    def __init__(self, model, y, Y, weights, *, labels=False, intercept=True):
        setup = model.set_up(X, y, weights, GROUPS)
        splits, seed = setup.scoring.splits, setup.seed or 0
        pairs = [
            (np.setdiff1d(np.arange(N), left), test) for left, test in zip(splits.left_out, splits.tests)
        ]
        self.blend = model.blend
        size, self.all = model.metric_rows or FEW, model.metric_rows is None
        found = metric.divide(splits, setup.task, size, seed, reserve=not self.all)
        generator = np.random.default_rng([seed, 1])
        few = drawn(found.training, FEW, generator, setup.task.labels)
        check_division(found, splits, few, [] if self.all else last_folds(splits))
        self.few, self.trained = few.size, found.training.size
        options = {"intercept": intercept, "whole": False}
        self.first, self.again = (
            Data(X[rows], Y[rows], [part], None if weights is None else weights[rows], **options)
            for some in (few, found.training)
            for rows in [np.concatenate([some, found.validation])]
            for part in [(np.arange(some.size), np.arange(some.size, rows.size))]
        )
        scored = pairs if self.all else [pairs[i] for i in found.reserved]
        self.whole = Data(X, Y, scored, weights, intercept=intercept, labels=labels)

    def search(self, tracks):
        """The cells that are compared, and what led each group on the way."""
        paths, history = {}, []
        for family, kind in tracks:
            cells = rounds(self.first, family, kind, WIDTHS, ALPHAS, ROUNDS)
            history += [(one, self.few) for one in leaders(cells)]
            went = path(cells, self.first)
            paths.setdefault((family, kind if len(went) > 1 else "none"), (kind, went))
        least = min(-went[-1].rank for _, went in paths.values())
        hopeful = [(kind, went) for kind, went in paths.values() if -went[-1].rank <= 1.5 * least]
        self.paths, self.hopeful = len(paths), len(hopeful)
        if self.all:
            return self.on_all_rows(hopeful, history)
        validated_on, members = self.first, [went[-1] for _, went in hopeful]
        if self.trained > 1.3 * FEW:
            validated_on = self.again
            members = [best(replay(validated_on, kind, went, ALPHAS)) for kind, went in hopeful]
            history += [(one, self.trained) for one in members]
        members = self.worth_fitting(members, validated_on)
        self.fits = len(members)
        return [cell for one in members for cell in self.with_its_metric(one)], history

    def worth_fitting(self, members, validated_on):
        """The two best, or the best and all that a blend of the validation predictions gives weight."""
        members = sorted(members, key=lambda one: -one.rank)
        if not self.blend:
            return members[:2]
        (_, validation), *_ = validated_on.splits
        weights = blend_weights([one.heldout[validation] for one in members], validated_on, validation)
        share = weights / weights.sum()
        return [one for i, one in enumerate(members) if i == 0 or share[i] > 0.01]

    def on_all_rows(self, paths, history):
        """Every path again, and the families as they are."""
        wanted = {(w[0].family, kind if len(w) > 1 else "none"): (kind, w) for kind, w in paths}
        wanted |= {(w[0].family, "none"): (kind, w[:1]) for kind, w in paths}
        cells = [one for kind, went in wanted.values() for one in replay(self.whole, kind, went, ALPHAS)]
        return cells, history + [(one, N) for one in leaders(cells)]

    def with_its_metric(self, top):
        """The cells on all rows, with the metric of the training rows: a cross where that is cheap."""
        wanted = [(top.width, top.alpha)]
        if metric._CHEAP_ROWS >= N:
            wanted = cross(top.width, top.alpha, ALPHAS, FINER)
        names, spaces = (top.family, top.metric, top.round), [top.whole] * len(self.whole.splits)
        return [Cell(*names, w, a, *self.whole.cell(spaces, w, a), top.whole) for w, a in wanted]


def blend_weights(predictions, data, rows):
    """Least squares with weights ≥ 0: the best of all sets of members whose weights are positive."""
    Y, root = data.Y[rows], np.sqrt(data.weights[rows])
    ones = [np.outer(np.ones(rows.size), unit) for unit in np.eye(Y.shape[1]) if data.intercept]
    top, found = np.inf, np.zeros(len(predictions))
    for size in range(1, len(predictions) + 1):
        for members in combinations(range(len(predictions)), size):
            columns = [predictions[i] for i in members] + ones
            A = np.column_stack([(column * root[:, None]).ravel() for column in columns])
            goal = (Y * root[:, None]).ravel()
            w = np.linalg.lstsq(A, goal, rcond=None)[0]
            loss = np.sum((A @ w - goal) ** 2)
            if np.all(w[:size] > 0) and loss < top:
                top, found = loss, np.zeros(len(predictions))
                found[list(members)] = w[:size]
    return found


def compare(model, twin, tracks=AUTO):
    cells, history = twin.search(tracks)
    return same_search(model, cells, twin.whole, NEW, history)


def compare_cells(model, twin, tracks=AUTO):
    """Which cells were compared, their scores and what was learned; not what is made of them."""
    cells, history = twin.search(tracks)
    table, known = model.cv_results_, {cell.key: cell for cell in cells}
    found = [key_of(names) for names in table["params"]]
    assert sorted(found) == sorted(known)
    wanted = [known[key].score for key in found]
    assert_allclose(table["mean_test_score"], wanted, rtol=1e-8, atol=1e-10)
    found = sorted((*key_of(one), one["rows"]) for one in model.metric_history_)
    assert found == sorted({(*cell.key, rows) for cell, rows in history})


def fitted(estimator, y, weights, **settings):
    model = estimator("auto", metric="auto", **settings, **GRID)
    return model.fit(X, y, weights, groups=GROUPS)


@pytest.mark.parametrize("rows", METRIC_ROWS)
@pytest.mark.parametrize(("cv", "estimator"), CASES)
def test_every_splitter(estimator, cv, rows) -> None:
    model = fitted(estimator, SIGNAL, WEIGHTS, cv=cv, metric_rows=rows)
    compare(model, Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV))


def encoded(what):
    """The labels or numbers of a task, and its targets (n, t)."""
    if what == "two":
        Y = np.column_stack([SIGNAL, X[:, 1] ** 2])
        return Y, Y
    if what == "labels":
        y = SIGNAL > 0.1
        return y, np.where(y, 1.0, -1.0)[:, None]
    y = np.digitize(SIGNAL, [-0.4, 0.5])
    return y, np.where(y[:, None] == np.arange(3), 1.0, -1.0)


@pytest.mark.parametrize("blend", [False, True], ids=["one", "blend"])
@pytest.mark.parametrize("rows", METRIC_ROWS)
@pytest.mark.parametrize(
    ("what", "weights"), [("two", None), ("labels", None), ("labels", WEIGHTS), ("classes", WEIGHTS)]
)
def test_every_task(what, weights, rows, blend) -> None:
    y, Y = encoded(what)
    labels = what != "two"
    cv = StratifiedKFold(5, shuffle=True, random_state=0) if labels else SPLITTERS[0]
    settings = {"cv": cv, "metric_rows": rows, "random_state": 5, "blend": blend}
    model = fitted(LSSVCCV if labels else LSSVRCV, y, weights, **settings)
    twin = Twin(model, y, Y, weights, labels=labels)
    (compare_cells if blend else compare)(model, twin)


@pytest.mark.parametrize("rows", METRIC_ROWS)
@pytest.mark.parametrize(("cv", "estimator"), CASES)
def test_a_blend_fits_what_validation_gives_weight(estimator, cv, rows) -> None:
    model = fitted(estimator, SIGNAL, WEIGHTS, cv=cv, metric_rows=rows, blend=True)
    twin = Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV)
    compare_cells(model, twin)


@pytest.mark.parametrize("rows", METRIC_ROWS[1:])
@pytest.mark.parametrize(("cv", "estimator"), CASES)
def test_of_many_rows_the_best_cell_alone_is_fitted(estimator, cv, rows, monkeypatch) -> None:
    monkeypatch.setattr(metric, "_CHEAP_ROWS", N - 1)
    model = fitted(estimator, SIGNAL, WEIGHTS, cv=cv, metric_rows=rows)
    twin = Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV)
    compare(model, twin)
    assert len(model.cv_results_["params"]) == twin.fits


def test_the_regimes_are_all_there() -> None:
    """On all rows the paths that were found on few; beyond `metric_rows` on the training rows."""
    found = {
        rows: fitted(LSSVRCV, SIGNAL, None, cv=SPLITTERS[0], metric_rows=rows) for rows in METRIC_ROWS
    }
    sizes = {rows: {one["rows"] for one in model.metric_history_} for rows, model in found.items()}
    # Of 80 rows two folds of 16 are reserved, a third one validates: 32 are left to train on.
    assert sizes == {None: {FEW, N}, 40: {FEW, 32}, FEW + 2: {FEW}}
    tested = {rows: np.isfinite(model.heldout_prediction_).sum() for rows, model in found.items()}
    assert tested == {None: N, 40: 32, FEW + 2: 32}


def test_the_cases_tell_the_rules_apart() -> None:
    """Some paths are hopeless, some blends give no weight, some steps start from a learned metric."""
    dropped, kept, fits, again = set(), set(), set(), set()
    for cv, estimator in CASES:
        for rows in METRIC_ROWS[1:]:
            model = estimator("auto", metric="auto", cv=cv, metric_rows=rows, blend=True, **GRID)
            twin = Twin(model, SIGNAL, SIGNAL[:, None], WEIGHTS, intercept=estimator is LSSVRCV)
            _, history = twin.search(AUTO)
            dropped.add(twin.paths - twin.hopeful)
            kept.add(twin.hopeful)
            fits.add((twin.hopeful, twin.fits))
            again |= {one.round for one, n in history if n == twin.trained > twin.few}
    assert max(dropped) > 1
    assert max(kept) > 3
    assert any(1 < few < many for many, few in fits)
    assert any(few == 1 < many for many, few in fits)
    assert again == {0, 1, 2}


@pytest.mark.parametrize("rows", METRIC_ROWS[1:])
def test_the_metrics_never_see_a_target_of_the_folds_set_aside(rows) -> None:
    """Other targets there, and the metric and the held-out model of these folds are the same."""
    settings = {"metric": "full", "gammas": WIDTHS, "alphas": [0.1], "cv": KFold(5), "metric_rows": rows}
    one = LSSVRCV("rbf", **settings).fit(X, CLEAR)
    tested = np.isfinite(one.heldout_prediction_)
    assert 0 < tested.sum() <= N / 2
    other = LSSVRCV("rbf", **settings).fit(X, np.where(tested, -3 * CLEAR[::-1] + 1, CLEAR))
    for first, second in zip(one.metric_history_, other.metric_history_, strict=True):
        assert first["gamma"] == second["gamma"]
        assert_allclose(first["score"], second["score"], rtol=1e-9)
    assert one.best_params_["round"] > 0
    assert_allclose(one.metric_, other.metric_, rtol=1e-9, atol=1e-12)
