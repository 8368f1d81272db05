"""Bounds and quantiles against the definition, from models refitted by hand, and how often they hold."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit

from onefold import LSSVR, LSSVRCV, KernelRidge
from onefold.calibration import ConformalIntervals
from onefold.calibration.intervals import quantile_ranks, smallest, upper_rank

RNG = np.random.default_rng(8)
N = 45
X = RNG.standard_normal((N, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 0] * X[:, 1]], axis=1) + 0.2 * RNG.standard_normal((N, 2))
y = Y[:, 0]
NEW = RNG.standard_normal((13, 2))


def literal(splits, target, new, gamma, alpha, cls=LSSVR, weight=None):
    """CV+ as it is written, with every model refitted: bounds by coverage; also the signed elements."""
    down = []
    up = []
    signed = []
    for train, test in splits:
        w = None if weight is None else weight[train]
        model = cls(gamma=gamma, alpha=alpha).fit(X[train], target[train], w)
        residual = target[test] - model.predict(X[test])
        f = model.predict(new)[:, None]
        down.append(f - np.abs(residual))
        up.append(f + np.abs(residual))
        signed.append(f + residual)
    down, up, signed = (np.sort(np.hstack(one), axis=1) for one in (down, up, signed))
    count = down.shape[1]

    def bounds(coverage):
        lower = down[:, int(np.floor((1 - coverage) * (count + 1) + 1e-9)) - 1]
        upper = up[:, int(np.ceil(coverage * (count + 1) - 1e-9)) - 1]
        return np.stack([lower, upper], axis=1)

    return bounds, signed


def single_rows(n):
    return [(np.delete(np.arange(n), i), np.array([i])) for i in range(n)]


@pytest.mark.parametrize("cls", [LSSVR, KernelRidge])
@pytest.mark.parametrize("weighted", [False, True])
def test_given_hyper_parameters(cls, weighted):
    weight = np.exp(0.5 * RNG.standard_normal(N)) if weighted else None
    folds = list(KFold(5).split(X))
    for method, splits in (("cv+", folds), ("jackknife+", single_rows(N))):
        model = cls(gamma=0.5, alpha=0.1, intervals=method).fit(X, y, weight)
        bounds, signed = literal(splits, y, NEW, 0.5, 0.1, cls, weight)
        for coverage in (0.5, 0.8, 0.9):
            found = model.predict_interval(NEW, coverage)
            np.testing.assert_allclose(found, bounds(coverage), rtol=0, atol=1e-8)
        count = signed.shape[1]
        found = model.predict_quantiles(NEW, [0.9, 0.2])
        ranks = [int(np.ceil(0.9 * (count + 1))), int(np.floor(0.2 * (count + 1)))]
        np.testing.assert_allclose(found, signed[:, [rank - 1 for rank in ranks]], rtol=0, atol=1e-8)


def test_a_row_that_a_split_tests_twice_counts_once():
    twice = [(train, np.concatenate([test, test[:3]])) for train, test in KFold(5).split(X)]
    once = LSSVRCV(gammas=[0.5], alphas=[0.1], cv=5).fit(X, y)
    model = LSSVRCV(gammas=[0.5], alphas=[0.1], cv=twice).fit(X, y)
    assert len(model.intervals_.residuals) == N
    np.testing.assert_allclose(model.predict_interval(NEW), once.predict_interval(NEW), atol=1e-12)


def test_every_target_by_itself():
    both = LSSVR(gamma=0.5, alpha=[0.1, 0.3], intervals="cv+").fit(X, Y)
    found = both.predict_interval(NEW, 0.8)
    assert both.predict_quantiles(NEW, [0.1, 0.5, 0.9]).shape == (13, 2, 3)
    for t, alpha in enumerate((0.1, 0.3)):
        one = LSSVR(gamma=0.5, alpha=alpha, intervals="cv+").fit(X, Y[:, t : t + 1])
        np.testing.assert_allclose(found[:, [t]], one.predict_interval(NEW, 0.8), rtol=0, atol=1e-10)
        scores = both.conformity_scores_[:, [t]]
        np.testing.assert_allclose(scores, one.conformity_scores_, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["cv+", "jackknife+", "normalised"])
def test_quantiles_rise_and_intervals_widen(method):
    """Also where the fold models differ by more than the residuals, as those of an exact fit."""
    shares = [1e-12, 0.001, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 0.9]
    linear = LSSVR("linear", alpha=1e-6, intervals=method).fit(X, 2 * X[:, 0])
    for model in (LSSVR(gamma=0.5, alpha=0.1, intervals=method).fit(X, y), linear):
        bounds = np.stack([model.predict_interval(NEW, share) for share in shares])
        assert np.isfinite(bounds).all()
        assert np.all(bounds[:, :, 0] <= bounds[:, :, 1])
        assert np.all(np.diff(bounds[:, :, 0], axis=0) <= 0)
        assert np.all(np.diff(bounds[:, :, 1], axis=0) >= 0)
        assert np.all(np.diff(model.predict_quantiles(NEW, shares[3:]), axis=1) >= 0)
        assert model.predict_quantiles(NEW, 0.5).shape == (13, 1)


def test_too_few_rows_give_infinite_bounds_and_one_warning():
    assert np.isfinite(LSSVR(intervals="cv+").fit(X[:9], Y[:9]).predict_interval(NEW, 0.89)).all()
    model = LSSVR(intervals="cv+").fit(X[:8], Y[:8])
    with pytest.warns(UserWarning, match="8 held-out residuals are too few; use at least 9") as caught:
        assert np.all(model.predict_interval(NEW) == [-np.inf, np.inf])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="use at least 99 rows"):
        found = model.predict_quantiles(NEW, [0.01, 0.5])
    assert np.all(np.isfinite(found) == [False, True])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", ["cv+", "jackknife+", "normalised"])
def test_two_rows_and_equal_targets(method):
    for rows in (2, 3, 6):
        model = LSSVR(intervals=method).fit(X[:rows], y[:rows])
        assert model.predict_interval(NEW, 0.5).shape == (13, 2)
        flat = LSSVR(intervals=method).fit(X[:rows], np.full(rows, 3.0))
        np.testing.assert_allclose(flat.predict_interval(NEW, 0.1), 3.0, atol=1e-12)
    assert LSSVR(intervals=method).fit(X[:1], y[:1]).intervals_ is None
    doubled = LSSVR(intervals=method).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.isfinite(doubled.predict_interval(NEW)).all()


def test_normalised_bounds_are_the_scores_times_the_spread_at_the_row():
    model = LSSVR(gamma=0.5, alpha=0.1, intervals="normalised").fit(X, y)
    intervals = model.intervals_
    f = model.fold_models_.predict(NEW)
    log_spread = model.spread_models_.predict(NEW)
    sizes = np.abs(intervals.residuals)
    low = np.log(1e-3 * sizes.mean())
    high = np.log(sizes.max())
    spread = np.exp(np.clip(log_spread, low, high))[:, :, 0]
    scores = (sizes / intervals.spread)[:, 0]
    up = np.sort(f[:, intervals.fold, 0] + spread[:, intervals.fold] * scores, axis=1)
    down = np.sort(f[:, intervals.fold, 0] - spread[:, intervals.fold] * scores, axis=1)
    rank = int(np.ceil(0.9 * (N + 1)))
    expected = np.stack([down[:, N - rank], up[:, rank - 1]], axis=1)
    np.testing.assert_allclose(model.predict_interval(NEW), expected, rtol=0, atol=1e-10)
    # No residual has a say in the spread that it is divided by.
    fold = np.repeat(np.arange(5), 9)
    assert np.array_equal(intervals.fold, fold)
    (sizes_of_rows,) = model.spread_models_.terms
    assert np.array_equal(sizes_of_rows.centres, X)
    assert np.array_equal(sizes_of_rows.coef == 0, fold[:, None] == np.arange(5))


def brute_force(values, list_of, shift, stretch, rank):
    elements = values[None, :] if stretch is None else stretch[:, list_of] * values
    return np.sort(shift[:, list_of] + elements, axis=1)[:, rank - 1]


def element(values, list_of, rank, shift, stretch=None):
    starts = np.concatenate([[0], np.cumsum(np.bincount(list_of, minlength=shift.shape[1]))])
    return smallest(values[np.lexsort((values, list_of))], starts, rank, shift, stretch)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 7),
    size=st.integers(1, 60),
    ties=st.booleans(),
    stretched=st.booleans(),
    shift_scale=st.sampled_from([0.0, 1e-12, 1.0, 1e12]),
    value_scale=st.sampled_from([0.0, 1e-12, 1.0, 1e12]),
)
def test_the_element_of_a_rank_itself(seed, count, size, ties, stretched, shift_scale, value_scale):
    generator = np.random.default_rng(seed)
    values = generator.integers(-3, 4, size) * 1.0 if ties else generator.standard_normal(size)
    values = value_scale * values
    list_of = generator.integers(0, count, size)  # some lists may be empty
    shift = shift_scale * (
        generator.integers(-2, 3, (9, count)) if ties else generator.standard_normal((9, count))
    )
    stretch = np.exp(3 * generator.standard_normal((9, count))) if stretched else None
    for rank in {1, size, int(generator.integers(1, size + 1)), max(1, size // 2)}:
        expected = brute_force(values, list_of, shift, stretch, rank)
        np.testing.assert_array_equal(element(values, list_of, rank, shift, stretch), expected)


@pytest.mark.parametrize(("size", "count"), [(4000, 5), (500, 500)])
def test_long_lists_many_rows_and_blocks_of_them(size, count, monkeypatch):
    monkeypatch.setattr("onefold.calibration.intervals._AT_ONCE", 8 * count)
    generator = np.random.default_rng(size)
    values = np.round(generator.standard_normal(size), 2)
    list_of = np.arange(size) % count
    shift = np.round(generator.standard_normal((100, count)), 1)
    for rank in (1, 17, size):
        expected = brute_force(values, list_of, shift, None, rank)
        np.testing.assert_array_equal(element(values, list_of, rank, shift), expected)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the search chose")
        yield


FIVE = list(KFold(5).split(X))
SINGLE = single_rows(N)
SEARCHES = [  # settings, the splits that intervals rest on
    ({"cv": 5}, FIVE),
    *(
        ({"cv": cv}, list(cv.split(X)))
        for cv in (
            KFold(4, shuffle=True, random_state=2),
            RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
            ShuffleSplit(1, test_size=0.4, random_state=1),  # split conformal
        )
    ),
    # Where no folds are held out, five are taken.
    *(
        (settings | {"intervals": method}, splits)
        for settings in ({"cv": "loo"}, {"cv": LeaveOneOut()}, {"criterion": "gcv"})
        for method, splits in (("cv+", FIVE), ("jackknife+", SINGLE))
    ),
    ({"criterion": "press"}, FIVE),
    ({"search": "halving", "cv": 5}, FIVE),
]


@pytest.mark.parametrize(("settings", "splits"), SEARCHES)
def test_a_search(settings, splits):
    model = LSSVRCV(gammas=[0.1, 0.5], alphas=[0.01, 0.1], **settings).fit(X, y)
    bounds, _ = literal(splits, y, NEW, model.gamma_, model.alpha_)
    np.testing.assert_allclose(model.predict_interval(NEW), bounds(0.9), rtol=0, atol=1e-8)


GOOD = {"method": "cv+", "residuals": np.zeros((4, 1)), "fold": np.array([0, 0, 1, 1]), "count": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "split"}, "method"),
        ({"residuals": np.zeros(4)}, "residuals must be"),
        ({"residuals": np.full((4, 1), np.nan)}, "finite"),
        ({"fold": np.array([0, 0, 1, 2])}, "below the number of folds"),
        ({"fold": np.array([0.0, 0, 1, 1])}, "whole number"),
        ({"spread": np.ones((4, 1))}, "a spread if normalised"),
        ({"method": "normalised"}, "a spread if normalised"),
        ({"method": "normalised", "spread": np.zeros((4, 1))}, "greater than 0"),
        ({"method": "normalised", "spread": np.ones((3, 1))}, "for every residual"),
    ],
)
def test_the_object_refuses_what_does_not_fit(change, message):
    ConformalIntervals(**GOOD)
    with pytest.raises(ValueError, match=message):
        ConformalIntervals(**{**GOOD, **change})


def test_ranks_are_those_of_exact_arithmetic():
    for percent, count in itertools.product(range(1, 100), range(1, 60)):
        assert upper_rank(percent / 100, count) == -(-percent * (count + 1) // 100)
    assert quantile_ranks([0.01, 0.05, 0.1, 0.5, 0.9, 0.95, 0.99], 19) == [0, 1, 2, 10, 18, 19, 20]


# -- how often intervals hold what they promise, over repeated draws of rows -------------------------


def test_nine_of_ten_and_wide_where_noise_is():
    """The same coverage on average; where rows are quiet or loud, normalised intervals come nearer."""
    found = {method: [] for method in ("cv+", "normalised")}
    for seed in range(12):
        generator = np.random.default_rng(seed)
        t = generator.uniform(0, 6, (730, 1))
        loud = 0.1 + np.exp(-((t[:, 0] - 3) ** 2))
        y = np.sin(t[:, 0]) + loud * generator.standard_normal(730)
        for method, results in found.items():
            model = LSSVR(gamma=1.0, alpha=0.1, intervals=method).fit(t[:130], y[:130])
            lower, upper = model.predict_interval(t[130:]).T
            held = (lower <= y[130:]) & (y[130:] <= upper)
            results.append([held.mean(), held[loud[130:] > 0.8].mean()])
    plain, normalised = (np.mean(results, axis=0) for results in found.values())
    assert 0.86 <= min(plain[0], normalised[0]) <= max(plain[0], normalised[0]) <= 0.95
    assert normalised[1] > plain[1] + 0.03
