"""Measures, their standard errors and the simple models, against literal computations."""

from __future__ import annotations

import numpy as np
import pytest
from report_cases import FEW, labels, numbers
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from onefold import LSSVCCV, LSSVRCV
from onefold.facts.measures import (
    ScoredRows,
    balanced_weights,
    interval,
    of_labels,
    of_numbers,
    row_weights,
)
from onefold.facts.scores import (
    SimpleModel,
    comparison_words,
    flat_scores,
    own_folds,
    score_facts,
    score_notes,
    simple_models,
)
from onefold.report import gather


def weights(n):
    return np.full(n, 1.0 / n)


def test_measures_of_numbers_are_scikit_learns():
    rng = np.random.default_rng(0)
    y, predicted = rng.normal(size=80), rng.normal(size=80)
    found = of_numbers(predicted, y, weights(80))
    assert found["r2"].value == pytest.approx(r2_score(y, predicted))
    assert found["rmse"].value == pytest.approx(np.sqrt(np.mean((y - predicted) ** 2)))
    assert found["mae"].value == pytest.approx(mean_absolute_error(y, predicted))
    both = of_numbers(np.stack([predicted, y], 1), np.stack([y, y + predicted], 1), weights(80))
    twice = r2_score(np.stack([y, y + predicted], 1), np.stack([predicted, y], 1))
    assert both["r2"].value == pytest.approx(twice)


def test_measures_of_labels_are_scikit_learns():
    rng = np.random.default_rng(1)
    y, shares = rng.integers(0, 2, 90), rng.random(90)
    shares[:20] = np.round(shares[:20], 1)  # ties
    both = np.stack([1 - shares, shares], 1)
    balance = balanced_weights(y, [np.arange(90)])
    predicted = (shares > 0.5).astype(int)
    found = of_labels(predicted, y, weights(90), balance, ranked=shares, probabilities=both)
    assert found["accuracy"].value == pytest.approx(accuracy_score(y, predicted))
    assert found["balanced_accuracy"].value == pytest.approx(balanced_accuracy_score(y, predicted))
    assert found["roc_auc"].value == pytest.approx(roc_auc_score(y, shares))
    assert found["log_loss"].value == pytest.approx(log_loss(y, both))


MEASURES = ["r2", "rmse", "mae", "accuracy", "balanced_accuracy", "roc_auc", "log_loss"]


@pytest.mark.parametrize("name", MEASURES)
def test_standard_errors_are_those_of_the_bootstrap(name):
    rng = np.random.default_rng(3)
    y = (rng.random(400) < 0.3).astype(int)
    shares = 1 / (1 + np.exp(-(2 * y - 1 + rng.normal(size=400))))

    def measure(i):
        if name in ("r2", "rmse", "mae"):
            return of_numbers(shares[i], y[i], weights(400))[name]
        both, balance = np.stack([1 - shares[i], shares[i]], 1), balanced_weights(y[i], [np.arange(400)])
        predicted = (shares[i] > 0.5).astype(int)
        found = of_labels(predicted, y[i], weights(400), balance, ranked=shares[i], probabilities=both)
        return found[name]

    drawn = [measure(i).value for i in rng.integers(0, 400, (600, 400))]
    one = measure(np.arange(400))
    assert one.error(weights(400)) == pytest.approx(np.std(drawn), rel=0.12)
    assert weights(400) @ one.influence == pytest.approx(0.0, abs=1e-12)


def test_a_paired_difference_is_sharper():
    rng = np.random.default_rng(4)
    y = rng.normal(size=200)
    noise = rng.normal(size=200)
    first, second = (of_numbers(y + c * noise, y, weights(200))["rmse"] for c in (1.0, 1.1))
    difference = second.minus(first)
    assert difference.value == pytest.approx(0.1 * np.sqrt(np.mean(noise**2)))
    assert difference.error(weights(200)) < 0.3 * first.error(weights(200))


def test_intervals_stay_where_values_can_be():
    all_right = of_labels(np.ones(50, int), np.ones(50, int), weights(50), weights(50))["accuracy"]
    found = interval("accuracy", all_right, weights(50))
    assert found["high"] == 1.0
    assert 0.9 < found["low"] < 0.95  # Wilson's: fifty rows do not prove perfection


def test_weights_make_folds_count_alike():
    tests = [np.arange(10), np.arange(10, 40)]
    omega = row_weights(50, tests, np.r_[np.ones(20), 2 * np.ones(30)])
    assert omega.sum() == pytest.approx(1.0)
    assert omega[:10].sum() == pytest.approx(0.5)
    assert not omega[40:].any()


def test_measures_of_tested_rows_are_means_over_their_folds():
    _, y, estimator = labels()
    weight = np.random.default_rng(5).random(len(y))
    tests = [np.flatnonzero(estimator.splits_ == k) for k in range(5)]
    rows = ScoredRows.of(y, estimator.heldout_prediction_, tests, estimator.classes_, weight)
    found = rows.measure(estimator.heldout_prediction_)
    predicted = estimator.classes_[estimator.heldout_prediction_.argmax(axis=1)]
    for name, score in (("accuracy", accuracy_score), ("balanced_accuracy", balanced_accuracy_score)):
        literal = [score(y[i], predicted[i], sample_weight=weight[i]) for i in tests]
        assert found[name].value == pytest.approx(np.mean(literal))
    table = rows.confusion(estimator.heldout_prediction_)
    np.testing.assert_array_equal(table, confusion_matrix(y, predicted))


def test_simple_models_are_literal_refits_on_the_splits_of_the_fit():
    X, y, estimator = numbers()
    found = {one["name"]: one for one in gather(estimator, X, y).as_dict()["scores"]["baselines"]}
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 7)))
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    for name, model in {
        "baseline (mean)": DummyRegressor(),
        "linear ridge": ridge,
        "tree of depth 4": tree,
    }.items():
        predicted = cross_val_predict(model, X, y, cv=KFold(5))
        rmse = np.sqrt(np.mean((y - predicted) ** 2))
        assert found[name]["measures"]["rmse"]["value"] == pytest.approx(rmse)
    assert found["linear ridge"]["gain"]["value"] > 0


def test_the_model_scores_as_its_criterion_says():
    X, y, estimator = numbers()
    scores = gather(estimator, X, y).as_dict()["scores"]
    assert "the same 5 splits" in scores["splits"]
    assert scores["model"]["measures"]["rmse"]["value"] ** 2 == pytest.approx(-estimator.best_score_)
    assert len(scores["by_split"]) == 5


def test_rows_that_taught_the_metric_have_no_say():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    estimator = LSSVRCV(metric="diagonal", metric_rows=60, max_rounds=1, **FEW).fit(X, y)
    tested = np.isfinite(estimator.heldout_prediction_)
    assert not tested.all()
    scores = gather(estimator, X, y).as_dict()["scores"]
    assert scores["rows"] == tested.sum()
    assert scores["untested"] == (~tested).sum()
    error = np.sqrt(np.mean((y - estimator.heldout_prediction_)[tested] ** 2))
    assert scores["model"]["measures"]["rmse"]["value"] == pytest.approx(error)


def test_weights_reach_simple_models():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    weight = rng.random(60)
    weight[::5] = 0.0
    folds = own_folds(y, classifier=False)
    constant = simple_models(X, y, folds, classes=None, weight=weight)[0]
    train, test = folds[0]
    mean = np.average(y[train], weights=weight[train])
    assert constant.values[test, 0] == pytest.approx(np.full(len(test), mean))


def test_a_class_that_a_fold_lacks_has_no_probability_there():
    y = np.array(["a"] * 30 + ["b"] * 29 + ["c"])
    X = np.random.default_rng(8).normal(size=(60, 2))
    folds = own_folds(y, classifier=True)
    for one in simple_models(X, y, folds, classes=np.unique(y)):
        assert one.values.sum(axis=1) == pytest.approx(np.ones(60))


def test_a_constant_ranks_nobody_whatever_its_folds_say():
    """The shares of a rare class differ from fold to fold, against the rows that are tested."""
    y = np.zeros(300, dtype=int)
    y[:7] = 1
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = LSSVCCV(gammas=[0.1], alphas=[1.0]).fit(X, y)
    found = gather(model, X, y).as_dict()["scores"]["baselines"][0]["measures"]
    assert found["roc_auc"]["value"] == pytest.approx(0.5)
    assert found["roc_auc"]["error"] == pytest.approx(0.0)


def test_the_area_is_the_mean_over_the_folds():
    rng = np.random.default_rng(5)
    y, ranked = rng.integers(0, 2, 60), rng.normal(size=60)
    tests = [np.arange(0, 20), np.arange(20, 60)]
    omega = row_weights(60, tests)
    found = of_labels(y, y, omega, omega, ranked=ranked, tests=tests)["roc_auc"]
    assert found.value == pytest.approx(np.mean([roc_auc_score(y[i], ranked[i]) for i in tests]))
    drawn = []
    for _ in range(500):
        again = [rng.choice(rows, len(rows)) for rows in tests]
        if all(len(np.unique(y[rows])) == 2 for rows in again):
            drawn.append(np.mean([roc_auc_score(y[i], ranked[i]) for i in again]))
    assert found.error(omega) == pytest.approx(np.std(drawn), rel=0.12)


def test_few_rows_of_a_class_leave_balanced_accuracy_uncertain():
    y = np.array([0] * 95 + [1] * 5)
    balance = balanced_weights(y, [np.arange(100)])
    one = of_labels(np.zeros(100, int), y, weights(100), balance)["balanced_accuracy"]
    found = interval("balanced_accuracy", one, weights(100))
    assert found["value"] == pytest.approx(0.5)
    assert found["high"] == pytest.approx(0.5 + 0.5 * 0.4345, abs=1e-3)  # Wilson's of 0 in 5
    assert found["low"] == pytest.approx(0.5 - 0.5 * (1 - 0.9611), abs=1e-3)  # of 95 in 95


def test_intervals_of_balanced_accuracy_go_with_its_error():
    """A class that has few rows in some folds: there they count much."""
    rng = np.random.default_rng(10)
    y = np.r_[np.tile([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 40), rng.integers(0, 2, 200)]
    tests = np.array_split(np.arange(600), 6)
    right = rng.random(600) < 0.7
    omega = row_weights(600, tests)
    predicted = np.where(right, y, 1 - y)
    one = of_labels(predicted, y, omega, balanced_weights(y, tests))["balanced_accuracy"]
    found = interval("balanced_accuracy", one, omega)
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * found["error"], rel=0.1)


@pytest.mark.parametrize(
    ("own", "other", "words", "notes"),
    [
        (0.1, 0.5, "the best simple model, tree, has R² 0.6", []),
        (0.1, 0.5, "this model is better by", []),
        (0.5, 0.1, "that is better by", ["a simple model is better: tree, by 0.2"]),
        (0.3, 0.3, "within two standard errors", []),
        (5.0, 0.1, "that is better by", ["no better than the mean by two", "a simple model is better"]),
        (5.0, 9.0, "mean, has R² 0.000: that is better by", ["no better than the mean by two"]),
    ],
)
def test_one_threshold_decides_what_is_better(own, other, words, notes):
    rng = np.random.default_rng(11)
    y, *noise = rng.normal(size=(3, 300))
    simple = [SimpleModel("mean", np.full((300, 1), y.mean()))]
    simple.append(SimpleModel("tree", (y + other * noise[1])[:, None]))
    scores = score_facts(y, (y + own * noise[0])[:, None], [np.arange(300)], simple)
    assert words in comparison_words(scores)
    found = score_notes(scores)
    assert len(found) == len(notes)
    assert all(note.startswith(start) for note, start in zip(found, notes))


def test_simple_models_of_many_rows_predict_some_and_are_compared_on_those(monkeypatch):
    monkeypatch.setattr("onefold.facts.scores._MOST_NUMBERS", 100)
    monkeypatch.setattr("onefold.facts.scores._FEWEST_ROWS", 20)
    X, y, estimator = numbers()
    folds = [(np.arange(30), np.arange(30, 150))]
    simple = simple_models(X, y, folds, classes=None)
    assert [one.train_rows for one in simple] == [25, 25, 25]
    tested = np.isfinite(simple[1].values[:, 0])
    assert tested.sum() == 100
    values = estimator.predict(X)[:, None]
    scores = score_facts(y, values, [np.arange(30, 150)], simple)
    assert scores["notes"] == [
        "baseline (mean), linear ridge, tree of depth 4: fitted to 25 rows of each training part"
    ]
    own, ridge = (r2_score(y[tested], one[tested]) for one in (values, simple[1].values))
    assert scores["baselines"][1]["gain"]["value"] == pytest.approx(own - ridge)
    assert scores["rows"] == 150


def test_measures_are_of_the_rows_that_were_tested():
    folds = [np.arange(0, 4), np.arange(4, 8), np.arange(8, 12)]
    y = np.random.default_rng(0).normal(size=12)
    predicted = y + 0.1 * np.arange(12)
    predicted[8:] = np.nan
    rows = ScoredRows.of(y, predicted[:, None], folds)
    assert rows.count == 8
    assert rows.measure(predicted[:, None])["r2"].value == pytest.approx(r2_score(y[:8], predicted[:8]))
    labels = np.array(["a", "b"] * 4 + ["c"] * 4)
    decision = np.zeros((12, 3))
    decision[np.arange(12), [0, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]] = 1.0
    decision[8:] = np.nan
    constant = SimpleModel("constant", np.tile([1.0, 0.0, 0.0], (12, 1)))
    scores = score_facts(labels, decision, folds, [constant], classes=np.unique(labels))
    found = flat_scores(scores)
    assert found["rows"] == 8
    assert found["accuracy"] == accuracy_score(labels[:8], ["a", "b", "a", "a", "a", "b", "b", "b"])
    assert found["class_rows"] == {"a": 4, "b": 4}  # no row of 'c' was tested
    assert set(found["recall"]) == {"a", "b"}
    assert scores["classes"]["confusion"] == [[3, 1, 0], [1, 3, 0], [0, 0, 0]]
