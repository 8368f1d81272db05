"""The ridge of the mean squared error: against refits, GridSearchCV and the ridge of the sum."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
)

import onefold
from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVR,
    TableRegressor,
)
from onefold.approximations import (
    Circulant,
    Exact,
    Grid,
    Nystroem,
    Problem,
    Toeplitz,
    WholeModel,
    Workload,
)
from onefold.approximations.problem import distinct_shares
from onefold.kernels import RBF

GRID = {"gammas": [0.1, 1.0], "alphas": [1e-4, 1e-2, 1.0]}
EVERY = [LSSVC, LSSVR, KernelRidge, LSSVCCV, LSSVRCV, KernelRidgeCV]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (83, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(83)
    return X, y, rng.uniform(0.2, 3.0, 83), rng.integers(0, 9, 83)


def _literal(model, single, X, y, splits, weights=None, factor=None):
    """The scores (cells, splits) of a regression search, from a fit to every training part."""
    scores = []
    for params in model.cv_results_["params"]:
        for train, test in splits:
            given = dict(params)
            if factor is not None:
                given["alpha"] = params["alpha"] * factor(train)
            own = None if weights is None else weights[train]
            fitted = clone(single).set_params(**given).fit(X[train], y[train], own)
            errors = (y[test] - fitted.predict(X[test])) ** 2
            scores.append(
                -np.average(errors, axis=0, weights=None if weights is None else weights[test])
            )
    return np.mean(np.reshape(scores, (len(model.cv_results_["params"]), len(splits), -1)), axis=2)


def _scores(model, splits):
    return np.stack([model.cv_results_[f"split{s}_test_score"] for s in range(len(splits))], axis=1)


@pytest.mark.parametrize("estimator", EVERY)
def test_the_mean_is_the_sum_with_the_weights_in_alpha(data, estimator):
    X, y, weights, _ = data
    weights[:5] = 0.0  # rows of weight 0 do not count
    classifies = estimator in (LSSVC, LSSVCCV)
    y = np.where(y > 0, "up", "down") if classifies else y
    searches = estimator.__name__.endswith("CV")
    for given, total in ((None, 83), (weights, weights.sum()), (1e6 * weights, 1e6 * weights.sum())):
        models = []
        for loss, alpha in (("mean", 1e-3), ("sum", 1e-3 * total)):
            cell = {"gammas": 0.3, "alphas": alpha} if searches else {"gamma": 0.3, "alpha": alpha}
            models.append(estimator(**cell, loss=loss).fit(X, y, given))
        ours, theirs = (model.expansion_.predict(X) for model in models)
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_the_dense_system_of_the_mean(data):
    X, y, weights, _ = data
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    alpha = 1e-3
    system = np.block(
        [[K + alpha * weights.sum() * np.diag(1 / weights), np.ones((83, 1))], [np.ones((1, 83)), 0]]
    )
    solution = np.linalg.solve(system, np.append(y, 0.0))
    fitted = LSSVR(alpha=alpha, loss="mean").fit(X, y, weights)
    np.testing.assert_allclose(fitted.predict(X), K @ solution[:-1] + solution[-1], atol=1e-9)


def test_duplicated_rows_change_nothing(data):
    X, y, weights, _ = data
    once = LSSVR(alpha=1e-3, loss="mean").fit(X, y, weights)
    twice = LSSVR(alpha=1e-3, loss="mean").fit(np.tile(X, (2, 1)), np.tile(y, 2), np.tile(weights, 2))
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=1e-8)
    doubled = LSSVR(alpha=1e-3, loss="mean").fit(X, y, 2 * weights)
    np.testing.assert_allclose(doubled.predict(X), once.predict(X), atol=1e-12)
    # Groups that hold both copies of a row: the same training parts, and so the same search.
    groups = np.arange(83) % 7
    settings = {"gammas": [1.0], "alphas": GRID["alphas"], "loss": "mean", "cv": GroupKFold(5)}
    first = LSSVRCV(**settings).fit(X, y, groups=groups)
    second = LSSVRCV(**settings).fit(np.tile(X, (2, 1)), np.tile(y, 2), groups=np.tile(groups, 2))
    scores = [model.cv_results_["mean_test_score"] for model in (first, second)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "cv",
    [
        KFold(4),
        KFold(4, shuffle=True, random_state=1),
        ShuffleSplit(3, random_state=0),
        GroupKFold(3),
        TimeSeriesSplit(3),
    ],
    ids=["uneven folds", "shuffled", "random parts", "groups", "growing parts"],
)
@pytest.mark.parametrize("name", ["exact", "cholesky", "landmarks", "sums", "rows"])
def test_scores_are_those_of_refits(data, name, cv, weighted, monkeypatch):
    X, y, weights, groups = data
    Y = np.stack([y, np.cos(X[:, 0])], axis=1)
    settings = GRID
    approximation = "exact"
    if name == "cholesky":  # one ridge for each kernel: a factorisation for each size of training part
        settings = GRID | {"alphas": [1e-2]}
    elif name != "exact":
        approximation = Nystroem(X[:20], predict="rows" if name == "rows" else "landmarks")
    if name == "sums":
        monkeypatch.setattr("onefold.approximations.nystroem.uses_factors", lambda n, m: False)
    weights = weights if weighted else None
    common = {"loss": "mean", "approximation": approximation}
    groups = groups if isinstance(cv, GroupKFold) else None
    model = LSSVRCV(**settings, **common, cv=cv, refit="same", intervals=None)
    model.fit(X, Y, weights, groups=groups)
    splits = list(cv.split(X, Y, groups))
    expected = _literal(model, LSSVR(**common), X, Y, splits, weights)
    np.testing.assert_allclose(_scores(model, splits), expected, rtol=1e-8)


def test_the_numbers_of_grid_search(data):
    X, y, _, _ = data
    y = np.where(y > 0, 1, np.where(y < -2, 0, 2))
    cells = {"gamma": GRID["gammas"], "alpha": GRID["alphas"]}
    single = LSSVC(loss="mean", calibration=None)
    theirs = GridSearchCV(single, cells, cv=4).fit(X, y)
    ours = LSSVCCV(**GRID, loss="mean", cv=4, criterion="accuracy").fit(X, y)
    known = {
        tuple(sorted(p.items())): s
        for p, s in zip(theirs.cv_results_["params"], theirs.cv_results_["mean_test_score"])
    }
    for params, score in zip(ours.cv_results_["params"], ours.cv_results_["mean_test_score"]):
        assert score == pytest.approx(known[tuple(sorted(params.items()))], abs=1e-12)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    objective = LSSVCCV(**GRID, loss="mean", cv=4, criterion="accuracy").objective(X, y)
    for params, score in zip(theirs.cv_results_["params"], theirs.cv_results_["mean_test_score"]):
        assert objective(**params) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("approximation", ["exact", "landmarks"])
def test_leave_one_out_and_press_are_refits(data, approximation):
    X, y, weights = (values[:24] for values in data[:3])
    weights = np.round(weights)  # a ridge for each of four weights
    approximation = Nystroem(X[:9]) if approximation == "landmarks" else "exact"
    common = {"loss": "mean", "approximation": approximation}
    splits = list(LeaveOneOut().split(X))
    grid = {"gammas": [0.3], "alphas": [1e-4, 1e-2]}
    settings = {"cv": "loo", "refit": "same", "criterion": ["mse", "press"], "intervals": None}
    model = LSSVRCV(**grid, **common, **settings).fit(X, y, weights)
    scores = []
    for params in model.cv_results_["params"]:
        errors = []
        for train, test in splits:
            fitted = LSSVR(**common, **params).fit(X[train], y[train], weights[train])
            errors.append((y[test[0]] - fitted.predict(X[test])[0]) ** 2)
        scores.append(-np.average(errors, weights=weights))
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scores, rtol=1e-7)
    np.testing.assert_allclose(model.cv_results_["mean_test_press"], scores, rtol=1e-7)
    each = LSSVRCV(**grid, **common, **settings | {"cv": LeaveOneOut()}).fit(X, y)
    expected = _literal(each, LSSVR(**common), X, y, splits)
    np.testing.assert_allclose(_scores(each, splits), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "approximation",
    ["toeplitz", Circulant(negative="clip"), Circulant(validate="matrix", negative="clip"), Grid()],
    ids=["toeplitz", "circulant", "circulant matrix", "grid"],
)
def test_structured_matrices_take_the_ridge_of_each_part(approximation):
    """The ridge of the sum that the mean has without the rows of a split, which is searched alone."""
    rng = np.random.default_rng(0)
    X = np.arange(60.0)[:, None] / 5
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60)
    splits = list(KFold(7).split(X))  # of eight and of nine rows
    folds = approximation != "toeplitz"
    common = {"gammas": [1.0], "approximation": approximation, "refit": "same"}
    common["intervals"] = "cv+" if folds else None
    model = LSSVRCV(**common, alphas=[1e-3, 1e-2], loss="mean", cv=splits).fit(X, y)
    for number, (train, test) in enumerate(splits):
        alphas = [1e-3 * train.size, 1e-2 * train.size]
        alone = LSSVRCV(**common, alphas=alphas, cv=[(train, test)]).fit(X, y)
        ours = model.cv_results_[f"split{number}_test_score"]
        theirs = alone.cv_results_["mean_test_score"]
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        if folds:
            alphas = [model.alpha_ * train.size]
            alone = LSSVRCV(**common, alphas=alphas, cv=[(train, test)]).fit(X, y)
            ours, theirs = (m.fold_models_.predict(X) for m in (model, alone))
            np.testing.assert_allclose(ours[:, number], theirs[:, 0], atol=1e-6)


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost", "radius_margin", "span"])
def test_criteria_of_the_smoother_at_the_ridge_of_all_rows(data, criterion):
    X, y, _, _ = data
    common = {"gammas": [0.3], "criterion": criterion, "approximation": "exact", "intervals": None}
    of_mean = LSSVRCV(**common, alphas=[1e-3, 1e-2], loss="mean").fit(X, y)
    n = 82 if criterion == "span" else 83  # that of leave-one-out is the ridge of one row less
    of_sum = LSSVRCV(**common, alphas=[1e-3 * n, 1e-2 * n]).fit(X, y)
    scores = [model.cv_results_["mean_test_score"] for model in (of_mean, of_sum)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


@pytest.mark.parametrize("heavy", [1e-9, 1e9])
def test_weights_and_alphas_of_any_size(data, heavy):
    """A fold that carries nearly all the weight, or hardly any."""
    X, y, weights, _ = data
    weights[:21] *= heavy
    cv = KFold(4)
    for scale in (1e-12, 1.0, 1e12):
        model = LSSVRCV(**GRID, loss="mean", cv=cv, intervals=None).fit(X, y, scale * weights)
        splits = list(cv.split(X))
        expected = _literal(model, LSSVR(loss="mean"), X, y, splits, weights)
        np.testing.assert_allclose(_scores(model, splits), expected, rtol=1e-5)
    problem = model.set_up(X, y, weights).problem
    expected = [np.delete(weights, i).sum() / weights.sum() for i in range(83)]
    np.testing.assert_allclose(problem.single_shares(), expected, rtol=1e-12)
    np.testing.assert_allclose(problem.shares(np.arange(83)[:, None]), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="alpha times the number of rows leaves the range of float64"):
        LSSVR(alpha=1e307, loss="mean").fit(X, y)


def test_many_weights_are_refused_for_single_rows(data):
    X, y, weights, _ = data
    for settings in ({"cv": "loo"}, {"criterion": "press"}, {"intervals": "jackknife+"}):
        model = LSSVRCV(**GRID, loss="mean", approximation="exact", **settings)
        with pytest.raises(
            ValueError, match=r'83 different weights; use folds, such as cv=5, or loss="sum"'
        ):
            model.fit(X, y, weights)
    LSSVRCV(**GRID, loss="mean", criterion="gcv", intervals=None).fit(X, y, weights)


@pytest.mark.parametrize("approximation", ["exact", "landmarks"])
@pytest.mark.parametrize("search", [False, True])
def test_the_models_behind_intervals_are_refits(data, search, approximation):
    X, y, _, _ = data
    common = {"loss": "mean", "approximation": approximation}
    if approximation == "landmarks":
        common["approximation"] = Nystroem(X[:20])
    splits = list(KFold(5).split(X))
    if search:
        search = {"gammas": [0.3], "alphas": [1e-2], "cv": 5, "refit": "same"}
        model = LSSVRCV(**search, **common).fit(X, y)
    else:
        model = LSSVR(gamma=0.3, alpha=1e-2, intervals="cv+", **common).fit(X, y)
    values = model.fold_models_.predict(X)[:, :, 0]
    single = LSSVR(gamma=0.3, alpha=1e-2, **common)
    for fold, (train, test) in enumerate(splits):
        expected = clone(single).fit(X[train], y[train]).predict(X)
        np.testing.assert_allclose(values[:, fold], expected, atol=1e-8)
        np.testing.assert_allclose(model.conformity_scores_[test], abs(y - expected)[test], atol=1e-8)
    if approximation == "exact":
        model = LSSVR(gamma=0.3, alpha=1e-2, intervals="jackknife+", loss="mean").fit(X, y)
        for row in (0, 40):
            rest = np.delete(np.arange(83), row)
            expected = clone(single).fit(X[rest], y[rest]).predict(X)
            np.testing.assert_allclose(model.fold_models_.predict(X)[:, row, 0], expected, atol=1e-8)


def test_probabilities_of_folds_and_of_single_rows(data):
    X, y, _, _ = data
    labels = np.where(y > 0, "up", "down")
    model = LSSVCCV(gammas=[0.3], alphas=[1e-2], loss="mean", cv=4).fit(X, labels)
    for fold in range(4):
        train = np.flatnonzero(model.splits_ != fold)
        test = np.flatnonzero(model.splits_ == fold)
        single = LSSVC(gamma=0.3, alpha=1e-2, loss="mean", calibration=None).fit(X[train], labels[train])
        values = single.decision_function(X[test])
        np.testing.assert_allclose(model.heldout_prediction_[test], values, atol=1e-9)
    # A single fit leaves rows out at its own ridge, whose factorisation there is.
    of_mean = LSSVC(gamma=0.3, alpha=1e-2, loss="mean").fit(X, labels)
    of_sum = LSSVC(gamma=0.3, alpha=1e-2 * 83).fit(X, labels)
    np.testing.assert_allclose(of_mean.predict_proba(X), of_sum.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", ["rbf", "laplacian"]])
def test_a_learned_metric_has_the_ridge_of_its_rows(data, kernel):
    """Every fold has a metric of its own: its score is that of a model of the other rows."""
    X, y, weights, _ = data
    cv = KFold(4)
    settings = {"metric": "diagonal", "gammas": [1.0], "alphas": [1e-2], "max_rounds": 1, "cv": cv}
    model = LSSVRCV(kernel, **settings, loss="mean", blend=kernel != "rbf").fit(X, y, weights)
    again = LSSVRCV(kernel, **settings, loss="mean", blend=kernel != "rbf").fit(X, y, 7 * weights)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-7)
    train = np.concatenate([np.arange(21, 83)])
    of_part = LSSVRCV("rbf", **settings | {"metric": None, "cv": [(train, np.arange(21))]}, loss="mean")
    of_part.fit(X, y, weights)
    kernel_of = of_part.expansion_.kernel
    single = LSSVR(kernel_of, alpha=1e-2, loss="mean").fit(X[train], y[train], weights[train])
    errors = (y[:21] - single.predict(X[:21])) ** 2
    score = -np.average(errors, weights=weights[:21])
    assert of_part.best_score_ == pytest.approx(score, rel=1e-8)


def test_cross_fitted_metrics_at_the_ridge_of_their_parts(data):
    from onefold.kernels import RBF
    from onefold.search.learned_metric import CrossFitted

    X, y, weights, _ = data
    model = LSSVRCV(gammas=[0.3], alphas=[1e-2], loss="mean", cv=4, approximation="exact")
    setup = model.set_up(X, y, weights)
    parts = setup.scoring.parts
    crossed = CrossFitted(setup.run, parts, [RBF(0.3)] * len(parts))
    mu = setup.problem.ridge([1e-3, 1e-2])
    direct = setup.run.model(RBF(0.3)).heldout(parts, mu)
    for ours, theirs in zip(crossed.heldout(parts, mu), direct):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    ours, theirs = (m.fold_models(parts, mu[:1]) for m in (crossed, setup.run.model(RBF(0.3))))
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)


def test_halving_keeps_the_meaning_of_alpha():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (400, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(400)
    settings = {"gammas": [0.1, 1.0, 10.0], "search": "halving", "approximation": "exact"}
    of_mean = LSSVRCV(**settings, alphas=[1e-5, 1e-3], loss="mean").fit(X, y)
    of_sum = LSSVRCV(**settings, alphas=[1e-5 * 320, 1e-3 * 320]).fit(X, y)
    assert of_mean.search_["n_resources"] == of_sum.search_["n_resources"] == [133, 400]
    # Halving gives subsamples of a sum the ridge of the same mean: the same search but for uneven folds.
    for ours, theirs in zip(of_mean.search_["stages"], of_sum.search_["stages"]):
        assert ours["best"]["score"] == pytest.approx(theirs["best"]["score"], rel=1e-2)
    assert of_mean.best_score_ == pytest.approx(of_sum.best_score_, rel=1e-9)
    trust = onefold.trust(LSSVRCV(**GRID, loss="mean", approximation=Nystroem(30)), X, y, size=200)
    assert trust.exact["alpha"] in GRID["alphas"]


def test_the_default_grid_follows_the_number_of_rows(data):
    X, y, _, _ = data
    model = LSSVRCV(gammas=[1.0], loss="mean", intervals=None).fit(X, y)
    alphas = np.unique(model.cv_results_["param_alpha"].astype(float))
    np.testing.assert_array_equal(alphas, 2.0 ** np.arange(-21, 0, 2))


def test_saved_models_and_clones_keep_the_loss(data, tmp_path):
    X, y, _, _ = data
    model = clone(LSSVRCV(**GRID, loss="mean")).fit(X, y)
    assert model.get_params()["loss"] == "mean"
    assert model.approximation_["selected_with"]["loss"] == "mean"
    model.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert loaded.loss == "mean"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    assert "loss" not in LSSVRCV(**GRID).fit(X, y).approximation_["selected_with"]


def test_other_words_are_refused(data):
    X, y, _, _ = data
    for estimator in (LSSVR, LSSVRCV, SparseLSSVR, TableRegressor):
        with pytest.raises(
            ValueError, match=r"loss must be ['\"]sum['\"] or ['\"]mean['\"]; got 'total'"
        ):
            estimator(loss="total").fit(X, y)


def test_tables(data):
    X, y, _, _ = data
    settings = {"simple": True, "kernel": "rbf", "gammas": [0.3], "loss": "mean"}
    model = TableRegressor(**settings, alphas=[1e-3]).fit(X, y)
    assert model.estimator_.loss == "mean"
    of_sum = TableRegressor(**settings | {"loss": "sum"}, alphas=[1e-3 * 83]).fit(X, y)
    np.testing.assert_allclose(model.predict(X), of_sum.predict(X), atol=1e-9)


def test_sums_of_the_same_weights_are_one_share():
    weights = np.array([0.1, 0.2, 0.3])
    shares = np.array([weights.sum(), weights[::-1].sum(), 0.5, 1e-30])
    assert shares[0] != shares[1]
    distinct, which = distinct_shares(shares)
    np.testing.assert_array_equal(distinct, [1e-30, 0.5, shares[0]])
    np.testing.assert_array_equal(which, [2, 2, 1, 0])


@pytest.mark.parametrize(
    ("approximation", "whole"), [(Exact(), True), (Nystroem(20, predict="rows"), True), (Grid(), False)]
)
def test_the_model_answers_for_the_whole_where_the_model_inside_does(data, approximation, whole):
    """With the ridge of all rows; attributes that no model has are not looked for inside."""
    X, y, _, _ = data
    problem = Problem(X, y[:, None], None, True)
    of_sum, of_mean = (
        approximation.start(part, [RBF(1.0)], Workload(alphas=2, folds=5)).model(RBF(1.0))
        for part in (problem, problem.of_mean())
    )
    assert isinstance(of_sum, WholeModel) == isinstance(of_mean, WholeModel) == whole
    assert not hasattr(of_mean, "smoother")
    if whole:
        for answer in ("residual_squares", "least_costs", "trace", "logdet", "definite"):
            np.testing.assert_array_equal(
                getattr(of_mean, answer)([0.1, 2.0]), getattr(of_sum, answer)([0.1, 2.0])
            )
        np.testing.assert_array_equal(of_mean.kernel_matrix(), of_sum.kernel_matrix())
        assert of_mean.squared_radii([0.1]) is None


@pytest.mark.filterwarnings("ignore:the rows are not a series")
@pytest.mark.parametrize(
    ("seed", "approximation", "search", "single", "gamma", "alpha"),
    [
        (1, Circulant(order="given", spacing=0.4), LSSVRCV, LSSVR, 0.3, 0.4),
        (34, Toeplitz(validate="kernel"), KernelRidgeCV, KernelRidge, 0.02, 0.01),
    ],
    ids=["circulant", "toeplitz"],
)
def test_all_rows_are_looked_at_with_their_own_ridge(
    seed, approximation, search, single, gamma, alpha
) -> None:
    """Their matrix would be indefinite with the ridge of a training part, which is smaller."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 40))
    X = rng.standard_normal((n, 2))
    y = rng.standard_normal(n)
    splits = list(KFold(4).split(X))
    given = {"loss": "mean", "approximation": approximation}
    model = search(gammas=[gamma], alphas=[alpha], cv=KFold(4), refit="same", **given).fit(X, y)
    literal = _literal(model, single(**given), X, y, splits)
    np.testing.assert_allclose(_scores(model, splits), literal, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:the rows are not a series")
def test_rows_left_out_in_fifths_have_the_ridge_of_four_fifths(data):
    """What an LSSVC with a Toeplitz matrix is calibrated on: the models of a fit without each fifth."""
    X, y, _, _ = data
    n = len(y) - len(y) % 5
    X = X[:n]
    y = y[:n]
    toeplitz = Toeplitz(validate="kernel", negative="solve")
    problem = Problem(X, y[:, None], None, True).of_mean()
    model = toeplitz.start(problem, [RBF(0.5)], Workload()).model(RBF(0.5))
    _, predictions = model.left_out(np.arange(n), float(problem.ridge(0.1)))
    numbers = np.concatenate([np.arange(k, n, 5) for k in range(5)])
    for first in range(5):
        fifth = np.arange(first, n, 5)
        others = np.setdiff1d(np.arange(n), fifth)
        literal = LSSVR(gamma=0.5, alpha=0.1, loss="mean", approximation=toeplitz)
        expected = literal.fit(X[others], y[others]).predict(X[fifth])
        actual = predictions[np.isin(numbers, fifth), 0]
        np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-10)
