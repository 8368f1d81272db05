"""The estimators among other people's tools: pipelines, names, routing, seeds, progress."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

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
    load,
)
from onefold.approximations import Auto, Circulant, ConjugateGradients, Nystroem
from onefold.estimators.validation import seed_of
from onefold.heldout import GapKFold
from onefold.kernels import RBF, Linear
from onefold.machine.speed import duration_words

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 3))
NUMBERS = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(60)
LABELS = (NUMBERS > 0).astype(int)
WEIGHTS = RNG.uniform(0.1, 3.0, 60)
GROUPS = RNG.integers(0, 6, 60)
NAMES = ["a", "b", "c"]
FRAME = pd.DataFrame(X, columns=NAMES)
GRID = {"gammas": [0.05, 0.5], "alphas": [0.01, 1.0]}
SMALL = GRID | {"cv": 3}
CHOOSERS = [
    (LSSVCCV, LABELS),
    (LSSVRCV, NUMBERS),
    (KernelRidgeCV, NUMBERS),
    (SparseLSSVC, LABELS),
    (SparseLSSVR, NUMBERS),
]
ALL = [(LSSVC(), LABELS), (LSSVR(), NUMBERS), (KernelRidge(), NUMBERS)]
ALL += [(kind(**SMALL), y) for kind, y in CHOOSERS]
EVERY = pytest.mark.parametrize(("estimator", "y"), ALL, ids=lambda v: type(v).__name__)
EACH = pytest.mark.parametrize(("kind", "y"), CHOOSERS, ids=lambda v: getattr(v, "__name__", ""))

# -- scikit-learn's own estimator checks, all of them ------------------------------------------------


_ROWS_AS_KERNEL = "hands over rows, or random numbers, as the kernel matrix: indefinite, so refused"
_ANY_LIBRARY = "wants an error for rows of another library than in fit: they are predicted, in their own"
_LEFT_OUT_ALONE = "is calibrated on rows left out one by one: a copy of the row stays, a weight does not"


def explained(estimator: Any) -> dict[str, str]:
    """The checks that cannot hold, and why."""
    found = {"check_array_api_same_namespace": _ANY_LIBRARY}
    if estimator.kernel == "precomputed":
        found["check_positive_only_tag_during_fit"] = _ROWS_AS_KERNEL
        found["check_estimators_dtypes"] = _ROWS_AS_KERNEL
    if type(estimator) is LSSVC:
        for data in ("dense", "sparse"):
            found[f"check_sample_weight_equivalence_on_{data}_data"] = _LEFT_OUT_ALONE
    return found


CHECKED = {"gammas": [0.01, 0.1], "alphas": [0.01, 1.0], "cv": 3}  # a small grid keeps the checks fast


@parametrize_with_checks(
    [
        LSSVC(),
        LSSVR(),
        LSSVR(kernel="laplacian"),
        KernelRidge(kernel="precomputed"),
        *(kind(**CHECKED) for kind, _ in CHOOSERS),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


# -- pipelines, frames, kernels ----------------------------------------------------------------------


@EVERY
def test_names_are_kept_and_missed(estimator, y) -> None:
    torch, polars = pytest.importorskip("torch"), pl.DataFrame(FRAME.to_dict("list"))
    model = clone(estimator).fit(polars, pl.Series(y)).fit(FRAME, pd.Series(y))
    assert list(model.feature_names_in_) == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.predict(FRAME)
        model.predict(polars)
    for rows in (X, torch.asarray(X)):
        with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
            model.predict(rows)
    for rows, words in [
        (FRAME[["c", "b", "a"]], "Feature names must be in the same order"),
        (FRAME.rename(columns={"a": "z"}), "Feature names seen at fit time, yet now missing"),
        (torch.asarray(X[:, :2]), r"X has 2 features, but .* is expecting 3 features"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.predict(rows)
    assert not hasattr(model, "get_feature_names_out")  # they predict, and transform nothing
    model.fit(torch.asarray(X), y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but"):
        model.predict(FRAME)


@EVERY
def test_an_unknown_parameter_names_the_class_that_was_called(estimator, y) -> None:
    kind = type(estimator)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__.*'widht'"):
        kind(widht=1.0)


def test_names_of_the_steps_before_reach_the_last() -> None:
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), LSSVR())
    pipeline.set_output(transform="pandas").fit(FRAME, NUMBERS)
    assert list(pipeline[-1].feature_names_in_) == list(pipeline[:-1].get_feature_names_out())


def test_kernel_objects_and_functions() -> None:
    by_name = LSSVR(gamma=0.3).fit(X, NUMBERS).predict(X)
    for kernel in (RBF(0.3), lambda a, b: RBF(0.3)(a, b)):
        assert_allclose(LSSVR(kernel).fit(X, NUMBERS).predict(X), by_name, rtol=1e-8)
    searched = LSSVRCV(RBF((0.1, 0.1, 0.2)) + Linear(), gammas=[1.0, 2.0], alphas=[0.1]).fit(X, NUMBERS)
    assert searched.expansion_.kernel == (RBF((0.1, 0.1, 0.2)) + Linear()).scaled(searched.gamma_)
    no_width = LSSVRCV("linear", alphas=[0.1, 1.0]).fit(X, NUMBERS)
    assert no_width.gamma_ is None
    assert set(no_width.best_params_) == {"alpha"}
    assert "param_gamma" not in no_width.cv_results_


def test_gammas_may_hold_scale_and_the_default_grid_is_that_of_the_papers() -> None:
    model = LSSVRCV(gammas=["scale", 0.1], alphas=[0.1]).fit(X, NUMBERS)
    assert model.cv_results_["param_gamma"].tolist() == [1 / (3 * X.var()), 0.1]
    assert LSSVRCV(gammas=["scale"], alphas=[0.1]).fit(X, NUMBERS).gamma_ == 1 / (3 * X.var())
    model = LSSVCCV().fit(X, LABELS)
    assert len(model.cv_results_["params"]) == 13 * 11
    assert model.cv_results_["param_gamma"].min() == 2.0**-15
    assert model.cv_results_["param_alpha"].max() == 2.0**5
    assert len(model.history_) == 13


@EVERY
def test_sparse_rows_stay_sparse_and_laplacians_refuse_them(estimator, y) -> None:
    rows = sp.csr_matrix(np.where(np.abs(X) < 0.3, 0.0, X))
    if not isinstance(estimator, SparseLSSVC | SparseLSSVR):
        assert sp.issparse(clone(estimator).fit(rows, y).expansion_.centres)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        clone(estimator).set_params(kernel="laplacian").fit(rows, y)


# -- progress ----------------------------------------------------------------------------------------
FOUR = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.01, 0.1, 1.0]}


def test_verbose_names_the_part_and_the_time_left(capsys):
    LSSVRCV(**FOUR, verbose=1, n_jobs=1).fit(X, NUMBERS)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"[LSSVRCV] {i}/4 kernels" for i in (1, 2, 3, 4)]
    assert all(line.endswith(" s left") for line in lines[:3])
    assert "left" not in lines[3]
    LSSVRCV(metric="diagonal", metric_rows=40, verbose=1).fit(X, NUMBERS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[LSSVRCV] learning the metric: 1/6 kernels, best score ")
    assert lines[-1].startswith("[LSSVRCV] all rows: ")


def test_durations_in_words():
    seconds = [0.2, 8.4, 59.9, 60, 61, 3569, 3600, 4800, 90000]
    words = ["1 s", "8 s", "60 s", "1 min", "1 min", "59 min", "1 h", "1 h 20 min", "25 h"]
    assert [duration_words(one) for one in seconds] == words


def test_the_time_left_is_that_of_the_part_at_its_own_pace(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("onefold.search.loop.time.monotonic", lambda: float(next(clock)))
    events = []
    settings = {"n_jobs": 1, "checkpoint": tmp_path / "search", "callback": events.append}
    LSSVRCV(**FOUR | {"gammas": [0.03, 0.1]}, **settings).fit(X, NUMBERS)
    assert [event["done"] for event in events] == [1, 2]
    assert events[1]["left"] == 0.0
    events.clear()
    LSSVRCV(**FOUR, **settings).fit(X, NUMBERS)
    assert [event["done"] for event in events] == [3, 4]  # two came from a journal, at no cost
    assert events[0]["left"] >= 10.0
    assert events[1]["left"] == 0.0
    events.clear()
    LSSVRCV(**FOUR, n_jobs=1, callback=events.append).fit(X, NUMBERS)
    began = events[0]["seconds"] - events[0]["left"] / 3
    for event in events:
        pace = (event["seconds"] - began) / event["done"]
        assert event["left"] == pytest.approx(pace * (4 - event["done"]))


# -- random_state reaches everything that is random, and nothing else changes ------------------------
PAIR = RNG.standard_normal((150, 2))
SUM = np.sin(PAIR).sum(axis=1) + 0.1 * RNG.standard_normal(150)
FEW = Nystroem(8, method="uniform")


@pytest.mark.parametrize(
    "estimator",
    [
        LSSVR(gamma=0.5, approximation=FEW),
        KernelRidge(gamma=0.5, approximation=FEW),
        LSSVRCV(gammas=[0.5], alphas=[0.1], approximation=FEW),
        KernelRidgeCV(gammas=[0.5], alphas=[0.1], approximation=FEW),
        SparseLSSVR(gammas=[0.5], alphas=[0.1], max_centres=20, n_centres=10),
    ],
    ids=lambda e: type(e).__name__,
)
def test_seeds_choose_the_landmarks(estimator):
    def fitted(state):
        return clone(estimator).set_params(random_state=state).fit(PAIR, SUM).predict(PAIR)

    np.testing.assert_array_equal(fitted(0), fitted(None))  # the approximation's own default
    if "approximation" in estimator.get_params():
        seeded = clone(estimator).set_params(approximation=FEW.seeded(3)).fit(PAIR, SUM)
        np.testing.assert_array_equal(seeded.predict(PAIR), fitted(3))
    for one, other in ((3, 3), (np.random.RandomState(3), np.random.RandomState(3))):
        np.testing.assert_array_equal(fitted(one), fitted(other))
    assert np.abs(fitted(3) - fitted(4)).max() > 1e-6
    first, second = (fitted(np.random.default_rng(seed)) for seed in (1, 2))
    assert np.abs(first - second).max() > 1e-6


def test_every_random_choice_has_a_seed():
    for approximation in (Auto(), Nystroem(3), ConjugateGradients(), Circulant()):
        setting = "seed" if isinstance(approximation, Circulant) else "random_state"
        assert getattr(approximation.seeded(9), setting) == 9
        assert approximation.seeded(getattr(approximation, setting)) == approximation


def test_states_are_ints_generators_or_nothing(tmp_path):
    assert seed_of(None) is None
    assert seed_of(np.int64(4)) == 4
    np.random.seed(0)  # noqa: NPY002 (scikit-learn takes the module for its generator)
    assert seed_of(np.random) == np.random.RandomState(0).randint(2**31)
    for state, kept in ((7, 7), (np.random.RandomState(0), None)):
        LSSVR(random_state=state).fit(PAIR, SUM).save(tmp_path / "model.onefold")
        loaded = load(tmp_path / "model.onefold")
        assert loaded.random_state == kept
        assert ("random_state" in getattr(loaded, "dropped_params_", {})) == (kept is None)


# -- metadata routing --------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@EACH
@pytest.mark.parametrize(
    ("splitters", "asked"),
    [
        ([GroupKFold(3), LeaveOneGroupOut(), GroupShuffleSplit(2), StratifiedGroupKFold(2)], True),
        ([5, "loo", KFold(3), GapKFold(3), [([0, 1], [2])]], None),
    ],
)
def test_a_grouped_splitter_is_a_request_for_groups(kind, y, splitters, asked, routing) -> None:
    for cv in splitters:
        requests = kind(cv=cv).get_metadata_routing().fit.requests
        assert requests == {"groups": asked, "sample_weight": None}


def test_what_the_user_says_comes_first_and_what_nobody_asked_for_is_refused(routing) -> None:
    own = LSSVRCV(cv=GroupKFold(3)).set_fit_request(groups=False, sample_weight=True)
    for model in (own, clone(own)):
        assert model.get_metadata_routing().fit.requests == {"groups": False, "sample_weight": True}
    named = LSSVRCV(cv=GroupKFold(3).set_split_request(groups="patient"))
    assert named.get_metadata_routing().fit.requests["groups"] == "patient"
    refused = LSSVRCV(cv=GroupKFold(3).set_split_request(groups=False))
    assert refused.get_metadata_routing().fit.requests["groups"] is None
    for name, values in (("sample_weight", WEIGHTS), ("groups", GROUPS)):
        with pytest.raises(UnsetMetadataPassedError, match=name):
            make_pipeline(LSSVRCV(**GRID)).fit(X, NUMBERS, **{name: values})


@EACH
def test_groups_and_weights_through_a_pipeline(kind, y, routing) -> None:
    inner = kind(**GRID, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    routed = make_pipeline(scaler, inner).fit(X, y, sample_weight=WEIGHTS, groups=GROUPS)
    rows = StandardScaler().fit_transform(X)
    direct = kind(**GRID, cv=GroupKFold(3)).fit(rows, y, sample_weight=WEIGHTS, groups=GROUPS)
    assert routed[-1].best_score_ == direct.best_score_
    assert_array_equal(routed.predict(X), direct.predict(rows))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_scorer_decides_whether_weights_count(n_jobs, routing) -> None:
    grid = {"gammas": [0.1], "alphas": [0.1, 1.0], "cv": KFold(3), "n_jobs": n_jobs}
    for request, weighted in ((True, True), (False, False), (None, True)):
        scorer = make_scorer(mean_absolute_error, greater_is_better=False)
        if request is not None:
            scorer.set_score_request(sample_weight=request)
        found = LSSVRCV(**grid, criterion=scorer).fit(X, NUMBERS, WEIGHTS).cv_results_["mean_test_score"]
        for alpha, score in zip(grid["alphas"], found):
            literal = []
            for a, b in KFold(3).split(X):
                fitted = LSSVR(gamma=0.1, alpha=alpha).fit(X[a], NUMBERS[a], WEIGHTS[a])
                error = np.abs(NUMBERS[b] - fitted.predict(X[b]))
                literal.append(-np.average(error, weights=WEIGHTS[b] if weighted else None))
            assert_allclose(score, np.mean(literal), rtol=1e-9)
    other = get_scorer("r2").set_score_request(sample_weight="importance")
    with pytest.raises(ValueError, match="under the name 'importance'"):
        LSSVRCV(**GRID, criterion=other).fit(X, NUMBERS, WEIGHTS)


@pytest.mark.parametrize(("kind", "y"), [(TableClassifier, LABELS), (TableRegressor, NUMBERS)])
def test_estimators_of_tables_ask_for_their_splitter_too(kind, y, routing) -> None:
    model = kind(simple=True, cv=GroupKFold(3))
    assert model.get_metadata_routing().fit.requests["groups"] is True
    assert kind().get_metadata_routing().fit.requests["groups"] is None
    with sklearn.config_context(enable_metadata_routing=True):
        found = make_pipeline(model).fit(X, y, groups=GROUPS)[-1].estimator_
    direct = clone(model).fit(X, y, groups=GROUPS).estimator_
    assert_array_equal(found.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"])
