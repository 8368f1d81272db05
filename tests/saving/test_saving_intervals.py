"""Intervals through a file to the last bit, and files whose intervals fit nothing."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
from saving_standins import forge, metadata_of
from scipy import sparse

from onefold import LSSVR, LSSVRCV, KernelRidge, load, saving
from onefold.approximations import Nystroem
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import RBF
from onefold.saving import ModelFileError
from onefold.saving.codec import Encoder

RNG = np.random.default_rng(6)
X = RNG.standard_normal((50, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 0] * X[:, 1]], axis=1) + 0.2 * RNG.standard_normal((50, 2))
NEW = RNG.standard_normal((9, 2))
GRID = {"gammas": [0.3, 1.0], "alphas": [0.01, 0.1]}


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


MODELS = {
    "cv+": (LSSVRCV(**GRID), X, Y[:, 0], NEW),
    "two targets": (LSSVRCV(**GRID), X, Y, NEW),
    "jackknife+": (LSSVR(intervals="jackknife+"), X, Y[:, 0], NEW),
    "no intercept": (KernelRidge(intervals="cv+"), X, Y[:, 0], NEW),
    "normalised": (LSSVR(intervals="normalised"), X, Y, NEW),
    "landmarks": (LSSVRCV(approximation=Nystroem(9), refit="same", **GRID), X, Y[:, 0], NEW),
    "grid": (LSSVRCV(approximation="grid", refit="same", **GRID), X, Y[:, 0], NEW),
    "blend": (LSSVRCV(["rbf", "matern12"], blend=True, **GRID), X, Y[:, 0], NEW),
    "metric": (LSSVRCV("auto", metric="auto", max_rounds=1, **GRID), X, Y[:, 0], NEW),
    "sparse": (LSSVRCV(**GRID), sparse.csr_matrix(X), Y[:, 0], sparse.csr_matrix(NEW)),
    "matrix": (LSSVRCV("precomputed", alphas=[0.1]), X @ X.T, Y[:, 0], NEW @ X.T),
    "none": (LSSVRCV(intervals=None, **GRID), X, Y[:, 0], NEW),
}


@pytest.mark.parametrize("name", MODELS)
def test_bounds_keep_their_bits(name, tmp_path):
    model, rows, y, new = MODELS[name]
    model = fit(copy.deepcopy(model), rows, y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()
    assert loaded.intervals == model.intervals
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    if model.intervals is None:
        assert loaded.intervals_ is loaded.fold_models_ is None
        return
    np.testing.assert_array_equal(loaded.predict_interval(new, 0.8), model.predict_interval(new, 0.8))
    np.testing.assert_array_equal(
        loaded.predict_quantiles(new, [0.2]), model.predict_quantiles(new, [0.2])
    )
    np.testing.assert_array_equal(loaded.conformity_scores_, model.conformity_scores_)


def test_a_file_of_before_has_no_intervals(tmp_path):
    model = fit(LSSVRCV(**GRID), X, Y[:, 0])
    for name in ("intervals_", "fold_models_", "spread_models_", "conformity_scores_"):
        delattr(model, name)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="by an earlier version"):
        load(tmp_path / "model").predict_interval(NEW)


def without(model, *names):
    for name in names:
        delattr(model, name)


def change(model, **parts):
    for name, value in parts.items():
        setattr(model, name, value)


def other_models(**parts):
    return lambda model: change(model, fold_models_=replace(model.fold_models_, **parts))


def other_term(model):
    (term,) = model.fold_models_.terms
    bad = term.coef.copy()
    bad[0, 0] = np.inf
    change(model, fold_models_=replace(model.fold_models_, terms=(replace(term, coef=bad),)))


def wider_rows(model):
    (term,) = model.fold_models_.terms
    wide = Expansion(RBF(1.0), np.ones((50, 3)), term.coef, term.intercept)
    change(model, fold_models_=replace(model.fold_models_, terms=(wide,)))


BAD = [
    lambda m: change(m, intervals="cv"),
    lambda m: change(m, intervals=5),
    lambda m: change(m, intervals_=3.0),
    lambda m: change(m, intervals_="cv+"),
    lambda m: change(m, intervals_=m.fold_models_),
    lambda m: change(m, fold_models_=m.expansion_),
    lambda m: change(m, fold_models_=m.intervals_),
    lambda m: change(m, fold_models_=None),
    lambda m: change(m, spread_models_=m.fold_models_),
    lambda m: change(m, intervals_=None),
    lambda m: without(m, "fold_models_"),
    lambda m: without(m, "spread_models_"),
    lambda m: change(m, intervals_=replace(m.intervals_, count=7)),
    lambda m: change(m, intervals_=replace(m.intervals_, residuals=np.zeros((50, 2)))),
    lambda m: change(m, conformity_scores_=-np.ones(50)),
    lambda m: change(m, conformity_scores_=np.ones((50, 2))),
    lambda m: change(m, conformity_scores_="many"),
    lambda m: change(m, expansion_=m.fold_models_),
    other_models(intercept=np.full((5, 1), 1e308)),
    other_models(intercept=np.full((5, 1), np.nan)),
    other_term,
    wider_rows,
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_intervals_that_do_not_fit_are_refused(number, tmp_path):
    model = fit(LSSVRCV(**GRID), X, Y[:, 0])
    BAD[number](model)
    with pytest.raises((ValueError, TypeError)):
        model.save(tmp_path / "model")


def forged(path, **changes):
    """Fold models of a file that `save` would not write."""
    encoder = Encoder()
    term = {"kernel": RBF(1.0), "centres": 0, "coef": np.ones((3, 2)), "intercept": np.zeros(2)}
    fields = {"centres": [np.ones((3, 2))], "terms": [term], "folds": [np.arange(2)]}
    fields |= {"intercept": np.zeros((2, 1))} | changes
    node = {"$object": "FoldModels", "fields": {k: encoder.encode(v, k) for k, v in fields.items()}}
    return forge(path, metadata_of(node), encoder.arrays)


def test_the_forgery_of_good_fold_models_loads(tmp_path):
    models = saving.load(forged(tmp_path / "m"))
    assert type(models) is FoldModels
    assert models.predict(np.ones((1, 2))).tolist() == [[[3.0], [3.0]]]


@pytest.mark.parametrize(
    "changes",
    [
        {"centres": []},
        {"centres": [np.ones((3, 2)), np.ones((3, 2))]},
        {"centres": [np.ones((2, 2))]},
        {"centres": [None]},
        {"centres": ["rows"]},
        {"terms": []},
        {"terms": ["term"]},
        {"terms": [{"kernel": RBF(1.0), "centres": "0"}]},
        {"terms": 3},
        {"folds": []},
        {"folds": [np.array([0, 2])]},
        {"folds": [np.array([0, 0])]},
        {"folds": [np.array([0.0, 1.0])]},
        {"folds": [np.arange(3)]},
        {"folds": [[0, 1]]},
        {"folds": None},
        {"intercept": np.zeros(2)},
        {"intercept": np.zeros((3, 1)) + np.nan},
        {"intercept": np.zeros((0, 1))},
        {"intercept": "zero"},
        {"more": 1},
    ],
    ids=repr,
)
def test_fold_models_that_make_no_sense_are_refused(changes, tmp_path):
    with pytest.raises(ModelFileError):
        saving.load(forged(tmp_path / "m", **changes))


def test_centres_lie_in_a_file_once(tmp_path):
    """A model and its fold models are made of the same rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40))
    sizes = []
    for intervals in (None, "cv+"):
        LSSVR(gamma=0.1, intervals=intervals).fit(X, X[:, 0]).save(tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    assert sizes[1] - sizes[0] < X.nbytes / 2
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.fold_models_.terms[0].centres, X)
