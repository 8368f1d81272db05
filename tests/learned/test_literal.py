"""Learned metrics are literal cross-validation: a twin tries, scores and chooses alike.

In rounds on all rows; along paths that were found on few rows and are repeated on many, with scores from
reserved folds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.approximations import auto
from onefold.estimators import setup
from onefold.heldout import sample_rows
from onefold.search import learned_metric, metric_search, paths
from onefold.search.metric_search import FINER, SAME
from tests.learned.literal_twin import (
    Cell,
    Data,
    blend_weights,
    cross,
    leaders,
    path,
    replay,
    rounds,
    same_search,
)

pytestmark = pytest.mark.filterwarnings("ignore:the search chose", "ignore:The groups parameter")

RNG = np.random.default_rng(4)
N = 80
D = 3
FEW = 24
X = RNG.standard_normal((N, D)) + np.array([0.0, 2.0, 0.0])
NEW = RNG.standard_normal((6, D)) + np.array([0.0, 2.0, 0.0])
SIGNAL = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 2] + 0.3 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
GROUPS = np.repeat(np.arange(20), 4)
WIDTHS = [0.3, 1.0, 3.0]
ALPHAS = [0.01, 0.1, 1.0]
GRID = {"gammas": WIDTHS, "alphas": ALPHAS}
TRACKS = [("rbf", "full"), ("rbf", "diagonal"), ("powexp", "full"), ("laplacian", "diagonal")]
AUTO = [TRACKS[0], ("powexp", "diagonal"), *TRACKS[2:]]


def targets(what, n=N):
    """The labels or numbers of a task, and its targets (n, t)."""
    signal = SIGNAL[:n]
    second = X[:n, 1] ** 2
    if what in ("number", "two"):
        Y = np.column_stack([signal, second][: 1 if what == "number" else 2])
        return (Y if what == "two" else signal), Y
    if what == "labels":
        return np.where(signal > 0.1, "yes", "no"), np.where(signal > 0.1, 1.0, -1.0)[:, None]
    y = np.digitize(signal, [-0.4, 0.5])
    return y, np.where(y[:, None] == np.arange(3), 1.0, -1.0)


# -- rounds on all rows ------------------------------------------------------------------------------
M = 48
ROUNDS = 3
ROWS = X[:M]
HEAVY = WEIGHTS[:M]
FOLDS = KFold(4, shuffle=True, random_state=1)
OF_LABELS = StratifiedKFold(4, shuffle=True, random_state=2)
LISTED = [(np.arange(16, M), np.arange(10)), (np.arange(30), np.r_[33:M, 40])]
KINDS = [
    *(FOLDS, GroupKFold(3), ShuffleSplit(3, test_size=0.4, random_state=0), TimeSeriesSplit(3, gap=2)),
    *(LISTED, RepeatedKFold(n_splits=2, n_repeats=3, random_state=0), LISTED[:1]),
]


def rounds_are_literal(model, what, weights, tracks, y=None, **options):
    """Every cell of the tracks, the choice, its held-out predictions and the final model."""
    labels, Y = targets(what, M) if y is None else y
    cv = model.cv
    model.set_params(**GRID, max_rounds=ROUNDS).fit(ROWS, labels, weights, groups=GROUPS[:M])
    splits = cv if isinstance(cv, list) else list(cv.split(ROWS, labels, GROUPS[:M]))
    data = Data(ROWS, Y, splits, weights, labels=isinstance(model, LSSVCCV), **options)
    cells = [one for track in tracks for one in rounds(data, *track, WIDTHS, model.alphas, ROUNDS)]
    return same_search(model, cells, data, NEW, [(one, M) for one in leaders(cells)])


@pytest.mark.parametrize(("weights", "blend"), [(None, False), (HEAVY, False), (HEAVY, True)])
@pytest.mark.parametrize("what", ["number", "two", "labels", "classes"])
@pytest.mark.parametrize("track", TRACKS, ids=" ".join)
def test_every_task_with_and_without_weights(track, what, weights, blend) -> None:
    kind, cv = (LSSVCCV, OF_LABELS) if what in ("labels", "classes") else (LSSVRCV, FOLDS)
    rounds_are_literal(kind(track[0], metric=track[1], cv=cv, blend=blend), what, weights, [track])


@pytest.mark.parametrize(("estimator", "blend"), [(LSSVRCV, True), (KernelRidgeCV, False)])
@pytest.mark.parametrize(("cv", "track"), [*zip(KINDS, [*TRACKS, *TRACKS[:3]])])
def test_every_splitter_with_and_without_intercept(estimator, blend, cv, track) -> None:
    model = estimator(track[0], metric=track[1], cv=cv, blend=blend)
    rounds_are_literal(model, "number", HEAVY, [track], intercept=estimator is LSSVRCV)


@pytest.mark.parametrize("cv", [FOLDS, KINDS[5]])
@pytest.mark.parametrize(
    ("estimator", "what"), [(LSSVRCV, "number"), (KernelRidgeCV, "two"), (LSSVCCV, "classes")]
)
def test_families_and_kinds_of_metric_compete(estimator, what, cv) -> None:
    model = estimator("auto", metric="auto", cv=cv, blend=True)
    rounds_are_literal(model, what, HEAVY, AUTO, intercept=estimator is not KernelRidgeCV)


@pytest.mark.parametrize(("track", "seed"), [*zip(TRACKS, [None, 3, 3, None])])
def test_gradients_and_mean_distances_at_rows_drawn(track, seed, monkeypatch) -> None:
    """Longer tables take both from some of their rows: the same ones, drawn from the seed."""
    monkeypatch.setattr(learned_metric, "GRADIENT_ROWS", 25)
    monkeypatch.setattr(learned_metric, "_DISTANCE_ROWS", 20)

    def pairs(n):
        return np.sort(np.random.default_rng(seed or 0).choice(n, 20, replace=False))

    def gradients(n, last):
        return np.sort(np.random.default_rng([seed or 0, last]).choice(n, 25, replace=False))

    model = LSSVRCV(track[0], metric=track[1], cv=FOLDS, random_state=seed)
    draws = {"pairs": pairs, "gradients": gradients}
    rounds_are_literal(model, "two", HEAVY, [track], draws=draws)


@pytest.mark.parametrize("weights", [None, HEAVY], ids=["equal", "weighted"])
def test_labels_that_nothing_tells_apart_get_the_flattest_cell(weights) -> None:
    """Its count of errors is not the best of many, and the blend is no way around."""
    y = np.random.default_rng(0).permutation(np.arange(M) % 2)
    given = y, np.where(y == 1, 1.0, -1.0)[:, None]
    model = LSSVCCV("rbf", metric="full", cv=OF_LABELS)
    chosen = rounds_are_literal(model, None, weights, TRACKS[:1], given)
    assert (chosen.round, chosen.width, chosen.alpha) == (0, min(WIDTHS), max(ALPHAS))
    assert model.best_score_ < model.cv_results_["mean_test_score"].max()
    blend = clone(model).set_params(blend=True).fit(ROWS, y, weights)
    assert [one["weight"] for one in blend.blend_] == [1.0]
    assert blend.blend_score_ == model.best_score_


# -- paths found on few rows -------------------------------------------------------------------------
SHORT = 2  # rounds
SPLITTERS = [
    KFold(5, shuffle=True, random_state=1),
    GroupKFold(4),
    ShuffleSplit(4, test_size=0.2, random_state=0),
    TimeSeriesSplit(4),
    [(np.arange(20, 80), np.arange(20)), (np.arange(60), np.arange(60, 80))],
    [(np.arange(60), np.arange(62, 80))],
]
STRATIFIED = StratifiedKFold(5, shuffle=True, random_state=0)
CASES = [
    *((kind, cv, "number", WEIGHTS) for cv, kind in zip(SPLITTERS, [LSSVRCV, KernelRidgeCV] * 3)),
    (LSSVRCV, SPLITTERS[0], "two", None),
    (LSSVCCV, STRATIFIED, "labels", None),
    (LSSVCCV, STRATIFIED, "labels", WEIGHTS),
    (LSSVCCV, STRATIFIED, "classes", WEIGHTS),
]


@pytest.fixture
def few_rows(monkeypatch):
    """Small numbers in place of thousands."""
    monkeypatch.setattr(paths, "RESERVED_ROWS", 20)
    monkeypatch.setattr(paths, "_VALIDATION_ROWS", 12)


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
    training = set(found.training)
    validation = set(found.validation)
    assert not hidden & (training | validation)
    assert not validation & training
    assert set(few) <= training
    assert 0 < len(validation) <= 12 + 2  # the share of each class is rounded up
    for number in reversed([i for i in range(len(splits.tests)) if i not in reserved]):
        tested = set(splits.tests[number]) - hidden
        left = set(splits.left_out[number])
        if tested and set(range(N)) - hidden - left:
            assert validation <= tested
            assert not training & left
            break


def repeated(path, data, alphas, factors, most=0):
    kind, went = path
    return replay(data, kind, went, alphas, factors, most)


class Twin:
    """The rows that the library draws; everything after that by itself."""

    def __init__(self, model, y, Y, weights, first=FEW, look=0, learning=None):
        labels = isinstance(model, LSSVCCV)
        intercept = not isinstance(model, KernelRidgeCV)
        setup = model.set_up(X, y, weights, GROUPS)
        splits = setup.scoring.splits
        seed = setup.seed or 0
        pairs = [
            (np.setdiff1d(np.arange(N), left), test) for left, test in zip(splits.left_out, splits.tests)
        ]
        self.blend = model.blend
        size = model.metric_rows or N
        self.all = model.metric_rows is None
        labelled = setup.task.labels
        found = paths.divide(splits, setup.task, size, seed, reserve=not self.all)
        few = sample_rows(found.training, first, np.random.default_rng([seed, 1]), labelled)
        fewest = sample_rows(found.training, look, np.random.default_rng([seed, 5]), labelled)
        check_division(found, splits, few, [] if self.all else last_folds(splits))
        self.few = few.size
        self.trained = found.training.size
        self.second_pass = self.trained > 1.3 * first
        options = {"intercept": intercept, "whole": False}
        self.look, self.first, self.again = (
            Data(X[rows], Y[rows], [part], None if weights is None else weights[rows], **options)
            for some in (fewest, few, found.training)
            for rows in [np.concatenate([some, found.validation])]
            for part in [(np.arange(some.size), np.arange(some.size, rows.size))]
        )
        self.look = self.look if look else None
        scored = pairs if self.all else [pairs[i] for i in found.reserved]
        self.whole = Data(X, Y, scored, weights, intercept=intercept, labels=labels)
        if learning is not None:  # of each fold, and of the final metric
            generator = np.random.default_rng([seed, 4])
            sets = [*((train, learning[0]) for train, _ in pairs), (np.arange(N), learning[1])]
            self.whole.learning = [sample_rows(rows, size, generator, labelled) for rows, size in sets]

    def search(self, tracks):
        """The cells that are compared, and what led each group on the way."""
        paths = {}
        history = []
        plain = []
        for family, kind in tracks:
            cells = rounds(self.first, family, kind, WIDTHS, ALPHAS, SHORT, self.look)
            history += [(one, self.few) for one in leaders(cells)]
            plain += [(one.rank, kind, one) for one in leaders(cells) if one.round == 0]
            went = path(cells, self.first)
            paths.setdefault((family, kind if len(went) > 1 else "none"), (kind, went))
        least = min(-went[-1].rank for _, went in paths.values())
        hopeful = {key: one for key, one in paths.items() if -one[1][-1].rank <= 1.5 * least}
        _, kind, top = max(plain, key=lambda one: one[0])  # stays to the end
        hopeful = list(({(top.family, "none"): (kind, [top])} | hopeful).values())
        if self.all and not self.second_pass:
            return self.on_all_rows(hopeful, history)
        validated_on = self.first
        members = [went[-1] for _, went in hopeful]
        if self.second_pass:
            kept = {one.key for one in self.worth_fitting(members, validated_on)}
            hopeful = [one for one in hopeful if one[1][-1].key in kept]
            validated_on = self.again
            again = (self.again, ALPHAS, FINER, 0 if self.all else 2 * SHORT)
            found = [(path, leaders(repeated(path, *again))) for path in hopeful]
            steps = {id(one): (kind, went[:-1]) for (kind, went), own in found for one in own}
            members = [one for _, own in found for one in own]
            history += [(one, self.trained) for one in members]
        members = self.worth_fitting(members, validated_on)
        self.fits = len(members)
        if self.all:
            again = [(kind, [*before, one]) for one in members for kind, before in [steps[id(one)]]]
            cells = [one for kind, went in again for one in replay(self.whole, kind, went, ALPHAS, SAME)]
            return cells, history + [(one, N) for one in leaders(cells)]
        return [cell for one in members for cell in self.with_its_metric(one)], history

    def worth_fitting(self, members, validated_on):
        """The two best, or what a blend of validation predictions gives weight; the best plain one."""
        members = sorted(members, key=lambda one: -one.rank)
        plain = next(one for one in members if one.round == 0)
        if not self.blend:
            return members[:2] + [plain] * (plain not in members[:2])
        heldout = np.stack([one.heldout for one in members])
        weights = blend_weights(heldout, validated_on, validated_on.tests[0])
        kept = [i == 0 or one is plain or weights[i] > 0.05 for i, one in enumerate(members)]
        return [one for one, keep in zip(members, kept) if keep]

    def on_all_rows(self, paths, history):
        """Every path again, and the families as they are."""
        wanted = {(w[0].family, kind if len(w) > 1 else "none"): (kind, w) for kind, w in paths}
        wanted |= {(w[0].family, "none"): (kind, w[:1]) for kind, w in paths}
        cells = [one for kind, went in wanted.values() for one in replay(self.whole, kind, went, ALPHAS)]
        return cells, history + [(one, N) for one in leaders(cells)]

    def with_its_metric(self, top):
        """The cells on all rows, with the metric of the training rows: a cross where that is cheap."""
        wanted = [(top.width, top.alpha)]
        if metric_search._CROSS_ROWS >= N:
            wanted = cross(top.width, top.alpha, ALPHAS, FINER)
        names = (top.family, top.metric, top.round)
        spaces = [top.whole] * len(self.whole.splits)
        return [Cell(*names, w, a, *self.whole.cell(spaces, w, a), top.whole) for w, a in wanted]


# All folds: of paths that were repeated on more rows first, or of hardly more than they were found on;
# reserved folds: likewise. Of many rows the best cells alone are fitted, of few a cross around each.
WHERE = [(None, FEW), (None, 56), (40, FEW), (FEW + 2, FEW)]
REGIMES = [(*one, blend, True) for one in WHERE for blend in (False, True)]
REGIMES += [(40, FEW, False, False), (FEW + 2, FEW, False, False)]


@pytest.mark.parametrize(("rows", "first", "blend", "cheap"), REGIMES)
@pytest.mark.parametrize(("estimator", "cv", "what", "weights"), CASES)
def test_paths(estimator, cv, what, weights, rows, first, blend, cheap, few_rows, monkeypatch) -> None:
    monkeypatch.setattr(auto, "FIRST_ROWS", first)
    monkeypatch.setattr(metric_search, "_CROSS_ROWS", N if cheap else N - 1)
    y, Y = targets(what)
    settings = GRID | {"cv": cv, "metric_rows": rows, "blend": blend, "max_rounds": SHORT}
    model = estimator("auto", metric="auto", random_state=5, **settings)
    twin = Twin(model.fit(X, y, weights, groups=GROUPS), y, Y, weights, first)
    cells, history = twin.search(AUTO)
    same_search(model, cells, twin.whole, NEW, history)
    if not cheap:
        assert len(cells) == twin.fits
    if cv is SPLITTERS[0]:  # of 80 rows two folds of 16 are reserved, a third validates: 32 are left
        sizes = {None: {FEW, 64, N} if first == FEW else {first, N}, 40: {FEW, 32}, FEW + 2: {FEW}}
        assert {one["rows"] for one in model.metric_history_} == sizes[rows]
        assert np.isfinite(model.heldout_prediction_).sum() == Y.shape[1] * (N if rows is None else 32)


FINE = {"gammas": [0.1, 0.3, 1.0, 3.0, 10.0], "alphas": [1e-4, 1e-3, 0.01, 0.1, 1.0]}


@pytest.mark.parametrize("rows", [None, 40])
@pytest.mark.parametrize(("estimator", "cv", "what", "weights"), [CASES[0], CASES[1], CASES[-1]])
def test_round_zero_goes_on_from_a_first_look(
    estimator, cv, what, weights, rows, few_rows, monkeypatch
) -> None:
    """The whole grid on 15 rows; then from the best cell of each family to a local optimum."""
    monkeypatch.setattr(auto, "FIRST_ROWS", FEW)
    monkeypatch.setattr(metric_search, "LOOK_ROWS", 15)
    monkeypatch.setitem(globals(), "WIDTHS", FINE["gammas"])
    monkeypatch.setitem(globals(), "ALPHAS", FINE["alphas"])
    y, Y = targets(what)
    settings = FINE | {"cv": cv, "metric_rows": rows, "max_rounds": SHORT}
    model = estimator("auto", metric="auto", random_state=5, **settings)
    twin = Twin(model.fit(X, y, weights, groups=GROUPS), y, Y, weights, look=15)
    cells, history = twin.search(AUTO)
    same_search(model, cells, twin.whole, NEW, history)


@pytest.mark.parametrize(("estimator", "cv", "what", "weights"), [CASES[0], CASES[-1]])
def test_metrics_of_folds_from_some_of_their_rows(
    estimator, cv, what, weights, few_rows, monkeypatch
) -> None:
    monkeypatch.setattr(auto, "FIRST_ROWS", FEW)
    monkeypatch.setattr(auto, "METRIC_ROWS", 50)
    monkeypatch.setattr(setup, "FOLD_LEARNING_ROWS", 40)
    y, Y = targets(what)
    model = estimator("auto", metric="auto", random_state=5, cv=cv, max_rounds=SHORT, **GRID)
    twin = Twin(model.fit(X, y, weights, groups=GROUPS), y, Y, weights, learning=(40, 50))
    cells, history = twin.search(AUTO)
    same_search(model, cells, twin.whole, NEW, history)
