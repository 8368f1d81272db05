"""Estimators of whole tables in ONNX Runtime, from raw columns, against their own answers."""

import json

import numpy as np
import pandas as pd
import pytest
import skl2onnx
from onnx_runs import session
from sklearn.pipeline import make_pipeline

import onefold
from onefold import TableClassifier, TableRegressor
from onefold.export import register_converters

pytestmark = pytest.mark.filterwarnings(
    "ignore::onefold.search.GridEdgeWarning", "ignore:unknown categories ignored"
)

rng = np.random.default_rng(5)
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
LABELS = np.where(NUMBERS > 1.2, "dear", "cheap")


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


@pytest.mark.parametrize("frame", [FRAME, FULL, FULL[["colour"]], FULL[["two words"]]])
def test_regressor(frame):
    model = TableRegressor(simple=True).fit(frame, NUMBERS)
    running = session(model.to_onnx())
    asked = strange(frame) if "true" in frame else frame
    found = running.run(["variable"], fed(running, asked))[0]
    np.testing.assert_allclose(found[:, 0], model.predict(asked), rtol=1e-9, atol=1e-9)
    assert running.run(None, fed(running, frame[:0]))[0].shape == (0, 1)
    assert running.run(None, fed(running, frame[:1]))[0].shape == (1, 1)


@pytest.mark.parametrize("calibration", ["temperature", "sigmoid", "isotonic", None])
def test_classifier(calibration):
    model = TableClassifier(simple=True, calibration=calibration).fit(FRAME, LABELS)
    running = session(model.to_onnx(decision=True))
    names = [one.name for one in running.get_outputs()]
    found = dict(zip(names, running.run(None, fed(running, FRAME))))
    assert found["label"].tolist() == model.predict(FRAME).tolist()
    np.testing.assert_allclose(found["decision"][:, 1], model.decision_function(FRAME), atol=1e-9)
    if calibration is not None:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(FRAME), atol=1e-9)


def test_metric_and_blend_from_a_file(tmp_path):
    fitted = TableClassifier(kernel=["rbf", "laplacian"], metric="diagonal", cv=3).fit(FRAME, LABELS)
    fitted.save(tmp_path / "model")
    model = onefold.load(tmp_path / "model")
    running = session(model.to_onnx())
    found = running.run(["probabilities"], fed(running, FRAME))[0]
    np.testing.assert_allclose(found, model.predict_proba(FRAME), atol=1e-9)
    assert fitted.to_onnx().SerializeToString() == model.to_onnx().SerializeToString()


def test_gaps_that_predict_refuses_are_nan():
    model = TableRegressor(simple=True, missing="error").fit(FULL, NUMBERS)
    running = session(model.to_onnx())
    for name in FULL.columns:
        asked = FULL[:3].astype(object)
        asked.loc[1, name] = None
        found = running.run(None, fed(running, asked))[0][:, 0]
        assert np.isnan(found).tolist() == [False, True, False]


def test_float32_and_oldest_opset():
    model = TableRegressor(simple=True).fit(FRAME.drop(columns="two words"), NUMBERS)
    graph = model.to_onnx(dtype="float32", target_opset=13)
    running = session(graph)
    found = running.run(None, fed(running, FRAME))[0]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], model.predict(FRAME), rtol=1e-5, atol=1e-5)


def test_names_of_inputs_and_the_model():
    graph = TableRegressor(simple=True).fit(FRAME, NUMBERS).to_onnx()
    assert len({one.name for one in graph.graph.input}) == 6
    assert graph.doc_string.startswith("TableRegressor of onefold")
    assert graph.producer_name == "onefold"


def test_at_the_end_of_a_pipeline():
    plain = FRAME[["two words", "colour", "paid"]].rename(columns={"two words": "size"})
    model = make_pipeline(TableRegressor(simple=True)).fit(plain, NUMBERS)
    register_converters()
    types = skl2onnx.common.data_types
    text, number = types.StringTensorType([None, 1]), types.DoubleTensorType([None, 1])
    inputs = [("paid", text), ("other", number), ("colour", text), ("size", number)]
    running = session(skl2onnx.to_onnx(model, initial_types=inputs))
    feed = {name: plain[[name]].fillna("").to_numpy(object) for name in ("paid", "colour")}
    feed |= {"size": plain[["size"]].to_numpy(), "other": np.zeros((N, 1))}
    wanted = {one.name for one in running.get_inputs()}
    found = running.run(None, {name: feed[name] for name in wanted})[0]
    np.testing.assert_allclose(found[:, 0], model.predict(plain), rtol=1e-9, atol=1e-9)
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
