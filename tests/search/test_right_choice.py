"""What is chosen where a choice can go wrong: rare classes, blends, importances."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_classification, make_friedman1
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.estimators.importances import heldout_importances
from onefold.search import choice


def rare(n, share=0.06, seed=0):
    X, y = make_classification(
        n, 8, n_informative=5, weights=[1 - share], flip_y=0.02, random_state=seed
    )
    return (X - X.mean(0)) / X.std(0), y


@pytest.mark.filterwarnings("ignore:y_pred contains classes", "ignore:A single label")
@pytest.mark.parametrize("cv", [5, StratifiedKFold(3, shuffle=True, random_state=1), KFold(40)])
@pytest.mark.parametrize("classes", [2, 3])
def test_balanced_accuracy_is_scikit_learns(cv, classes):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=120), [0.9, 1.5][: classes - 1])
    found = LSSVCCV(gammas=[0.1], alphas=[0.3], cv=cv, criterion="balanced_accuracy").fit(X, y)
    given = LSSVC(gamma=0.1, alpha=0.3, calibration=None)
    expected = cross_val_score(given, X, y, cv=cv, scoring="balanced_accuracy")
    assert found.best_score_ == pytest.approx(expected.mean(), abs=1e-12)


@pytest.mark.parametrize("some", [None, 500])  # every fold with its own metric; metrics of some rows
def test_rare_classes_are_not_given_up(some):
    X, y = rare(2500)
    given = {"class_weight": "balanced", "criterion": "balanced_accuracy", "random_state": 0}
    plain = LSSVCCV(gammas=2.0 ** np.arange(-9, 2, 2), **given).fit(X[:800], y[:800])
    full = LSSVCCV("auto", metric="auto", metric_rows=some, blend=True, **given).fit(X[:800], y[:800])
    one, other = (balanced_accuracy_score(y[800:], m.predict(X[800:])) for m in (plain, full))
    assert other > max(0.7, one - 0.03)
    # The kernel without a metric is scored on all rows, too.
    assert any(not params["round"] for params in full.cv_results_["params"])


def test_several_kernels_are_ranked_by_the_loss_of_training():
    X, y = rare(150)
    weight = np.where(y == 1, (y == 0).mean() / (y == 1).mean(), 1.0)
    given = {"kernel": ["rbf"], "gammas": [0.3, 3.0], "alphas": [0.1, 1.0], "cv": KFold(5)}
    found = LSSVCCV(class_weight={1: weight.max()}, **given).fit(X, y)
    target = np.where(y == 1, 1.0, -1.0)
    same = LSSVRCV(**given, intervals=None).fit(X, target, sample_weight=weight)
    assert found.best_params_ == same.best_params_


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_a_blend_are_the_best_that_add_up_to_one(seed):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(4, 60, 2))
    Y = rng.normal(size=(60, 2))
    v = rng.uniform(0.1, 3, 60)
    H += Y * rng.uniform(0, 1.5, size=(4, 1, 1))

    class Scoring:
        targets = Y
        training_weights = v

    rows = rng.random(60) < 0.8
    found = choice._fit(H, rows, Scoring)

    def loss(w):
        return v[rows] @ np.sum((np.einsum("g,git->it", w, H) - Y)[rows] ** 2, axis=1)

    limits = {"bounds": [(0, 1)] * 4, "constraints": {"type": "eq", "fun": lambda w: w.sum() - 1}}
    best = minimize(loss, np.full(4, 0.25), method="SLSQP", options={"ftol": 1e-14}, **limits)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    assert loss(found) <= best.fun * (1 + 1e-9)


def test_a_blend_does_not_carry_a_drift_on():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.sin(X[:, 0]) + 0.02 * np.arange(300)  # a level that every later fold has more of
    cv = [(np.arange(i), np.arange(i, i + 50)) for i in range(100, 300, 50)]
    model = LSSVRCV(kernel="auto", metric="diagonal", blend=True, cv=cv, random_state=0).fit(X, y)
    assert sum(member["weight"] for member in model.blend_) == pytest.approx(1)
    largest = max(abs(part.predict(X)).max() for _, part in model.expansion_.parts)
    assert abs(model.predict(X)).max() <= largest * (1 + 1e-12)


def test_importances_are_permutations_of_held_out_rows(monkeypatch):
    X, y = make_friedman1(300, 7, noise=0.3, random_state=0)
    seen = []

    def watched(fit, scoring, groups, seed):
        together = [np.array([0, 1]), *(np.array([j]) for j in range(2, 7))]
        seen.extend([fit, seed, *(importances(fit, scoring, one, seed) for one in (groups, together))])
        return seen[2]

    importances = heldout_importances
    monkeypatch.setattr("onefold.estimators.cv.heldout_importances", watched)
    model = LSSVRCV("rbf", metric="diagonal", cv=KFold(5), random_state=0).fit(X, y)
    kept, seed, *both = seen
    found, grouped = (importances.shares for importances in both)
    rises = np.zeros(7)
    generator = np.random.default_rng([seed, 3])
    for number, (train, test) in enumerate(KFold(5).split(X)):
        kernel = kept.cell.candidate.part_kernels[number]
        one = LSSVR(kernel, alpha=model.alpha_, intervals=None).fit(X[train], y[train])
        order = generator.permutation(test.size)
        moved = [X[test].copy() for _ in range(7)]
        for j in range(7):
            moved[j][:, j] = moved[j][order, j]
        errors = [np.sum((one.predict(rows) - y[test]) ** 2) for rows in (X[test], *moved)]
        rises += np.array(errors[1:]) - errors[0]
    expected = np.maximum(rises, 0) / np.maximum(rises, 0).sum()
    np.testing.assert_allclose(found, expected, atol=1e-8)
    assert grouped[0] == grouped[1] > 0
    assert grouped.sum() == pytest.approx(1)
