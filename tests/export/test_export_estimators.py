"""Every estimator, label, calibration and kind of expansion in a graph; what cannot be exported."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from onnx_runs import onnx, run, session
from sklearn.exceptions import NotFittedError

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
    calibration,
)
from onefold.approximations import Grid
from onefold.expansions import Expansion
from onefold.export import graph as graphs
from onefold.export import register_converters
from onefold.kernels import RBF, Linear, Matern, Sum

skl2onnx = pytest.importorskip("skl2onnx")
pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
rng = np.random.default_rng(1)
X = rng.standard_normal((60, 3))
Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2, X[:, 0]], axis=1)
ROWS = np.concatenate([X[:10], rng.standard_normal((20, 3))])
SINGLE = ROWS.astype(np.float32)
CLASSES = np.array(["left", "middle", "rechts ü"])[np.digitize(Y[:, 0], [-0.5, 0.5])]


class Derived(LSSVR):
    """An estimator of somebody else."""


CASES = {
    "lssvr": (LSSVR(alpha=0.1), Y[:, 0]),
    "laplacian, two targets": (KernelRidge("laplacian", alpha=0.1), Y[:, :2]),
    "search": (LSSVRCV(cv=3), Y[:, 0]),
    "blend": (
        LSSVRCV(["rbf", "laplacian"], metric="diagonal", blend=True, cv=3, gammas=[0.5, 2.0]),
        Y[:, :2],
    ),
    "metric": (KernelRidgeCV(metric="full", cv=3, gammas=[1.0]), Y[:, 0]),
    "sparse": (SparseLSSVR(n_centres=12), Y[:, :2]),
    "nystroem": (LSSVR(RBF(0.3), approximation="nystroem"), Y[:, :2]),
    "derived": (Derived(alpha=0.1), Y),
    "classes": (LSSVC(alpha=0.1, calibration=None), CLASSES),
    "two classes": (LSSVCCV(cv=3, calibration=None), CLASSES == "left"),
    "labels as objects": (SparseLSSVC(n_centres=12, calibration=None), CLASSES.astype(object)),
    "blend of classifiers": (
        LSSVCCV("auto", blend=True, cv=3, gammas=[0.5, 2.0], calibration=None),
        CLASSES,
    ),
    "calibrated": (LSSVCCV(cv=3), CLASSES),
}


def columns_of(decision):
    """Decision values, one column per class."""
    return np.stack([-decision, decision], axis=1) if decision.ndim == 1 else decision


def expected_of(model, rows):
    """What a graph should give, by the names of its outputs."""
    if not hasattr(model, "classes_"):
        return {"variable": model.predict(rows).reshape(len(rows), -1)}
    second = {"probabilities": model.predict_proba(rows)} if model.calibrator_ is not None else {}
    return {"label": model.predict(rows)} | (
        second or {"decision": columns_of(model.decision_function(rows))}
    )


@pytest.mark.parametrize("name", CASES)
def test_estimators(name, tmp_path):
    """Both types of rows, none, one and many; the oldest opset; a model that was loaded."""
    model, y = CASES[name]
    model.fit(X, y)
    for dtype, tolerance in (("float32", 3e-6), ("float64", 1e-9)):
        rows = ROWS.astype(dtype)
        running = session(model.to_onnx(dtype=dtype))
        expected = expected_of(model, rows)
        assert [output.name for output in running.get_outputs()] == list(expected)
        for count in (len(rows), 1, 0):
            for found, wanted in zip(running.run(None, {"X": rows[:count]}), expected.values()):
                assert found.shape == (count, *wanted.shape[1:])
                if wanted.dtype.kind == "f":
                    assert np.allclose(found, wanted[:count], rtol=tolerance, atol=tolerance)
                else:
                    assert np.array_equal(found, wanted[:count])
    loaded = model
    if name != "derived":
        model.save(tmp_path / "model")
        loaded = onefold.load(tmp_path / "model")
    for opset in (13, 18):
        graph = model.to_onnx(target_opset=opset)
        assert all(one.version <= opset for one in graph.opset_import if one.domain == "")
        older = run(graph, SINGLE)
        again = run(loaded.to_onnx(target_opset=opset), SINGLE)
        for key, wanted in expected_of(model, SINGLE).items():
            assert np.array_equal(again[key], older[key])
            assert wanted.dtype.kind != "f" or np.allclose(older[key], wanted, rtol=1e-5, atol=1e-5)


def test_decision_values_beside_probabilities_and_a_file(tmp_path):
    model = LSSVCCV(cv=3).fit(X, CLASSES)
    onnx.save(model.to_onnx(decision=True), tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx")
    found = run(loaded, SINGLE)
    assert list(found) == ["label", "probabilities", "decision"]
    assert np.allclose(found["decision"], model.decision_function(SINGLE), rtol=3e-6, atol=3e-6)
    assert (loaded.producer_name, loaded.producer_version) == ("onefold", onefold.__version__)
    assert [one.name for one in loaded.graph.input] == ["X"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (np.array([3, -7]), np.int64),
        (np.array([False, True]), np.int64),
        (np.array([1.0, 2.0]), np.int64),
        (np.array([2**62 + 1, 2**62 + 3], dtype=np.uint64), np.int64),
        (np.array(["ä", "", "日本"], dtype=object), np.object_),
        (np.array([0.5, 1.0]), None),
        (np.array([1, 2**63], dtype=np.uint64), None),
        (np.array([b"a", b"b"]), None),
    ],
)
def test_labels(labels, kind):
    if kind is None:
        model = LSSVC(calibration=None).fit(X, np.arange(60) % 2)
        model.classes_ = labels  # scikit-learn takes some of them for targets of a regression
        with pytest.raises(ValueError, match=r"64-bit whole numbers or text.*encode y before"):
            model.to_onnx()
        return
    model = LSSVC(alpha=0.1, calibration=None).fit(X, labels[np.arange(60) % len(labels)])
    found = run(model.to_onnx(), SINGLE)["label"]
    assert found.dtype == kind
    assert np.array_equal(found, model.predict(SINGLE))


def test_equal_decisions_are_the_first_class():
    model = LSSVC("linear", calibration=None).fit(np.array([[-1.0], [1.0]]), ["a", "b"])
    assert model.decision_function([[0.0]])[0] == 0.0
    found = run(model.to_onnx(), np.array([[0.0], [1e-30], [-1e-30]], dtype=np.float32))["label"]
    assert found.tolist() == ["a", "b", "a"] == model.predict([[0.0], [1e-30], [-1e-30]]).tolist()
    model = LSSVC(RBF(1e6), calibration=None).fit(X, np.arange(60) % 3)
    far = np.full((1, 3), 1e6, dtype=np.float32)
    assert np.ptp(model.decision_function(far)) == 0
    assert run(model.to_onnx(), far)["label"][0] == model.predict(far)[0] == 0


def test_torch_arrays_and_sparse_rows_are_exported_for_dense_ones():
    torch = pytest.importorskip("torch")
    tensors = torch.asarray(X), torch.asarray(Y[:, 0])
    for rows, y in (tensors, (scipy.sparse.csr_array(np.maximum(X, 0)), Y[:, 0])):
        model = LSSVR(alpha=0.1).fit(rows, y)
        found = run(model.to_onnx(dtype="float64"), ROWS)["variable"][:, 0]
        assert np.allclose(found, model.predict(ROWS), rtol=1e-12, atol=1e-12)


# Calibrations


def as_machine(calibrator, columns: int) -> LSSVC:
    """A classifier whose decision values are its rows."""
    model = LSSVC()
    model.expansion_ = Expansion(Linear(), np.eye(columns), np.eye(columns), np.zeros(columns))
    model.n_features_in_ = columns
    model.calibrator_ = calibrator
    model.classes_ = np.arange(2 if columns == 1 else columns)
    return model


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", ["temperature", "sigmoid", "isotonic"])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_every_calibration(name, classes, scale):
    columns = 1 if classes == 2 else classes
    index = np.digitize(Y[:, 0], [0.0] if classes == 2 else [-0.8, 0.0, 0.8])
    towards = index[:, None] == np.arange(classes - columns, classes)
    decision = scale * (rng.standard_normal((60, columns)) + 2.0 * towards - (classes == 2))
    calibrator = calibration.fit_calibrator(name, decision, index)
    far = scale * np.array([-1e9, -30.0, 0.0, 30.0, 1e9])[:, None] * np.ones(columns)
    rows = np.concatenate([decision, scale * 2 * rng.standard_normal((200, columns)), far])
    model = as_machine(calibrator, columns)
    found = run(model.to_onnx(dtype="float64"), rows)["probabilities"]
    assert np.allclose(found, calibrator.probabilities(rows), rtol=1e-10, atol=1e-13)
    assert np.allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    single = run(model.to_onnx(), rows.astype(np.float32))["probabilities"]
    expected = calibrator.probabilities(rows.astype(np.float32).astype(np.float64))
    assert np.allclose(single, expected, rtol=1e-6, atol=1e-7)
    # Rows with NaN have NaN, and not the equal shares of a row that no class wants.
    rows[0, 0] = np.nan
    found = run(model.to_onnx(dtype="float64"), rows)["probabilities"]
    assert np.isnan(found).tolist() == [[True] * classes] + [[False] * classes] * (len(rows) - 1)


@pytest.mark.parametrize("corners", [1, 2, 5, 64, 65])
def test_corners_of_a_staircase(corners):
    x = np.sort(rng.standard_normal(corners))
    p = np.sort(rng.uniform(size=corners))
    calibrator = calibration.Isotonic((x,), (p,))
    between = (x[1:] + x[:-1]) / 2
    rows = np.concatenate([x, np.nextafter(x, 9), np.nextafter(x, -9), between, [-1e300, 1e300]])[
        :, None
    ]
    found = run(as_machine(calibrator, 1).to_onnx(dtype="float64"), rows)["probabilities"]
    assert np.allclose(found, calibrator.probabilities(rows), rtol=0, atol=4e-16)
    assert np.array_equal(found[:corners, 1], p)


# Refusals


def test_importing_imports_nothing_of_onnx():
    code = (
        "import sys, onefold.export, onefold.estimators; print({'onnx', 'skl2onnx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("missing", ["onnx", "skl2onnx"])
def test_the_extra_is_named_where_it_is_missing(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    for work in (LSSVR().fit(X, Y).to_onnx, *([register_converters] if missing == "skl2onnx" else [])):
        with pytest.raises(ImportError, match=rf"needs {missing}.*pip install onnx skl2onnx"):
            work()


class Own(RBF):
    """A kernel of somebody else."""


class OwnSum(Sum):
    """Another one."""


class OtherCalibration:
    """A third one."""

    name = "beta"


PLAIN = LSSVR().fit(X, Y[:, 0])


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            LSSVR("precomputed").fit(np.eye(60), Y),
            {},
            "a Precomputed kernel cannot be exported.*to rows",
        ),
        (
            LSSVR(lambda A, B: A @ B.T).fit(X, Y),
            {},
            "a CallableKernel kernel cannot be exported to ONNX",
        ),
        (
            LSSVR(Matern(0.3), approximation=Grid(12)).fit(X, Y),
            {},
            'a model on a grid cannot be exported to ONNX.*approximation="nystroem"',
        ),
        (LSSVR(OwnSum(RBF(), RBF())).fit(X, Y), {}, "OwnSum kernel cannot be exported to ONNX"),
        (LSSVR(RBF() + RBF() * Own()).fit(X, Y), {}, "Own kernel .*built-in kernel of onefold.kernels"),
        (as_machine(OtherCalibration(), 1), {}, "'beta' cannot be exported.*fit with calibration="),
        (LSSVC(), {}, "not fitted"),
        (PLAIN, {"dtype": "float16"}, 'dtype must be "float32" or "float64"; got \'float16\''),
        (PLAIN, {"decision": True}, "decision is for classifiers, but this is a LSSVR"),
        (PLAIN, {"target_opset": 12}, "target_opset must be at least 13; got 12"),
    ],
)
def test_what_cannot_be_exported(model, options, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        model.to_onnx(**options)


def test_a_graph_beyond_what_a_file_can_hold(monkeypatch):
    monkeypatch.setattr(graphs, "_LARGEST", 1000)
    with pytest.raises(ValueError, match=r'2 GiB.*approximation="nystroem"'):
        PLAIN.to_onnx()
