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


@pytest.mark.parametrize(
    "model",
    [
        LSSVR(alpha=0.1),
        KernelRidge("laplacian", alpha=0.1),
        LSSVRCV(cv=3),
        LSSVRCV(kernel=["rbf", "laplacian"], metric="diagonal", blend=True, cv=3, gammas=[0.5, 2.0]),
        LSSVRCV(metric="full", cv=3, gammas=[1.0]),
        KernelRidgeCV("matern", cv=3),
        SparseLSSVR(n_centres=12),
        LSSVR(RBF(0.3), approximation="nystroem"),
        LSSVR(Matern(0.3), approximation=Grid(12), alpha=0.1),
    ],
    ids=lambda model: f"{model!r:.60}",
)
@pytest.mark.parametrize("targets", [1, 2])
def test_regressors(model, targets):
    model.fit(X, Y[:, 0] if targets == 1 else Y[:, :2])
    for dtype, tolerance in (("float32", 3e-6), ("float64", 1e-9)):
        rows = ROWS.astype(dtype)
        found = run(model.to_onnx(dtype=dtype), rows)
        assert list(found) == ["variable"]
        expected = model.predict(rows).reshape(30, targets)
        assert np.allclose(found["variable"], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "model",
    [
        LSSVC(alpha=0.1),
        LSSVCCV(cv=3),
        LSSVCCV(kernel="auto", blend=True, cv=3, gammas=[0.5, 2.0]),
        SparseLSSVC(n_centres=12),
        LSSVC(approximation="nystroem"),
    ],
    ids=lambda model: f"{model!r:.60}",
)
@pytest.mark.parametrize("labels", [CLASSES, CLASSES == "left", CLASSES.astype(object)])
def test_classifiers(model, labels):
    if "calibration" in model.get_params():
        model.set_params(calibration=None)
    model.fit(X, labels)
    found = run(model.to_onnx(), SINGLE)
    assert list(found) == ["label", "decision"]
    assert np.array_equal(found["label"], model.predict(SINGLE))
    decision = model.decision_function(SINGLE)
    columns = np.stack([-decision, decision], axis=1) if decision.ndim == 1 else decision
    assert np.allclose(found["decision"], columns, rtol=3e-6, atol=3e-6)


def uncalibrated(**parameters) -> LSSVC:
    given = {"calibration": None} if "calibration" in LSSVC().get_params() else {}
    return LSSVC(**parameters, **given)


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
    ],
)
def test_labels(labels, kind):
    model = uncalibrated(alpha=0.1).fit(X, labels[np.arange(60) % len(labels)])
    found = run(model.to_onnx(), SINGLE)["label"]
    assert found.dtype == kind
    assert np.array_equal(found, model.predict(SINGLE))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0.5, 1.0]),
        np.array([1e300, 2e300]),
        np.array([1, 2**63], dtype=np.uint64),
        np.array([1, 2**70], dtype=object),
        np.array([b"a", b"b"]),
    ],
)
def test_labels_that_onnx_does_not_know(labels):
    model = uncalibrated().fit(X, np.arange(60) % 2)
    model.classes_ = labels  # scikit-learn takes some of them for targets of a regression
    with pytest.raises(ValueError, match=r"whole numbers of 64 bits or text.*encode y before fitting"):
        model.to_onnx()


def test_a_decision_of_zero_is_the_first_class():
    model = uncalibrated(kernel="linear").fit(np.array([[-1.0], [1.0]]), ["a", "b"])
    assert model.decision_function([[0.0]])[0] == 0.0
    found = run(model.to_onnx(), np.array([[0.0], [1e-30], [-1e-30]], dtype=np.float32))["label"]
    assert found.tolist() == ["a", "b", "a"] == model.predict([[0.0], [1e-30], [-1e-30]]).tolist()


def test_equal_decisions_of_many_classes_are_the_first_class():
    model = uncalibrated(kernel=RBF(1e6)).fit(X, np.arange(60) % 3)
    far = np.full((1, 3), 1e6, dtype=np.float32)
    assert np.ptp(model.decision_function(far)) == 0
    assert run(model.to_onnx(), far)["label"][0] == model.predict(far)[0] == 0


def test_one_row_no_row_and_many_sessions():
    for model in (
        LSSVR(Laplacian(0.2)).fit(X, Y[:, 0]),
        uncalibrated().fit(X, CLASSES),
        LSSVR(RBF(0.1), approximation=Grid(8)).fit(X, Y[:, 0]),
    ):
        running = session(model.to_onnx())
        whole = running.run(None, {"X": SINGLE})
        for output, all_of_it in zip(running.run(None, {"X": SINGLE[:1]}), whole):
            assert np.array_equal(output, all_of_it[:1]) or np.allclose(output, all_of_it[:1], rtol=1e-6)
        for output, all_of_it in zip(running.run(None, {"X": SINGLE[:0]}), whole):
            assert output.shape == (0, *all_of_it.shape[1:])


def test_a_graph_survives_a_file(tmp_path):
    model = LSSVR(alpha=0.1).fit(X, Y)
    graph = model.to_onnx()
    onnx.save(graph, tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx")
    assert np.array_equal(run(loaded, SINGLE)["variable"], run(graph, SINGLE)["variable"])
    assert (loaded.producer_name, loaded.producer_version) == ("onefold", onefold.__version__)
    assert [one.name for one in loaded.graph.input] == ["X"]


def test_a_saved_model_gives_the_same_graph(tmp_path):
    model = uncalibrated(alpha=0.1).fit(X, CLASSES)
    model.save(tmp_path / "model.safetensors")
    again = onefold.load(tmp_path / "model.safetensors")
    first, second = (run(one.to_onnx(), SINGLE) for one in (model, again))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_torch_arrays():
    torch = pytest.importorskip("torch")
    model = LSSVR(alpha=0.1).fit(torch.asarray(X), torch.asarray(Y[:, 0]))
    found = run(model.to_onnx(dtype="float64"), ROWS)["variable"][:, 0]
    assert np.allclose(found, model.predict(ROWS), rtol=1e-12, atol=1e-12)


def test_sparse_rows_are_exported_for_dense_ones():
    model = LSSVR(alpha=0.1).fit(scipy.sparse.csr_array(np.maximum(X, 0)), Y[:, 0])
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


@pytest.mark.parametrize("opset", [13, 15, 18, 22])
def test_opsets(opset):
    for model in (
        LSSVR(Laplacian(0.2)).fit(X, Y[:, 0]),
        LSSVR(Matern(2.0)).fit(X, Y[:, 0]),
        LSSVR(RBF(0.1), approximation=Grid(8)).fit(X, Y[:, 0]),
    ):
        graph = model.to_onnx(target_opset=opset)
        assert {one.version for one in graph.opset_import if one.domain == ""} == {opset}
        assert np.allclose(
            run(graph, SINGLE)["variable"][:, 0], model.predict(SINGLE), rtol=1e-5, atol=1e-6
        )


class Derived(LSSVR):
    """An estimator of somebody else."""


def test_a_derived_estimator():
    model = Derived(alpha=0.1).fit(X, Y)
    assert np.allclose(run(model.to_onnx(), SINGLE)["variable"], model.predict(SINGLE), atol=1e-5)
