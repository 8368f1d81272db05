"""Probabilities of the classifiers, and their scorers as criteria: what refitting has; awkward data."""

import numpy as np
import pytest
import sklearn.calibration
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import get_scorer, get_scorer_names, log_loss
from sklearn.model_selection import (
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVC, LSSVCCV, LSSVR, SparseLSSVC
from onefold.calibration import CALIBRATIONS, fit_calibrator

RNG = np.random.default_rng(0)
NAMES = list(CALIBRATIONS)
CELL = {"gamma": 0.05, "alpha": 0.1}
GRID = {"gammas": [0.05], "alphas": [0.1]}
FOUR = {"gammas": [0.02, 0.2], "alphas": [0.01, 1.0]}
FOLDS = StratifiedKFold(4, shuffle=True, random_state=1)


def table(classes=2, n=160, seed=0):
    return make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=classes, flip_y=0.15, random_state=seed
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", NAMES[1:])
def test_calibrated_classifier_without_refits(name, classes, weighted):
    if name == "temperature" and not hasattr(sklearn.calibration, "_TemperatureScaling"):
        pytest.skip("scikit-learn has it from 1.8 on")
    X, y = table(classes)
    weight = RNG.uniform(0.2, 3, len(y)) if weighted else None
    ours = LSSVCCV(**GRID, cv=FOLDS, calibration=name)
    refits = CalibratedClassifierCV(LSSVC(**CELL), cv=FOLDS, ensemble=False, method=name)
    # Balanced weights are counted in all rows here, in each training part there: so by their numbers.
    if weighted and classes == 2:
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
    X, y = table(3, n=1300)
    found = [LSSVC(**CELL, random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    assert found[0].approximation_["calibrated_with"].startswith("predictions of 100")
    slopes = [one.calibrator_.slope for one in found]
    assert slopes[0] == slopes[1] != slopes[2]
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
    weights = weight[order], np.array([1.0, 3.0])
    expected = fit_calibrator("log_odds", decision[:, None], truth, *weights)
    assert found.calibrator_.slope == pytest.approx(expected.slope, rel=1e-8)


@pytest.mark.parametrize(
    ("settings", "name", "weighted"),
    [
        (GRID, "sigmoid", True),
        (
            {"kernel": "auto", "gammas": [0.3, 3.0], "alphas": [0.01, 1.0], "blend": True},
            "temperature",
            False,
        ),
    ],
    ids=["one kernel", "blend"],
)
def test_held_out_probabilities_are_calibrated_by_the_other_folds(settings, name, weighted):
    X, y = table(3)
    weight = RNG.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    found = LSSVCCV(**settings, cv=FOLDS, calibration=name, criterion="neg_log_loss").fit(X, y, weight)
    scores = []
    for _, test in FOLDS.split(X, y):
        rest = np.setdiff1d(np.arange(len(y)), test)
        other = fit_calibrator(name, found.heldout_prediction_[rest], y[rest], weight[rest])
        expected = other.probabilities(found.heldout_prediction_[test])
        assert_allclose(found.heldout_proba_[test], expected, atol=1e-8)
        scores.append(-log_loss(y[test], expected, sample_weight=weight[test]))
    score = found.blend_score_ if "blend" in settings else found.best_score_
    assert score == pytest.approx(np.mean(scores), rel=1e-6)
    final = fit_calibrator(name, found.heldout_prediction_, y, weight)
    decision = found.decision_function(X)
    assert_allclose(found.predict_proba(X), final.probabilities(decision), atol=1e-8)


@pytest.mark.parametrize(
    ("cv", "untested"),
    [
        (LeaveOneOut(), 0),
        (RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), 0),
        (ShuffleSplit(1, test_size=0.4, random_state=0), 96),
        (TimeSeriesSplit(3), 40),
        ([(np.arange(80, 160), np.arange(80)), (np.arange(120), np.arange(120, 140))], 60),
    ],
    ids=["each row", "repeated", "one split", "series", "pairs"],
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
    """As do fits without held-out predictions, which go on; conjugate gradients make some."""
    X, y = table()
    machines = [
        (LSSVC(**CELL, calibration=None), "calibration=None"),
        (LSSVCCV(**GRID, calibration=None), "calibration=None"),
        (SparseLSSVC(**GRID, n_centres=10, calibration=None), "calibration=None"),
    ]
    for machine, words in machines:
        found = machine.fit(X, y)
        assert found.calibrator_ is None
        assert not hasattr(found, "predict_proba")
        assert not hasattr(found, "predict_log_proba")
        with pytest.raises(AttributeError) as caught:
            found.predict_proba(X)
        assert words in str(caught.value.__cause__)
        assert hasattr(clone(machine).set_params(calibration="sigmoid"), "predict_proba")
        with pytest.raises(ValueError, match='calibration must be "log_odds"'):
            machine.set_params(calibration="platt").fit(X, y)
    assert not hasattr(LSSVR().fit(X, y), "predict_proba")
    assert hasattr(LSSVC(**CELL, approximation="cg").fit(X, y), "predict_proba")


def test_criteria_without_splits_an_objective_and_a_class_that_a_fold_has_not():
    X, y = table(3)
    for criterion in ("press", "gcv", "evidence"):
        chosen = LSSVCCV(**GRID, criterion=criterion).fit(X, y)
        assert chosen.heldout_proba_ is None
        assert chosen.calibrator_.slope == pytest.approx(LSSVC(**CELL).fit(X, y).calibrator_.slope)
    best = LSSVCCV().objective(X, y)
    best(gamma=0.05, alpha=0.1)
    assert best.fit().calibrator_.slope == pytest.approx(LSSVCCV(**GRID).fit(X, y).calibrator_.slope)
    order = np.argsort(y, kind="stable")
    every = np.arange(160)
    cv = [(np.setdiff1d(every, part), part) for part in np.array_split(every, 5)]
    for name in NAMES:
        sorted_rows = LSSVCCV(**GRID, cv=cv, calibration=name).fit(X[order], y[order])
        assert_allclose(sorted_rows.heldout_proba_.sum(axis=1), 1.0, atol=1e-12)


# -- scorers of probabilities as criteria: each split's calibrated by the other splits ---------------


def literal_scores(X, y, cv, params, criterion, name, weight):
    """Refit without each split, calibrate it by the test rows of the others, ask the metric."""
    splits = list(cv.split(X, y))
    decisions = []
    scores = []
    scorer = get_scorer(criterion)
    for train, test in splits:
        model = LSSVC(**params, calibration=None).fit(X[train], y[train], weight[train])
        decisions.append(model.decision_function(X[test]).reshape(len(test), -1))
    for number, (_, test) in enumerate(splits):
        rows = np.concatenate([t for i, (_, t) in enumerate(splits) if i != number])
        values = np.concatenate([d for i, d in enumerate(decisions) if i != number])
        other = ~np.isin(rows, test)
        calibrator = fit_calibrator(name, values[other], y[rows[other]], weight[rows[other]])
        found = calibrator.probabilities(decisions[number])
        found = found[:, 1] if found.shape[1] == 2 else found
        metric = scorer._score_func(y[test], found, sample_weight=weight[test], **scorer._kwargs)
        scores.append(scorer._sign * metric)
    return scores


@pytest.mark.parametrize("cv", ["loo", ShuffleSplit(1, test_size=0.5, random_state=0)])
def test_rows_in_one_split_are_calibrated_in_fifths(cv):
    X, y = table()
    found = LSSVCCV(gammas=[0.1], alphas=[0.1], cv=cv, criterion="neg_log_loss").fit(X, y)
    decision = found.heldout_prediction_
    test = np.arange(len(y)) if isinstance(cv, str) else next(iter(cv.split(X)))[1]
    values = np.empty((len(test), 2))
    for part in range(5):
        others = np.delete(test, np.arange(part, len(test), 5))
        calibrator = fit_calibrator("log_odds", decision[others][:, None], y[others])
        values[part::5] = calibrator.probabilities(decision[test[part::5]][:, None])
    assert found.best_score_ == pytest.approx(-log_loss(y[test], values), rel=1e-9)
    assert_allclose(found.heldout_proba_[test], values, atol=1e-10)


def test_the_journal_minds_the_calibration_only_where_scores_do(tmp_path):
    X, y = table()

    def calls(criterion, calibration, name):
        told = []
        path = tmp_path / name
        search = LSSVCCV(**FOUR, criterion=criterion, calibration=calibration, checkpoint=path)
        search.set_params(callback=told.append).fit(X, y)
        return len(told)

    assert calls("error", "temperature", "a") == 2
    assert calls("error", "sigmoid", "a") == 0
    assert calls("neg_log_loss", "temperature", "b") == 2
    assert calls("neg_log_loss", "temperature", "b") == 0
    with pytest.raises(ValueError, match="calibration"):
        calls("neg_log_loss", "sigmoid", "b")


@pytest.mark.parametrize(
    "machine",
    [
        LSSVCCV(**FOUR, approximation="nystroem"),
        LSSVCCV(**FOUR, metric="diagonal", max_rounds=1, metric_rows=60),
        LSSVCCV(search="halving", gammas=4.0 ** np.arange(-4, 1), alphas=4.0 ** np.arange(-4, 2)),
        SparseLSSVC(gammas=[0.1], alphas=[0.1]),
    ],
)
def test_every_search_takes_them(machine):
    found = machine.set_params(criterion="neg_log_loss").fit(*table())
    assert -np.log(2) < found.best_score_ < 0
    cell = LSSVCCV(criterion="neg_log_loss", gammas=[0.1], alphas=[0.3]).fit(*table())
    objective = LSSVCCV(criterion="neg_log_loss").objective(*table())
    assert objective(gamma=0.1, alpha=0.3) == pytest.approx(cell.best_score_)


REPEATED = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
SCORERS = ["neg_log_loss", "neg_brier_score", "d2_brier_score", "roc_auc_ovr", "d2_log_loss_score"]


@pytest.mark.parametrize(
    ("classes", "criterion", "cv"),
    [
        *((2, name, FOLDS) for name in SCORERS[:2]),
        *((3, name, FOLDS) for name in SCORERS),
        (3, "neg_log_loss", REPEATED),  # rows that several splits test
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_the_literal_scores(classes, criterion, cv, name, monkeypatch):
    if criterion not in get_scorer_names():
        pytest.skip("scikit-learn has it from 1.8 on")
    monkeypatch.setattr("onefold.calibration.probabilities._AT_ONCE", 1000)  # one model or two
    X, y = table(classes)
    weight = RNG.uniform(0.5, 2, len(y)) if name == "sigmoid" else np.ones(len(y))
    found = LSSVCCV(**FOUR, cv=cv, criterion=criterion, calibration=name).fit(X, y, weight).cv_results_
    for cell, params in enumerate(found["params"]):
        ours = [found[f"split{i}_test_score"][cell] for i in range(cv.get_n_splits())]
        assert_allclose(ours, literal_scores(X, y, cv, params, criterion, name, weight), rtol=1e-6)


def test_what_else_scores_may_come_from():
    """Decision values, a list, a function of the user's, no calibration at all."""
    X, y = table(3)

    def scores(criterion, calibration="log_odds", rows=X, labels=y):
        model = LSSVCCV(**FOUR, cv=FOLDS, criterion=criterion, calibration=calibration)
        return model.fit(rows, labels).cv_results_

    def own(estimator, rows, truth):
        return -log_loss(truth, estimator.predict_proba(rows))

    alone = scores("neg_log_loss")["mean_test_score"]
    key = "mean_test_score"
    assert_allclose(scores(["error", "neg_log_loss", "roc_auc_ovr"])["mean_test_neg_log_loss"], alone)
    assert_allclose(scores(own)[key], alone)
    assert_allclose(scores("neg_log_loss", None)[key], alone, rtol=0)
    assert not np.allclose(scores("neg_log_loss", "sigmoid")[key], alone)
    two = [scores("roc_auc", name, *table())[key] for name in ("isotonic", None)]
    assert_allclose(*two, rtol=0)
