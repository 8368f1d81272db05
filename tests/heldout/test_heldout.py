"""Held-out predictions against literal refits for every kind of splitter; what a fit keeps of rows."""

from __future__ import annotations

from functools import partial

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVR, load
from onefold.approximations import Exact, Nystroem, Problem, Workload
from onefold.facts.data import equal_rows
from onefold.heldout import GapKFold, make_splits, unpacked
from onefold.kernels import RBF
from onefold.rows import row_hashes

RNG = np.random.default_rng(3)
N = 40
X = RNG.standard_normal((N, 3))
LABELS = np.where(X[:, 0] + 0.5 * RNG.standard_normal(N) > 0, "yes", "no")
NUMBERS = np.sin(X[:, 0]) + 3 + 0.1 * RNG.standard_normal(N)
GROUPS = np.arange(N) % 8
WEIGHTS = np.where(np.arange(N) % 6, RNG.uniform(0.1, 3.0, N), 0.0)

SPLITTERS = [
    KFold(7, shuffle=True, random_state=0),
    GroupKFold(4),
    StratifiedGroupKFold(3),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    ShuffleSplit(4, test_size=0.2, train_size=0.3, random_state=0),
    TimeSeriesSplit(3, gap=2),
    PredefinedSplit(np.where(np.arange(N) < 30, np.arange(N) % 3, -1)),
    GapKFold(4, gap=3),
    LeaveOneOut(),
]
UNSEEDED = [KFold(4, shuffle=True), RepeatedKFold(n_splits=3, n_repeats=2), ShuffleSplit(3)]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("splitter", [*SPLITTERS, *UNSEEDED], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    ("fixed", "chosen", "y"),
    [(LSSVC, LSSVCCV, LABELS), (LSSVR, LSSVRCV, NUMBERS), (KernelRidge, KernelRidgeCV, NUMBERS)],
    ids=["LSSVC", "LSSVR", "KernelRidge"],
)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # by splitters without groups
def test_every_splitter_gives_what_refitting_gives(fixed, chosen, y, splitter, weights, tmp_path):
    """The splits are kept in a file as they were, without rows of weight 0."""
    grouped = "Group" in type(splitter).__name__
    seeded = splitter not in UNSEEDED
    if y is NUMBERS and "Stratified" in type(splitter).__name__:
        splitter = iter(list(splitter.split(X, LABELS, GROUPS)))  # of (train, test), which serves once
    groups = GROUPS if grouped else None
    here = np.ones(N) if weights is None else weights
    found = chosen(gammas=[0.4], alphas=[0.02], cv=splitter).fit(X, y, weights, groups=groups)
    found.save(tmp_path / "model")
    kept = load(tmp_path / "model").splits_
    given = []
    if seeded and hasattr(splitter, "split"):
        for pair in splitter.split(X, y, groups):
            given.append([np.sort(part[here[part] > 0]) for part in pair])
    pairs = given if isinstance(splitter, LeaveOneOut) else unpacked(kept)
    total = np.zeros(N)
    count = np.zeros(N)
    for number, (train, test) in enumerate(pairs):
        if given:
            assert_array_equal(np.sort(train), given[number][0])
            assert_array_equal(np.sort(test), given[number][1])
        model = fixed(gamma=0.4, alpha=0.02).fit(X[train], y[train], here[train])
        if test.size:
            total[test] += (model.decision_function if y is LABELS else model.predict)(X[test])
        count[test] += 1
    with np.errstate(invalid="ignore"):
        assert_allclose(found.heldout_prediction_, total / count, rtol=1e-9, atol=1e-9)


def test_splits_of_reserved_folds_and_of_none() -> None:
    few = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1]}
    machine = LSSVRCV(metric="diagonal", metric_rows=20, max_rounds=1, **few).fit(X, NUMBERS)
    tested = np.isfinite(machine.heldout_prediction_)
    assert not tested.all()
    assert_array_equal(machine.splits_ >= 0, tested)
    assert LSSVRCV(cv="loo", **few).fit(X, NUMBERS).splits_ is None
    assert LSSVRCV(criterion="press", **few).fit(X, NUMBERS).splits_ is None
    assert LSSVCCV(cv=StratifiedKFold(3), **few).fit(X, LABELS).splits_.dtype == np.int8


def test_loo_by_name_is_scored_together() -> None:
    found = LSSVRCV(gammas=[0.4], alphas=[0.02], cv="loo", criterion="r2").fit(X, NUMBERS)
    error = ((NUMBERS - found.heldout_prediction_) ** 2).sum()
    assert found.best_score_ == pytest.approx(1 - error / ((NUMBERS - NUMBERS.mean()) ** 2).sum())
    assert "split1_test_score" not in found.cv_results_


def test_blocks_cover_every_row_once_with_a_gap_on_both_sides() -> None:
    tested = []
    for train, test in GapKFold(4, gap=2).split(np.zeros((23, 1))):
        tested += test.tolist()
        assert np.abs(train[:, None] - test[None, :]).min() == 3
        assert len(train) + len(test) >= 23 - 4
    assert tested == list(range(23))


ONE_CLASS = np.array(["a"] * 39 + ["b"])


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        ("5-fold", '"past:5" or a splitter'),
        (1, "at least 2"),
        (41, "at most the number of rows"),
        ([(np.array([0, 0, 1]), np.array([2]))], "trains on the same row twice"),
        ([(np.array([0, 1]), np.array([1]))], "tests rows that it trains on"),
        ([(np.array([0, 99]), np.array([1]))], "outside the 40 rows"),
        ([(np.array([], dtype=int), np.array([1]))], "no rows to train on"),
        ([(np.array([1]), np.array([], dtype=int))], "no rows to test"),
        ([], "no split"),
        (GapKFold(1), "at least 2"),
        (GapKFold(41), "at most the number of rows"),
        (GapKFold(2, gap=-1), "negative"),
        (GapKFold(2, gap=40), "no rows to train on"),
        *((cv, r"only one class \(.*'a'") for cv in ("loo", KFold(4), LeaveOneOut())),
    ],
)
def test_wrong_splits_are_named_in_one_sentence(cv, words) -> None:
    y = ONE_CLASS if words.startswith("only one class") else None
    with pytest.raises(ValueError, match=words):
        make_splits(cv, X, y, n=N, labels=y)


def test_boolean_and_negative_row_numbers() -> None:
    mask = np.arange(N) < 30
    splits = make_splits([(mask, ~mask), (np.arange(30), np.array([-1, -2]))], X, NUMBERS, n=N)
    assert_array_equal(splits.tests[0], np.arange(30, 40))
    assert_array_equal(splits.tests[1], [39, 38])


def test_rows_are_known_by_their_numbers():
    rows = RNG.integers(-1, 2, (500, 4)) / 2.0
    rows[rows == 0] *= -1  # a zero with a sign is a zero
    expected = np.unique(rows + 0.0, axis=0, return_inverse=True)[1].ravel()
    for given in (rows, csr_matrix(rows)):
        assert len(set(zip(equal_rows(given).tolist(), expected.tolist()))) == expected.max() + 1
        assert len(np.unique(equal_rows(given))) == expected.max() + 1


@pytest.mark.parametrize("kind", [LSSVR, LSSVRCV, SparseLSSVR, LSSVC])
def test_the_fingerprint_has_rows_and_targets_of_the_fit(kind, tmp_path):
    y = LABELS if kind is LSSVC else NUMBERS
    weight = np.where(np.arange(N) < 7, 0.0, 1.0)
    kind().fit(X, y, sample_weight=weight).save(tmp_path / "m")
    found = load(tmp_path / "m").fingerprint_
    assert_array_equal(found["rows"], np.arange(7, N))
    assert_array_equal(found["hashes"], row_hashes(X[7:].astype(np.float32), np.float32))
    numbers = np.where(y[7:] == "yes", 1.0, -1.0) if kind is LSSVC else NUMBERS[7:]
    assert_allclose(found["targets"][:, 0], numbers, rtol=1e-12)


def test_no_fold_of_a_long_table_is_sorted(monkeypatch) -> None:
    """Rows are counted in a few passes: sorting their numbers took longer than the model on a device."""
    n = 20_000
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 2))

    def short(function, values, *args, **kwargs):
        assert np.size(values) < n // 5, function
        return function(values, *args, **kwargs)

    for name in ("unique", "sort", "argsort", "lexsort"):
        monkeypatch.setattr(np, name, partial(short, getattr(np, name)))
    machine = LSSVRCV(approximation=Nystroem(20, method="uniform"), gammas=[0.3], alphas=[0.1, 1.0])
    assert machine.fit(rows, np.sin(rows[:, 0])).conformity_scores_.shape == (n,)


@pytest.mark.parametrize("alphas", [1, 40], ids=["cholesky", "eigen"])
@pytest.mark.parametrize(
    ("left_out", "n", "gamma", "seed", "noise", "mu"),
    [
        *(("folds", 20, 0.3, 5, noise, mu) for noise in (0.0, 0.1) for mu in (1e-10, 1e-9, 1e-7)),
        ("rows", 36, 1.0, 1, 0.1, 1e-10),
    ],
)
def test_tiny_ridges_have_the_digits_of_a_refit(left_out, n, gamma, seed, noise, mu, alphas):
    """The closed form lost up to five digits more than a refit, for smooth targets and tiny ridges."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 1))
    y = np.sin(2 * X[:, 0]) + noise * rng.standard_normal(n)
    parts = (
        [np.arange(k, n, 5) for k in range(5)] if left_out == "folds" else list(np.arange(n)[:, None])
    )
    with mpmath.workdps(60):
        rows = [mpmath.mpf(float(value)) for value in X[:, 0]]
        exact = mpmath.matrix(n, n)
        for i, j in np.ndindex(n, n):
            exact[i, j] = mpmath.exp(-mpmath.mpf(gamma) * (rows[i] - rows[j]) ** 2)
        truth = [literal(exact, y, part, mpmath.mpf(mu)) for part in parts]
    problem = Problem(X, y[:, None], None, True).about_its_mean()
    model = Exact().model(RBF(gamma), problem, Workload(1, alphas, 5), None)
    if left_out == "folds":
        found = [values[0, :, 0] for values in model.heldout(parts, [mu])]
    else:
        found = list(model.leave_one_out([mu])[0])
    found = [values + problem.offset[0] for values in found]
    K = RBF(gamma)(X, X)
    refits = []  # in double precision, by several orders of the rows
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(n)
        place = np.argsort(order)
        refits.append([refit(K[np.ix_(order, order)], y[order], place[part], mu) for part in parts])
    worst = max(np.abs(np.concatenate(one) - np.concatenate(truth)).max() for one in refits)
    assert np.abs(np.concatenate(found) - np.concatenate(truth)).max() <= 2 * worst


def literal(K, y, part, mu):
    """Rows predicted by the others, with an intercept, in mpmath's precision."""
    rest = np.setdiff1d(np.arange(len(y)), part).tolist()
    m = len(rest)
    system = mpmath.matrix(m + 1, m + 1)
    right = mpmath.matrix(m + 1, 1)
    for i, row in enumerate(rest):
        for j, other in enumerate(rest):
            system[i, j] = K[row, other] + (mu if i == j else 0)
        system[i, m] = system[m, i] = 1
        right[i] = mpmath.mpf(float(y[row]))
    solution = mpmath.lu_solve(system, right)
    sums = [sum(K[int(row), other] * solution[i] for i, other in enumerate(rest)) for row in part]
    return np.array([float(value + solution[m]) for value in sums])


def refit(K, y, part, mu):
    """The same in double precision."""
    rest = np.setdiff1d(np.arange(len(y)), part)
    m = rest.size
    system = np.ones((m + 1, m + 1))
    system[:m, :m] = K[np.ix_(rest, rest)] + mu * np.eye(m)
    system[m, m] = 0.0
    solution = np.linalg.solve(system, np.append(y[rest], 0.0))
    return K[np.ix_(part, rest)] @ solution[:m] + solution[m]
