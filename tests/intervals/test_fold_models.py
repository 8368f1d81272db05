"""Fold models against held-out predictions and against literal refits without the fold."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Circulant, Exact, Grid, Nystroem
from onefold.heldout import GapKFold

RNG = np.random.default_rng(3)
N = 70
X = RNG.standard_normal((N, 2))
Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1] + 5.0], axis=1)
Y += 0.2 * RNG.standard_normal(Y.shape)
y = Y[:, 0]
NEW = RNG.standard_normal((11, 2))
GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1]}
GROUPS = np.arange(N) % 9
SPLITTERS = {
    "five": 5,
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "series": TimeSeriesSplit(4),
    "windows": ShuffleSplit(3, test_size=0.2, random_state=1),
    "gap": GapKFold(4, gap=3),
    "groups": GroupKFold(3),
}


def fitted(cls, y, splitter="five", **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = GROUPS if splitter == "groups" else None
        weight = settings.pop("sample_weight", None)
        rows = settings.pop("rows", X)
        model = cls(cv=SPLITTERS[splitter], **{**GRID, **settings})
        return model.fit(rows, y, sample_weight=weight, groups=groups)


def splits_of(splitter):
    cv = SPLITTERS[splitter]
    cv = KFold(cv) if isinstance(cv, int) else cv
    return list(cv.split(X, y, GROUPS if splitter == "groups" else None))


def heldout_by_folds(model, splitter, rows=X):
    """Predictions of every row, the mean over the splits that test it, by the fold models."""
    every = model.fold_models_.predict(rows)
    total = np.zeros((N, every.shape[2]))
    count = np.zeros((N, 1))
    for number, (_, test) in enumerate(splits_of(splitter)):
        total[test] += every[test, number]
        count[test] += 1
    with np.errstate(invalid="ignore"):
        return (total / count).reshape(np.shape(model.heldout_prediction_))


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_they_are_the_models_of_literal_refits(splitter, weighted):
    weight = np.exp(RNG.standard_normal(N)) if weighted else None
    for cls, one in ((LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)):
        model = fitted(cls, Y, splitter, approximation="exact", sample_weight=weight)
        found = model.fold_models_.predict(NEW)
        for number, (train, _) in enumerate(splits_of(splitter)):
            again = one(gamma=model.gamma_, alpha=model.alpha_)
            again.fit(X[train], Y[train], None if weight is None else weight[train])
            np.testing.assert_allclose(found[:, number], again.predict(NEW), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("approximation", "refit"),
    [(Nystroem(8), "exact"), (Grid(), "same"), (Circulant(negative="clip"), "same")],
    ids=["true kernel", "grid", "circulant"],
)
def test_what_keeps_no_folds_is_fitted_again(approximation, refit):
    model = fitted(LSSVRCV, y, approximation=approximation, refit=refit)
    every = model.fold_models_.predict(X)
    for number, (train, test) in enumerate(splits_of("five")):
        residual = np.abs(y[test] - every[test, number, 0])
        np.testing.assert_allclose(model.conformity_scores_[test], residual, rtol=0, atol=1e-8)
        if not isinstance(approximation, Circulant):
            way = "exact" if refit == "exact" else approximation
            again = LSSVR(gamma=model.gamma_, alpha=model.alpha_, approximation=way)
            again.fit(X[train], y[train])
            np.testing.assert_allclose(every[:, number, 0], again.predict(X), rtol=0, atol=1e-8)


def test_tiny_ridges_and_outweighed_rests_are_refitted():
    model = fitted(LSSVRCV, y, approximation="exact", gammas=[0.5], alphas=[1e-14])
    assert "below_rounding" in model.approximation_["fitted_with"]
    found = heldout_by_folds(model, "five")
    scale = np.abs(model.heldout_prediction_).max()
    np.testing.assert_allclose(found, model.heldout_prediction_, rtol=0, atol=1e-6 * scale)
    weight = np.ones(N)
    weight[:14] = 1e9
    model = fitted(LSSVRCV, y, approximation="exact", sample_weight=weight)
    again = LSSVR(gamma=model.gamma_, alpha=model.alpha_).fit(X[14:], y[14:])
    found = model.fold_models_.predict(NEW)[:, 0, 0]
    np.testing.assert_allclose(found, again.predict(NEW), rtol=0, atol=1e-8)


def test_rows_of_weight_0_have_no_residual():
    weight = np.ones(N)
    weight[[3, 20, 69]] = 0
    for kernel, rows, new in (("rbf", X, NEW), ("precomputed", X @ X.T, NEW @ X.T)):
        options = {"gammas": None} if kernel == "precomputed" else {}
        model = fitted(LSSVRCV, y, kernel=kernel, sample_weight=weight, rows=rows, **options)
        assert np.isnan(model.conformity_scores_[[3, 20, 69]]).all()
        assert len(model.intervals_.residuals) == N - 3
        kept = np.flatnonzero(weight)
        scores = np.abs(y - model.heldout_prediction_)
        np.testing.assert_allclose(model.conformity_scores_[kept], scores[kept], rtol=0, atol=1e-12)
        again = heldout_by_folds(model, "five", rows)
        np.testing.assert_allclose(again[kept], model.heldout_prediction_[kept], rtol=0, atol=1e-8)
        assert model.predict_interval(new).shape == (11, 2)


@pytest.mark.parametrize("splitter", ["five", "repeated", "series"])
def test_blends_of_families_and_metrics(splitter):
    for settings in (
        {"kernel": ["rbf", "matern12"]},
        {"kernel": "auto", "metric": "auto", "max_rounds": 2},
    ):
        model = fitted(
            LSSVRCV, Y, splitter, blend=True, gammas=[0.3, 1.0, 3.0], alphas=[1e-3, 0.1], **settings
        )
        found = heldout_by_folds(model, splitter)
        np.testing.assert_allclose(found, model.heldout_prediction_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("training", ["factors", "sums"])
def test_they_predict_what_the_search_held_out(splitter, training, monkeypatch):
    ways = [Exact(), Nystroem(15), Nystroem(12, predict="rows")]
    if training == "sums":  # as of many rows: Gram matrices of groups are subtracted
        ways = [Nystroem(15)]
        for name in ("basis.factors._WORK", "approximations.nystroem._SMALL_WORK"):
            monkeypatch.setattr(f"onefold.{name}", 0)
        monkeypatch.setattr("onefold.approximations.nystroem._MEDIUM_WORK", 0)
    for cls, targets in ((LSSVRCV, y), (KernelRidgeCV, Y)):
        for approximation in ways:
            model = fitted(cls, targets, splitter, approximation=approximation, refit="same")
            found = heldout_by_folds(model, splitter)
            np.testing.assert_allclose(found, model.heldout_prediction_, rtol=0, atol=1e-7)
            count = sum(len(test) for _, test in splits_of(splitter))
            assert len(model.intervals_.residuals) == count


SERIES = np.linspace(0, 10, 80)[:, None]


@pytest.mark.parametrize(
    ("approximation", "rows"),
    [("toeplitz", SERIES), (Circulant(negative="clip"), RNG.standard_normal((2100, 1)))],
    ids=["series", "circulant of many rows"],
)
def test_what_has_no_models_of_folds_takes_f_itself_and_says_so(approximation, rows):
    target = np.sin(rows[:, 0]) + 0.1 * RNG.standard_normal(len(rows))
    model = fitted(LSSVRCV, target, rows=rows, approximation=approximation, refit="same", gammas=[1.0])
    assert model.fold_models_ is None
    assert "the final model, with" in model.approximation_["intervals"]["predictions"]
    scores = np.abs(target - model.heldout_prediction_)
    np.testing.assert_allclose(model.conformity_scores_, scores, rtol=0, atol=1e-12)
    new = np.array([[0.33], [1.1]])
    width = np.sort(scores)[int(np.ceil(0.8 * (len(rows) + 1))) - 1]
    expected = model.predict(new)[:, None] + [-width, width]
    np.testing.assert_allclose(model.predict_interval(new, 0.8), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("blend", [False, True])
def test_folds_set_aside_before_a_metric_was_learned(blend):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((330, 3))
    target = np.sin(2 * rows[:, 0]) + 0.1 * rng.standard_normal(330)
    grid = {"gammas": [0.3, 1.0], "alphas": [1e-3, 0.1], "kernel": ["rbf", "matern12"]}
    learned = {"metric": "diagonal", "metric_rows": 150, "max_rounds": 2, "blend": blend}
    model = fitted(LSSVRCV, target, "shuffled", rows=rows, **grid, **learned)
    tested = np.isfinite(model.heldout_prediction_)
    assert tested.sum() == len(model.intervals_.residuals)
    scores = np.abs(target - model.heldout_prediction_)
    np.testing.assert_allclose(model.conformity_scores_, scores, rtol=0, atol=1e-12)
    # The places of the residuals are those of the rows in the order of the search.
    every = model.fold_models_.predict(rows[tested])
    nearest = np.abs(every[:, :, 0] - model.heldout_prediction_[tested, None]).min(axis=1)
    assert nearest.max() < 1e-8
    assert np.isfinite(model.predict_interval(rows[:5], 0.8)).all()
