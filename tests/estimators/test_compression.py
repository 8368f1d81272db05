"""`compressed`: what the copy predicts, what is recorded, tolerances on new rows, files, refusals."""

import dataclasses
import warnings

import numpy as np
import onnx.reference
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.metrics import root_mean_squared_error

import onefold
from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
    TableClassifier,
    TableRegressor,
)
from onefold.saving import peek

RNG = np.random.default_rng(2)
X = RNG.standard_normal((600, 4))
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
Y = SIGNAL + 0.2 * RNG.standard_normal(600)
LABELS = np.where(SIGNAL > 1.2, "high", np.where(SIGNAL > 0.3, "middle", "low"))
NEW = slice(250, None)
OLD = slice(None, 250)
GRID = {"gammas": [0.1, 0.3], "alphas": [0.1, 1.0]}


def fitted(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # edges of small grids
        return model.fit(X[OLD], y[OLD])


REGRESSORS = [
    LSSVR(gamma=0.3, alpha=0.3, intervals="cv+"),
    KernelRidge("laplacian", gamma=0.3, alpha=0.3, intervals="jackknife+"),
    LSSVRCV(**GRID),
    KernelRidgeCV(**GRID, intervals=None),
    LSSVRCV(["rbf", "laplacian"], metric="diagonal", blend=True, max_rounds=1, intervals="normalised"),
    SparseLSSVR(**GRID, n_centres=100),
    LSSVRCV(**GRID, approximation="nystroem"),
]
CLASSIFIERS = [
    LSSVC(gamma=0.3, alpha=0.3),
    LSSVCCV(**GRID),
    LSSVCCV(["rbf", "matern"], metric="diagonal", blend=True, max_rounds=1),
    SparseLSSVC(**GRID, n_centres=100),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
def test_regressors(model, tmp_path) -> None:
    model = fitted(model, Y)
    before = {name: value for name, value in vars(model).items() if name != "approximation_"}
    report = dict(model.approximation_)
    small = model.compressed(60, X=X[NEW], y=Y[NEW])
    assert model.approximation_ == report
    assert all(getattr(model, name) is value for name, value in before.items())
    record = small.approximation_["compressed"]
    values = small.predict(X[NEW])
    change = root_mean_squared_error(model.predict(X[NEW]), values)
    assert record["rms_change"] == pytest.approx(change)
    assert record["error_before"] == pytest.approx(
        root_mean_squared_error(Y[NEW], model.predict(X[NEW]))
    )
    assert record["error_after"] == pytest.approx(root_mean_squared_error(Y[NEW], values))
    assert abs(record["error_after"] - record["error_before"]) <= change
    assert (record["rows"], record["rows_from"], record["labels_changed"]) == (350, "X", None)
    assert {part.n_centres for _, part in small.expansion_.parts} == {record["centres"]} == {60}
    assert 0 < record["norm_change"] < 1
    if getattr(model, "intervals", None) is not None:
        bounds = small.predict_interval(X[NEW])
        width = np.mean(np.diff(model.predict_interval(X[NEW])))
        assert np.mean(np.abs(bounds - model.predict_interval(X[NEW]))) < 0.3 * width
        assert np.mean((bounds[:, 0] <= Y[NEW]) & (Y[NEW] <= bounds[:, 1])) > 0.8
        assert small.intervals_ is model.intervals_
        folds = model.fold_models_.predict(X[NEW]) - small.fold_models_.predict(X[NEW])
        assert record["fold_models_change"] == pytest.approx(np.sqrt(np.mean(folds**2, axis=0)).max())
        assert (record["spread_models_change"] is not None) == (model.spread_models_ is not None)
    small.save(tmp_path / "small.onefold")
    model.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "small.onefold")
    assert_allclose(loaded.predict(X[NEW]), values, rtol=1e-12)
    assert loaded.approximation_["compressed"] == record
    assert (tmp_path / "small.onefold").stat().st_size < (tmp_path / "model.onefold").stat().st_size
    shapes = [array["shape"] for array in peek(tmp_path / "small.onefold")["arrays"].values()]
    assert [60, 4] in shapes
    assert not any(shape[0] > 60 and shape[1:] == [4] for shape in shapes)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_classifiers(model, tmp_path) -> None:
    model = fitted(model, LABELS)
    small = model.compressed(70, X=X[NEW], y=LABELS[NEW])
    record = small.approximation_["compressed"]
    before = model.predict(X[NEW])
    after = small.predict(X[NEW])
    assert record["labels_changed"] == pytest.approx(np.mean(before != after))
    assert record["error_before"] == pytest.approx(np.mean(before != LABELS[NEW]))
    assert record["error_after"] == pytest.approx(np.mean(after != LABELS[NEW]))
    change = np.sqrt(
        np.mean((model.decision_function(X[NEW]) - small.decision_function(X[NEW])) ** 2, axis=0)
    )
    assert_allclose(record["rms_change"], change)
    assert small.calibrator_ is model.calibrator_
    assert np.mean(np.abs(small.predict_proba(X[NEW]) - model.predict_proba(X[NEW]))) < 0.1
    small.save(tmp_path / "small.onefold")
    assert np.array_equal(onefold.load(tmp_path / "small.onefold").predict(X[NEW]), after)
    unknown = model.compressed(70, X=X[NEW], y=["other"] * 350).approximation_["compressed"]
    assert unknown["error_before"] == unknown["error_after"] == 1.0


def test_all_centres_give_the_same_model() -> None:
    model = fitted(LSSVRCV(**GRID), Y)
    same = model.compressed(250)
    assert np.array_equal(same.predict(X), model.predict(X))
    record = same.approximation_["compressed"]
    assert (record["norm_change"], record["rms_change"], record["centres"]) == (0.0, 0.0, 250)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_tolerances_hold_on_the_rows_and_on_new_ones(share) -> None:
    model = fitted(LSSVRCV(**GRID), Y)
    given = slice(250, 420)
    new = slice(420, None)
    small = model.compressed(tolerance=share, X=X[given], y=Y[given])
    record = small.approximation_["compressed"]
    error = root_mean_squared_error(Y[given], model.predict(X[given]))
    assert record["heldout_error"] == pytest.approx(error)
    assert record["rms_change"] <= share * error
    assert root_mean_squared_error(model.predict(X[new]), small.predict(X[new])) <= 1.5 * share * error
    fewer = model.compressed(int(0.9 * record["centres"]), X=X[given])
    assert fewer.approximation_["compressed"]["rms_change"] > share * error
    by_residuals = model.compressed(tolerance=share).approximation_["compressed"]
    assert by_residuals["heldout_error"] == pytest.approx(np.sqrt(np.mean(model.conformity_scores_**2)))
    assert by_residuals["rms_change"] <= share * by_residuals["heldout_error"]
    assert by_residuals["rows_from"] == "centres"
    assert by_residuals["rows"] == 250 - by_residuals["centres"]


def test_tolerances_of_classes_and_of_searches_without_intervals() -> None:
    classifier = fitted(LSSVCCV(**GRID), LABELS)
    small = classifier.compressed(tolerance=0.2, X=X[NEW], y=LABELS[NEW])
    changed = np.mean(small.predict(X[NEW]) != classifier.predict(X[NEW]))
    assert changed <= 0.2 * (1 - classifier.score(X[NEW], LABELS[NEW]))
    record = classifier.compressed(tolerance=0.2).approximation_["compressed"]
    assert record["heldout_error"] == pytest.approx(-classifier.best_score_)
    accurate = fitted(LSSVCCV(**GRID, criterion="accuracy"), LABELS)
    record = accurate.compressed(tolerance=0.2).approximation_["compressed"]
    assert record["heldout_error"] == pytest.approx(1 - accurate.best_score_)
    regressor = fitted(LSSVRCV(**GRID, intervals=None), Y)
    record = regressor.compressed(tolerance=0.2).approximation_["compressed"]
    assert record["heldout_error"] == pytest.approx(np.sqrt(-regressor.best_score_))


def test_several_targets_each_within_its_own_tolerance() -> None:
    both = np.stack([Y, 1000 * np.cos(X[:, 2]) + 30 * RNG.standard_normal(600)], axis=1)
    model = fitted(LSSVRCV(**GRID), both)
    small = model.compressed(tolerance=0.1, X=X[NEW], y=both[NEW])
    record = small.approximation_["compressed"]
    change = np.sqrt(np.mean((small.predict(X[NEW]) - model.predict(X[NEW])) ** 2, axis=0))
    error = np.sqrt(np.mean((both[NEW] - model.predict(X[NEW])) ** 2, axis=0))
    assert_allclose(record["rms_change"], change)
    assert np.all(change <= 0.1 * error)
    with pytest.raises(ValueError, match="y must have 2 columns"):
        model.compressed(20, X=X[NEW], y=Y[NEW])
    with pytest.raises(ValueError, match="no held-out error"):
        fitted(LSSVRCV(**GRID, intervals=None), both).compressed(tolerance=0.1)


def test_a_tolerance_that_only_all_centres_keep_is_said() -> None:
    model = fitted(LSSVR("laplacian", gamma=3.0, alpha=1e-3, intervals="cv+"), Y)
    with pytest.warns(UserWarning, match="all 250 centres are kept"):
        same = model.compressed(tolerance=1e-9, X=X[NEW])
    assert same.expansion_.n_centres == 250


@pytest.mark.parametrize("request_", [{"centres": 1}, {"centres": 9}, {"tolerance": 0.1}])
def test_a_constant_keeps_a_centre_and_can_be_saved(request_, tmp_path) -> None:
    model = fitted(LSSVR(gamma=1.0, alpha=0.1, intervals="cv+"), np.full(250, 3.0))
    small = model.compressed(**request_)
    assert small.expansion_.n_centres == 1
    small.save(tmp_path / "small.onefold")
    loaded = onefold.load(tmp_path / "small.onefold")
    assert_allclose(loaded.predict(X[NEW]), 3.0)
    assert_allclose(loaded.predict_interval(X[NEW]), 3.0)
    assert loaded.compressed(1).expansion_.n_centres == 1


def test_labels_of_any_kind_that_are_no_classes_count_as_errors_and_missing_ones_are_refused() -> None:
    labels = np.where(Y > 0, "p", "n").astype(object)
    model = fitted(LSSVC(gamma=1.0, alpha=0.1), labels)

    def error(labels):
        return model.compressed(9, X=X[NEW], y=labels).approximation_["compressed"]["error_before"]

    with_number = labels[NEW].copy()
    wrong = model.predict(X[NEW])[1:] != with_number[1:]
    with_number[0] = 3
    assert error(with_number) == pytest.approx((1 + wrong.sum()) / with_number.size)
    for missing in (None, np.nan, pd.NA):
        with_number[0] = missing
        with pytest.raises(ValueError, match="y has missing labels"):
            error(with_number)
    with pytest.raises(ValueError, match="y has missing labels"):
        error([np.nan, *np.ones(with_number.size - 1)])


def test_exports_and_weights() -> None:
    weight = RNG.random(250)
    model = LSSVR(gamma=0.3, alpha=0.3).fit(X[OLD], Y[OLD], sample_weight=weight)
    small = model.compressed(50)
    session = onnx.reference.ReferenceEvaluator(small.to_onnx(dtype="float64"))
    assert_allclose(
        np.ravel(session.run(["variable"], {"X": X[NEW]})[0]), small.predict(X[NEW]), rtol=1e-9
    )
    assert len(small.to_onnx().SerializeToString()) < len(model.to_onnx().SerializeToString()) / 3


def test_c(tmp_path) -> None:
    model = fitted(LSSVR(gamma=0.3, alpha=0.3), Y)
    model.to_c(tmp_path / "model.c")
    model.compressed(25).to_c(tmp_path / "small.c")
    sizes = [(tmp_path / name).stat().st_size for name in ("small.c", "model.c")]
    assert sizes[0] < sizes[1] / 4


def test_sparse_rows_and_a_compressed_model_again() -> None:
    rows = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    model = LSSVR(gamma=0.3, alpha=0.3).fit(rows[OLD], Y[OLD])
    small = model.compressed(80, X=rows[NEW], y=Y[NEW])
    smaller = small.compressed(40)
    assert sp.issparse(smaller.expansion_.centres)
    assert smaller.approximation_["compressed"]["centres_before"] == 80
    assert np.all(np.isfinite(smaller.predict(rows[NEW])))


def test_seeds() -> None:
    model = fitted(LSSVR(gamma=0.3, alpha=0.3), Y)
    seeded = [model.compressed(20, random_state=seed) for seed in (0, 0, None)]
    assert len({small.predict(X).tobytes() for small in seeded}) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "give either centres"),
        ({"centres": 10, "tolerance": 0.1}, "give either centres"),
        ({"centres": 0}, "centres must be a whole number"),
        ({"centres": 251}, "250 different centres"),
        ({"tolerance": 0}, "tolerance must be a positive number"),
        ({"tolerance": np.nan}, "tolerance must be a positive number"),
        ({"tolerance": True}, "tolerance must be a positive number"),
        ({"centres": 10, "y": Y}, "y is given without X"),
        ({"centres": 10, "X": X, "y": Y[:5]}, "inconsistent numbers of samples"),
        ({"centres": 10, "X": X[:, :2]}, "4 features"),
        ({"tolerance": 0.1}, "no held-out error"),
    ],
)
def test_refused_arguments(arguments, words) -> None:
    model = fitted(LSSVR(gamma=0.3, alpha=0.3), Y)
    with pytest.raises(ValueError, match=words):
        model.compressed(**arguments)


def test_refused_models() -> None:
    with pytest.raises(NotFittedError):
        LSSVR().compressed(3)
    given = KernelRidge("precomputed", alpha=0.1).fit(X[OLD] @ X[OLD].T, Y[OLD])
    with pytest.raises(ValueError, match="precomputed"):
        given.compressed(3)
    grid = KernelRidge(gamma=1.0, alpha=0.1, approximation="grid").fit(X[OLD, :2], Y[OLD])
    with pytest.raises(ValueError, match="grid"):
        grid.compressed(3)
    weighted = fitted(LSSVCCV(**GRID, criterion="balanced_accuracy"), LABELS)
    with pytest.raises(ValueError, match="pass X and y"):
        weighted.compressed(tolerance=0.1)


# -- tables --------------------------------------------------------------------------------------------


def frame() -> pd.DataFrame:
    table = pd.DataFrame(X, columns=list("abcd"))
    table["colour"] = np.where(X[:, 3] > 0, "red", "blue")
    table["price"] = np.exp(Y / 2)
    table["kind"] = LABELS
    return table


def test_table_models(tmp_path) -> None:
    table = frame()
    drop = {"drop": ["kind"], "simple": True, "target_transform": "log"}
    model = TableRegressor(**drop).fit(table[OLD], "price")
    small = model.compressed(60, X=table[NEW], y="price")
    assert model.estimator_.expansion_.n_centres == 250
    assert small.estimator_.expansion_.n_centres == 60
    record = small.estimator_.approximation_["compressed"]
    logarithms = np.log(small.predict(table[NEW])) - np.log(table.price[NEW])
    assert record["error_after"] == pytest.approx(np.sqrt(np.mean(logarithms**2)))
    assert small.compressed(30, X=table[NEW], y=table.price[NEW]).estimator_.expansion_.n_centres == 30
    small.save(tmp_path / "small.onefold")
    loaded = onefold.load(tmp_path / "small.onefold")
    assert_allclose(loaded.predict_interval(table[NEW]), small.predict_interval(table[NEW]), rtol=1e-12)
    names = small.report().text()
    assert "60 of 250 centres are left" in names
    with pytest.raises(ValueError, match="y is given without X"):
        model.compressed(60, y="price")


def test_table_classifiers() -> None:
    table = frame()
    model = TableClassifier(drop=["price"], simple=True).fit(table[OLD], "kind")
    small = model.compressed(tolerance=0.3, X=table[NEW], y="kind")
    changed = np.mean(small.predict(table[NEW]) != model.predict(table[NEW]))
    assert changed <= 0.3 * (1 - model.score(table[NEW], "kind"))
    assert small.predict_proba(table[NEW]).shape == (350, 3)
    assert dataclasses.asdict(small) == dataclasses.asdict(model)
