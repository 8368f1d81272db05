"""Does one width mislead? What slices show, what is chosen by them, and what the choice costs."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

import onefold
from onefold import LSSVR, LSSVRCV, KernelRidgeCV, TableRegressor
from onefold.approximations import Nystroem
from onefold.calibration.intervals import upper_rank
from onefold.calibration.slices import HeldOutIntervals, heldout_intervals, slices_of_rows

GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1, 1.0]}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rows(seed, n, growth):
    """Noise whose logarithm grows with the last feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    f = np.sin(3 * X[:, 0]) + X[:, 1]
    return X, f + 0.3 * np.exp(growth * X[:, 2]) * rng.standard_normal(n)


def report_of(model):
    return model.approximation_["intervals"]


@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
def test_noise_that_grows_needs_normalised_intervals_and_even_noise_does_not(kind):
    X, y = rows(0, 400, 1.5)
    model = kind(intervals="auto", **GRID).fit(X, y)
    record = report_of(model)
    assert model.intervals_.method == record["method"] == "normalised"
    assert record["requested"] == "auto"
    assert "of the highest 10% of 'feature 2', normalised ones" in record["why"]
    place = record["held_out"]["slice"]
    assert (place["column"], place["from"], place["to"], place["rows"]) == ("feature 2", 0.9, 1.0, 40)
    worst = [record["held_out"][width]["worst_slice"] for width in ("constant", "normalised")]
    assert worst[0] + 0.1 < worst[1]
    assert record["held_out"]["normalised"]["score_ratio"] < 0.9
    same = kind(intervals="normalised", **GRID).fit(X, y)
    np.testing.assert_array_equal(model.predict_interval(X), same.predict_interval(X))
    X, y = rows(0, 400, 0.0)
    model = kind(intervals="auto", **GRID).fit(X, y)
    assert model.intervals_.method == report_of(model)["method"] == "cv+"
    why = report_of(model)["why"]
    assert "no slice of the held-out rows is covered too little by more than chance" in why
    assert "40 slices" in why
    same = kind(intervals="cv+", **GRID).fit(X, y)
    np.testing.assert_array_equal(model.predict_interval(X), same.predict_interval(X))


def test_even_noise_seldom_misleads_and_coverage_stays():
    chosen = []
    covered = []
    for seed in range(60):
        X, y = rows(seed, 1100, 0.0)
        model = LSSVR(gamma=0.5, alpha=0.1, intervals="auto").fit(X[:300], y[:300])
        chosen.append(model.intervals_.method == "normalised")
        bounds = model.predict_interval(X[300:])
        covered.append(np.mean((bounds[:, 0] <= y[300:]) & (y[300:] <= bounds[:, 1])))
    assert np.mean(chosen) <= 0.05
    assert np.mean(covered) == pytest.approx(0.9, abs=0.015)


def test_coverage_of_all_rows_and_of_the_worst_where_noise_grows():
    covered = []
    highest = []
    for seed in range(30):
        X, y = rows(seed, 1300, 1.2)
        model = LSSVR(gamma=0.5, alpha=0.1, intervals="auto").fit(X[:300], y[:300])
        bounds = model.predict_interval(X[300:])
        inside = (bounds[:, 0] <= y[300:]) & (y[300:] <= bounds[:, 1])
        covered.append(inside.mean())
        highest.append(inside[X[300:, 2] > 0.8].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.015)
    assert np.mean(highest) > 0.8  # 0.6 with a constant width


def test_heldout_intervals_are_those_of_the_other_folds():
    rng = np.random.default_rng(1)
    residuals = rng.standard_normal((90, 2))
    spread = np.exp(rng.standard_normal((90, 2)))
    folds = rng.integers(0, 4, 90)
    for sigma in (None, spread):
        intervals = heldout_intervals(residuals, folds, 0.8, sigma)
        stretch = np.ones_like(spread) if sigma is None else sigma
        for i in range(90):
            for t in range(2):
                others = np.sort(np.abs(residuals[folds != folds[i], t]) / stretch[folds != folds[i], t])
                half = others[upper_rank(0.8, len(others)) - 1] * stretch[i, t]
                size = abs(residuals[i, t])
                assert intervals.covered[i, t] == (size <= half)
                score = 2 * half + 2 / 0.2 * max(0.0, size - half)
                assert intervals.scores[i, t] == pytest.approx(score, rel=1e-12)
    assert np.isinf(heldout_intervals(residuals[:6], folds[:6], 0.9).scores).all()


def test_slices_cover_each_column_once_and_are_large_enough():
    rng = np.random.default_rng(2)
    few = rng.choice(3, 600, p=[0.5, 0.49, 0.01]).astype(float)  # the third has too few rows
    heaped = np.where(rng.random(600) < 0.6, 0.0, rng.random(600))
    columns = [rng.random(600), few, heaped, np.ones(600)]
    slices = slices_of_rows(rng.standard_normal((600, 1)), columns)
    by_column = {}
    for part, members in zip(slices.slices, slices.members):
        assert part.rows == len(members) >= 30
        by_column.setdefault(part.column, []).append(members)
    for column, parts in by_column.items():
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)
        if column in (None, 0):
            assert [len(part) for part in parts] == [60] * 10
    assert {len(part) for part in by_column[1]} == {int(np.sum(few == 0)), int(np.sum(few == 1))}
    assert np.sum(heaped == 0) in [len(part) for part in by_column[2]]
    assert 3 not in by_column
    assert slices_of_rows(np.arange(59.0)[:, None], []).slices == []


def test_only_what_is_clearly_short_misleads():
    slices = slices_of_rows(np.arange(1000.0)[:, None], [])
    covered = np.ones((1000, 1), bool)
    covered[5::10] = False
    coverages = slices.coverage(HeldOutIntervals(covered, None))
    np.testing.assert_allclose(coverages, 0.9)
    assert slices.misleading(coverages, 0.9) is None
    for missed, misleads in ((16, False), (22, True)):
        covered[300:400] = True
        covered[300 : 300 + missed] = False
        coverages = slices.coverage(HeldOutIntervals(covered, None))
        assert (20 * binom.cdf(100 - missed, 100, 0.9) <= 0.2) == misleads
        assert slices.misleading(coverages, 0.9) == (3 if misleads else None)


def test_every_kind_of_fit_has_a_choice(tmp_path):
    X, y = rows(3, 240, 2.0)
    Y = np.column_stack([y, X[:, 0]])
    frame = pd.DataFrame(X, columns=["a", "b", "noise"])
    for settings, target, method in (
        ({"cv": LeaveOneOut()}, y, "normalised"),
        ({"cv": ShuffleSplit(1, test_size=0.5, random_state=0)}, y, "normalised"),
        ({"cv": ShuffleSplit(3, random_state=0)}, y, None),
        ({"approximation": Nystroem(60), "refit": "same"}, Y, "normalised"),
        ({"metric": "diagonal", "max_rounds": 1, "blend": True, "kernel": ["rbf"]}, y, "normalised"),
        ({"criterion": "gcv"}, y, "normalised"),
    ):
        model = LSSVRCV(intervals="auto", **GRID, **settings).fit(frame, target)
        assert method in (None, model.intervals_.method), settings
        if method is not None:
            assert "of 'noise', normalised" in report_of(model)["why"]
        onefold.save(model, tmp_path / "model")
        loaded = onefold.load(tmp_path / "model")
        assert report_of(loaded) == report_of(model)
        np.testing.assert_array_equal(loaded.predict_interval(frame), model.predict_interval(frame))
    few = LSSVRCV(intervals="auto", **GRID).fit(X[:50], y[:50])
    assert few.intervals_.method == "cv+"
    assert report_of(few)["why"] == "there are too few rows to compare the coverage of slices"
    kernel = LSSVR("precomputed", alpha=0.1, intervals="auto").fit(X @ X.T + 1.0, y)
    assert kernel.intervals_.method in ("cv+", "normalised")


def test_scores_that_are_no_better_keep_the_width_constant(monkeypatch):
    X, y = rows(4, 400, 1.5)

    def useless(fit, residuals, *_):
        noise = np.exp(3 * np.random.default_rng(0).standard_normal(residuals.values.shape))
        return onefold.estimators.intervals.Normalised(fit, residuals, None, noise)

    for made, words in ((useless, "larger"), (lambda *_: None, "too few residuals outside each fold")):
        monkeypatch.setattr("onefold.estimators.intervals._normalised", made)
        model = LSSVRCV(intervals="auto", **GRID).fit(X, y)
        assert model.intervals_.method == "cv+"
        assert words in report_of(model)["why"]
        assert "of the highest 10% of 'feature 2', but" in report_of(model)["why"]


def test_rows_of_dask_keep_one_width():
    array = pytest.importorskip("dask.array")
    X, y = rows(5, 200, 2.0)
    settings = {"approximation": Nystroem(15), "refit": "same", "intervals": "auto", **GRID}
    model = LSSVRCV(**settings).fit(array.from_array(X, chunks=(50, 3)), array.from_array(y, chunks=50))
    assert model.intervals_.method == "cv+"
    assert "rows of Dask" in report_of(model)["why"]


def test_tables_choose_by_default_and_name_the_column(tmp_path):
    assert TableRegressor().intervals == "auto"
    rng = np.random.default_rng(6)
    table = pd.DataFrame(
        {"size": rng.random(300), "kind": rng.choice(["calm", "wild"], 300, p=[0.8, 0.2])}
    )
    noise = np.where(table.kind == "wild", 3.0, 0.1) * rng.standard_normal(300)
    table["price"] = table["size"] + noise
    model = TableRegressor(simple=True, cv=KFold(5, shuffle=True, random_state=0)).fit(table, "price")
    record = model.report_["intervals"]
    assert record == report_of(model.estimator_)
    assert record["method"] == "normalised"
    assert "'kind=wild'" in record["why"] or "'kind=calm'" in record["why"]
    words = dict(model.report().as_dict()["ran"]["lines"])["intervals"]
    assert words == f"normalised; {record['why']}"
    model.save(tmp_path / "model")
    loaded = onefold.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict_interval(table), model.predict_interval(table))
    assert loaded.report_["intervals"] == record
    chosen = TableRegressor(simple=True, intervals="cv+").fit(table, "price")
    assert "requested" not in chosen.report_["intervals"]
    assert "intervals" not in dict(chosen.report().as_dict()["ran"]["lines"])
