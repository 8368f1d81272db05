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
from sklearn.base import clone, is_classifier
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


def test_the_tag_is_true_where_every_library_is_taken() -> None:
    """Conjugate gradients take every library, and the tag said that they did not."""
    for approximation in (Nystroem(5), "cg", ConjugateGradients()):
        assert get_tags(LSSVC(approximation=approximation)).array_api_support
    assert not get_tags(LSSVR(approximation="no such thing")).array_api_support


@LIBRARIES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_full_metric_in_any_library_and_precision(library, dtype):
    """Rows on the kinks of the kernel cost digits that scikit-learn's checks ask for."""
    rows = X.astype(dtype)
    settings = {"kernel": "matern12", "metric": "full", "max_rounds": 1, **FEW}
    ours = LSSVRCV(**settings).fit(library(rows), library(NUMBERS))
    theirs = LSSVRCV(**settings).fit(rows, NUMBERS)
    assert ours.best_params_ == theirs.best_params_
    for name in ("heldout_prediction_", "feature_importances_", "metric_"):
        assert is_foreign(getattr(ours, name)), name
        assert_allclose(to_numpy(getattr(ours, name)), getattr(theirs, name), rtol=1e-4, atol=1e-5)
    assert_allclose(to_numpy(ours.predict(library(rows))), theirs.predict(rows), rtol=1e-4, atol=1e-5)


@LIBRARIES
def test_trust_and_objectives_follow(library) -> None:
    options = {"size": 30, "random_state": 0}
    found, expected = (
        trust(LSSVR(approximation=Nystroem(20)), put(X), put(NUMBERS), **options)
        for put in (library, np.asarray)
    )
    assert (found.exact, found.approximate) == (expected.exact, expected.approximate)
    objective = LSSVRCV(**FEW).objective(library(X), library(NUMBERS))
    objective(gamma=0.3, alpha=0.1)
    assert is_foreign(objective.fit().heldout_prediction_)


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


INDEFINITE = X @ X.T - 5 * np.eye(60)
BARELY = np.diag(np.append(np.ones(59), -0.5e-6))  # passes for rounding, not for this ridge


@LIBRARIES
@pytest.mark.parametrize(
    ("machine", "rows", "words"),
    [
        (LSSVR(), np.full((60, 2), np.nan), "NaN or infinity"),
        (LSSVR(), np.zeros(60), r"must be a non-empty array \(rows, features\)"),
        (LSSVR(), np.zeros((0, 2)), "non-empty array"),
        (LSSVRCV("precomputed", alphas=[0.1]), INDEFINITE, "not positive semi-definite"),
        (LSSVRCV("precomputed", alphas=np.geomspace(0.01, 5, 12)), INDEFINITE, "not positive semi-def"),
        (KernelRidge("precomputed", alpha=1e-8), BARELY, "not positive semi-definite"),
    ],
)
def test_bad_rows_are_named(library, machine, rows, words) -> None:
    with pytest.raises(ValueError, match=words):
        machine.fit(library(rows), library(NUMBERS))


# -- device: rows of NumPy are moved, what comes back is NumPy again ---------------------------------
GRID = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}
UNIFORM = Nystroem(20, method="uniform")
CLOSED = ["press", "gcv", "evidence", "cost", "span", "radius_margin"]
MACHINES = [
    LSSVC(gamma=0.5),
    LSSVR(gamma=0.5, alpha=[0.1, 1.0]),
    KernelRidge(gamma=0.5, approximation=Nystroem(20, "rpcholesky")),
    LSSVCCV(**GRID),
    LSSVRCV(**GRID, approximation=UNIFORM, check=True),
    LSSVRCV(**GRID | {"cv": "loo"}),
    *(LSSVRCV(**GRID, criterion=name) for name in CLOSED),
    LSSVRCV(**GRID, approximation=Circulant(negative="clip")),
    KernelRidgeCV(**GRID | {"gammas": [1e-4, 60.0]}, refit="exact", approximation=Nystroem(20)),
    SparseLSSVC(**GRID, n_centres=8),
    SparseLSSVR(**GRID, n_centres=8),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", MACHINES, ids=lambda e: type(e).__name__)
def test_the_numbers_are_those_of_the_plain_fit(estimator, weighted, tmp_path):
    pytest.importorskip("torch")
    y = LABELS if is_classifier(estimator) else np.column_stack([NUMBERS, X[:, 2] ** 2])
    weight = np.arange(60) % 8 / 4.0 if weighted else None  # some rows have none
    if weighted and isinstance(getattr(estimator, "approximation", None), Circulant):
        return  # which has no place for weights
    plain = clone(estimator).fit(X, y, weight)
    moved = clone(estimator).set_params(device="cpu").fit(X, y, weight)
    assert is_foreign(moved.expansion_.coef)
    moved.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert loaded.device == "cpu"
    values = "decision_function" if hasattr(plain, "classes_") else "predict"
    for model in (moved, loaded):
        found = getattr(model, values)(X)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(plain, values)(X), rtol=0, atol=1e-8)
    if hasattr(plain, "cv_results_"):
        scores = [model.cv_results_["mean_test_score"] for model in (moved, plain)]
        np.testing.assert_allclose(*scores, rtol=1e-7)
        if plain.heldout_prediction_ is not None:
            np.testing.assert_allclose(loaded.heldout_prediction_, plain.heldout_prediction_, atol=1e-8)


@pytest.mark.parametrize("weight", [None, np.where(np.arange(60) < 12, 0.0, 1.0)])
def test_scorers_see_the_rows_where_they_were(weight):
    pytest.importorskip("torch")

    def scorer(estimator, rows, y):
        assert type(rows) is np.ndarray
        return -float(np.mean((estimator.predict(rows) - y) ** 2))

    LSSVRCV(**GRID, criterion=scorer, device="cpu").fit(X, NUMBERS, sample_weight=weight)


def test_what_cannot_be_moved_is_refused(monkeypatch):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="dense rows"):
        LSSVR(device="cpu").fit(scipy.sparse.csr_matrix(X), NUMBERS)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "path", [])  # as if it were not installed
    with pytest.raises(ImportError, match="pip install torch"):
        LSSVR(device="cuda").fit(X, NUMBERS)
