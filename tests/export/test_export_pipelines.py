"""Whole pipelines of scikit-learn through skl2onnx."""

import numpy as np
import pytest
from onnx_runs import run, session
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.export import register_converters

skl2onnx = pytest.importorskip("skl2onnx")
types = pytest.importorskip("skl2onnx.common.data_types")
FloatTensorType, Int64TensorType = types.FloatTensorType, types.Int64TensorType
StringTensorType = types.StringTensorType

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
register_converters()
rng = np.random.default_rng(2)
X = rng.standard_normal((80, 4))
CODES = rng.integers(0, 3, (80, 1))
y = np.sin(X[:, 0]) + X[:, 1] + CODES[:, 0]
LABELS = np.array(["a", "b", "c"])[np.digitize(y, [0.0, 1.5])]


def plain(kind, **parameters):
    """A classifier without probabilities."""
    return kind(**parameters, calibration=None)


def test_float64_through_a_pipeline():
    model = make_pipeline(StandardScaler(), LSSVRCV(cv=3)).fit(X + 1e6, y)
    graph = skl2onnx.to_onnx(model, X[:1])
    found = run(graph, X + 1e6)["variable"]
    assert found.dtype == np.float64
    assert np.allclose(found[:, 0], model.predict(X + 1e6), rtol=1e-8, atol=1e-8)


def test_a_frame_with_text_has_one_input_per_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"size": X[:, 0], "age": X[:, 1], "town": np.array(["x", "y", "z"])[CODES[:, 0]]}
    )
    prepare = ColumnTransformer(
        [("numbers", StandardScaler(), ["size", "age"]), ("town", OneHotEncoder(), ["town"])],
        sparse_threshold=0,
    )
    model = make_pipeline(prepare, plain(LSSVC, alpha=0.1)).fit(frame, LABELS)
    inputs = [("size", FloatTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]
    graph = skl2onnx.to_onnx(model, initial_types=[*inputs, ("town", StringTensorType([None, 1]))])
    columns = {name: frame[[name]].to_numpy() for name in frame}
    columns = {name: a.astype(np.float32) if name != "town" else a for name, a in columns.items()}
    label, decision = session(graph).run(["label", "decision"], columns)
    assert np.allclose(decision, model.decision_function(frame), atol=1e-4)
    assert np.array_equal(label, model.predict(frame))


def test_whole_numbers_and_several_inputs():
    whole = rng.integers(-5, 5, (60, 2))
    model = LSSVR(alpha=0.1).fit(whole, whole[:, 0])
    found = run(skl2onnx.to_onnx(model, whole[:1]), whole)["variable"]
    assert found.dtype == np.float32
    assert np.allclose(found[:, 0], model.predict(whole), atol=1e-5)
    inputs = [("a", Int64TensorType([None, 1])), ("b", FloatTensorType([None, 1]))]
    graph = skl2onnx.to_onnx(model, initial_types=inputs)
    parts = {"a": whole[:, :1], "b": whole[:, 1:].astype(np.float32)}
    assert np.allclose(session(graph).run(None, parts)[0][:, 0], model.predict(whole), atol=1e-5)


def test_options_of_skl2onnx():
    model = make_pipeline(StandardScaler(), plain(LSSVC)).fit(X, LABELS)
    own = {"zipmap": False, "decision": True}
    for options in (None, {"zipmap": False}, {id(model[-1]): own}, {"zipmap": True}):
        found = run(skl2onnx.to_onnx(model, X[:1], options=options), X)
        assert list(found) == ["label", "decision"]
        assert np.array_equal(found["label"], model.predict(X))
        assert np.allclose(found["decision"], model.decision_function(X), atol=1e-9)


def test_inside_other_estimators_of_scikit_learn():
    rows = X.astype(np.float32)
    search = GridSearchCV(LSSVR(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, y)
    found = run(skl2onnx.to_onnx(search, rows[:1]), rows)["variable"][:, 0]
    assert np.allclose(found, search.predict(rows), atol=1e-5)
    for labels in (LABELS, LABELS == "a"):
        members = [
            ("one", plain(LSSVC)),
            ("two", plain(LSSVC, kernel="laplacian")),
            ("three", plain(LSSVCCV)),
        ]
        vote = VotingClassifier(members, voting="hard", flatten_transform=False).fit(X, labels)
        graph = skl2onnx.to_onnx(vote, rows[:1], options={"zipmap": False})
        assert np.array_equal(run(graph, rows)["label"], vote.predict(rows))


@pytest.mark.parametrize("labels", [LABELS, LABELS == "a"], ids=["many", "two"])
def test_estimators_that_ask_for_decision_values(labels):
    # Also of classifiers that have probabilities: scikit-learn prefers decision_function here.
    rows = X.astype(np.float32)
    model = CalibratedClassifierCV(LSSVC(), cv=2).fit(X, labels)
    found = run(skl2onnx.to_onnx(model, rows[:1], options={"zipmap": False}), rows)
    assert np.allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)


def test_registering_again_changes_nothing():
    model = LSSVR().fit(X, y)
    before = skl2onnx.to_onnx(model, X[:1]).SerializeToString()
    register_converters()
    register_converters()
    assert skl2onnx.to_onnx(model, X[:1]).SerializeToString() == before


def test_inputs_that_do_not_suit():
    model = LSSVR().fit(X, y)
    with pytest.raises(ValueError, match=r"takes numbers.*StringTensorType; encode text"):
        skl2onnx.to_onnx(model, initial_types=[("X", StringTensorType([None, 4]))])
    with pytest.raises(ValueError, match="fitted to 4 features, and its input in the graph has 3"):
        skl2onnx.to_onnx(model, initial_types=[("X", FloatTensorType([None, 3]))])


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf"])
def test_a_number_beside_a_product_keeps_its_digits(kernel):
    # Of one feature the scaler divides by a single number, which is none of float32.
    model = make_pipeline(StandardScaler(), LSSVR(kernel, alpha=0.1)).fit(3 * X[:, :1], y)
    found = run(skl2onnx.to_onnx(model, X[:1, :1]), X[:, :1])["variable"][:, 0]
    assert np.allclose(found, model.predict(X[:, :1]), rtol=1e-13, atol=1e-13)
