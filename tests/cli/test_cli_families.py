"""The default of ``onefold tune``: several kernels, learned metrics, a blend; what is said of them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, r2_score

from onefold.cli import main
from onefold.estimators import setup
from onefold.facts.criteria import score_text
from onefold.facts.ran import blend_lines, group_words, importance_lines
from onefold.facts.words import percent
from onefold.tables import load_table_model, rows_of_frame, training
from onefold.tuning import tune_table

N = 80
FEW = ["--gammas", "0.3,1,3", "--alphas", "0.002,0.02,0.1"]


@pytest.fixture
def frame(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["rooms", "age", "noise"])
    frame["colour"] = rng.choice(["red", "green", "blue"], N)
    frame["price"] = np.sin(2 * frame.rooms) + frame.age + (frame.colour == "red")
    frame["price"] += 0.2 * rng.normal(size=N)
    frame["kind"] = np.where(frame.price > 0.3, "dear", "cheap")
    frame.to_csv("t.csv", index=False)
    return frame


def tuned(capsys, *argv: str) -> tuple[dict, str]:
    """The JSON and the text of the same search."""
    base = ["tune", "t.csv", *FEW, "--force", "--quiet", *argv]
    assert main([*base, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(base) == 0
    return found, capsys.readouterr().out


PRICE = ["--target", "price", "--drop", "kind"]
KIND = ["--target", "kind", "--drop", "price"]


def test_choice_blend_and_importances_are_said_and_kept(frame, capsys):
    found, text = tuned(capsys, *PRICE)
    model = load_table_model("t-onefold/model.onefold")
    estimator = model.estimator_
    asked = {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    assert found["search"] == {**asked, "method": "grid", "stopped": None, "untried": []}
    assert found["best_params"] == estimator.best_params_
    assert found["kernel"] == estimator.best_params_["kernel"]
    assert re.search(rf"  kernel +{group_words(found['best_params'])}\n", text)
    assert found["blend"] == estimator.blend_
    assert found["blend_score"] == estimator.blend_score_
    # The measures are the blend's own, from its cross-fitted predictions.
    y, heldout = frame.price.to_numpy(), estimator.heldout_prediction_
    assert found["heldout"]["r2"] == pytest.approx(r2_score(y, heldout))
    assert found["heldout"]["rmse"] ** 2 == pytest.approx(-found["blend_score"])
    shares = found["importances"]
    assert set(shares) == {"rooms", "age", "noise", "colour"}
    assert shares["colour"] == pytest.approx(estimator.feature_importances_[3:].sum())
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares, key=shares.get) == "noise"
    first = max(shares, key=shares.get)
    assert re.search(rf"Most important columns\n  {first} +{percent(shares[first])}\n", text)
    assert main(["inspect", "t-onefold"]) == 0
    inspected = capsys.readouterr().out
    assert re.search(rf"important +{first} {percent(shares[first])}, ", inspected)
    assert group_words(found["best_params"]) in inspected
    assert main(["inspect", "t-onefold", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tuning"]["importances"] == shares
    assert main(["predict", "t-onefold", "t.csv"]) == 0
    predicted = np.array(capsys.readouterr().out.split()[1:], dtype=float)
    X = model.preparation_.transform(rows_of_frame(frame))
    np.testing.assert_allclose(predicted, estimator.predict(X))


def test_rivals_are_families_and_metrics(frame, capsys):
    found, text = tuned(capsys, *KIND)
    with open("t-onefold/search.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"param_kernel", "param_metric", "param_round", "param_gamma"} <= set(rows[0])
    assert {row["param_kernel"] for row in rows} == {"rbf", "matern12", "laplacian"}
    assert len(rows) == found["candidates"]
    rivals = re.findall(r"^  (\w.*?)  +accuracy (\S+)$", text.split("Next best")[1], re.M)
    assert 1 < len(rivals) <= 4
    assert len({words.rsplit(", round", 1)[0] for words, _ in rivals}) == len(rivals)
    best: dict[str, float] = {}
    for row in rows:
        words = group_words(
            {"kernel": row["param_kernel"], "metric": row["param_metric"], "round": row["param_round"]}
        )
        best[words] = max(best.get(words, -1.0), float(row["mean_test_score"]))
    assert [score for _, score in rivals] == [score_text("error", best[words]) for words, _ in rivals]
    assert group_words(found["best_params"]) not in dict(rivals)


@pytest.mark.parametrize("target", [PRICE, KIND], ids=["price", "kind"])
def test_rows_that_taught_the_metric_have_no_say(frame, capsys, monkeypatch, target):
    monkeypatch.setattr(setup, "_OWN_METRICS", 30)
    found, text = tuned(capsys, *target)
    estimator = load_table_model("t-onefold/model.onefold").estimator_
    heldout, y = np.asarray(estimator.heldout_prediction_), frame[target[1]].to_numpy()
    tested = np.isfinite(heldout)
    assert 0 < tested.sum() < N
    assert found["heldout"]["rows"] == tested.sum()
    scored = rf"scored on \d folds? \({tested.sum()} rows\) of 5-fold cross-validation"
    assert re.search(rf"Best of {found['candidates']} finalists? for '{target[1]}', {scored}\n", text)
    if target is PRICE:
        assert found["heldout"]["rmse"] ** 2 == pytest.approx(-found["blend_score"])
    else:
        labels = np.where(heldout[tested] > 0, "dear", "cheap")
        right = accuracy_score(y[tested].astype(str), labels)
        assert found["heldout"]["accuracy"] == pytest.approx(right, abs=0.02)  # a mean over folds
        assert found["heldout"]["accuracy"] == pytest.approx(1 + found["blend_score"])


def test_one_kernel_and_no_blend(frame, capsys):
    found, text = tuned(capsys, *PRICE, "--kernel", "laplacian", "--metric", "diagonal", "--no-blend")
    assert found["search"]["kernels"] == ["laplacian"]
    assert found["blend"] is None
    assert "blend" not in text
    with open("t-onefold/search.csv", newline="") as file:
        assert {row["param_kernel"] for row in csv.DictReader(file)} == {"laplacian"}


@pytest.mark.parametrize(
    ("options", "note", "drawn"),
    [
        (["--cv", "loo"], "no metric and no blend: leave-one-out holds out single rows", "auto"),
        (
            ["--criterion", "gcv"],
            "no metric and no blend: the criterion 'gcv' holds out no rows",
            "auto",
        ),
        (["--approximation", "circulant"], "plain search of the rbf kernel: the approximation", "rbf"),
    ],
)
def test_what_the_default_gives_up_is_said(frame, capsys, options, note, drawn):
    assert main(["tune", "t.csv", *PRICE, "--drop", "colour", *options, "--force"]) == 0
    _, err = capsys.readouterr()
    assert note in err
    model = load_table_model("t-onefold/model.onefold")
    searched = model.report_["search"]
    assert note in searched.pop("note")
    expected = {"kernels": [drawn], "metric": "none", "blend": False}
    assert searched == {**expected, "method": "grid", "stopped": None, "untried": []}
    assert model.report_["importances"] is None


def test_a_table_that_stays_on_disk_has_the_plain_search(frame, capsys, monkeypatch, refused):
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    base = ["tune", "t.csv", *PRICE, "--drop", "colour"]
    assert main([*base, "--gammas", "1", "--alphas", "0.1,1"]) == 0
    words = "plain search of the rbf kernel: the rows of this table stay on disk"
    assert words in capsys.readouterr().err
    line = refused(*base, "--metric", "full", "--force")
    assert "a full metric is not possible, as the rows of this table stay on disk" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--criterion", "gcv", "--blend"], "a blend is not possible, as the criterion 'gcv' holds"),
        (["--approximation", "grid", "--metric", "full"], "the approximation 'grid' takes kernels as"),
        (["--simple", "--kernel", "rbf,linear"], "without several kernels"),
        (["--metric", "best"], "invalid choice: 'best'"),
    ],
)
def test_refused(frame, refused, options, words):
    assert words in refused("tune", "t.csv", *PRICE, *options)
    assert [p.name for p in Path().iterdir()] == ["t.csv"]


def test_the_same_in_python(frame, capsys):
    found, _ = tuned(capsys, *PRICE)
    grid = {"gammas": [0.3, 1, 3], "alphas": [0.002, 0.02, 0.1]}
    model = tune_table(frame, "price", drop=["kind"], **grid)
    assert model.report_["blend"] == found["blend"]
    assert model.report_["importances"] == found["importances"]


def test_a_blend_in_words():
    member = {"kernel": "rbf", "metric": "full", "round": 2, "gamma": 0.6, "alpha": 0.125}
    other = {"kernel": "linear", "metric": "none", "round": 0, "alpha": 1.0}
    members = [member | {"weight": 0.75}, other | {"weight": 0.3}]
    report = {"criterion": "error", "best_score": -0.25, "blend_score": -0.2, "blend": members}
    score, *shown = blend_lines(report)
    assert score[1] == "accuracy 80.00%  (best single model: 75.00%), cross-fitted"
    assert [words for _, words in shown] == [
        "0.75 × rbf, full metric, round 2, gamma 0.6, alpha 2^-3",
        "0.30 × linear, alpha 2^0",
    ]
    assert "0.25" in blend_lines(report | {"criterion": None})[0][1]
    worse = blend_lines(report | {"blend_score": -0.3})[0][1]
    assert "(best single model: 75.00%, though worse in squared error)" in worse
    assert blend_lines(report | {"blend": members[:1]}) == [("blend", "none, one model was best")]
    assert blend_lines({"criterion": "error"}) == []


def test_a_handful_of_columns():
    shares = {f"c{i}": share for i, share in enumerate([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])}
    lines = importance_lines(shares)
    assert lines[0] == ("c0", "40.00%")
    assert lines[-1] == ("2 others", "10.00% together")
    assert len(lines) == 7
    assert importance_lines({"a": 1.0}) == [("a", "100.00%")]
    assert importance_lines(None) == importance_lines({}) == []
