"""The package's own kernels, expansions and estimators through a file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from saving_standins import forge, metadata_of, through_file
from scipy import sparse
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import ShuffleSplit

from onefold import saving
from onefold.approximations import Exact
from onefold.estimators import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.expansions import Expansion
from onefold.kernels import (
    RBF,
    CallableKernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
)
from onefold.saving import ModelFileError

KERNELS = [
    RBF(0.3),
    RBF((0.1, 0.2, 0.7)),
    RBF(0.3, metric=np.array([[1.0, 0.3, 0.0], [-0.2, 0.5, 0.1], [0.0, 0.0, 2.0]])),
    Matern(0.3, nu=0.5, metric=[1.0, 0.0, 0.1]),
    Laplacian(0.2, metric=[1.0, 0.0, 0.1]),
    Laplacian(0.2),
    Matern(0.4, nu=0.5),
    Matern(0.4, nu=2.5),
    Polynomial(0.5, degree=2, coef0=0.25),
    Linear(),
    RBF(0.1) + Linear() * Matern(1.5),
]


@pytest.fixture
def rows(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def assert_same_predictions(model, loaded, X):
    for method in ("predict", "decision_function"):
        if hasattr(model, method):
            expected, got = getattr(model, method)(X), getattr(loaded, method)(X)
            assert expected.dtype == got.dtype
            assert expected.tolist() == got.tolist()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_kernel_predicts_the_same_bits(tmp_path, rows, kernel, order, dtype):
    X = np.asarray(rows, dtype=dtype, order=order)
    model = LSSVR(kernel=kernel, alpha=0.1).fit(X, np.sin(rows[:, 0]))
    loaded = through_file(model, tmp_path)
    assert loaded.kernel == kernel
    assert loaded.expansion_.kernel == kernel
    assert loaded.expansion_.centres.dtype == dtype
    assert_same_predictions(model, loaded, X[:17])


@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern", "polynomial", "linear"])
def test_kernels_by_name(tmp_path, rows, name):
    model = KernelRidge(kernel=name, gamma="scale", alpha=0.1).fit(rows, rows[:, :2] ** 2)
    loaded = through_file(model, tmp_path)
    assert loaded.get_params() == model.get_params()
    assert_same_predictions(model, loaded, rows[:17])


def test_a_precomputed_kernel_has_no_centres(tmp_path, rows):
    gram = Laplacian(0.5)(rows, rows)
    model = LSSVR(kernel="precomputed").fit(gram, rows[:, 0])
    loaded = through_file(model, tmp_path)
    assert loaded.expansion_.centres is None
    assert_same_predictions(model, loaded, gram[:9])


@pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_centres(tmp_path, rows, rng, build):
    X = build(np.where(rng.random(rows.shape) < 0.5, 0.0, rows))
    model = LSSVC(kernel="rbf", gamma=0.3).fit(X, rows[:, 0] > 0)
    loaded = through_file(model, tmp_path)
    assert type(loaded.expansion_.centres) is type(model.expansion_.centres)
    assert_same_predictions(model, loaded, X[:11])


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ja", "nein"]),
        np.array(["setosa", "virginica", "versicolor"]),
        np.array(["a", "bb", "ccc"], dtype=object),
        np.array([False, True]),
        np.array([-7, 0, 30], dtype=np.int16),
        np.array([1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_labels_of_any_kind(tmp_path, rows, labels):
    y = labels[np.arange(40) % len(labels)]
    model = LSSVC(class_weight={label: 1.0 + i for i, label in enumerate(labels)}).fit(rows, y)
    loaded = through_file(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.class_weight == model.class_weight
    assert_same_predictions(model, loaded, rows)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_models_fitted_in_another_library(tmp_path, rows, library):
    xp = pytest.importorskip(library)
    model = LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0], approximation="exact")
    model.fit(xp.asarray(rows), xp.asarray(rows[:, 0]))
    loaded = through_file(model, tmp_path)
    np.testing.assert_allclose(loaded.predict(rows), np.asarray(model.predict(rows)), rtol=1e-10)


def test_feature_names(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=["length", "breite", "高さ"])
    model = LSSVC().fit(frame, np.where(rows[:, 0] > 0, "+", "-"))
    loaded = through_file(model, tmp_path)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    assert_same_predictions(model, loaded, frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["breite", "length", "高さ"]])


def same_results(a, b):
    assert a.keys() == b.keys()
    for key, column in a.items():
        assert type(b[key]) is type(column)
        np.testing.assert_array_equal(np.asarray(b[key]), np.asarray(column))


@pytest.mark.parametrize("cls", [LSSVCCV, LSSVRCV, KernelRidgeCV])
def test_searches_keep_their_results(tmp_path, rows, cls):
    y = rows[:, 0] ** 2
    y = np.where(y > 1, "far", "near") if cls is LSSVCCV else y
    model = cls(gammas=[0.1, 1.0], alphas=[0.01, 0.1, 1.0], approximation=Exact()).fit(rows, y)
    loaded = through_file(model, tmp_path)
    assert vars(loaded).keys() == vars(model).keys()
    assert loaded.best_params_ == model.best_params_
    assert loaded.best_score_ == model.best_score_
    assert loaded.history_ == model.history_
    assert loaded.approximation == Exact()
    same_results(model.cv_results_, loaded.cv_results_)
    np.testing.assert_array_equal(loaded.heldout_prediction_, model.heldout_prediction_)
    assert_same_predictions(model, loaded, rows)


def test_splitters_scorers_and_callbacks_are_dropped(tmp_path, rows):
    model = LSSVRCV(
        gammas=[0.1, 1.0],
        alphas=[0.1],
        cv=ShuffleSplit(3, random_state=0),
        criterion=make_scorer(mean_absolute_error, greater_is_better=False),
        callback=lambda event: None,
    ).fit(rows, rows[:, 0])
    loaded = through_file(model, tmp_path)
    assert loaded.dropped_params_.keys() == {"cv", "criterion", "callback"}
    assert loaded.dropped_params_["cv"].startswith("ShuffleSplit(")
    assert loaded.cv == LSSVRCV().cv
    assert loaded.criterion == LSSVRCV().criterion
    assert loaded.callback is None
    assert_same_predictions(model, loaded, rows)
    loaded.fit(rows, rows[:, 0])


@pytest.mark.parametrize("wrap", [lambda f: f, CallableKernel, lambda f: RBF(1.0) + CallableKernel(f)])
def test_kernel_functions_are_refused_before_writing(tmp_path, rows, wrap):
    model = LSSVR(kernel=wrap(lambda A, B: A @ B.T)).fit(rows, rows[:, 0])
    with pytest.raises(TypeError, match=r"LSSVR\.kernel.*Python code.*precomputed"):
        saving.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_the_method_of_the_estimator_saves(tmp_path, rows):
    model = LSSVR().fit(rows, rows[:, 0])
    model.save(tmp_path / "model")
    assert_same_predictions(model, saving.load(tmp_path / "model"), rows)


def test_another_process_loads_the_same_bits(tmp_path, rows):
    model = LSSVC(kernel=Matern(0.4)).fit(rows, np.where(rows[:, 0] > 0, "+", "-"))
    model.save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    script = (
        "import sys, numpy as np; from onefold.saving import load; "
        "values = load(sys.argv[1]).decision_function(np.load(sys.argv[2])); "
        "sys.stdout.write(values.tobytes().hex())"
    )
    command = [sys.executable, "-c", script, tmp_path / "model", tmp_path / "rows.npy"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == model.decision_function(rows).tobytes().hex()


# Forged models: the parts do not fit together


def expansion(**changes):
    parts = {
        "kernel": RBF((1.0, 2.0)),
        "centres": np.ones((3, 2)),
        "coef": np.ones((3, 1)),
        "intercept": np.zeros(1),
    }
    return {**parts, **changes}


def forged_expansion(path, **changes):
    """Write an expansion field by field, past the checks of the class and of `save`."""
    from onefold.saving.codec import Encoder

    encoder = Encoder()
    fields = {key: encoder.encode(value, key) for key, value in expansion(**changes).items()}
    return forge(path, metadata_of({"$object": "Expansion", "fields": fields}), encoder.arrays)


def test_the_unchanged_forgery_loads(tmp_path):
    loaded = saving.load(forged_expansion(tmp_path / "m"))
    assert loaded.predict(np.ones((1, 2))).tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"coef": np.ones((4, 1))}, "3 centres do not match 4"),
        ({"coef": np.ones(3)}, "coef must be"),
        ({"coef": np.full((3, 1), np.nan)}, "coefficients .* not all finite"),
        ({"coef": np.ones((3, 1), dtype=int)}, "dtype int64, not floating"),
        ({"coef": np.full((3, 1), "x")}, "not floating"),
        ({"coef": np.full((3, 1), None)}, "dtype object"),
        ({"coef": None}, "not valid"),
        ({"coef": 1.0}, "not valid"),
        ({"intercept": np.array([np.inf])}, "intercepts .* not all finite"),
        ({"intercept": np.zeros(2)}, "coef must be"),
        ({"intercept": 0.0}, "not valid"),
        ({"centres": np.array([[1.0, np.nan]] * 3)}, "centres .* not all finite"),
        ({"centres": np.ones((3, 4))}, "2 widths"),
        ({"centres": np.ones((3, 2, 1))}, "not a table"),
        ({"centres": None}, "lacks them"),
        ({"centres": "rows"}, "not valid"),
        ({"kernel": Precomputed()}, "centres without need"),
        ({"kernel": "rbf"}, "not a kernel"),
        ({"kernel": None}, "not a kernel"),
        ({"centres": sparse.csr_array(np.full((3, 2), np.nan))}, "centres .* not all finite"),
    ],
)
def test_expansions_that_do_not_hold_together_are_refused(tmp_path, changes, match):
    with pytest.raises(ModelFileError, match=match):
        saving.load(forged_expansion(tmp_path / "m", **changes))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("expansion_", RBF(1.0)),
        ("expansion_", None),
        ("n_features_in_", 5),
        ("n_features_in_", "3"),
        ("classes_", np.array(["a", "b", "c", "d"])),
        ("classes_", ["a", "b", "c"]),
    ],
)
def test_estimators_that_do_not_hold_together_are_refused(tmp_path, rows, monkeypatch, attribute, value):
    model = LSSVC().fit(rows, np.arange(40) % 3)
    setattr(model, attribute, value)
    with pytest.raises(ValueError, match=r"cannot save this LSSVC: .*; fit it again"):
        saving.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr("onefold.saving.rules.State.check", lambda state, value, name: None)
        saving.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError):
        saving.load(tmp_path / "m")


def test_a_model_with_nan_is_not_saved(tmp_path):
    broken = Expansion(**expansion(coef=np.full((3, 1), np.nan)))
    with pytest.raises(ValueError, match="not all finite; fit it again"):
        saving.save(broken, tmp_path / "m")


def test_a_hostile_kernel_parameter_is_refused(tmp_path):
    for gamma in (-1.0, {"$float": "nan"}, "wide", [[1.0]], {"$tuple": []}, None):
        metadata = metadata_of({"$object": "RBF", "fields": {"gamma": gamma}})
        with pytest.raises(ModelFileError, match=r"gamma must|not valid"):
            saving.load(forge(tmp_path / "m", metadata))
