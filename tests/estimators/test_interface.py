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
from onefold.approximations import Nystroem
from onefold.estimators.validation import seed_of
from onefold.heldout import GapKFold

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
        LSSVR(loss="mean"),
        KernelRidge(kernel="precomputed"),
        *(kind(**CHECKED) for kind, _ in CHOOSERS),
        *(kind(**CHECKED, loss="mean") for kind, _ in CHOOSERS),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


# -- pipelines, frames, kernels ----------------------------------------------------------------------


@EVERY
def test_names_are_kept_and_missed(estimator, y) -> None:
    """Of frames of polars, and by tensors, which scikit-learn's checks leave out."""
    torch = pytest.importorskip("torch")
    polars = pl.DataFrame(FRAME.to_dict("list"))
    model = clone(estimator).fit(polars, pl.Series(y))
    assert list(model.feature_names_in_) == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.predict(polars)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but"):
        model.predict(torch.asarray(X))
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names, but"),
        pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"),
    ):
        model.predict(torch.asarray(X[:, :2]))
    model.fit(torch.asarray(X), y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but"):
        model.predict(FRAME)
    with pytest.raises(TypeError, match=rf"^{type(estimator).__name__}\.__init__.*'widht'"):
        type(estimator)(widht=1.0)


def test_gammas_may_hold_scale_and_the_default_grid_is_that_of_the_papers() -> None:
    model = LSSVRCV(gammas=["scale", 0.1], alphas=[0.1]).fit(X, NUMBERS)
    assert model.cv_results_["param_gamma"].tolist() == [1 / (3 * X.var()), 0.1]
    found = LSSVCCV().fit(X, LABELS).cv_results_
    assert len(found["params"]) == 13 * 11
    assert (found["param_gamma"].min(), found["param_alpha"].max()) == (2.0**-15, 2.0**5)


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
    assert [line.split(",")[0] for line in lines] == [
        *(f"[LSSVRCV] {i} of 4 evaluations" for i in (1, 2, 3, 4)),
        "[LSSVRCV] final fit",
        "[LSSVRCV] intervals and probabilities",
    ]
    assert all(line.endswith(" s left") for line in lines[:4])


def test_the_time_left_is_that_of_the_whole_fit_at_its_own_pace(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("onefold.search.loop.time.monotonic", lambda: float(next(clock)))
    events = []
    settings = {"n_jobs": 1, "checkpoint": tmp_path / "search", "callback": events.append}
    LSSVRCV(**FOUR | {"gammas": [0.03, 0.1]}, **settings).fit(X, NUMBERS)
    LSSVRCV(**FOUR, **settings).fit(X, NUMBERS)
    assert [event["done"] for event in events] == [1, 2, 3, 4]  # two came from a journal, at no cost
    lefts = [event["left"] for event in events[2:]]  # with two evaluations to come, and with one
    assert lefts[0] > lefts[1] > 0.0  # the final fit is to come


# -- random_state reaches everything that is random, and nothing else changes ------------------------
PAIR = RNG.standard_normal((150, 2))
SUM = np.sin(PAIR).sum(axis=1) + 0.1 * RNG.standard_normal(150)
FEW = Nystroem(8, method="uniform")


@pytest.mark.parametrize(
    "estimator",
    [
        LSSVR(gamma=0.5, approximation=FEW),
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
    one, two = (fitted(np.random.RandomState(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    for kind in (int, np.random.default_rng):
        assert np.abs(fitted(kind(3)) - fitted(kind(4))).max() > 1e-6


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
    assert clone(own).get_metadata_routing().fit.requests == {"groups": False, "sample_weight": True}
    for said, asked in (("patient", "patient"), (False, None)):
        model = LSSVRCV(cv=GroupKFold(3).set_split_request(groups=said))
        assert model.get_metadata_routing().fit.requests["groups"] == asked
    for name, values in (("sample_weight", WEIGHTS), ("groups", GROUPS)):
        with pytest.raises(UnsetMetadataPassedError, match=name):
            make_pipeline(LSSVRCV(**GRID)).fit(X, NUMBERS, **{name: values})


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
    with pytest.raises(ValueError, match="weights named 'importance'"):
        LSSVRCV(**GRID, criterion=other).fit(X, NUMBERS, WEIGHTS)


@pytest.mark.parametrize(("kind", "y"), [(TableClassifier, LABELS), (TableRegressor, NUMBERS)])
def test_estimators_of_tables_ask_for_their_splitter_too(kind, y, routing) -> None:
    model = kind(simple=True, cv=GroupKFold(3))
    assert kind().get_metadata_routing().fit.requests["groups"] is None
    found = make_pipeline(model).fit(X, y, groups=GROUPS)[-1].estimator_
    direct = clone(model).fit(X, y, groups=GROUPS).estimator_
    assert_array_equal(found.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"])
