"""Models in C, compiled and compared with the models themselves; what cannot be written."""

import re
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from c_runs import COMPILER, CPP_COMPILER, WARNINGS, Compiled, agree, compiled_library, expected, written
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
    TableRegressor,
    calibration,
)
from onefold.approximations import Grid, Nystroem
from onefold.export import to_c
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial, PowerExponential

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
rng = np.random.default_rng(2)
X = rng.standard_normal((60, 3))
Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2, X[:, 0]], axis=1)
ROWS = np.concatenate([X[:20], 1.5 * rng.standard_normal((40, 3))])
CLASSES = np.array(["left", "middle", "rechts ü"])[np.digitize(Y[:, 0], [-0.5, 0.5])]
SQUARE = np.array([[1.0, 0.3, -0.2], [0.0, 0.7, 0.4], [0.2, 0.0, 1.3]])
KERNELS = [
    RBF(0.5),
    RBF(30.0),
    RBF(1e-3),
    RBF([0.1, 2.0, 0.0]),
    RBF(0.7, metric=SQUARE),
    Laplacian(0.3),
    Laplacian(1e-3),
    Laplacian(4.0, metric=[1.0, 0.0, 0.2]),
    Matern(0.5, nu=0.5),
    Matern(1e-3, nu=0.5),
    Matern(20.0, nu=0.5),
    Matern(0.5, nu=1.5, metric=[0.5, 1.0, 2.0]),
    Matern(1e-2, nu=1.5),
    Matern(0.5, nu=2.5, metric=SQUARE),
    Matern(1e-2, nu=2.5),
    PowerExponential(0.5),
    PowerExponential(1e-3),
    PowerExponential(2.0, power=0.8, metric=SQUARE),
    Polynomial(0.3, degree=3),
    Polynomial([0.3, 0.1, 0.2], degree=1),
    Polynomial(0.02, degree=9),
    Polynomial(0.2, degree=2, coef0=0.5, metric=SQUARE),
    Linear(),
    RBF(0.5) + Linear(),
    Linear() + Linear() + RBF(0.5) + Laplacian(0.1),
    RBF(0.2) * Polynomial(0.1, degree=2) + Laplacian(0.1),
    Linear() * RBF(0.3),
    RBF(0.2) * (Matern(0.1) + Linear()) * RBF(0.2, metric=SQUARE),
]


@pytest.fixture(scope="module")
def kernel_models(tmp_path_factory):
    """Models of all kernels, near the origin and far from it, and all of them in one file of C."""
    folder = tmp_path_factory.mktemp("kernels")
    models = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "float32 changes")
        for number, kernel in enumerate(KERNELS):
            far = 10.0 if "Polynomial" in repr(kernel) else 1000.0  # powers of large numbers cancel
            for offset in (0.0, far):
                rows = np.float32(X + offset).astype(np.float64)
                model = KernelRidge(kernel, alpha=1.0).fit(rows, Y[:, :2])
                name = f"{'far' if offset else 'near'}{number}"
                model.to_c(folder / f"{name}.c", name=name)
                models[name] = model, offset
    (folder / "all.c").write_text("".join(f'#include "{name}.c"\n' for name in models))
    library = compiled_library(folder / "all.c")
    return {
        name: (model, offset, Compiled(library, (folder / f"{name}.c").read_text("ascii"), name))
        for name, (model, offset) in models.items()
    }


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel!r:.48}")
@pytest.mark.parametrize("place", ["near", "far"])
def test_kernels(kernel, place, kernel_models):
    """Near the origin and far from it."""
    model, offset, compiled = kernel_models[f"{place}{KERNELS.index(kernel)}"]
    assert agree(compiled, model, ROWS + offset)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel!r:.48}")
def test_rows_far_away(kernel, kernel_models):
    """Kernels of a distance are 0 there, and no number is undefined; what is undefined stays so."""
    model, _, compiled = kernel_models[f"near{KERNELS.index(kernel)}"]
    assert np.isnan(compiled.values(np.full((1, 3), np.nan))).all()
    if kernel.stationary:
        far = np.array([[1e30, -1e25, 3e38], [3e38, 3e38, 3e38]])
        size = np.abs(model.expansion_.coef).sum()
        assert np.abs(compiled.values(far)).max() < 1e-6 * size


@pytest.mark.parametrize("kernel", [RBF(0.5), Laplacian(1e-3), Linear(), RBF(1e-3) + Linear()])
def test_no_digit_is_lost_far_from_the_origin(kernel, tmp_path):
    """Rows move by a number that float32 adds exactly: values stay as they were."""
    rows = np.round(ROWS, 2).astype(np.float32).round(0) / 8
    centres = (np.round(8 * X) / 8).astype(np.float64)
    model = LSSVR(kernel, alpha=1.0).fit(centres, Y[:, 0])
    near = written(model, tmp_path).values(rows)
    far = LSSVR(kernel, alpha=1.0).fit(centres + 2.0**15, Y[:, 0])
    found = written(far, tmp_path, name="far").values(rows + 2.0**15)
    assert np.allclose(found, near, rtol=0, atol=2e-6 * np.ptp(near))


ESTIMATORS = {
    "lssvr": (LSSVR(gamma=0.3, alpha=0.1), Y[:, 0]),
    "ridge, three targets": (KernelRidge("laplacian", alpha=[0.1, 1.0, 0.3]), Y),
    "one column": (LSSVR(gamma=0.3, alpha=0.1), Y[:, :1]),
    "search": (LSSVRCV(cv=3), Y[:, 0]),
    "blend": (
        LSSVRCV(["rbf", "laplacian"], metric="diagonal", blend=True, cv=3, gammas=[0.5, 2.0]),
        Y[:, :2],
    ),
    "metric": (KernelRidgeCV(metric="full", cv=3, gammas=[1.0]), Y[:, 0]),
    "sparse": (SparseLSSVR(n_centres=12), Y[:, :2]),
    "nystroem": (LSSVR(RBF(0.3), approximation=Nystroem(20)), Y[:, :2]),
    "three classes": (LSSVC(alpha=0.1), CLASSES),
    "two classes": (LSSVCCV(cv=3), CLASSES == "left"),
    "sparse classes": (SparseLSSVC(n_centres=12), np.digitize(Y[:, 0], [-0.5, 0.5]) - 1),
    "weighted": (LSSVC(alpha=0.1, class_weight="balanced"), CLASSES),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name, tmp_path):
    """Values, labels and sizes; the file is the same each time."""
    model, y = ESTIMATORS[name]
    compiled = written(model.fit(X, y), tmp_path)
    values = expected(model, ROWS)
    assert agree(compiled, model, ROWS)
    assert compiled.size("FEATURES") == 3
    assert compiled.size("OUTPUTS") == values.shape[1]
    if hasattr(model, "classes_"):
        labels = np.array(compiled.labels)[compiled.positions(ROWS)]
        assert list(labels) == [str(label) for label in model.predict(np.float32(ROWS))]
    model.to_c(tmp_path / "again.c")
    assert (tmp_path / "again.c").read_bytes() == (tmp_path / "model.c").read_bytes()


@pytest.mark.parametrize("classes", [CLASSES, CLASSES == "left"], ids=["three", "two"])
@pytest.mark.parametrize("weight", [None, "balanced"])
@pytest.mark.parametrize("calibration", ["log_odds", "temperature", "sigmoid"])
def test_probabilities(calibration, weight, classes, tmp_path):
    """Those of the model, also where they are 0 or 1; undefined where rows are."""
    model = LSSVC(gamma=0.3, alpha=0.1, calibration=calibration, class_weight=weight).fit(X, classes)
    compiled = written(model, tmp_path)
    for rows in (np.float32(ROWS), np.float32(X)):
        found = compiled.probabilities(rows)
        assert np.allclose(found, model.predict_proba(rows.astype(np.float64)), rtol=1e-5, atol=2e-6)
        assert np.allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-6)
    assert np.isnan(compiled.probabilities(np.full((1, 3), np.nan))).all()


def test_certain_probabilities(tmp_path):
    """Steep ones: no infinity over infinity, and the largest stays the largest."""
    rows = np.float32(X)
    for y in (CLASSES, CLASSES == "left"):
        model = LSSVC(gamma=0.3, alpha=0.1).fit(X, y)
        steep = np.full(1 if len(set(y)) == 2 else 3, 1e4)
        for calibrator in (
            calibration.Temperature(1e4),
            calibration.LogOdds(1e4, 1.0),
            calibration.Sigmoid(steep, -0.5 * steep),
            calibration.Sigmoid(-steep, -0.5 * steep),
        ):
            model.calibrator_ = calibrator
            found = written(model, tmp_path).probabilities(rows)
            wanted = model.predict_proba(rows.astype(np.float64))
            sure = wanted.max(axis=1) > 1.0 - 1e-6
            known = wanted.max(axis=1) > 1.0 / len(set(y)) + 1e-9  # of all 0 the model says nothing
            assert np.isfinite(found).all()
            assert np.allclose(found[sure & known], wanted[sure & known], rtol=0, atol=1e-5)


def test_what_has_no_probabilities(tmp_path):
    """A staircase is not written, nor what there is not."""
    for calibrated in ("isotonic", None):
        model = LSSVC(alpha=0.1, calibration=calibrated).fit(X, CLASSES)
        assert "probabilities" not in written(model, tmp_path).text


def test_what_the_file_is(tmp_path):
    """Constants and functions alone; the size that it names is the size of its tables."""
    model = LSSVC(RBF(0.3, metric=SQUARE) + Laplacian(0.1), alpha=0.1).fit(X, CLASSES)
    text = written(model, tmp_path, name="Sensor_2").text
    assert re.findall(r"#include .*", text) == ["#include <math.h>"]
    assert not re.search(r"\b(malloc|calloc|alloca|free|double|goto)\b", text)
    for line in text.splitlines():
        if re.match(r"\w", line):  # of the file itself
            assert re.match(r"(extern const|static const|const) .*|.*\(.*\);?$", line), line
    sizes = re.findall(r"^static const float \w+((?:\[\d+\])+)", text, re.MULTILINE)
    numbers = sum(int(np.prod([int(n) for n in re.findall(r"\d+", size)])) for size in sizes)
    assert int(re.search(r"(\d+) bytes of constants", text)[1]) == 4 * numbers
    assert int(re.search(r"(\d+) bytes of arrays", text)[1]) == 4 * (2 * 3 + 2 * 3)


@pytest.mark.skipif(CPP_COMPILER is None, reason="this system has no C++ compiler")
def test_cpp(tmp_path):
    """Every kernel is also C++."""
    for number, kernel in enumerate(KERNELS):
        LSSVC(kernel, alpha=1.0).fit(X, CLASSES).to_c(tmp_path / f"{number}.cpp", name=f"m{number}")
    every = "".join(f'#include "{number}.cpp"\n' for number in range(len(KERNELS)))
    (tmp_path / "every.cpp").write_text(every)
    command = [CPP_COMPILER, "-std=c++11", *WARNINGS, "-c", tmp_path / "every.cpp", "-o", tmp_path / "o"]
    subprocess.run(command, check=True)


NASTY = [
    'a" ; int evil(void) { return 1; } //',
    "*/ int evil; /*",
    "??/\" ??' ??=",
    "back\\slash \\",
    "line\n#define int float\r\n\x85",
    "%s %n 100 %",
    "12/34 é ü 漢字 😀",
    "tab\tand \x7f 0",
    "// comment \\",
]


def test_text_of_the_user_is_no_code(tmp_path):
    """Labels come back as they were; names of features are in a comment that they cannot end."""
    y = np.array(NASTY, dtype=object)[np.arange(60) % len(NASTY)]
    frame = pd.DataFrame(rng.standard_normal((60, len(NASTY))), columns=NASTY)
    compiled = written(LSSVC(alpha=0.1).fit(frame, y), tmp_path)
    assert compiled.labels == sorted(NASTY)
    assert compiled.text.count("*/") == compiled.text.count("/*") == 1
    code = re.sub(r'"(\\.|[^"\\])*"', '""', compiled.text.split("*/")[1])
    assert "evil" not in code
    assert "\\" not in code
    assert "??" not in code
    kind = type("*/ int evil; /*", (LSSVR,), {})
    model = kind(alpha=0.1).fit(X, Y[:, 0])
    assert written(model, tmp_path, name="other").text.count("*/") == 1


@pytest.mark.parametrize("labels", [[0, 1], [-1.0, 2.0], [False, True], [10**12, 3]])
def test_other_labels(labels, tmp_path):
    """Numbers are written as Python writes them."""
    model = LSSVC(alpha=0.1).fit(X, np.array(labels)[(X[:, 0] > 0).astype(int)])
    compiled = written(model, tmp_path)
    assert compiled.labels == [str(label) for label in sorted(labels)]


CORNERS = {
    "one row": (LSSVR(alpha=1.0), X[:1], Y[:1, 0]),
    "one row, ridge": (KernelRidge(alpha=1.0), X[:1], Y[:1, 0]),
    "one feature": (LSSVR(alpha=0.1), X[:, :1], Y[:, 0]),
    "constant target": (LSSVR(alpha=0.1), X, np.full(60, 7.25)),
    "constant zero": (KernelRidge(alpha=0.1), X, np.zeros(60)),
    "constant zero, linear": (KernelRidge("linear", alpha=0.1), X, np.zeros(60)),
    "one of two targets": (KernelRidge(alpha=0.1), X, Y[:, :2] * [1.0, 0.0]),
    "constant rows": (KernelRidge(alpha=0.1), np.ones((10, 2)), np.ones(10)),
    "narrow": (LSSVR(gamma=1e6, alpha=0.1), X, Y[:, 0]),
    "wide": (LSSVR(gamma=1e-9, alpha=1e-9), X, Y[:, 0]),
    "wide matern": (LSSVR("matern52", gamma=1e-9, alpha=0.1), X, Y[:, 0]),
    "large features": (LSSVR(gamma=1e-24, alpha=0.1), 1e12 * X, Y[:, 0]),
    "small features": (LSSVR(gamma=1e24, alpha=0.1), 1e-12 * X, Y[:, 0]),
    "large targets": (LSSVR(alpha=0.1), X, 1e12 * Y[:, 0]),
    "small targets": (LSSVR(alpha=0.1), X, 1e-12 * Y[:, 0]),
    "features of two sizes": (LSSVR(gamma=[1e-12, 1.0, 1e12], alpha=0.1), X * [1e6, 1, 1e-6], Y[:, 0]),
    "weights of 0": (LSSVR(alpha=0.1), X, Y[:, 0]),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name, tmp_path):
    """Few rows, constants, and numbers of all sizes."""
    model, rows, y = CORNERS[name]
    weight = {"sample_weight": (np.arange(len(rows)) % 3 > 0) * 1.0} if "weights" in name else {}
    model.fit(np.float32(rows).astype(np.float64), y, **weight)
    found = written(model, tmp_path).values(rows)
    wanted = expected(model, rows)
    spread = np.maximum(np.ptp(wanted, axis=0), 0.1 * np.abs(wanted).max(axis=0))
    assert np.all(np.abs(found - wanted).max(axis=0) <= 1e-5 * spread)


def test_a_hundred_classes(tmp_path):
    """Each is recognised where it is."""
    rows = np.stack(np.divmod(np.arange(100.0), 10.0), axis=1)
    labels = np.tile(np.arange(100), 2)
    model = LSSVC(gamma=1.0, alpha=1e-3, calibration=None).fit(np.tile(rows, (2, 1)), labels)
    compiled = written(model, tmp_path)
    assert np.array_equal(compiled.positions(rows), np.arange(100))


def test_sparse_rows(tmp_path):
    """Centres of a CSR matrix become dense."""
    model = LSSVR(RBF(0.3), alpha=0.1).fit(scipy.sparse.csr_array(X * (X > 0)), Y[:, 0])
    assert agree(written(model, tmp_path), model, ROWS)
    model = LSSVR("linear", alpha=0.1).fit(scipy.sparse.csr_array(X * (X > 0)), Y[:, 0])
    compiled = written(model, tmp_path)
    assert agree(compiled, model, ROWS)
    assert "centres_0" not in compiled.text


def test_shared_centres(tmp_path):
    """A sum of kernels of one width writes its centres once, a blend too."""
    model = LSSVR(RBF(0.5) + Laplacian(0.2) + Matern(0.1), alpha=0.1).fit(X, Y[:, 0])
    assert written(model, tmp_path).text.count("static const float model_centres") == 1


def test_difference_is_the_one_that_is_named(tmp_path):
    """Powers of large numbers cancel: there is a warning, and the file says by how much."""
    far = np.float32(X + 10.0)
    model = LSSVR(Polynomial(0.3), alpha=1.0).fit(far, Y[:, 0])
    with pytest.warns(UserWarning, match="float32 changes the values of this model by up to"):
        compiled = written(model, tmp_path)
    named = float(re.search(r"by about (\S+) of their spread", compiled.text)[1])
    values = expected(model, far)
    assert 0.02 * named < np.abs(compiled.values(far) - values).max() / np.ptp(values) < 2 * named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSSVR(Polynomial(0.3), alpha=1.0).fit(X, Y[:, 0]).to_c(tmp_path / "model.c")


def test_wide_kernels(tmp_path):
    """Their coefficients are large and cancel, but only what differs from 1 is rounded."""
    for kernel in (RBF(1e-4), PowerExponential(1e-4), Laplacian(1e-4), Matern(1e-4, nu=0.5)):
        model = LSSVR(kernel, alpha=1e-6).fit(X, Y[:, 0])
        rows = np.float32(X)
        K = kernel(rows.astype(np.float64), X)
        size = (abs(K - 1.0) @ abs(model.expansion_.coef)).max()
        found = written(model, tmp_path).values(rows)
        wanted = expected(model, rows)
        assert np.abs(found - wanted).max() <= 2.0**-22 * (size + np.abs(wanted).max())
        assert size < 0.05 * np.abs(model.expansion_.coef).sum()


def callable_kernel(A, B):
    return A @ B.T


class Derived(RBF):
    """A kernel of somebody else."""


REFUSED = {
    "Precomputed kernel": LSSVR("precomputed").fit(X @ X.T, Y[:, 0]),
    "CallableKernel kernel": LSSVR(callable_kernel).fit(X, Y[:, 0]),
    "Derived kernel": LSSVR(Derived(0.5) + RBF(0.5)).fit(X, Y[:, 0]),
    "a model on a grid": LSSVR(Matern(0.3), approximation=Grid(12)).fit(X, Y[:, 0]),
    "preparation of a table": TableRegressor(simple=True).fit(pd.DataFrame(X), Y[:, 0]),
    "float32 cannot hold": LSSVR(alpha=0.1).fit(X, 1e60 * Y[:, 0]),
    "the features of the model": LSSVR(gamma=1e-90, alpha=0.1).fit(
        np.array([[1e45], [-1e45]]), np.array([1.0, 2.0])
    ),
    "the kernel of the model": LSSVR(Polynomial(1.0, degree=9)).fit(1e3 * X, Y[:, 0]),
    "widths of the model": LSSVR(gamma=1e90, alpha=0.1).fit(1e-45 * X, Y[:, 0]),
    "a label takes": LSSVC(alpha=0.1).fit(X, np.where(X[:, 0] > 0, "a" * 5000, "b")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_written(reason, tmp_path):
    """Nothing is written."""
    with pytest.raises(ValueError, match=reason):
        to_c(REFUSED[reason], tmp_path / "model.c")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_fitted_estimator(tmp_path):
    """Pipelines are refused, too."""
    model = LSSVR(alpha=0.1)
    with pytest.raises(NotFittedError):
        model.to_c(tmp_path / "model.c")
    with pytest.raises(TypeError, match="Pipeline"):
        to_c(make_pipeline(model).fit(X, Y[:, 0]), tmp_path / "model.c")


def test_the_largest_size(tmp_path):
    """Refused before anything is written; the number is that of the file."""
    model = LSSVR(alpha=0.1).fit(X, Y[:, 0])
    needed = 4 * (60 * 3 + 60 + 3 + 1)
    (tmp_path / "model.c").write_text("kept")
    for size in (100, needed - 1):
        with pytest.raises(ValueError, match="use fewer centres"):
            model.to_c(tmp_path / "model.c", max_bytes=size)
    assert (tmp_path / "model.c").read_text() == "kept"
    assert f" {needed} bytes of constants" in written(model, tmp_path, max_bytes=needed).text
    for wrong in (0, 1.5, True, "1"):
        with pytest.raises(ValueError, match="max_bytes must be"):
            model.to_c(tmp_path / "model.c", max_bytes=wrong)


@pytest.mark.parametrize("name", ["", "2nd", "a b", "a-b", "_a", "ä", "a;", "a\n", "a" * 32, None, 3])
def test_names(name, tmp_path):
    """Only what C takes as the beginning of every name."""
    with pytest.raises(ValueError, match="name must begin with a letter"):
        LSSVR(alpha=0.1).fit(X, Y[:, 0]).to_c(tmp_path / "model.c", name=name)


def test_paths(tmp_path):
    """A folder that does not exist is named; a file is replaced; text and path objects will do."""
    model = LSSVR(alpha=0.1).fit(X, Y[:, 0])
    with pytest.raises(FileNotFoundError, match="in a folder that exists"):
        model.to_c(tmp_path / "none" / "model.c")
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        model.to_c(tmp_path)
    (tmp_path / "model.c").write_text("old")
    model.to_c(str(tmp_path / "model.c"))
    assert (tmp_path / "model.c").read_text().startswith("/*\n * LSSVR, written by onefold")


@pytest.mark.skipif(COMPILER is None, reason="this system has no C compiler")
def test_the_program_of_the_manual(tmp_path, monkeypatch):
    """It compiles as the manual says, and prints a label and its probability."""
    text = (Path(__file__).parents[2] / "docs/manual/export.md").read_text(encoding="utf-8")
    text = text[text.index("## C, for devices") :]
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    (tmp_path / "main.c").write_text(re.search(r"```text\n(.*?)```", text, re.DOTALL)[1])
    subprocess.run([COMPILER, "-std=c99", *WARNINGS, "main.c", "iris.c", "-lm"], check=True)
    printed = subprocess.run(["./a.out"], check=True, capture_output=True, text=True).stdout
    assert f"/* {printed.strip()} */" in text
    assert " 308 bytes of constants" in (tmp_path / "iris.c").read_text()
