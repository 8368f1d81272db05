"""Predictions stay in the range that the target of the training rows has."""

import json

import numpy as np
import pandas as pd
import pytest

import onefold
from onefold import TableRegressor
from onefold.cli.entry import main
from onefold.tables.clipping import clipped, noticed_range

SMALL = {"simple": True, "cv": 3, "gammas": [0.1, 1.0], "alphas": [0.01, 1.0]}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(210, 3)), columns=["a", "b", "c"])
COUNTS = RNG.poisson(np.exp(FRAME["a"])).astype(float)
SCORES = np.clip(20 * FRAME["b"] + 80 + 3 * RNG.normal(size=210), 0, 100).to_numpy()


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (RNG.poisson(2.0, 500), 0.0, np.inf),
        (-RNG.poisson(2.0, 500), -np.inf, 0.0),
        (RNG.normal(175.0, 8.0, 500), 0.0, np.inf),  # heights: far from the bound, which never acts
        (RNG.normal(10.0, 8.0, 500), -np.inf, np.inf),  # temperatures
        (np.round(RNG.normal(10.0, 8.0, 5000)), -np.inf, np.inf),  # in whole degrees
        (np.round(RNG.normal(0.0, 1.5, 5000)), -np.inf, np.inf),
        (RNG.beta(0.5, 0.5, 500), 0.0, 1.0),
        (100 * RNG.beta(0.5, 0.5, 500), 0.0, 100.0),
        (0.3 * RNG.random(500), 0.0, np.inf),
        (RNG.uniform(40.0, 99.5, 500), 0.0, np.inf),  # weights that do not come near 100
        (np.minimum(RNG.gamma(2.0, 12.0, 500), 50.0), 0.0, 50.0),
        (np.maximum(RNG.normal(0.0, 2.0, 500), -1.5), -1.5, np.inf),
        (RNG.choice([1, 2, 3, 4, 5], 500, p=[0.05, 0.1, 0.2, 0.3, 0.35]), 0.0, 5.0),
        (np.array([0.0, 1.0] * 40), 0.0, 1.0),
        (np.full(50, 3.0), -np.inf, np.inf),
    ],
)
def test_the_range_of_a_target(values, low, high):
    found = noticed_range(np.asarray(values, dtype=float))
    assert (found.low, found.high) == (low, high)
    assert bool(found.reason) == found.is_bounded


def test_targets_without_a_range_have_none():
    """A hundred bell-shaped targets, in whole numbers or not, with light and heavy tails."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        for values in (rng.normal(size=300), rng.standard_t(3, 300), rng.laplace(size=2000)):
            assert not noticed_range(values).is_bounded
        assert not noticed_range(np.round(3 * rng.normal(size=2000))).is_bounded


def test_clipping_never_raises_the_error_within_a_true_range():
    for low, high in ((0.0, np.inf), (0.0, 100.0), (-1.5, np.inf)):
        y = np.clip(RNG.normal(20.0, 50.0, 500), low, high)
        f = y + RNG.normal(0.0, 30.0, 500)
        assert np.all(np.abs(clipped(f, np.array([[low, high]])) - y) <= np.abs(f - y))


@pytest.mark.parametrize("y", [COUNTS, SCORES], ids=["counts", "scores"])
def test_predictions_intervals_and_quantiles_are_in_the_range(y, tmp_path):
    plain = TableRegressor(**SMALL, clip=None).fit(FRAME, y)
    model = TableRegressor(**SMALL).fit(FRAME, y)
    assert plain.clip_ is None
    assert plain.report_["clip"] is None
    low, high = model.clip_[0]
    assert (low, high) == (0.0, 100.0 if y is SCORES else np.inf)
    calls = {"predict": (), "predict_interval": (0.9,), "predict_quantiles": ([0.01, 0.5, 0.99],)}
    for method, arguments in calls.items():
        values = np.asarray(getattr(model, method)(FRAME, *arguments))
        expected = np.clip(np.asarray(getattr(plain, method)(FRAME, *arguments)), low, high)
        np.testing.assert_array_equal(values, expected)
    # What is scored is what is predicted; what the search compared is not clipped.
    held_out = plain.estimator_.heldout_prediction_
    rmse = np.sqrt(np.mean((np.clip(held_out, low, high) - y) ** 2))
    assert model.report_["heldout"]["rmse"] == pytest.approx(rmse)
    assert rmse < plain.report_["heldout"]["rmse"]
    assert model.best_score_ == plain.best_score_
    facts = model.report_["clip"]
    assert facts["changed"] == np.sum((held_out < low) | (held_out > high)) > 0
    assert model.score(FRAME, y) > plain.score(FRAME, y)
    model.save(tmp_path / "m.onefold")
    loaded = onefold.load(tmp_path / "m.onefold")
    assert loaded.predict(FRAME).tolist() == model.predict(FRAME).tolist()
    assert loaded.clip == "auto"
    report = model.report(None, FRAME, y)
    assert f"kept {facts['sentence']}" in " ".join(report.text().split())
    assert "before clipping" in report.html()
    largest = max(row["prediction"] for row in report.as_dict()["slices"]["rows"])
    assert largest <= high


def test_every_target_has_its_own_range():
    y = np.column_stack([COUNTS, -COUNTS, FRAME["a"]])
    model = TableRegressor(**SMALL).fit(FRAME, y)
    np.testing.assert_array_equal(model.clip_, [[0, np.inf], [-np.inf, 0], [-np.inf, np.inf]])
    bounds = np.asarray(model.predict_interval(FRAME)).reshape(len(FRAME), 3, 2)
    predicted = model.predict(FRAME)
    assert predicted[:, 0].min() == 0.0 == predicted[:, 1].max()
    assert bounds[:, 0].min() == 0.0 == bounds[:, 1].max()
    assert (predicted[:, 2] < 0).any()
    assert (predicted[:, 2] > 0).any()
    assert model.report_["clip"]["low"] == [0.0, None, None]
    assert "target 2: at 0 or below" in model.report_["clip"]["sentence"]


def test_a_range_by_hand():
    model = TableRegressor(**SMALL, clip=(1.0, None)).fit(FRAME, COUNTS)
    assert model.predict(FRAME).min() == 1.0
    outside = int(np.sum(COUNTS < 1))
    assert (
        f"as requested, although {outside} of 210 targets are outside"
        in model.report_["clip"]["sentence"]
    )
    for wrong in ("yes", (1, 0), (None, np.nan), (None, None), 3, (1, 2, 3), ("a", 3)):
        with pytest.raises(ValueError, match="clip must be"):
            TableRegressor(**SMALL, clip=wrong).fit(FRAME, COUNTS)


def test_logarithms_have_only_an_upper_bound():
    y = np.minimum(np.exp(FRAME["a"] + 1), 5.0)
    model = TableRegressor(**SMALL, target_transform="log").fit(FRAME, y)
    assert model.clip_.tolist() == [[-np.inf, 5.0]]
    assert model.predict(FRAME).max() == 5.0
    unbounded = TableRegressor(**SMALL, target_transform="log").fit(FRAME, np.exp(FRAME["a"]))
    assert unbounded.clip_ is None


@pytest.mark.parametrize("transform", [None, "log"])
def test_a_graph_clips(transform):
    runtime = pytest.importorskip("onnxruntime")
    y = np.minimum(np.exp(FRAME["a"] + 1), 5.0)
    several = np.column_stack([y, SCORES + 1.0])
    for target in (y, several):
        model = TableRegressor(**SMALL, target_transform=transform).fit(FRAME, target)
        running = runtime.InferenceSession(model.to_onnx().SerializeToString())
        feed = {name: FRAME[[name]].to_numpy() for name in FRAME}
        values = running.run(None, feed)[0]
        expected = model.predict(FRAME).reshape(len(FRAME), -1)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
        assert values[:, 0].max() == 5.0


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(n=COUNTS + 0.5).to_csv("t.csv", index=False)
    search = ["--simple", "--gammas", "1", "--alphas", "0.1", "--force"]
    least = {}
    for words in ([], ["--clip", "none"], ["--clip", "1:"], ["--clip=-1:8"]):
        assert main(["tune", "t.csv", "--target", "n", *search, *words]) == 0
        printed = capsys.readouterr().out
        assert ("\n  predictions " in printed) == (words != ["--clip", "none"])
        assert main(["predict", "t-onefold", "t.csv", "--interval", "0.9", "--json"]) == 0
        values = json.loads(capsys.readouterr().out)["predictions"]
        least[" ".join(words)] = min(min(values["lower"]), min(values["prediction"]))
        assert main(["inspect", "t-onefold"]) == 0
        assert ("\n  predictions " in capsys.readouterr().out) == (words != ["--clip", "none"])
    assert least[""] == 0.5
    assert least["--clip none"] < 0
    assert least["--clip 1:"] == 1.0
    assert least["--clip=-1:8"] >= -1.0
    assert main(["tune", "t.csv", "--target", "n", "--clip", "8:1"]) == 2
    assert "LOW:HIGH" in capsys.readouterr().err
