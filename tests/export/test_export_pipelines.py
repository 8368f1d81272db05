"""Pipelines of scikit-learn through skl2onnx, and estimators of whole tables from raw columns."""

import json

import numpy as np
import pandas as pd
import pytest
from onnx_runs import run, session
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVR, TableClassifier, TableRegressor
from onefold.export import register_converters

skl2onnx = pytest.importorskip("skl2onnx")
types = pytest.importorskip("skl2onnx.common.data_types")
FloatTensorType = types.FloatTensorType
Int64TensorType = types.Int64TensorType
StringTensorType = types.StringTensorType

pytestmark = pytest.mark.filterwarnings("ignore")
register_converters()
register_converters()  # a second call changes nothing
rng = np.random.default_rng(2)
X = rng.standard_normal((80, 4))
CODES = rng.integers(0, 3, (80, 1))
y = np.sin(X[:, 0]) + X[:, 1] + CODES[:, 0]
LABELS = np.array(["a", "b", "c"])[np.digitize(y, [0.0, 1.5])]


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
    model = make_pipeline(StandardScaler(), LSSVC(calibration=None)).fit(X, LABELS)
    own = {"zipmap": False, "decision": True}
    for options in (None, {"zipmap": False}, {id(model[-1]): own}, {"zipmap": True}):
        found = run(skl2onnx.to_onnx(model, X[:1], options=options), X)
        assert list(found) == ["label", "decision"]
        assert np.array_equal(found["label"], model.predict(X))
        assert np.allclose(found["decision"], model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("labels", [LABELS, LABELS == "a"], ids=["many", "two"])
def test_inside_other_estimators_of_scikit_learn(labels):
    # Also of classifiers that have probabilities: scikit-learn prefers decision_function here.
    rows = X.astype(np.float32)
    search = GridSearchCV(LSSVR(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, y)
    found = run(skl2onnx.to_onnx(search, rows[:1]), rows)["variable"][:, 0]
    assert np.allclose(found, search.predict(rows), atol=1e-5)
    model = CalibratedClassifierCV(LSSVC(), cv=2).fit(X, labels)
    found = run(skl2onnx.to_onnx(model, rows[:1], options={"zipmap": False}), rows)
    assert np.allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)


def test_inputs_that_do_not_suit():
    model = LSSVR().fit(X, y)
    for kind, has in ((StringTensorType([None, 4]), "text"), (FloatTensorType([None, 3]), "3")):
        with pytest.raises(
            ValueError, match=f"takes 4 numeric features, but .* graph has {has}; change"
        ):
            skl2onnx.to_onnx(model, initial_types=[("X", kind)])


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf"])
def test_float64_through_a_pipeline(kernel):
    model = make_pipeline(StandardScaler(), LSSVR(kernel, alpha=0.1)).fit(X + 1e6, y)
    found = run(skl2onnx.to_onnx(model, X[:1]), X + 1e6)["variable"]
    assert found.dtype == np.float64
    assert np.allclose(found[:, 0], model.predict(X + 1e6), rtol=1e-8, atol=1e-8)
    # Of one feature the scaler divides by a single number, which is none of float32.
    model.fit(3 * X[:, :1], y)
    found = run(skl2onnx.to_onnx(model, X[:1, :1]), X[:, :1])["variable"][:, 0]
    assert np.allclose(found, model.predict(X[:, :1]), rtol=1e-13, atol=1e-13)


# Whole tables


N = 80
FRAME = pd.DataFrame(
    {
        "two words": 1e6 + 3.0 * rng.standard_normal(N),
        "colour": rng.choice(["red", "green", "bläu"], N).astype(object),
        "paid": rng.choice(["yes", "no"], N).astype(object),
        "true": rng.choice([True, False], N),
        "one": np.full(N, "same", dtype=object),
        "two_words": rng.integers(0, 5, N),
    }
)
FULL = FRAME.drop(columns="one")  # without gaps, "one" has nothing to say
for place, name in enumerate(["two words", "colour", "paid", "one"]):
    FRAME.loc[place :: 7 + place, name] = None
NUMBERS = np.sin(FULL["two words"]) + (FULL["colour"] == "red") + (FULL["paid"] == "yes") + FULL["true"]
PRICES = np.where(NUMBERS > 1.2, "dear", "cheap")


def fed(running, frame):
    """Columns as the graph wants them: numbers, or text with "" where there is none."""
    columns = json.loads(running.get_modelmeta().custom_metadata_map["columns"])
    feed = {}
    for name, one in zip(columns, running.get_inputs(), strict=True):
        column = frame[[name]]
        if one.type == "tensor(string)":
            words = column.astype(object).where(column.notna(), "").astype(str)
            feed[one.name] = words.to_numpy(object)
        else:
            kind = np.float32 if one.type == "tensor(float)" else np.float64
            feed[one.name] = column.to_numpy(kind)
    return feed


def strange(frame):
    """Rows with words that were never seen, and gaps where there were none."""
    frame = frame.astype({"true": object})
    frame.loc[0, ["colour", "paid"]] = ["purple", "perhaps"]
    frame.loc[1, "true"] = None
    frame.loc[2, "two_words"] = np.nan
    frame.loc[3, "paid"] = "YES"
    return frame


RARE = FULL[["colour"]].copy()
RARE.loc[:5, "colour"] = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (FRAME, {}),
        (FULL, {"target_transform": "log"}),
        (RARE, {"min_frequency": 9}),
        (FULL[["two words"]], {}),
    ],
)
def test_regressor(frame, options):
    model = TableRegressor(simple=True, **options).fit(frame, np.exp(NUMBERS))
    graph = model.to_onnx()
    assert len({one.name for one in graph.graph.input}) == frame.shape[1]
    assert graph.doc_string.startswith("TableRegressor of onefold")
    asked = strange(frame) if "true" in frame else frame.replace("a", "never seen")
    running = session(graph)
    found = running.run(["variable"], fed(running, asked))[0]
    np.testing.assert_allclose(found[:, 0], model.predict(asked), rtol=1e-9, atol=1e-9)
    for count in (0, 1):
        assert running.run(None, fed(running, frame[:count]))[0].shape == (count, 1)
    if "two words" not in frame:  # whose numbers have more digits
        running = session(model.to_onnx(dtype="float32", target_opset=13))
        found = running.run(None, fed(running, frame))[0]
        np.testing.assert_allclose(found[:, 0], model.predict(frame), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("calibration", ["temperature", "sigmoid", "isotonic", None])
def test_classifier(calibration):
    model = TableClassifier(simple=True, calibration=calibration).fit(FRAME, PRICES)
    running = session(model.to_onnx(decision=True))
    names = [one.name for one in running.get_outputs()]
    found = dict(zip(names, running.run(None, fed(running, FRAME))))
    assert found["label"].tolist() == model.predict(FRAME).tolist()
    np.testing.assert_allclose(found["decision"][:, 1], model.decision_function(FRAME), atol=1e-9)
    if calibration is not None:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(FRAME), atol=1e-9)


def test_gaps_that_predict_refuses_are_nan():
    model = TableRegressor(simple=True, missing="error").fit(FULL, NUMBERS)
    running = session(model.to_onnx())
    for name in FULL.columns:
        asked = FULL[:3].astype(object)
        asked.loc[1, name] = None
        found = running.run(None, fed(running, asked))[0][:, 0]
        assert np.isnan(found).tolist() == [False, True, False]


def test_at_the_end_of_a_pipeline():
    frame = FRAME[["two words", "colour", "paid"]].rename(columns={"two words": "size"})
    model = make_pipeline(TableRegressor(simple=True)).fit(frame, NUMBERS)
    text = types.StringTensorType([None, 1])
    number = types.DoubleTensorType([None, 1])
    inputs = [("paid", text), ("other", number), ("colour", text), ("size", number)]
    running = session(skl2onnx.to_onnx(model, initial_types=inputs))
    feed = {name: frame[[name]].fillna("").to_numpy(object) for name in ("paid", "colour")}
    feed |= {"size": frame[["size"]].to_numpy(), "other": np.zeros((N, 1))}
    wanted = {one.name for one in running.get_inputs()}
    found = running.run(None, {name: feed[name] for name in wanted})[0]
    np.testing.assert_allclose(found[:, 0], model.predict(frame), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="no input 'size', a column that the model needs"):
        skl2onnx.to_onnx(model, initial_types=inputs[:3])
    with pytest.raises(ValueError, match="'paid' of the graph must be text"):
        skl2onnx.to_onnx(model, initial_types=[("paid", number), *inputs[2:]])


def test_what_has_no_place_in_a_graph_is_refused_with_the_remedy():
    dates = FULL.assign(when=pd.date_range("2024-01-01", periods=N))
    model = TableRegressor(simple=True).fit(dates, NUMBERS)
    with pytest.raises(ValueError, match=r"'when' holds dates.*estimator_.to_onnx\(\)"):
        model.to_onnx()
    running = session(model.estimator_.to_onnx(dtype="float64"))
    found = running.run(None, {"X": model.matrix(dates)})[0]
    np.testing.assert_allclose(found[:, 0], model.predict(dates), rtol=1e-9, atol=1e-9)
