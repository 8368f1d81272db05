"""Feature names: known wherever X has them, and missed as scikit-learn misses them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)

RNG = np.random.default_rng(4)
X = RNG.standard_normal((40, 3))
NUMBERS = np.sin(X[:, 0])
LABELS = (NUMBERS > 0).astype(int)
NAMES = ["a", "b", "c"]
FRAME = pd.DataFrame(X, columns=NAMES)
SMALL = {"gammas": [0.05, 0.5], "alphas": [0.01, 1.0], "cv": 3}
ALL = [
    (LSSVC(), LABELS),
    (LSSVR(), NUMBERS),
    (KernelRidge(), NUMBERS),
    (LSSVCCV(**SMALL), LABELS),
    (LSSVRCV(**SMALL), NUMBERS),
    (KernelRidgeCV(**SMALL), NUMBERS),
    (SparseLSSVC(**SMALL), LABELS),
    (SparseLSSVR(**SMALL), NUMBERS),
]
EVERY = pytest.mark.parametrize(("estimator", "y"), ALL, ids=lambda v: type(v).__name__)


@EVERY
def test_names_are_kept_and_missed(estimator, y) -> None:
    model = clone(estimator).fit(FRAME, y)
    assert list(model.feature_names_in_) == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.predict(FRAME)
        model.predict(pl.DataFrame(FRAME.to_dict("list")))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
        model.predict(X)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(FRAME[["c", "b", "a"]])
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        model.predict(FRAME.rename(columns={"a": "z"}))
    assert not hasattr(model, "get_feature_names_out")  # they predict, and transform nothing


@EVERY
def test_a_fit_without_names_forgets_those_of_the_one_before(estimator, y) -> None:
    torch = pytest.importorskip("torch")
    for plain in (X, torch.asarray(X)):
        model = clone(estimator).fit(FRAME, y).fit(plain, y)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == 3
        with pytest.warns(UserWarning, match="X has feature names, but"):
            model.predict(FRAME)


@EVERY
def test_tensors_have_no_names(estimator, y) -> None:
    torch = pytest.importorskip("torch")
    model = clone(estimator).fit(FRAME, y)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
        model.predict(torch.asarray(X))
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        model.predict(torch.asarray(X[:, :2]))


def test_names_of_the_steps_before_reach_the_last() -> None:
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), LSSVR())
    pipeline.set_output(transform="pandas").fit(FRAME, NUMBERS)
    assert list(pipeline[-1].feature_names_in_) == list(pipeline[:-1].get_feature_names_out())
