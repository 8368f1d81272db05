"""The target: which task it calls for, labels as they were written, and what is refused."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sheets import write_xlsx

from onefold import TableClassifier, TableRegressor, load
from onefold.tables import TableError, TableRows, learn_target, open_table
from onefold.tables.target import as_target, known_labels, read_target
from onefold.tuning import tune_table

SIDES = [-1.0, 1.0] * 15
SMALL = {"simple": True, "cv": 3, "gammas": [1.0], "alphas": [0.1]}


def written(frame, path):
    if path.suffix == ".xlsx":
        return write_xlsx(path, {"s": [[*frame.columns], *frame.astype(object).to_numpy().tolist()]})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def target(values, task=None):
    return learn_target(TableRows(pa.table({"y": values})), "y", task)


@pytest.mark.parametrize(
    ("values", "task", "reason"),
    [
        (["a", "b"] * 3, "classification", "text"),
        ([True, False], "classification", "boolean"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "classification", "text"),
        ([0.5, 1.0, 2.0], "regression", "fractions"),
        ([0, 1] * 10, "classification", "2 different whole numbers"),
        ([-1.0, 1.0] * 10, "classification", "2 different whole numbers"),
        ([0, 1] * 9, "regression", "for 18 rows"),
        (list(range(20)) * 10, "classification", "20 different"),
        (list(range(21)) * 10, "regression", "more than 20"),
        ([float(f"{i % 7}e200") for i in range(200)], "regression", "too large to be labels"),
    ],
)
def test_inference(values, task, reason):
    found = target(values)
    assert found.task == task
    assert reason in found.reason


HUGE = [2**60 + i for i in range(30)]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([1.0, None], None, r"missing values in 'y' \(1 of 2 rows\).* use drop_missing_target=True"),
        (["a", ""], None, "missing values"),
        ([None, None], None, "missing values"),
        ([1.5, float("inf")], None, "infinite values in the target 'y'"),
        (["a", "a"], None, "only one class"),
        ([1.5, 1.5], None, "is constant, so there is nothing to learn"),
        (["a", "b"], "regression", "'y' should hold numbers but has 'a' in data row 1"),
        ([0.5, 1.0], "classification", "cannot be classes"),
        ([datetime.date(2020, 1, 1)] * 2, None, "got type date32"),
        ([f"id{i}" for i in range(30)], None, "30 classes in 30 rows"),
        ([*map(str, range(30)), "?"], None, r"'\?' in data row 31"),
        (HUGE, None, r"up to 1.15e\+18, some of which are equal in float64; subtract"),
        (pa.array([], pa.float64()), None, "no rows"),
    ],
)
def test_refused(values, task, message):
    with pytest.raises(TableError, match=message):
        target(values, task)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (HUGE, "y holds whole numbers up to .*, some of which are equal in float64"),
        ([2**70 + i for i in range(30)], "y holds whole numbers of more than 64 bits; scale them down"),
        (pd.date_range("2020-01-01", periods=30), "y holds dates"),
        (["a", 1] * 15, "mixes values of the types int and str"),
        ([1.0, None] * 15, r"missing values in y \(15 of 30 rows\)"),
        (["1.5", "high"] * 15, "y should hold numbers .*'high'.*; convert it, or use TableClassifier"),
    ],
)
def test_arrays_that_are_no_targets(y, message):
    with pytest.raises(TableError, match=message):
        as_target(pd.Series(y, dtype=None if "dates" in message else object).to_numpy(), "regression")


def test_numbers_that_are_targets_of_regression():
    for y in ([decimal.Decimal("1.5"), 2], ["1.5", " 2"], pd.to_timedelta([1.5, 2], "s")):
        assert as_target(y, "regression").tolist() == [1.5, 2.0]
    large = np.array([2**60 + i * 2**20 + 1 for i in range(30)])  # that differ enough
    assert target(large).values.tolist() == large.astype(float).tolist()
    assert as_target(large, "regression") is large
    assert target([0, 1] * 10, "regression").values.dtype == np.float64
    codes = target(pa.array([0, 1] * 10).dictionary_encode(), "classification").values
    assert (codes.dtype.kind, codes.tolist()) == ("i", [0, 1] * 10)


def test_further_rows_are_read_in_the_form_of_the_classes():
    def read(values, task, like):
        return read_target(TableRows(pa.table({"y": values})), "y", task, like).tolist()

    assert read(["1", "0"], "classification", np.array([0, 1])) == [1, 0]
    assert read(["true", "False"], "classification", np.array([False, True])) == [True, False]
    assert read(["a", "b"], "classification", np.array(["a", "b"])) == ["a", "b"]
    assert read(["1.5", "2"], "regression", None) == [1.5, 2.0]
    assert known_labels(["1", "2.0", "3"], np.array(["1.0", "2.0"])).tolist() == ["1.0", "2.0", "3"]
    assert known_labels(["7", "007"], np.array(["007", "8"])).tolist() == ["007", "007"]
    assert known_labels(["07"], np.array(["007", "7"])).tolist() == ["07"]  # could be either
    assert known_labels(["1", "0"], np.array([False, True])).tolist() == [True, False]
    assert known_labels([str(2**60 + 1)], np.array([2**60, 2**60 + 1])).tolist() == [2**60 + 1]
    with pytest.warns(UserWarning, match="not seen in training count as errors"):
        unknown = read(["1.7", "1"], "classification", np.array([0, 1]))
    assert unknown == ["1.7", 1]  # and not cut down to 1
    assert known_labels(["7", "1"], np.array([0, 1])).dtype.kind == "i"
    assert known_labels(["7", "1"], np.array([False, True])).tolist() == ["7", True]
    assert read(["True", "false"], "regression", None) == [1.0, 0.0]
    long = "9" * 5000
    assert known_labels([f"+{long}"], np.array([long, "8"])).tolist() == [long]


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet"])
@pytest.mark.parametrize("kind", [int, float, bool])
def test_classes_of_every_type_and_labels_that_are_none(tmp_path, suffix, kind):
    frame = pd.DataFrame({"x": SIDES, "y": [kind(side > 0) for side in SIDES]})
    model = TableClassifier(**SMALL).fit(written(frame, tmp_path / f"t.{suffix}"), "y")
    assert model.score(tmp_path / f"t.{suffix}", "y") == model.score(frame, "y") == 1.0
    for label in (7, 1.7, "x"):
        other = frame.astype({"y": object} if label == "x" or suffix == "csv" else {"y": float})
        other.loc[0, "y"] = label
        path = written(
            other.astype({"y": str}) if suffix == "parquet" else other, tmp_path / f"o.{suffix}"
        )
        with pytest.warns(UserWarning, match="not seen in training count as errors"):
            assert model.score(path, "y") == 29 / 30
        with (
            pytest.raises(ValueError, match=f"has the class '{label}"),
            pytest.warns(UserWarning, match="not seen in training"),
        ):
            model.report(tmp_path / "r.html", path, "y")


def test_a_target_of_booleans_in_words(tmp_path):
    frame = pd.DataFrame({"x": SIDES, "y": [side > 0 for side in SIDES]})
    path = written(frame, tmp_path / "t.csv")
    model, other = (TableRegressor(**SMALL).fit(table, "y") for table in (frame, path))
    assert model.predict(frame).tolist() == other.predict(path).tolist()
    assert model.score(frame, "y") == other.score(path, "y") == model.score(path, "y")


# Labels


@pytest.mark.parametrize(
    "labels",
    [
        *(("007", "008"), ("True", "False"), ("1.0", "2.0"), (" 1", " 2"), ("+1", "-1"), ("1e3", "2e3")),
        *(("10", "9"), ("31/12/2024", "1/1/2025"), ("$5", "$6"), ("yes", "no "), ("-0", "1")),
        *((str(2**60), str(2**60 + 1)), (str(2**70), str(2**70 + 1)), ("9" * 50, "8" * 50)),
    ],
)
def test_labels_keep_their_spelling(tmp_path, labels):
    lines = [f'{side * (1 + i / 40)},"{labels[side > 0]}"' for i, side in enumerate(SIDES)]
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    TableClassifier(**SMALL).fit(tmp_path / "t.csv", "y").save(tmp_path / "m.onefold")
    again = load(tmp_path / "m.onefold")
    predicted = [str(label) for label in again.predict(tmp_path / "t.csv")]
    assert predicted == [labels[side > 0] for side in SIDES]
    (block,) = open_table(tmp_path / "t.csv", again.reading_).batches(100)
    labels_again = read_target(block, "y", "classification", again.estimator_.classes_)
    assert (labels_again == again.predict(tmp_path / "t.csv")).all()
    on_disk = open_table(tmp_path / "t.csv").read_columns(["y"], 7)
    assert [str(label) for label in learn_target(on_disk, "y", "classification").values] == predicted


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "1.0"), ("1", " 1"), ("1", "01"), ("1e1", "10"), ("True", "true"), ("a", "a ")],
)
def test_two_spellings_of_a_class_are_refused(tmp_path, one, other):
    (tmp_path / "t.csv").write_text(f'x,y\n1,"{one}"\n2,0\n3,"{other}"\n')
    rows = open_table(tmp_path / "t.csv").read()
    with pytest.raises(
        TableError, match=f"one class written both as '{one}' and as '{other}' .data row 3.; write it"
    ):
        learn_target(rows, "y", "classification")


@pytest.mark.parametrize("kind", ["int8", "uint64", "int64", "float32", "float64", "bool", "str"])
def test_labels_keep_their_type(tmp_path, kind):
    labels = np.array([0, 1] * 15).astype(kind)
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"x": SIDES, "y": pa.array(labels)}), path)
    TableClassifier(**SMALL).fit(path, "y").save(tmp_path / "m.onefold")
    blocks = open_table(path).read_columns(["y"], 7)
    for found in (load(tmp_path / "m.onefold").predict(path), learn_target(blocks, "y").values):
        assert found.dtype.kind == labels.dtype.kind
        assert kind == "str" or found.dtype == labels.dtype
        assert found.tolist() == labels.tolist()


@pytest.mark.parametrize("pair", [("007", "7"), ("a ", "a"), ("1.0", "1"), ("x", "X"), ("-0", "0")])
def test_labels_that_a_fit_keeps_apart_are_kept_apart_everywhere(pair, tmp_path):
    rng = np.random.default_rng(0)
    first = rng.random(80) < 0.5
    frame = pd.DataFrame({"a": rng.normal(size=80) + 6 * first, "y": np.where(first, *pair)})
    model = TableClassifier(simple=True).fit(frame, "y")
    assert sorted(model.classes_) == sorted(pair)
    assert model.score(frame, "y") == np.mean(model.predict(frame) == frame.y) > 0.9
    for suffix in ("parquet", "csv", "xlsx"):
        path = written(frame, tmp_path / f"t.{suffix}")
        assert model.score(path, "y") == model.score(frame, "y")
        assert model.report(tmp_path / "r.html", path, "y") is not None
    test = tune_table(frame, "y", simple=True, holdout=0.25).report_["test"]
    assert sorted(test["recall"]) == sorted(pair)
    assert test["accuracy"] > 0.8


# Options


def prices(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": rng.choice(["x", "y"], n)})
    frame["price"] = 1e4 * np.exp(frame.a + (frame.c == "x") + 0.1 * rng.normal(size=n))
    return frame


@pytest.mark.parametrize("disk", [False, True])
def test_rows_without_a_target_are_left_out(tmp_path, monkeypatch, disk):
    frame = prices().assign(mass=1.0 + np.arange(60) % 3)
    known = frame.drop(index=[3, 17, 59])
    frame.loc[[3, 17, 59], "price"] = np.nan
    options = SMALL | {"drop_missing_target": True}
    expected = TableRegressor(**SMALL).fit(known, "price", sample_weight="mass")
    if disk:
        frame.to_csv(tmp_path / "t.csv", index=False)
        known.to_csv(tmp_path / "known.csv", index=False)
        monkeypatch.setattr("onefold.tables.store.available_memory", lambda: 1000)
        expected = TableRegressor(**SMALL).fit(tmp_path / "known.csv", "price", sample_weight="mass")
        models = [TableRegressor(**options).fit(tmp_path / "t.csv", "price", sample_weight="mass")]
        models.append(tune_table(tmp_path / "t.csv", "price", weight="mass", **options))
        tested = tune_table(tmp_path / "t.csv", "price", holdout=0.2, **options).report_
    else:
        X = frame.drop(columns=["price", "mass"])
        models = [TableRegressor(**options).fit(frame, "price", sample_weight="mass")]
        models.append(tune_table(frame, "price", weight="mass", **options))
        torch = pytest.importorskip("torch")
        given = (torch.as_tensor(frame[name].to_numpy(copy=True)) for name in ("price", "mass"))
        models.append(TableRegressor(**options).fit(X, *given))  # arrays of another library
        tested = tune_table(frame, "price", holdout=0.2, **options).report_
    for model in models:
        assert model.predict(known).tolist() == expected.predict(known).tolist()
        assert any("dropped 3 of 60 rows, in which" in note for note in model.notes_)
    assert (tested["rows"], tested["test"]["rows"]) == (46, 11)


def test_a_logarithm_of_the_target(tmp_path):
    frame = prices()
    model = TableRegressor(**SMALL, target_transform="log").fit(frame, "price")
    plain = TableRegressor(**SMALL).fit(frame.drop(columns="price"), np.log(frame.price))
    np.testing.assert_allclose(model.predict(frame), np.exp(plain.predict(frame)), rtol=1e-12)
    for method, argument in (("predict_interval", 0.8), ("predict_quantiles", [0.1, 0.5])):
        found, expected = (getattr(one, method)(frame, argument) for one in (model, plain))
        np.testing.assert_allclose(found, np.exp(expected), rtol=1e-12)
    assert model.best_score_ == pytest.approx(plain.best_score_)
    held = model.report_["heldout"]
    predicted = np.exp(plain.estimator_.heldout_prediction_)
    assert held["rmse"] == pytest.approx(np.sqrt(np.mean((predicted - frame.price) ** 2)))
    assert held["standard_errors"]["rmse"] < held["rmse"] < held["baseline_rmse"]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.target_transform == "log"
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    assert model.report(tmp_path / "page.html", frame) is not None
    with pytest.raises(
        TableError, match="log' needs positive targets, but 'price' has -5 in data row 4"
    ):
        TableRegressor(**SMALL, target_transform="log").fit(
            frame.assign(price=frame.price.where(frame.index != 3, -5.0)), "price"
        )
