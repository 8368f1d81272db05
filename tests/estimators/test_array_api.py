"""What the tag `array_api_support` promises: everything follows X."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, SparseLSSVR, trust
from onefold.approximations import ConjugateGradients, Nystroem
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
    assert int(run.stdout) == 70


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
    settings = {"kernel": kernel, "metric": metric, "blend": kernel == "auto", "max_rounds": 2, **FEW}
    ours = LSSVRCV(**settings).fit(library(rows), library(NUMBERS))
    theirs = LSSVRCV(**settings).fit(rows, NUMBERS)
    assert ours.best_params_ == theirs.best_params_
    for name in ("heldout_prediction_", "feature_importances_", "metric_"):
        if getattr(theirs, name) is not None:
            assert is_foreign(getattr(ours, name)), name
            assert_allclose(to_numpy(getattr(ours, name)), getattr(theirs, name), rtol=1e-4, atol=1e-5)
    assert_allclose(to_numpy(ours.predict(library(rows))), theirs.predict(rows), rtol=1e-4, atol=1e-5)


@LIBRARIES
def test_the_trust_check_takes_rows_of_any_library(library) -> None:
    model = LSSVCCV(approximation="nystroem", check=True, **FEW).fit(library(X), library(LABELS))
    assert model.approximation_["trust"]["verdict"] == "applies"
    options = {"size": 30, "random_state": 0}
    found = trust(LSSVR(approximation=Nystroem(20)), library(X), library(NUMBERS), **options)
    expected = trust(LSSVR(approximation=Nystroem(20)), X, NUMBERS, **options)
    assert (found.exact, found.approximate) == (expected.exact, expected.approximate)


@LIBRARIES
def test_a_saved_model_is_numpy_s(library, tmp_path) -> None:
    model = LSSVRCV(metric="diagonal", **FEW).fit(library(X), library(NUMBERS))
    model.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert isinstance(loaded.heldout_prediction_, np.ndarray)
    assert_allclose(loaded.predict(X), to_numpy(model.predict(library(X))), rtol=1e-12, atol=1e-12)


@LIBRARIES
def test_drivers_follow_too(library) -> None:
    objective = LSSVRCV(**FEW).objective(library(X), library(NUMBERS))
    objective(gamma=0.3, alpha=0.1)
    assert is_foreign(objective.fit().heldout_prediction_)


def test_rows_of_numpy_stay_there_whatever_the_device() -> None:
    pytest.importorskip("torch")
    assert isinstance(LSSVRCV(device="cpu", **FEW).fit(X, NUMBERS).heldout_prediction_, np.ndarray)


def test_what_comes_of_dask_s_rows_is_numpy_s() -> None:
    array = pytest.importorskip("dask.array")
    settings = {"approximation": "nystroem", "metric": "diagonal", "max_rounds": 1, **FEW}
    model = LSSVRCV(**settings).fit(array.from_array(X, chunks=30), NUMBERS)
    for name in ("heldout_prediction_", "feature_importances_"):
        assert isinstance(getattr(model, name), np.ndarray), name
