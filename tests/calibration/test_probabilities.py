"""Probabilities of the classifiers: what CalibratedClassifierCV has by refitting, and awkward data."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVC, LSSVCCV, LSSVR, SparseLSSVC
from onefold.approximations import Nystroem
from onefold.calibration import CALIBRATIONS, fit_calibrator

RNG = np.random.default_rng(0)
NAMES = list(CALIBRATIONS)
CELL = {"gamma": 0.05, "alpha": 0.1}
GRID = {"gammas": [0.05], "alphas": [0.1]}
FOLDS = StratifiedKFold(4, shuffle=True, random_state=1)


def table(classes=2, n=160, seed=0):
    return make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=classes, flip_y=0.15, random_state=seed
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_calibrated_classifier_without_refits(name, classes, weighted):
    X, y = table(classes)
    weight = RNG.uniform(0.2, 3, len(y)) if weighted else None
    balanced = {"class_weight": "balanced"} if weighted and classes == 2 else {}
    ours = LSSVCCV(**GRID, cv=FOLDS, calibration=name)
    refits = CalibratedClassifierCV(LSSVC(**CELL), cv=FOLDS, ensemble=False, method=name)
    if balanced:  # counted in all rows here, in each training part there: so by its numbers
        counts = len(y) / (2 * np.bincount(y))
        ours.set_params(class_weight=dict(enumerate(counts)))
        refits.set_params(estimator__class_weight=dict(enumerate(counts)))
    ours.fit(X, y, weight)
    refits.fit(X, y, sample_weight=weight)
    asked = X + 0.3 * RNG.normal(size=X.shape)
    assert_allclose(ours.predict_proba(asked), refits.predict_proba(asked), atol=1e-6)
    assert_allclose(ours.predict_proba(asked).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_given_hyper_parameters_calibrate_on_leave_one_out(name, classes):
    X, y = table(classes, n=70)
    weight = RNG.uniform(0.5, 2, 70)
    left_out = np.stack(
        [
            LSSVC(**CELL).fit(np.delete(X, i, 0), np.delete(y, i), np.delete(weight, i))
            .decision_function(X[i : i + 1])[0]
            for i in range(70)
        ]
    )  # fmt: skip
    expected = fit_calibrator(name, left_out.reshape(70, -1), y, weight)
    found = LSSVC(**CELL, calibration=name).fit(X, y, weight)
    decision = found.decision_function(X).reshape(70, -1)
    assert_allclose(found.predict_proba(X), expected.probabilities(decision), atol=1e-6)
    assert "70 of 70 rows" in found.approximation_["calibrated_with"]


def test_many_rows_calibrate_on_some_of_them():
    X, y = table(3, n=1500)
    y = np.where(y == 2, 2, y % 2)
    found = [LSSVC(**CELL, random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    told = found[0].approximation_["calibrated_with"]
    assert told.startswith("predictions of 100")
    assert found[0].calibrator_ == found[1].calibrator_ != found[2].calibrator_
    assert found[0].calibrator_.slope == pytest.approx(found[2].calibrator_.slope, rel=0.1)
    assert_array_equal(found[0].predict(X), LSSVC(**CELL, calibration=None).fit(X, y).predict(X))


def test_sparse_machines_calibrate_on_the_folds_at_the_chosen_size():
    X, y = table(2, n=120)
    weight = RNG.uniform(0.5, 2, 120)
    sparse = SparseLSSVC(**GRID, n_centres=20, cv=FOLDS, class_weight={0: 1.0, 1: 3.0})
    found = sparse.fit(X, y, weight)
    seen = []

    def keep(estimator, rows, truth):
        seen.append((estimator.decision_function(rows), truth))
        return 0.0

    clone(sparse).set_params(criterion=keep).fit(X, y, weight)
    sizes = len(seen) // 4
    last = [seen[split * sizes + sizes - 1] for split in range(4)]
    order = np.concatenate([test for _, test in FOLDS.split(X, y)])
    decision, truth = (np.concatenate(parts) for parts in zip(*last))
    expected = fit_calibrator("temperature", decision[:, None], truth, weight[order])
    assert found.calibrator_.slope == pytest.approx(expected.slope, rel=1e-8)


def test_a_temperature_never_changes_the_label():
    for classes in (2, 3, 5):
        X, y = table(classes, n=200)
        for estimator in (LSSVC(**CELL), LSSVCCV(**GRID), LSSVCCV(**GRID, class_weight="balanced")):
            found = estimator.fit(X, y)
            asked = 3 * RNG.normal(size=(500, 6))
            likeliest = found.classes_[found.predict_proba(asked).argmax(axis=1)]
            assert_array_equal(likeliest, found.predict(asked))


def test_held_out_probabilities_are_calibrated_by_the_other_folds():
    X, y = table(3)
    weight = RNG.uniform(0.5, 2, len(y))
    found = LSSVCCV(**GRID, cv=FOLDS, calibration="sigmoid").fit(X, y, weight)
    for _, test in FOLDS.split(X, y):
        rest = np.setdiff1d(np.arange(len(y)), test)
        other = fit_calibrator("sigmoid", found.heldout_prediction_[rest], y[rest], weight[rest])
        expected = other.probabilities(found.heldout_prediction_[test])
        assert_allclose(found.heldout_proba_[test], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("cv", "untested"),
    [
        ("loo", 0),
        (LeaveOneOut(), 0),
        (RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), 0),
        (ShuffleSplit(1, test_size=0.4, random_state=0), 96),
        (TimeSeriesSplit(3), 40),
        ([(np.arange(80, 160), np.arange(80)), (np.arange(120), np.arange(120, 140))], 60),
    ],
    ids=["loo", "each row", "repeated", "one split", "series", "pairs"],
)
@pytest.mark.parametrize("name", NAMES)
def test_any_splitter(cv, untested, name):
    X, y = table()
    found = LSSVCCV(**GRID, cv=cv, calibration=name).fit(X, y)
    never = np.isnan(found.heldout_prediction_)
    assert never.sum() == untested
    assert_array_equal(np.isnan(found.heldout_proba_).all(axis=1), never)
    assert_allclose(found.heldout_proba_[~never].sum(axis=1), 1.0, atol=1e-12)
    tested = found.heldout_prediction_[~never][:, None]
    assert_allclose(
        found.predict_proba(X),
        fit_calibrator(name, tested, y[~never]).probabilities(found.decision_function(X)[:, None]),
        atol=1e-10,
    )


def test_none_and_what_it_takes_away():
    X, y = table()
    for estimator in (LSSVC(**CELL), LSSVCCV(**GRID), SparseLSSVC(**GRID, n_centres=10)):
        assert hasattr(estimator, "predict_proba")
        found = estimator.set_params(calibration=None).fit(X, y)
        assert found.calibrator_ is None
        assert not hasattr(found, "predict_proba")
        assert not hasattr(found, "predict_log_proba")
        with pytest.raises(AttributeError) as caught:
            found.predict_proba(X)
        assert "calibration=None" in str(caught.value.__cause__)
        with pytest.raises(ValueError, match='calibration must be "temperature"'):
            estimator.set_params(calibration="platt").fit(X, y)
    assert LSSVCCV(**GRID, calibration=None).fit(X, y).heldout_proba_ is None
    assert not hasattr(LSSVR().fit(X, y), "predict_proba")


def test_fits_without_held_out_predictions_go_on():
    X, y = table()
    iterated = LSSVC(**CELL, approximation="cg").fit(X, y)
    assert iterated.calibrator_ is None
    assert not hasattr(iterated, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        iterated.predict_proba(X)
    assert "CalibratedClassifierCV" in str(caught.value.__cause__)
    assert "nothing" in iterated.approximation_["calibrated_with"]


AWKWARD = {
    "two rows": (np.array([[0.0], [1.0]]), np.array([0, 1])),
    "three rows": (np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 2])),
    "constant": (np.ones((30, 2)), np.arange(30) % 2),
    "copies": (np.repeat(RNG.normal(size=(6, 2)), 6, axis=0), np.repeat(np.arange(6) % 3, 6)),
    "apart": (np.arange(40.0)[:, None] + 100 * (np.arange(40) > 19)[:, None], np.arange(40) > 19),
    "one in a thousand": (RNG.normal(size=(1001, 2)), np.arange(1001) == 500),
    "noise": (RNG.normal(size=(80, 3)), RNG.integers(0, 4, 80)),
    "float32": (RNG.normal(size=(50, 2)).astype(np.float32), RNG.integers(0, 2, 50)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_tables(case, name):
    X, y = AWKWARD[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for scale in (1.0, 1e-6):
            found = LSSVC(gamma=0.5, alpha=scale, calibration=name).fit(X, y)
            values = found.predict_proba(np.concatenate([X, 1e6 * X]))
            assert values.dtype == np.float64
            assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)
        if len(y) > 3:
            parts = [(np.arange(len(y)) % 3 != k, np.arange(len(y)) % 3 == k) for k in range(3)]
            pairs = [(np.flatnonzero(a), np.flatnonzero(b)) for a, b in parts]
            searched = LSSVCCV(**GRID, cv=pairs, calibration=name)
            if case == "one in a thousand":  # its class is missing where it is held out: so is a model
                with pytest.raises(ValueError, match="one class only"):
                    searched.fit(X, y)
            else:
                assert_allclose(searched.fit(X, y).heldout_proba_.sum(axis=1), 1.0, atol=1e-12)


def test_rows_of_dask_are_predicted_lazily():
    dask_array = pytest.importorskip("dask.array")
    dataframe = pytest.importorskip("dask.dataframe")
    import pandas

    X, y = table(3)
    found = LSSVCCV(**GRID).fit(X, y)
    lazy = found.predict_proba(dask_array.from_array(X, chunks=(50, 6)))
    assert lazy.shape == (160, 3)
    assert_allclose(lazy.compute(), found.predict_proba(X))
    frame = dataframe.from_pandas(pandas.DataFrame(X), npartitions=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of feature names that the fit did not have
        logs = found.predict_log_proba(frame)
        assert list(logs.columns) == [0, 1, 2]
        assert_allclose(logs.compute().to_numpy(), found.predict_log_proba(X))
    by_dask = LSSVC(**CELL, approximation=Nystroem(20)).fit(dask_array.from_array(X, chunks=(50, 6)), y)
    assert by_dask.calibrator_ is None
    assert not hasattr(by_dask, "predict_proba")


def test_a_blend_criteria_without_splits_and_a_class_that_a_fold_has_not():
    X, y = table(3)
    found = LSSVCCV(kernel="auto", blend=True, gammas=[0.3, 3], alphas=[0.01, 0.1]).fit(X, y)
    assert found.calibrator_ == fit_calibrator("temperature", found.heldout_prediction_, y)
    assert log_loss(y, found.heldout_proba_) < np.log(3)
    for criterion in ("press", "gcv", "evidence"):
        chosen = LSSVCCV(**GRID, criterion=criterion).fit(X, y)
        assert chosen.heldout_proba_ is None
        assert chosen.calibrator_.slope == pytest.approx(LSSVC(**CELL).fit(X, y).calibrator_.slope)
    best = LSSVCCV().objective(X, y)
    best(gamma=0.05, alpha=0.1)
    assert best.fit().calibrator_.slope == pytest.approx(LSSVCCV(**GRID).fit(X, y).calibrator_.slope)
    order = np.argsort(y, kind="stable")
    cv = [(np.setdiff1d(np.arange(160), part), part) for part in np.array_split(np.arange(160), 5)]
    for name in NAMES:
        sorted_rows = LSSVCCV(**GRID, cv=cv, calibration=name).fit(X[order], y[order])
        assert_allclose(sorted_rows.heldout_proba_.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("kind", [LSSVC, LSSVCCV, SparseLSSVC])
def test_labels_of_any_kind_and_library_and_the_columns_in_their_order(kind):
    torch, (X, y) = pytest.importorskip("torch"), table(3)
    grid = CELL if kind is LSSVC else GRID
    plain = kind(**grid).fit(X, y)
    for names in (["b", "c", "a"], [2.0, -1.0, 0.0], np.array(["zz", "a", "mm"], dtype=object)):
        names = np.asarray(names)
        found = kind(**grid).fit(X, names[y])
        assert_array_equal(found.classes_, np.unique(names))
        order = np.argsort(names)
        assert_allclose(found.predict_proba(X), plain.predict_proba(X)[:, order], atol=1e-6)
        assert_allclose(np.exp(found.predict_log_proba(X)), found.predict_proba(X), atol=1e-14)
    values = kind(**grid).fit(torch.asarray(X), torch.asarray(y)).predict_proba(torch.asarray(X))
    assert isinstance(values, torch.Tensor)
    assert values.dtype == torch.float64
    assert_allclose(values.numpy(), plain.predict_proba(X), atol=1e-6)
