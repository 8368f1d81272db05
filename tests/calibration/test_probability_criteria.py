"""Scorers of probabilities as criteria: each split's probabilities calibrated by the other splits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import LeaveOneOut, RepeatedStratifiedKFold, ShuffleSplit, StratifiedKFold

from onefold import LSSVC, LSSVCCV, SparseLSSVC
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


@pytest.mark.parametrize(
    "machine",
    [
        LSSVCCV(**GRID, approximation="nystroem"),
        LSSVCCV(**GRID, metric="diagonal", max_rounds=1),
        LSSVCCV(**GRID, metric="diagonal", max_rounds=1, metric_rows=60),
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
NAMES = ["neg_log_loss", "neg_brier_score", "d2_brier_score", "roc_auc_ovr", "d2_log_loss_score"]


@pytest.mark.parametrize(
    ("classes", "criterion", "cv"),
    [
        *((2, name, FOLDS) for name in NAMES[:2]),
        *((3, name, FOLDS) for name in NAMES),
        (3, "neg_log_loss", REPEATED),  # rows that several splits test
    ],
)
@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
def test_the_literal_scores(classes, criterion, cv, name):
    X, y = table(classes)
    weight = RNG.uniform(0.5, 2, len(y)) if name == "sigmoid" else None
    found = LSSVCCV(**GRID, cv=cv, criterion=criterion, calibration=name).fit(X, y, weight).cv_results_
    for cell, params in enumerate(found["params"]):
        ours = [found[f"split{i}_test_score"][cell] for i in range(cv.get_n_splits())]
        assert_allclose(ours, literal_scores(X, y, cv, params, criterion, name, weight), rtol=1e-6)


def test_what_else_scores_may_come_from():
    """Decision values, a list, a function of the user's, no calibration at all."""
    X, y = table(3)

    def scores(criterion, calibration="temperature", rows=X, labels=y):
        model = LSSVCCV(**GRID, cv=FOLDS, criterion=criterion, calibration=calibration)
        return model.fit(rows, labels).cv_results_

    def own(estimator, rows, truth):
        return -log_loss(truth, estimator.predict_proba(rows))

    alone, key = scores("neg_log_loss")["mean_test_score"], "mean_test_score"
    assert_allclose(scores(["error", "neg_log_loss", "roc_auc_ovr"])["mean_test_neg_log_loss"], alone)
    assert_allclose(scores(own)[key], alone)
    assert_allclose(scores("neg_log_loss", None)[key], alone, rtol=0)
    assert not np.allclose(scores("neg_log_loss", "sigmoid")[key], alone)
    two = [scores("roc_auc", name, *table())[key] for name in ("isotonic", None)]
    assert_allclose(*two, rtol=0)
