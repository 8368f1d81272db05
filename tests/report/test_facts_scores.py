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
    f1_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_absolute_percentage_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from onefold import LSSVCCV, LSSVRCV
from onefold.facts.criteria import score_label
from onefold.facts.measures import MEASURES, ScoredRows, interval
from onefold.facts.scores import (
    SimpleModel,
    comparison_words,
    flat_scores,
    score_facts,
    score_notes,
    shuffled_folds,
    simple_models,
)
from onefold.report import write_report

LITERAL = {
    "r2": r2_score,
    "rmse": root_mean_squared_error,
    "mae": mean_absolute_error,
    "mape": lambda y, p: mean_absolute_percentage_error(y + 1, p + 1),  # by sizes that are not 0
    "accuracy": lambda y, p: accuracy_score(y, p > 0.5),
    "balanced_accuracy": lambda y, p: balanced_accuracy_score(y, p > 0.5),
    "f1": lambda y, p: f1_score(y, p > 0.5),
    "f1_macro": lambda y, p: f1_score(y, p > 0.5, average="macro"),
    "roc_auc": roc_auc_score,
    "log_loss": lambda y, p: log_loss(y, np.stack([1 - p, p], 1)),
}


def measured(name, y, share, tests=None):
    """A measure of numbers, or of the probability of class 1."""
    tests = tests or [np.arange(len(y))]
    values = share[:, None]
    if name in ("r2", "rmse", "mae", "mape"):
        rows = ScoredRows(y, tests)
        if name == "mape":
            rows = ScoredRows(y + 1, tests)
            values = values + 1
        return rows, rows.measure(values, None, name)[name]
    rows = ScoredRows(y, tests, np.array([0, 1]))
    return rows, rows.measure(values - 0.5, np.column_stack([1 - share, share]), name)[name]


@pytest.mark.parametrize("name", LITERAL)
def test_measures_are_scikit_learns_and_their_errors_those_of_the_bootstrap(name):
    rng = np.random.default_rng(3)
    y = (rng.random(400) < 0.3).astype(int)
    share = 1 / (1 + np.exp(-(2 * y - 1 + rng.normal(size=400))))
    share[:20] = np.round(share[:20], 1) + 0.01  # ties
    rows, one = measured(name, y, share)
    assert one.value == pytest.approx(LITERAL[name](y, share))
    drawn = [measured(name, y[i], share[i])[1].value for i in rng.integers(0, 400, (600, 400))]
    assert one.error(rows.weight) == pytest.approx(np.std(drawn), rel=0.12)
    assert rows.weight @ one.influence == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("classes", [(0, 1), (1, 2), (-1, 1), (False, True)])
def test_f1_is_of_the_class_that_the_scorer_takes_for_positive(classes):
    """Of the classes 1 and 2 it was that of 2, and the search went by that of 1."""
    rng = np.random.default_rng(3)
    labels = np.array(classes)
    place = (rng.random(200) < 0.3).astype(int)
    values = (2 * place - 1 + rng.normal(size=200))[:, None]
    found = ScoredRows(labels[place], [np.arange(200)], labels).measure(values, None, "f1")
    literal = f1_score(labels[place], labels[(values[:, 0] > 0).astype(int)])
    assert found["f1"].value == pytest.approx(literal)


def test_there_is_no_f1_where_no_class_is_the_positive_one():
    """That of the second class was shown, which no scorer takes for positive."""
    rows = ScoredRows(np.array(["a", "b"]), [np.arange(2)], np.array(["a", "b"]))
    assert "f1" not in rows.measure(np.array([[-1.0], [1.0]]), None, "f1")


def test_several_targets_have_the_mean_of_their_r2():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(80, 2))
    predicted = rng.normal(size=(80, 2))
    found = ScoredRows(y, [np.arange(80)]).measure(predicted)
    assert found["r2"].value == pytest.approx(r2_score(y, predicted))
    assert found["mae"].value == pytest.approx(mean_absolute_error(y, predicted))


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


def test_the_area_is_the_mean_over_the_folds():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 60)
    ranked = rng.normal(size=60)
    tests = [np.arange(0, 20), np.arange(20, 60)]
    _, found = measured("roc_auc", y, ranked, tests)
    assert found.value == pytest.approx(np.mean([roc_auc_score(y[i], ranked[i]) for i in tests]))
    _, alone = measured("roc_auc", y, ranked, [np.flatnonzero(y == k) for k in (0, 1)])
    assert 0 < alone.value < 1  # no fold has both classes: all rows are compared


@pytest.mark.parametrize(
    ("y", "right", "name", "low", "high"),
    [
        (np.ones(60, int), np.ones(60), "accuracy", 0.9398, 1.0),  # whose weights sum to more than 1
        (np.ones(50, int), np.ones(50), "accuracy", 0.9287, 1.0),  # fifty rows do not prove perfection
        # Wilson's of 95 in 95 and of 0 in 5, each for half.
        (np.repeat([0, 1], [95, 5]), np.repeat([1, 0], [95, 5]), "balanced_accuracy", 0.4805, 0.7172),
    ],
)
def test_intervals_of_shares_stay_where_values_can_be(y, right, name, low, high):
    rows, one = measured(name, y, np.where(right > 0, y, 1 - y))
    found = interval(name, one, rows.weight)
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-3)
    assert found["value"] <= 1


def test_intervals_of_balanced_accuracy_go_with_its_error():
    """A class that has few rows in some folds: there they count much."""
    rng = np.random.default_rng(10)
    y = np.r_[np.tile([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 40), rng.integers(0, 2, 200)]
    predicted = np.where(rng.random(600) < 0.7, y, 1 - y)
    tests = np.array_split(np.arange(600), 6)
    rows, one = measured("balanced_accuracy", y, predicted, tests)
    found = interval("balanced_accuracy", one, rows.weight)
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * found["error"], rel=0.1)


def test_scores_and_simple_models_are_literal_refits_on_the_splits_of_the_fit():
    X, y, estimator = numbers()
    scores = write_report(estimator, None, X, y).as_dict()["scores"]
    assert "the same 5 splits" in scores["splits"]
    assert scores["model"]["measures"]["rmse"]["value"] ** 2 == pytest.approx(-estimator.best_score_)
    found = {one["name"]: one for one in scores["baselines"]}
    for name, model in {
        "baseline (mean)": DummyRegressor(),
        "linear ridge": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 7))),
        "tree of depth 4": DecisionTreeRegressor(max_depth=4, random_state=0),
    }.items():
        rmse = root_mean_squared_error(y, cross_val_predict(model, X, y, cv=KFold(5)))
        assert found[name]["measures"]["rmse"]["value"] == pytest.approx(rmse)
    assert found["linear ridge"]["gain"]["value"] > 0


def test_rows_that_several_splits_test_count_once_and_the_report_says_so():
    X, y, _ = numbers()
    model = LSSVRCV(gammas=[0.1], alphas=[0.1], cv=ShuffleSplit(9, random_state=0)).fit(X, y)
    scores = write_report(model, None, X, y).as_dict()["scores"]
    assert "rows that several splits test count once, with their mean pred" in scores["how"]
    tested = np.isfinite(model.heldout_prediction_)
    assert scores["rows"] == tested.sum()
    weight = np.where(tested, (model.splits_ == 2).sum(axis=1), 0)
    loss = np.average((y - np.nan_to_num(model.heldout_prediction_)) ** 2, weights=weight)
    assert scores["model"]["measures"]["rmse"]["value"] == pytest.approx(np.sqrt(loss))
    assert loss < -model.best_score_


def test_rows_that_taught_the_metric_have_no_say():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    estimator = LSSVRCV(metric="diagonal", metric_rows=60, max_rounds=1, **FEW).fit(X, y)
    tested = np.isfinite(estimator.heldout_prediction_)
    assert not tested.all()
    scores = write_report(estimator, None, X, y).as_dict()["scores"]
    assert (scores["rows"], scores["untested"]) == (tested.sum(), (~tested).sum())
    error = np.sqrt(np.mean((y - estimator.heldout_prediction_)[tested] ** 2))
    assert scores["model"]["measures"]["rmse"]["value"] == pytest.approx(error)


def test_weights_reach_simple_models():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    y = rng.normal(size=60)
    weight = rng.random(60)
    weight[::5] = 0.0
    X[::5] = 1e6
    folds = shuffled_folds(y, classifier=False)
    constant, linear, _ = simple_models(X, y, folds, classes=None, weight=weight)
    train, test = folds[0]
    train = train[weight[train] > 0]
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 7)))
    ridge.fit(X[train], y[train], ridgecv__sample_weight=weight[train])
    assert linear.values[test, 0] == pytest.approx(ridge.predict(X[test]))
    assert constant.values[test, 0] == pytest.approx(np.average(y[train], weights=weight[train]))


def test_a_class_that_a_fold_lacks_has_no_probability_there():
    y = np.array(["a"] * 30 + ["b"] * 29 + ["c"])
    X = np.random.default_rng(8).normal(size=(60, 2))
    one_class = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    for folds in (shuffled_folds(y, classifier=True), one_class):
        for one in simple_models(X, y, folds, classes=np.unique(y)):
            assert one.values.sum(axis=1) == pytest.approx(np.ones(60))


def test_a_constant_ranks_nobody_whatever_its_folds_say():
    """The shares of a rare class differ from fold to fold, against the rows that are tested."""
    y = np.zeros(300, dtype=int)
    y[:7] = 1
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = LSSVCCV(gammas=[0.1], alphas=[1.0]).fit(X, y)
    found = write_report(model, None, X, y).as_dict()["scores"]["baselines"][0]["measures"]["roc_auc"]
    assert (found["value"], found["error"]) == pytest.approx((0.5, 0.0))


@pytest.mark.parametrize(
    ("own", "other", "words", "notes"),
    [
        (0.1, 0.5, "tree, has R² 0.663: this model is better by 0.325", []),
        (0.5, 0.1, "it is better than this model by", ["a simple model is better: tree, by 0.2"]),
        (0.3, 0.3, "within two standard errors", []),
        (
            5.0,
            0.1,
            "it is better than this model by",
            ["not better than the mean by two", "a simple model is better"],
        ),
        (
            5.0,
            9.0,
            "mean, has R² 0.000: it is better than this model by",
            ["not better than the mean by two"],
        ),
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


@pytest.mark.parametrize(("rows", "told"), [(29, ["scores from 29 rows are uncertain"]), (30, [])])
@pytest.mark.parametrize("new", [False, True])
def test_scores_of_few_rows_are_called_uncertain(rows, told, new):
    y = np.random.default_rng(0).normal(size=rows)
    simple = [SimpleModel("mean", np.full((rows, 1), y.mean()))]
    found = score_notes(score_facts(y, y[:, None], [np.arange(rows)], simple) | {"new_rows": new})
    assert [one.partition(",")[0] for one in found] == told


def test_gains_are_paired_on_the_same_rows():
    y, noise = np.random.default_rng(4).normal(size=(2, 200))
    mean = np.full((200, 1), y.mean())
    tree = (y + 0.55 * noise)[:, None]
    simple = [SimpleModel("mean", mean), SimpleModel("tree", tree)]
    scores = score_facts(y, (y + 0.5 * noise)[:, None], [np.arange(200)], simple)
    gain = scores["baselines"][1]["gain"]
    assert gain["value"] == pytest.approx(r2_score(y, y + 0.5 * noise) - r2_score(y, tree))
    assert gain["error"] < 0.3 * scores["model"]["measures"]["r2"]["error"]


def test_simple_models_of_many_rows_are_fitted_to_some_and_predict_all(monkeypatch):
    monkeypatch.setattr("onefold.facts.scores._MOST_NUMBERS", 100)
    monkeypatch.setattr("onefold.facts.scores._FEWEST_ROWS", 20)
    X, y, estimator = numbers()
    simple = simple_models(X, y, [(np.arange(30), np.arange(30, 150))], classes=None)
    values = np.where(np.arange(150)[:, None] < 30, np.nan, estimator.predict(X)[:, None])
    scores = score_facts(y, values, [np.arange(30, 150)], simple)
    names = "baseline (mean), linear ridge, tree of depth 4"
    assert scores["notes"] == [f"{names}: fitted to 25 rows of each training set"]
    own, ridge = (r2_score(y[30:], one[30:]) for one in (values, simple[1].values))
    assert scores["baselines"][1]["gain"]["value"] == pytest.approx(own - ridge)
    assert scores["rows"] == 120


def test_measures_are_of_the_rows_that_were_tested():
    folds = [np.arange(0, 4), np.arange(4, 8), np.arange(8, 12)]
    labels = np.array(["a", "b"] * 4 + ["c"] * 4)
    decision = np.eye(3)[[0, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]]
    decision[8:] = np.nan
    constant = SimpleModel("constant", np.tile([1.0, 0.0, 0.0], (12, 1)))
    scores = score_facts(labels, decision, folds, [constant], classes=np.unique(labels))
    found = flat_scores(scores)
    assert found["rows"] == 8
    assert found["accuracy"] == accuracy_score(labels[:8], ["a", "b", "a", "a", "a", "b", "b", "b"])
    assert found["class_rows"] == {"a": 4, "b": 4}  # no row of 'c' was tested
    assert set(found["recall"]) == {"a", "b"}
    assert scores["classes"]["confusion"] == [[3, 1, 0], [1, 3, 0], [0, 0, 0]]


def _losses(criterion, y, values, probabilities):
    """What a criterion counts, by scikit-learn, as the mean over five folds."""
    folds = [np.arange(k, len(y), 5) for k in range(5)]
    literal = {
        "neg_mean_absolute_error": lambda i: mean_absolute_error(y[i], values[i]),
        "mape": lambda i: mean_absolute_percentage_error(y[i], values[i]),
        "neg_log_loss": lambda i: log_loss(y[i], probabilities[i], labels=[0, 1]),
        "roc_auc": lambda i: roc_auc_score(y[i], values[i]),
        "error": lambda i: accuracy_score(y[i], values[i] > 0),
        "balanced_accuracy": lambda i: balanced_accuracy_score(y[i], values[i] > 0),
    }[criterion]
    return float(np.mean([literal(i) for i in folds]))


@pytest.mark.parametrize(
    ("criterion", "main"),
    [
        ("neg_mean_absolute_error", "mae"),
        ("mape", "mape"),
        ("neg_log_loss", "log_loss"),
        ("roc_auc", "roc_auc"),
        ("error", "accuracy"),
        ("balanced_accuracy", "balanced_accuracy"),
    ],
)
def test_the_verdict_goes_by_the_criterion_that_was_asked_for(criterion, main):
    """A model chosen by its absolute error was compared with simple ones by R², and so on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    folds = [
        (np.setdiff1d(np.arange(150), np.arange(k, 150, 5)), np.arange(k, 150, 5)) for k in range(5)
    ]
    options = {"criterion": criterion, "cv": folds, "gammas": [0.1, 0.5], "alphas": [0.1, 1.0]}
    if main in ("mae", "mape"):
        y = np.exp(X[:, 0]) + 0.3 * rng.normal(size=150)
        model = LSSVRCV(**options).fit(X, y)
    else:  # classes that differ in size, for which balanced accuracy is the default
        y = (X[:, 0] + rng.normal(size=150) > 1.2).astype(int)
        model = LSSVCCV(**options, calibration="log_odds").fit(X, y)
    report = write_report(model, X=X, y=y)
    scores = report.as_dict()["scores"]
    assert (scores["main"], scores["instead_of"]) == (main, None)
    values = np.ravel(model.heldout_prediction_)
    own = _losses(criterion, y, values, getattr(model, "heldout_proba_", None))
    assert scores["model"]["measures"][main]["value"] == pytest.approx(own, rel=1e-9)
    gains = [one["gain"]["value"] for one in scores["baselines"]]
    sign = -1.0 if MEASURES[main].smaller else 1.0
    for one, gain in zip(scores["baselines"], gains):
        assert gain == pytest.approx(sign * (own - one["measures"][main]["value"]))
    assert scores["verdict"]["best"] == scores["baselines"][int(np.argmin(gains))]["name"]
    label = score_label(criterion)  # one name for one number
    assert f"the {label} of the model is" in report.as_dict()["summary"][0]
    assert f"criterion: {label}" in dict(report.as_dict()["ran"]["lines"])


@pytest.mark.parametrize("criterion", ["neg_median_absolute_error", "explained_variance", "own"])
def test_criteria_that_simple_models_are_not_scored_by_are_named(criterion):
    """The comparison went by R² without a word about it."""
    X, y, _ = numbers()
    given = make_scorer(r2_score) if criterion == "own" else criterion
    model = LSSVRCV(criterion=given, gammas=[0.1], alphas=[1.0]).fit(X, y)
    report = write_report(model, X=X, y=y).as_dict()
    name = "a custom function" if criterion == "own" else criterion
    assert (report["scores"]["main"], report["scores"]["instead_of"]) == ("r2", name)
    assert f"compared by R², because simple models are not scored by {name}" in report["summary"][0]


def test_the_default_criterion_is_no_wish():
    """R², or balanced accuracy of classes that differ in size, as nothing else was asked for."""
    X, y, model = numbers()
    scores = write_report(model, X=X, y=y).as_dict()["scores"]
    assert (scores["main"], scores["instead_of"]) == ("r2", None)
