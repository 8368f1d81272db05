"""What was chosen, scored by a second splitter: equal to refits without each of its folds."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, load
from onefold.approximations import Nystroem
from onefold.estimators import final

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(5)
N = 120
X = RNG.standard_normal((N, 3))
GROUPS = RNG.integers(0, 12, N)
SIGNAL = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(12)[GROUPS] + 0.1 * RNG.standard_normal(N)
CLASSES = np.digitize(SIGNAL, [-0.5, 0.5])
WEIGHTS = RNG.uniform(0.3, 2.0, N)
FOLDS = KFold(5, shuffle=True, random_state=0)
SECOND = GroupKFold(4)
GRID = {"gammas": [0.3, 1.0], "alphas": [0.05, 0.5]}


def splits_of(splitter, y):
    groups = GROUPS if isinstance(splitter, GroupKFold) else None
    return splitter.split(X, y, groups)


def refitted(model, kind, y, weight=None, splitter=SECOND, **options):
    """Predictions of the test rows by literal refits of every member, weighted as in the model."""
    decide = "decision_function" if kind is LSSVC else "predict"
    total = 0.0
    cells = model.blend_ or [{"alpha": model.alpha_, "weight": 1.0}]
    # Members are listed by weight, the parts of the expansion in the order of the groups.
    by_weight = sorted(model.expansion_.parts, key=lambda part: -part[0])
    for cell, (share, part) in zip(cells, by_weight):
        assert cell["weight"] == share
        for train, test in splits_of(splitter, y):
            fixed = kind(part.kernel, alpha=cell["alpha"], **options)
            v = None if weight is None else weight[train]
            values = getattr(fixed.fit(X[train], y[train], v), decide)(X[test])
            values = share * values
            if not isinstance(total, np.ndarray):
                total = np.full((N, *values.shape[1:]), np.nan)
            total[test] = np.where(np.isnan(total[test]), 0.0, total[test]) + values
    return total


ROUTES = {
    "eigen": {"alphas": list(np.geomspace(1e-3, 10, 30))},
    "cholesky": {"alphas": [0.1]},
    "weights": {"weight": WEIGHTS},
    "mean loss": {"loss": "mean", "alphas": [1e-3, 1e-2]},
    "mean loss, one ridge, weights": {"loss": "mean", "alphas": [1e-2], "weight": WEIGHTS},
    "exact refit": {"approximation": Nystroem(20), "refit": "exact"},
    "several kernels": {"kernel": ["rbf", "laplacian"]},
    "blend": {"kernel": "auto", "blend": True},
    "reserved folds": {"kernel": ["rbf"], "metric": "diagonal", "metric_rows": 60, "max_rounds": 1},
    "past": {"second_cv": TimeSeriesSplit(4)},
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_predictions_are_those_of_refits_without_each_fold(kind, route) -> None:
    options = {"cv": FOLDS, "second_cv": SECOND, **GRID, **ROUTES[route]}
    weight = options.pop("weight", None)
    regression = kind is LSSVRCV
    y = SIGNAL if regression else CLASSES
    groups = GROUPS if route != "past" else None
    model = kind(**options).fit(X, y, weight, groups=groups)
    loss = {"loss": options["loss"]} if "loss" in options else {}
    twin = LSSVR if regression else LSSVC
    expected = refitted(model, twin, y, weight, options["second_cv"], **loss)
    tested = np.isfinite(model.second_predict_.reshape(N, -1)).all(axis=1)
    if route == "reserved folds":  # the last ones of both splitters
        assert 0 < tested.sum() < N
        expected[~tested] = np.nan
    elif route == "past":
        assert tested.sum() == sum(len(test) for _, test in options["second_cv"].split(X))
    else:
        assert tested.all()
    assert_allclose(model.second_predict_, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_a_metric_is_learned_without_each_second_fold(kind, monkeypatch) -> None:
    """One of all rows would know the level of each group, whose name is a feature."""
    learned = []
    learn = final.part_kernels_without

    def recorded(*arguments):
        kernels = learn(*arguments)
        learned.append((arguments, kernels))
        return kernels

    monkeypatch.setattr(final, "part_kernels_without", recorded)
    y = SIGNAL if kind is LSSVRCV else (SIGNAL > 0).astype(int)
    options = {"kernel": ["rbf"], "metric": "full", "max_rounds": 2, **GRID}
    model = kind(cv=FOLDS, second_cv=SECOND, **options).fit(X, y, groups=GROUPS)
    assert model.best_params_["metric"] == "full"
    [((track, run, *settings), kernels)] = learned
    fixed = LSSVR if kind is LSSVRCV else LSSVC
    decide = "predict" if kind is LSSVRCV else "decision_function"
    for number, (train, test) in enumerate(SECOND.split(X, y, GROUPS)):
        literal = fixed(kernels[number], alpha=model.alpha_).fit(X[train], y[train])
        expected = getattr(literal, decide)(X[test])
        assert_allclose(model.second_predict_[test], expected, rtol=1e-8, atol=1e-8)
        Y = run.problem.Y.copy()
        Y[test] = RNG.permutation(Y[test]) + 3.0
        changed = replace(run, problem=replace(run.problem, Y=Y))
        unchanged = learn(track, changed, *settings)[number]
        assert_allclose(unchanged.metric.values, kernels[number].metric.values, rtol=1e-9)
        (other,) = [k for k in range(2) if k != number][:1]
        assert not np.allclose(
            learn(track, changed, *settings)[other].metric.values, kernels[other].metric.values
        )


def test_reserved_rows_of_the_second_splitter_teach_no_metric() -> None:
    options = {"kernel": ["rbf"], "metric": "full", "metric_rows": 60, "max_rounds": 1, **GRID}
    model = LSSVRCV(cv=FOLDS, second_cv=SECOND, **options).fit(X, SIGNAL, groups=GROUPS)
    tested = np.isfinite(model.second_predict_)
    changed = np.where(tested & (model.splits_ < 0), RNG.permutation(SIGNAL), SIGNAL)
    again = LSSVRCV(cv=FOLDS, second_cv=SECOND, **options).fit(X, changed, groups=GROUPS)
    pairs = zip(model.metric_history_, again.metric_history_)
    rounds = [(event, other) for event, other in pairs if event["rows"] < N]
    assert rounds
    for event, other in rounds:
        assert_allclose(other.pop("score"), event.pop("score"), rtol=1e-10)
        assert other == event


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_the_score_is_the_mean_over_the_second_folds(kind) -> None:
    y = SIGNAL if kind is LSSVRCV else CLASSES
    model = kind(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, y, groups=GROUPS)
    scores = []
    for _, test in SECOND.split(X, y, GROUPS):
        values = model.second_predict_[test]
        if kind is LSSVRCV:
            scores.append(-mean_squared_error(y[test], values))
        else:
            scores.append(accuracy_score(y[test], model.classes_[values.argmax(axis=1)]) - 1)
    assert_allclose(model.second_score_, np.mean(scores), rtol=1e-10)
    assert model.second_splits_.max() == 3


@pytest.mark.parametrize("refit", ["same", "exact"])
def test_landmarks_leave_out_the_second_folds_too(refit) -> None:
    landmarks = X[:40]
    options = {"approximation": Nystroem(landmarks), "refit": refit, "cv": FOLDS, **GRID}
    model = LSSVRCV(second_cv=SECOND, **options).fit(X, SIGNAL, groups=GROUPS)
    first = Nystroem(landmarks) if refit == "same" else "exact"
    expected = np.empty(N)
    for train, test in SECOND.split(X, SIGNAL, GROUPS):
        fixed = LSSVR(gamma=model.gamma_, alpha=model.alpha_, approximation=first)
        expected[test] = fixed.fit(X[train], SIGNAL[train]).predict(X[test])
    assert_allclose(model.second_predict_, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")  # of scikit-learn, which says why
def test_a_second_score_that_is_not_defined_is_warned_of(tmp_path) -> None:
    single = [(np.arange(1, N), np.arange(1)), (np.arange(60), np.arange(60, N))]
    model = LSSVRCV(cv=FOLDS, second_cv=single, criterion="r2", **GRID)
    with pytest.warns(UserWarning, match="the second score is NaN"):
        model.fit(X, SIGNAL)
    assert np.isnan(model.second_score_)
    assert np.isfinite(model.second_predict_[60:]).all()
    model.save(tmp_path / "model.onefold")
    assert np.isnan(load(tmp_path / "model.onefold").second_score_)


def test_ridge_without_intercept_and_several_targets() -> None:
    Y = np.stack([SIGNAL, X[:, 1] ** 2], axis=1)
    model = KernelRidgeCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, Y, groups=GROUPS)
    expected = np.empty_like(Y)
    for train, test in SECOND.split(X, Y, GROUPS):
        fixed = KernelRidge(gamma=model.gamma_, alpha=model.alpha_).fit(X[train], Y[train])
        expected[test] = fixed.predict(X[test])
    assert_allclose(model.second_predict_, expected, rtol=1e-8, atol=1e-8)


def test_rows_of_weight_0_have_no_prediction() -> None:
    weight = np.ones(N)
    weight[::5] = 0.0
    model = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, SIGNAL, weight, groups=GROUPS)
    assert np.isnan(model.second_predict_[::5]).all()
    kept = weight > 0
    pairs = [
        (
            np.flatnonzero(np.isin(np.flatnonzero(kept), a)),
            np.flatnonzero(np.isin(np.flatnonzero(kept), b)),
        )
        for a, b in SECOND.split(X, SIGNAL, GROUPS)
    ]
    part = LSSVRCV(cv=FOLDS, second_cv=pairs, gammas=[model.gamma_], alphas=[model.alpha_]).fit(
        X[kept], SIGNAL[kept]
    )
    assert_allclose(model.second_predict_[kept], part.second_predict_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["cv+", "normalised"])
@pytest.mark.parametrize("options", [{}, {"kernel": "auto", "blend": True}], ids=["cell", "blend"])
def test_intervals_are_those_of_the_second_folds(method, options) -> None:
    settings = {**GRID, **options}
    model = LSSVRCV(cv=FOLDS, second_cv=SECOND, intervals=method, **settings)
    model.fit(X, SIGNAL, groups=GROUPS)
    assert_allclose(model.conformity_scores_, np.abs(SIGNAL - model.second_predict_), rtol=1e-10)
    assert model.fold_models_.count == 4
    if not options:
        literal = LSSVRCV(cv=SECOND, intervals=method, gammas=[model.gamma_], alphas=[model.alpha_]).fit(
            X, SIGNAL, groups=GROUPS
        )
        assert_allclose(model.predict_interval(X), literal.predict_interval(X), rtol=1e-8)


def test_probabilities_are_calibrated_by_the_second_folds() -> None:
    y = (SIGNAL > 0).astype(int)
    model = LSSVCCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, y, groups=GROUPS)
    literal = LSSVCCV(cv=SECOND, gammas=[model.gamma_], alphas=[model.alpha_])
    literal.fit(X, y, groups=GROUPS)
    assert_allclose(model.predict_proba(X), literal.predict_proba(X), rtol=1e-8)
    assert_allclose(model.second_proba_, literal.heldout_proba_, rtol=1e-8)
    alone = LSSVCCV(cv=FOLDS, **GRID).fit(X, y)
    assert_allclose(model.heldout_proba_, alone.heldout_proba_)


def test_nothing_else_changes() -> None:
    with_second = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, SIGNAL, groups=GROUPS)
    without = LSSVRCV(cv=FOLDS, **GRID).fit(X, SIGNAL)
    assert with_second.best_params_ == without.best_params_
    assert np.array_equal(with_second.heldout_prediction_, without.heldout_prediction_)
    assert_allclose(with_second.predict(X), without.predict(X), rtol=1e-12)
    assert without.second_score_ is None
    assert without.second_predict_ is None


def test_conjugate_gradients_solve_for_the_reserved_fold_of_the_second_splitter(monkeypatch) -> None:
    from onefold.approximations import ConjugateGradients
    from onefold.approximations.cg import IterativeModel

    solved = []
    solve = IterativeModel._solve

    def counted(self, parts, *rest, **named):
        solved.append(len(parts))
        return solve(self, parts, *rest, **named)

    monkeypatch.setattr(IterativeModel, "_solve", counted)
    options = {"kernel": ["rbf"], "metric": "diagonal", "metric_rows": 60, "max_rounds": 1, **GRID}
    cg = ConjugateGradients(tolerance=1e-9)
    model = LSSVRCV(approximation=cg, cv=FOLDS, second_cv=SECOND, **options)
    model.fit(X, SIGNAL, groups=GROUPS)
    # All rows, the reserved folds of the first splitter and those of the second, side by side.
    reserved = len(np.unique(model.splits_[model.splits_ >= 0]))
    second = len(np.unique(model.second_splits_[model.second_splits_ >= 0]))
    assert (reserved, second) == (2, 2)
    assert max(solved) == 1 + reserved + second
    tested = np.isfinite(model.second_predict_)
    (part,) = [part for _, part in model.expansion_.parts]
    expected = np.full(N, np.nan)
    for train, test in SECOND.split(X, SIGNAL, GROUPS):
        fixed = LSSVR(part.kernel, alpha=model.alpha_).fit(X[train], SIGNAL[train])
        expected[test] = fixed.predict(X[test])
    assert_allclose(model.second_predict_[tested], expected[tested], rtol=1e-5, atol=1e-6)


def test_a_journal_minds_the_second_splits_where_these_reserve_rows(tmp_path) -> None:
    metric = {"kernel": ["rbf"], "metric": "diagonal", "metric_rows": 60, "max_rounds": 1}
    for number, options in enumerate([{}, metric]):
        settings = {**GRID, **options, "checkpoint": tmp_path / f"{number}.journal"}
        LSSVRCV(cv=FOLDS, **settings).fit(X, SIGNAL)
        again = LSSVRCV(cv=FOLDS, second_cv=SECOND, **settings)
        if options:
            with pytest.raises(ValueError, match="another search, which differs in second_splits"):
                again.fit(X, SIGNAL, groups=GROUPS)
        else:
            again.fit(X, SIGNAL, groups=GROUPS)
            direct = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, SIGNAL, groups=GROUPS)
            assert np.array_equal(again.second_predict_, direct.second_predict_)


def test_splits_that_leave_nothing_to_learn_from_are_refused() -> None:
    halves = list(KFold(2).split(X))
    model = LSSVRCV(cv=halves, second_cv=halves[::-1], metric="diagonal", metric_rows=40, **GRID)
    with pytest.raises(ValueError, match="the splits of cv and second_cv leave no rows"):
        model.fit(X, SIGNAL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"second_cv": "foo"}, "^second_cv: .* got 'foo'"),
        ({"second_cv": GroupKFold(400)}, "^second_cv: "),
        ({"second_cv": "loo"}, "whole folds"),
        ({"second_cv": SECOND, "criterion": "press"}, "held-out rows"),
        ({"second_cv": SECOND, "intervals": "jackknife+"}, "jackknife"),
    ],
)
def test_what_cannot_be_combined_is_refused(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVRCV(**options, **GRID).fit(X, SIGNAL, groups=GROUPS)


def test_the_first_splitter_does_not_complain_of_groups() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the search chose")
        LSSVRCV(cv=5, second_cv=SECOND, **GRID).fit(X, SIGNAL, groups=GROUPS)


def test_pipelines_pass_groups_on_to_the_second_splitter() -> None:
    model = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), model).fit(X, SIGNAL, groups=GROUPS)
    direct = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID)
    direct.fit(StandardScaler().fit_transform(X), SIGNAL, groups=GROUPS)
    assert pipeline[-1].second_score_ == direct.second_score_


def test_a_model_file_keeps_the_second_score(tmp_path) -> None:
    model = LSSVRCV(cv=FOLDS, second_cv=SECOND, **GRID).fit(X, SIGNAL, groups=GROUPS)
    model.save(tmp_path / "model.onefold")
    read = load(tmp_path / "model.onefold")
    assert read.second_score_ == model.second_score_
    assert_allclose(read.second_predict_, model.second_predict_)


def test_past_splits_by_a_word() -> None:
    word = LSSVRCV(cv="past:4", second_cv=StratifiedKFold(3), **GRID)
    word.set_params(second_cv=None).fit(X, SIGNAL)
    splitter = LSSVRCV(cv=TimeSeriesSplit(4), **GRID).fit(X, SIGNAL)
    assert np.array_equal(word.cv_results_["mean_test_score"], splitter.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="past:5"):
        LSSVRCV(cv="past:1").fit(X, SIGNAL)
    with pytest.raises(ValueError, match="rows"):
        LSSVRCV(cv="past:500").fit(X, SIGNAL)
