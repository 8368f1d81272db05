"""Scorers of probabilities as criteria: each split's probabilities calibrated by the other splits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.metrics import get_scorer, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import (
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from onefold import LSSVC, LSSVCCV, LSSVRCV, SparseLSSVC
from onefold.calibration import fit_calibrator

RNG = np.random.default_rng(0)
FOLDS = StratifiedKFold(4, shuffle=True, random_state=0)
GRID = {"gammas": [0.02, 0.2], "alphas": [0.01, 1.0]}


def table(classes=2, n=120, seed=0):
    return make_classification(
        n, 6, n_informative=5, n_redundant=0, n_classes=classes, flip_y=0.1, random_state=seed
    )


class Literal:
    """An estimator that has probabilities and nothing else."""

    def __init__(self, values, classes):
        self.values, self.classes_ = values, classes
        self._estimator_type = "classifier"

    def __sklearn_tags__(self):
        return LSSVC().__sklearn_tags__()

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.values


def literal_scores(X, y, cv, params, criterion, name, weight=None):
    """Refit without each split, calibrate it by the test rows of the others, ask the scorer."""
    splits, decisions = list(cv.split(X, y)), []
    for train, test in splits:
        own = None if weight is None else weight[train]
        model = LSSVC(**params, calibration=None).fit(X[train], y[train], own)
        decisions.append(model.decision_function(X[test]).reshape(len(test), -1))
    scores = []
    for number, (_, test) in enumerate(splits):
        rows = np.concatenate([t for i, (_, t) in enumerate(splits) if i != number])
        values = np.concatenate([d for i, d in enumerate(decisions) if i != number])
        other = ~np.isin(rows, test)
        own = None if weight is None else weight[rows[other]]
        calibrator = fit_calibrator(name, values[other], y[rows[other]], own)
        stand_in = Literal(calibrator.probabilities(decisions[number]), np.unique(y))
        extra = {} if weight is None else {"sample_weight": weight[test]}
        scores.append(get_scorer(criterion)(stand_in, X[test], y[test], **extra))
    return scores


@pytest.mark.parametrize(
    ("classes", "criterion"),
    [
        (2, "neg_log_loss"),
        (2, "neg_brier_score"),
        (3, "neg_log_loss"),
        (3, "neg_brier_score"),
        (3, "d2_brier_score"),
        (3, "roc_auc_ovr"),
        (3, "d2_log_loss_score"),
    ],
)
@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
def test_the_literal_scores(classes, criterion, name):
    X, y = table(classes)
    weight = RNG.uniform(0.5, 2, len(y)) if name == "sigmoid" else None
    found = LSSVCCV(**GRID, cv=FOLDS, criterion=criterion, calibration=name).fit(X, y, weight)
    for cell, params in enumerate(found.cv_results_["params"]):
        ours = [found.cv_results_[f"split{i}_test_score"][cell] for i in range(4)]
        assert_allclose(ours, literal_scores(X, y, FOLDS, params, criterion, name, weight), rtol=1e-6)


def test_rows_that_several_splits_test():
    X, y = table(3)
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    found = LSSVCCV(gammas=[0.1], alphas=[0.1], cv=cv, criterion="neg_log_loss").fit(X, y)
    ours = [found.cv_results_[f"split{i}_test_score"][0] for i in range(6)]
    params = {"gamma": 0.1, "alpha": 0.1}
    assert_allclose(ours, literal_scores(X, y, cv, params, "neg_log_loss", "temperature"), rtol=1e-6)


@pytest.mark.parametrize("cv", ["loo", ShuffleSplit(1, test_size=0.5, random_state=0)])
def test_rows_in_one_split_are_calibrated_in_fifths(cv):
    X, y = table()
    found = LSSVCCV(gammas=[0.1], alphas=[0.1], cv=cv, criterion="neg_log_loss").fit(X, y)
    decision = found.heldout_prediction_
    test = np.arange(len(y)) if isinstance(cv, str) else next(iter(cv.split(X)))[1]
    values = np.empty((len(test), 2))
    for part in range(5):
        others = np.delete(test, np.arange(part, len(test), 5))
        calibrator = fit_calibrator("temperature", decision[others][:, None], y[others])
        values[part::5] = calibrator.probabilities(decision[test[part::5]][:, None])
    assert found.best_score_ == pytest.approx(-log_loss(y[test], values), rel=1e-9)
    assert_allclose(found.heldout_proba_[test], values, atol=1e-10)


def test_single_rows_and_too_few_of_them():
    X, y = table()

    def right(y_true, y_proba, **labels):
        return float(np.mean(y_proba[np.arange(len(y_true)), y_true]))

    scorer = make_scorer(right, response_method="predict_proba")
    # Of two classes a scorer is given the second one's column.
    two = make_scorer(
        lambda y, p: float(np.mean(np.where(y, p, 1 - p))), response_method="predict_proba"
    )
    alone = LSSVCCV(**GRID, cv=LeaveOneOut(), criterion=two).fit(X, y)
    pooled = LSSVCCV(**GRID, cv="loo", criterion=two).fit(X, y)
    assert alone.best_score_ == pytest.approx(pooled.best_score_)
    three, labels = table(3)
    assert LSSVCCV(**GRID, criterion=scorer).fit(three, labels).best_score_ > 0.4
    with pytest.raises(ValueError, match="there is one only"):
        LSSVCCV(**GRID, cv=[(np.arange(119), [119])], criterion="neg_log_loss").fit(X, y)


def test_scorers_of_decision_values_keep_their_numbers():
    X, y = table()
    found = LSSVCCV(**GRID, cv=FOLDS, criterion="roc_auc", calibration="isotonic").fit(X, y)
    plain = LSSVCCV(**GRID, cv=FOLDS, criterion="roc_auc", calibration=None).fit(X, y)
    assert_allclose(found.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=0)
    scores = [roc_auc_score(y[test], found.heldout_prediction_[test]) for _, test in FOLDS.split(X, y)]
    assert found.best_score_ == pytest.approx(np.mean(scores))


def test_without_a_calibration_a_temperature_serves():
    X, y = table(3)
    scores = [
        LSSVCCV(**GRID, criterion="neg_log_loss", calibration=name).fit(X, y).best_score_
        for name in (None, "temperature", "sigmoid")
    ]
    assert scores[0] == scores[1] != scores[2]


def test_lists_of_criteria_and_functions_of_the_users():
    X, y = table(3)
    asked = ["error", "neg_log_loss", "roc_auc_ovr"]
    found = LSSVCCV(**GRID, cv=FOLDS, criterion=asked).fit(X, y)
    alone = LSSVCCV(**GRID, cv=FOLDS, criterion="neg_log_loss").fit(X, y)
    assert_allclose(found.cv_results_["mean_test_neg_log_loss"], alone.cv_results_["mean_test_score"])

    def own(estimator, rows, truth):
        return -log_loss(truth, estimator.predict_proba(rows))

    mine = LSSVCCV(**GRID, cv=FOLDS, criterion=own).fit(X, y)
    assert_allclose(mine.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_a_blend_is_scored_by_its_probabilities():
    X, y = table(3)
    grid = {"kernel": "auto", "gammas": [0.3, 3.0], "alphas": [0.01, 1.0]}
    found = LSSVCCV(**grid, cv=FOLDS, blend=True, criterion="neg_log_loss").fit(X, y)
    scores = []
    for _, test in FOLDS.split(X, y):
        rest = np.setdiff1d(np.arange(len(y)), test)
        other = fit_calibrator("temperature", found.heldout_prediction_[rest], y[rest])
        scores.append(-log_loss(y[test], other.probabilities(found.heldout_prediction_[test])))
    assert found.blend_score_ == pytest.approx(np.mean(scores), rel=1e-6)


def test_metrics_halving_and_drivers():
    X, y = table(2, n=300)
    learned = LSSVCCV(metric="diagonal", max_rounds=1, criterion="neg_log_loss", **GRID).fit(X, y)
    assert learned.best_score_ > -0.7
    aside = LSSVCCV(metric="diagonal", max_rounds=1, criterion="neg_log_loss", metric_rows=150, **GRID)
    assert aside.fit(X, y).best_score_ > -0.7
    assert np.isnan(aside.heldout_proba_).all(axis=1).sum() > 0
    grid = {"gammas": 2.0 ** np.arange(-9, 2, 2), "alphas": 4.0 ** np.arange(-4, 2)}
    halved = LSSVCCV(search="halving", criterion="neg_log_loss", **grid).fit(X, y)
    whole = LSSVCCV(criterion="neg_log_loss", **grid).fit(X, y)
    assert halved.best_score_ >= whole.best_score_ - 0.02
    objective = LSSVCCV(criterion="neg_log_loss").objective(X, y)
    cell = LSSVCCV(criterion="neg_log_loss", gammas=[0.1], alphas=[0.3]).fit(X, y)
    assert objective(gamma=0.1, alpha=0.3) == pytest.approx(cell.best_score_)


def test_sparse_machines():
    X, y = table()
    found = SparseLSSVC(gammas=[0.1], alphas=[0.1], cv=FOLDS, criterion="neg_log_loss").fit(X, y)
    assert -np.log(2) < found.best_score_ < 0


def test_approximations():
    X, y = table()
    for approximation in ("nystroem", "exact"):
        found = LSSVCCV(**GRID, approximation=approximation, criterion="neg_log_loss").fit(X, y)
        assert -np.log(2) < found.best_score_ < 0


def test_regressions_have_no_probabilities():
    X, y = table()
    with pytest.raises(ValueError, match="needs probabilities"):
        LSSVRCV(criterion="neg_log_loss").fit(X, y)


def test_the_journal_minds_the_calibration_only_where_scores_do(tmp_path):
    X, y = table()

    def calls(criterion, calibration, name):
        told = []
        path = tmp_path / name
        search = LSSVCCV(**GRID, criterion=criterion, calibration=calibration, checkpoint=path)
        search.set_params(callback=told.append).fit(X, y)
        return len(told)

    assert calls("error", "temperature", "a") == 2
    assert calls("error", "sigmoid", "a") == 0
    assert calls("neg_log_loss", "temperature", "b") == 2
    assert calls("neg_log_loss", "temperature", "b") == 0
    with pytest.raises(ValueError, match="calibration"):
        calls("neg_log_loss", "sigmoid", "b")
