"""NumPy, array-api-strict and torch give the same numbers: everything follows X, or its device."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

import onefold
from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
    trust,
)
from onefold.approximations import Circulant, ConjugateGradients, Nystroem
from onefold.linalg import is_foreign, to_numpy

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 3))
NUMBERS = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(60)
LABELS = (NUMBERS > 0).astype(int)
FEW = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 3}

THREE = np.digitize(NUMBERS, [-0.4, 0.4])


def strict(values: Any) -> Any:
    return array_api_strict.asarray(values)


def torch(values: Any) -> Any:
    return pytest.importorskip("torch").asarray(values)


LIBRARIES = pytest.mark.parametrize("library", [strict, torch])


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="the checks of older versions have other names",
)
def test_the_checks_of_scikit_learn() -> None:
    """In a process of its own: SciPy reads its switch when it is imported."""
    pytest.importorskip("torch")
    script = Path(__file__).with_name("array_api_checks.py")
    paths = [str(Path(onefold.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == 45


def test_the_tag_is_true_where_every_library_is_taken() -> None:
    for estimator in (LSSVC(), LSSVRCV(kernel="auto"), SparseLSSVR(), LSSVC(approximation=Nystroem(5))):
        assert get_tags(estimator).array_api_support
    for approximation in ("cg", ConjugateGradients(), "no such thing"):
        assert not get_tags(LSSVR(approximation=approximation)).array_api_support


@LIBRARIES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kernel", "metric"), [("rbf", "diagonal"), ("matern12", "full"), ("auto", "auto"), ("poly", None)]
)
def test_learned_metrics_and_families_in_any_library_and_precision(library, dtype, kernel, metric):
    rows = X.astype(dtype)
    settings = {"kernel": kernel, "metric": metric, "blend": kernel == "auto", "max_rounds": 1, **FEW}
    ours = LSSVRCV(**settings).fit(library(rows), library(NUMBERS))
    theirs = LSSVRCV(**settings).fit(rows, NUMBERS)
    assert ours.best_params_ == theirs.best_params_
    for name in ("heldout_prediction_", "feature_importances_", "metric_"):
        if getattr(theirs, name) is not None:
            assert is_foreign(getattr(ours, name)), name
            assert_allclose(to_numpy(getattr(ours, name)), getattr(theirs, name), rtol=1e-4, atol=1e-5)
    assert_allclose(to_numpy(ours.predict(library(rows))), theirs.predict(rows), rtol=1e-4, atol=1e-5)


@LIBRARIES
def test_trust_and_objectives_follow_and_a_saved_model_is_numpy_s(library, tmp_path) -> None:
    model = LSSVCCV(approximation="nystroem", check=True, **FEW).fit(library(X), library(LABELS))
    assert model.approximation_["trust"]["verdict"] == "applies"
    options = {"size": 30, "random_state": 0}
    found, expected = (
        trust(LSSVR(approximation=Nystroem(20)), put(X), put(NUMBERS), **options)
        for put in (library, np.asarray)
    )
    assert (found.exact, found.approximate) == (expected.exact, expected.approximate)
    objective = LSSVRCV(**FEW).objective(library(X), library(NUMBERS))
    objective(gamma=0.3, alpha=0.1)
    assert is_foreign(objective.fit().heldout_prediction_)
    model = LSSVRCV(metric="diagonal", **FEW).fit(library(X), library(NUMBERS))
    model.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert isinstance(loaded.heldout_prediction_, np.ndarray)
    assert_allclose(loaded.predict(X), to_numpy(model.predict(library(X))), rtol=1e-12, atol=1e-12)


@LIBRARIES
@pytest.mark.parametrize("cv", [4, "loo"])
@pytest.mark.parametrize(
    ("estimator", "y"),
    [(LSSVCCV, LABELS), (LSSVCCV, THREE), (LSSVRCV, NUMBERS), (KernelRidgeCV, NUMBERS)],
    ids=["LSSVC", "LSSVC 3", "LSSVR", "KernelRidge"],
)
@pytest.mark.parametrize("ridges", [2, 12], ids=["cholesky", "eigen"])
def test_search_and_weights(library, estimator, y, cv, ridges) -> None:
    grid = {"gammas": [0.02, 0.4, 50.0], "alphas": list(np.geomspace(0.01, 5, ridges)), "cv": cv}
    weights = RNG.uniform(0.5, 2.0, 60)
    ours = estimator(**grid).fit(library(X), library(y), sample_weight=library(weights))
    theirs = estimator(**grid).fit(X, y, sample_weight=weights)
    assert ours.best_params_ == theirs.best_params_
    for key in ("mean_test_score", "std_test_score"):
        assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-8, atol=1e-10)
    assert_allclose(to_numpy(ours.predict(library(X))), theirs.predict(X), rtol=1e-8)


@LIBRARIES
def test_labels_whole_numbers_and_rows_of_another_library_than_the_model_s(library) -> None:
    model = LSSVC(gamma=0.4).fit(library(X), library(LABELS))
    assert is_foreign(model.predict(library(X)))
    assert model.score(library(X), library(LABELS)) > 0.8
    words = LSSVC(gamma=0.4).fit(library(X), np.where(LABELS, "yes", "no"))
    assert set(words.predict(library(X))) == {"yes", "no"}
    for rows, y in ((X, NUMBERS), (np.arange(12).reshape(6, 2), np.arange(6.0))):
        here, there = (KernelRidge(gamma=0.4).fit(put(rows), put(y)) for put in (np.asarray, library))
        expected = here.predict(rows)
        for found in (here.predict(library(rows)), there.predict(rows), there.predict(library(rows))):
            assert_allclose(to_numpy(found), expected, rtol=1e-10)


@LIBRARIES
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full((4, 2), np.nan), "NaN or infinity"),
        (np.zeros(4), "two dimensions"),
        (np.zeros((0, 2)), "none empty"),
    ],
)
def test_bad_rows_are_named(library, values, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVR().fit(library(values), np.zeros(4))


@LIBRARIES
def test_an_indefinite_kernel_is_refused(library) -> None:
    K = X @ X.T - 5 * np.eye(60)
    for ridges in ([0.1], list(np.geomspace(0.01, 5, 12))):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LSSVRCV("precomputed", alphas=ridges).fit(library(K), library(NUMBERS))
    barely = np.diag(np.append(np.ones(59), -0.5e-6))  # passes for rounding, not for this ridge
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelRidge("precomputed", alpha=1e-8).fit(library(barely), library(NUMBERS))


# -- device: rows of NumPy are moved, what comes back is NumPy again ---------------------------------
GRID = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}
UNIFORM = Nystroem(20, method="uniform")
MACHINES = [
    LSSVC(gamma=0.5),
    LSSVR(gamma=0.5, alpha=[0.1, 1.0]),
    KernelRidge(gamma=0.5, approximation=UNIFORM),
    LSSVCCV(**GRID),
    LSSVRCV(**GRID, approximation=UNIFORM, check=True),
    LSSVRCV(**GRID | {"cv": "loo"}),
    LSSVRCV(**GRID, criterion="press"),
    LSSVRCV(**GRID, approximation=Circulant(negative="clip")),
    KernelRidgeCV(**GRID, refit="exact", approximation=UNIFORM),
    SparseLSSVC(**GRID, n_centres=8),
    SparseLSSVR(**GRID, n_centres=8),
]


def table(estimator: Any) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((90, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2])
    Y += 0.1 * generator.standard_normal(Y.shape)
    return X, (Y[:, 0] > 0).astype(int) if "SVC" in type(estimator).__name__ else Y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", MACHINES, ids=lambda e: f"{type(e).__name__}-{e.kernel}")
def test_the_numbers_are_those_of_the_plain_fit(estimator, weighted, tmp_path):
    X, y = table(estimator)
    weight = np.arange(90) % 8 / 4.0 if weighted else None  # some rows have none
    if weighted and isinstance(getattr(estimator, "approximation", None), Circulant):
        return  # which has no place for weights
    plain = clone(estimator).fit(X, y, weight)
    moved = clone(estimator).set_params(device="cpu").fit(X, y, weight)
    assert is_foreign(moved.expansion_.coef)
    values = "decision_function" if hasattr(plain, "classes_") else "predict"
    expected, found = (getattr(model, values)(X) for model in (plain, moved))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    heldout = getattr(plain, "heldout_prediction_", None)
    if heldout is not None:
        assert moved.best_params_ == plain.best_params_
        np.testing.assert_allclose(moved.heldout_prediction_, heldout, rtol=0, atol=1e-8)
    moved.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert loaded.device == "cpu"
    np.testing.assert_allclose(getattr(loaded, values)(X), expected, rtol=0, atol=1e-8)


def test_scorers_see_the_rows_where_they_were():
    X, y = table(LSSVRCV())
    kinds = set()

    def scorer(estimator, rows, y):
        kinds.add(type(rows))
        return -float(np.mean((estimator.predict(rows) - y) ** 2))

    weight = np.ones(90)
    weight[:12] = 0
    for given in (None, weight):
        LSSVRCV(**GRID, criterion=scorer, device="cpu").fit(X, y[:, 0], sample_weight=given)
    assert kinds == {np.ndarray}


def test_what_cannot_be_moved_is_refused(monkeypatch):
    X, y = table(LSSVR())
    with pytest.raises(ValueError, match="dense rows"):
        LSSVR(device="cpu").fit(scipy.sparse.csr_matrix(X), y)
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(ImportError, match="onefold\\[torch\\]"):
        LSSVR(device="cuda").fit(X, y)
