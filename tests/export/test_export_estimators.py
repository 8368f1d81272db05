"""Every estimator, label and kind of expansion in a graph, against its own predictions."""

import numpy as np
import pytest
import scipy.sparse
from onnx_runs import onnx, run, session

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold.approximations import Grid
from onefold.kernels import RBF, Laplacian, Matern

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
    "metric": (LSSVRCV(metric="full", cv=3, gammas=[1.0]), Y[:, 0]),
    "matern": (KernelRidgeCV("matern", cv=3), Y[:, 0]),
    "sparse": (SparseLSSVR(n_centres=12), Y[:, :2]),
    "nystroem": (LSSVR(RBF(0.3), approximation="nystroem"), Y[:, :2]),
    "grid": (LSSVR(Matern(0.3), approximation=Grid(12), alpha=0.1), Y[:, :2]),
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
        running, expected = session(model.to_onnx(dtype=dtype)), expected_of(model, rows)
        assert [output.name for output in running.get_outputs()] == list(expected)
        for count in (len(rows), 1, 0):
            for found, wanted in zip(running.run(None, {"X": rows[:count]}), expected.values()):
                assert found.shape == (count, *wanted.shape[1:])
                if wanted.dtype.kind == "f":
                    assert np.allclose(found, wanted[:count], rtol=tolerance, atol=tolerance)
                else:
                    assert np.array_equal(found, wanted[:count])
    graph = model.to_onnx(target_opset=13)
    assert {one.version for one in graph.opset_import if one.domain == ""} == {13}
    older = run(graph, SINGLE)
    if name != "derived":
        model.save(tmp_path / "model")
        again = run(onefold.load(tmp_path / "model").to_onnx(target_opset=13), SINGLE)
        assert all(np.array_equal(again[key], older[key]) for key in older)
    for key, wanted in expected_of(model, SINGLE).items():
        if wanted.dtype.kind == "f":
            assert np.allclose(older[key], wanted, rtol=1e-5, atol=1e-5)


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
        (np.array([3, 200], dtype=np.uint8), np.int64),
        (np.array([False, True]), np.int64),
        (np.array([1.0, 2.0]), np.int64),
        (np.array([5, 2**40, -1]), np.int64),
        (np.array([2**62 + 1, 2**62 + 3], dtype=np.uint64), np.int64),
        (np.array(["b", "a"]), np.object_),
        (np.array(["ä", "", "日本"], dtype=object), np.object_),
        (np.array([0.5, 1.0]), None),
        (np.array([1e300, 2e300]), None),
        (np.array([1, 2**63], dtype=np.uint64), None),
        (np.array([1, 2**70], dtype=object), None),
        (np.array([b"a", b"b"]), None),
    ],
)
def test_labels(labels, kind):
    if kind is None:
        model = LSSVC(calibration=None).fit(X, np.arange(60) % 2)
        model.classes_ = labels  # scikit-learn takes some of them for targets of a regression
        with pytest.raises(ValueError, match=r"whole numbers of 64 bits or text.*encode y before"):
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
    for rows in (torch.asarray(X), scipy.sparse.csr_array(np.maximum(X, 0))):
        y = torch.asarray(Y[:, 0]) if rows is not None and hasattr(rows, "numpy") else Y[:, 0]
        model = LSSVR(alpha=0.1).fit(rows, y)
        found = run(model.to_onnx(dtype="float64"), ROWS)["variable"][:, 0]
        assert np.allclose(found, model.predict(ROWS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_grid_inside_at_its_edge_and_outside(dimensions):
    some = X[:, :dimensions]
    model = LSSVR(RBF(0.5), alpha=0.01, approximation=Grid(9)).fit(some, Y)
    part = model.expansion_
    edges = part.lower + part.step * np.array([[1.0], [0.999], [3.5]])
    ends = part.lower + part.step * (np.array(part.counts) - np.array([[2.0], [1.99], [2.01]]))
    rows = np.concatenate([some, edges, ends, 5 * some, 1e12 * some[:2]])
    found = run(model.to_onnx(dtype="float64"), rows)["variable"]
    assert np.allclose(found, model.predict(rows), rtol=1e-11, atol=1e-11)
    nothing = run(model.to_onnx(dtype="float64"), np.full((2, dimensions), np.nan))["variable"]
    assert np.isnan(nothing).all()


@pytest.mark.parametrize("opset", [15, 18, 22])
def test_opsets(opset):
    for kernel in (Laplacian(0.2), Matern(2.0)):
        model = LSSVR(kernel).fit(X, Y[:, 0])
        found = run(model.to_onnx(target_opset=opset), SINGLE)["variable"][:, 0]
        assert np.allclose(found, model.predict(SINGLE), rtol=1e-5, atol=1e-6)
