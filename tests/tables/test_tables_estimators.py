"""Estimators of whole tables: any table in, scikit-learn's ways, blocks, options, and attacks."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV, TableClassifier, TableRegressor
from onefold.cli import main
from onefold.tables import (
    Reading,
    TableError,
    load_table_model,
    open_table,
    rows_of_frame,
    training,
)
from onefold.tuning import tune_table, tuning

N = 80
SMALL = {"simple": True, "cv": 3}
TINY = {"simple": True, "gammas": [0.1, 1.0], "alphas": [0.01, 0.1]}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    found = pd.DataFrame({"size": rng.normal(size=N), "colour": rng.choice(["red", "green", "blue"], N)})
    found["when"] = pd.date_range("2021-01-01", periods=N, freq="31h")
    found["ok"] = rng.choice(["yes", "no"], N)
    found["flag"] = rng.random(N) < 0.5
    found["kind"] = pd.Categorical(rng.choice(["u", "v"], N))
    found["count"] = pd.array(rng.integers(0, 9, N), dtype="Int64")
    found.loc[::9, "size"] = np.nan
    found.loc[::11, "colour"] = None
    found.loc[4, "count"] = pd.NA
    found.loc[6, "when"] = pd.NaT
    return found


FRAME = frame()
Y = np.where(FRAME["colour"] == "red", 2.0, 0.0) + np.where(FRAME["ok"] == "yes", 1.0, 0.0)
LABELS = np.where(Y > 1, "big", "small")


@pytest.fixture(scope="module")
def regressor() -> TableRegressor:
    return TableRegressor(**SMALL).fit(FRAME, Y)


@pytest.fixture(scope="module")
def classifier() -> TableClassifier:
    return TableClassifier(**SMALL).fit(FRAME, LABELS)


def test_a_table_as_it_is(regressor, classifier):
    assert regressor.score(FRAME, Y) > 0.9
    assert classifier.score(FRAME, LABELS) > 0.95
    assert isinstance(regressor.estimator_, LSSVRCV)
    assert isinstance(classifier.estimator_, LSSVCCV)
    assert classifier.classes_.tolist() == ["big", "small"]
    assert regressor.n_features_in_ == 7
    assert regressor.feature_names_in_.tolist() == list(FRAME.columns)
    names = regressor.get_feature_names_out()
    assert names.shape == (regressor.estimator_.n_features_in_,)
    assert {"size", "size is missing", "colour=red", "ok", "when week sin"} <= set(names)
    assert "'size' (9 of 80 rows)" in regressor.notes_[0]
    assert classifier.decision_function(FRAME).shape == (N,)
    np.testing.assert_array_equal(regressor.matrix(FRAME).shape, (N, len(names)))
    for method in ("predict_proba", "predict_log_proba"):
        expected = getattr(classifier.estimator_, method)(classifier.matrix(FRAME))
        np.testing.assert_array_equal(getattr(classifier, method)(FRAME), expected)


def test_the_score_after_a_fit_is_where_scikit_learn_has_it(regressor):
    assert regressor.best_score_ == regressor.estimator_.best_score_ == regressor.report_["best_score"]
    assert regressor.best_params_ == regressor.estimator_.best_params_
    assert len(regressor.cv_results_["params"]) == regressor.report_["candidates"]
    assert (regressor.report_["heldout"]["rows"], regressor.report_["heldout"]["folds"]) == (N, 3)
    blended = TableRegressor(cv=3, kernel=["rbf", "linear"], metric=None, gammas=[1.0], alphas=[0.1, 1])
    blended.fit(FRAME, Y)
    assert blended.best_score_ == blended.estimator_.blend_score_


def test_columns_are_found_by_name(regressor):
    expected = regressor.predict(FRAME)
    shuffled = FRAME[FRAME.columns[::-1]].assign(other="x").set_index(np.arange(N)[::-1])
    np.testing.assert_array_equal(regressor.predict(shuffled), expected)
    with pytest.raises(TableError, match=r"no column 'colour', .*; did you mean 'color'"):
        regressor.predict(FRAME.rename(columns={"colour": "color"}))


def test_the_target_may_be_a_column(regressor):
    table = FRAME.assign(price=Y)
    model = TableRegressor(**SMALL).fit(table, "price")
    np.testing.assert_array_equal(model.predict(FRAME), regressor.predict(FRAME))
    assert model.target_ == "price"
    assert model.score(table, "price") == regressor.score(FRAME, Y)
    assert list(model.feature_names_in_) == list(FRAME.columns)
    with pytest.raises(TableError, match="no target column 'prize'; did you mean 'price'"):
        TableRegressor().fit(table, "prize")
    labels = TableClassifier(**SMALL).fit(FRAME.assign(label=LABELS), "label")
    assert labels.score(FRAME.assign(label=LABELS), "label") > 0.95


def test_weights_and_groups(regressor):
    weight, sites = np.linspace(0.5, 2, N), np.arange(N) % 5
    model = TableRegressor(**SMALL).fit(FRAME, Y, sample_weight=weight, groups=sites)
    assert isinstance(model.estimator_.cv, GroupKFold)
    named = FRAME.assign(mass=weight, site=[f"s{i}" for i in sites])
    other = TableRegressor(**SMALL).fit(named, Y, sample_weight="mass", groups="site")
    np.testing.assert_allclose(other.predict(FRAME), model.predict(FRAME), rtol=1e-10)
    assert list(other.feature_names_in_) == list(FRAME.columns)
    for odd, message in (([None, *sites[1:]], r"missing values in groups \(1 of"), ([1], "shape")):
        with pytest.raises(TableError, match=message):
            TableRegressor(**SMALL).fit(FRAME, Y, groups=odd)


def test_pickled_cloned_and_what_is_no_model_of_a_table(regressor, classifier, tmp_path):
    for model in (regressor, classifier):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
        assert not hasattr(clone(model), "estimator_")
        assert clone(model).get_params() == model.get_params()
    LSSVR().fit(Y[:, None], Y).save(tmp_path / "plain")
    with pytest.raises(TableError, match=r"not tuned on a table; read it with onefold.load"):
        load_table_model(tmp_path / "plain")


def test_importances_are_of_table_columns():
    model = TableRegressor(cv=3, kernel="rbf", metric="diagonal", blend=False).fit(FRAME, Y)
    shares = model.importances_
    assert set(shares) == set(FRAME.columns)
    assert next(iter(shares)) == "colour"
    np.testing.assert_allclose(model.feature_importances_, [shares[name] for name in FRAME.columns])
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    place = dict(model.preparation_.spans())["colour"]
    assert shares["colour"] == pytest.approx(model.estimator_.feature_importances_[place].sum())
    assert not hasattr(TableRegressor(**SMALL).fit(FRAME, Y), "importances_")


def test_in_scikit_learns_tools():
    model = TableRegressor(**SMALL)
    assert cross_val_score(model, FRAME, Y, cv=3).mean() > 0.5
    pipeline = make_pipeline(FunctionTransformer(lambda X: X.drop(columns="flag")), model)
    assert pipeline.fit(FRAME, Y).predict(FRAME).shape == (N,)
    search = GridSearchCV(model, {"missing": ["impute"], "drop": [(), ("when",)]}, cv=3).fit(FRAME, Y)
    assert search.best_estimator_.score(FRAME, Y) > 0.9
    with config_context(enable_metadata_routing=True):
        routed = model.set_fit_request(sample_weight=True, groups=True)
        routed.set_score_request(sample_weight=False)
        sites = np.arange(N) % 9
        found = cross_validate(
            routed, FRAME, Y, cv=3, params={"sample_weight": np.ones(N), "groups": sites},
            return_estimator=True,
        )  # fmt: skip
    assert all(isinstance(one.estimator_.cv, GroupKFold) for one in found["estimator"])


def test_arrays_and_sparse_matrices():
    X = np.column_stack([np.linspace(-1, 1, N), np.arange(N) % 3])
    X[3, 0] = np.nan
    model = TableRegressor(**SMALL).fit(X, X[:, 1])
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(X.tolist()), model.predict(X))
    mixed = np.array([[1.5, "a", True], [2.5, "b", False]] * 20, dtype=object)
    assert TableClassifier(**SMALL).fit(mixed, ["x", "y"] * 20).predict(mixed[:2]).tolist() == ["x", "y"]
    rows = np.where(np.random.default_rng(0).random((N, 5)) < 0.4, 1.0, 0.0)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        TableRegressor(**SMALL).fit(csr_array(rows), rows[:, 2])
    with pytest.raises(ValueError, match="X has 3 features, but TableRegressor is expecting 2 features"):
        model.predict(np.zeros((4, 3)))


DAY, LATER = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 5, 1)
HALVES = [decimal.Decimal("1.50"), decimal.Decimal("2")]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        *(([1, 2, None], "Int64"), ([True, False, None], "boolean"), (["a", "b", None], "string")),
        *(([1.5, None], pd.ArrowDtype(pa.float64())), (["a", "b"], pd.ArrowDtype(pa.string()))),
        *(([3, 1], "category"), (HALVES, object), ([DAY.date(), LATER.date()], object)),
        *(([DAY - LATER, LATER - DAY], "timedelta64[ns]"), ([1, 2], "uint8"), ([1, 2], "float16")),
        *((["a", "b", None], pl.Enum(["b", "a", "never"])), (["a", "b"], pl.Categorical())),
        *(([DAY, None, LATER], pl.Date()), ([DAY, LATER], pl.Datetime()), (HALVES, pl.Decimal(5, 2))),
        *(([DAY - LATER, LATER - DAY], pl.Duration()), ([DAY.time(), datetime.time(2)], pl.Time())),
        *(([1, None, 3], pl.Int8()), ([None, True, False], pl.Boolean())),
    ],
    ids=str,
)
def test_types_of_frames(values, dtype):
    many = [values[i % len(values)] for i in range(40)]
    of_polars = isinstance(dtype, pl.DataType)
    column = pl.Series(many, dtype=dtype) if of_polars else pd.Series(many, dtype=dtype)
    table = (pl if of_polars else pd).DataFrame({"x": column, "b": np.arange(40.0)})
    model = TableRegressor(**SMALL).fit(table, (pl if of_polars else pd).Series(np.sin(np.arange(40))))
    assert model.feature_names_in_.tolist() == ["x", "b"]
    assert np.isfinite(model.predict(table)).all()


NUMBERS = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20) % 3})


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (NUMBERS, [1.0, np.nan] * 10, r"missing values in y \(10 of 20 rows\)"),
        (NUMBERS, ["a", None] * 10, r"missing values in y \(10 of 20 rows\)"),
        (NUMBERS, pd.Series([1, None] * 10, dtype="Int64"), "missing values in y"),
        (NUMBERS, ["a"] * 20, "one class|with at least|needs at least two"),
        (NUMBERS, ["a", "b"] * 9, "X has 20 rows but y has 18"),
        (NUMBERS.head(1), ["a"], r"n_samples=1"),
        (NUMBERS.head(0), [], r"0 rows"),
        (NUMBERS[[]], ["a", "b"] * 10, "has no columns"),
        (NUMBERS.set_axis(["a", "a"], axis=1), ["a", "b"] * 10, "more than one column named 'a'"),
        (pd.DataFrame({"a": [1, "x"] * 10}), ["a", "b"] * 10, "mixed types"),
        (pd.DataFrame({"a": [b"1", b"x"] * 10}), ["a", "b"] * 10, r"binary.*drop=\['a'\]"),
        (pd.DataFrame({"a": [object()] * 20}), ["a", "b"] * 10, "neither number nor text"),
        ("table.csv", ["a"], "there is no file table.csv"),
        ({"a": [1, 2]}, ["a", "b"], "not a dict; read, collect or convert it first"),
        (pl.LazyFrame({"a": [1, 2]}), ["a", "b"], "not a LazyFrame; read, collect or convert it first"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_from_is_said(X, y, message):
    with pytest.raises(ValueError, match=message):
        TableClassifier(**SMALL).fit(X, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": "colour"}, r"use drop=\['colour'\]"),
        ({"categorical": "colour"}, r"use categorical=\['colour'\]"),
        ({"task": "ranking"}, "task must be None or 'classification' or 'regression'; got 'ranking'"),
        ({"missing": "drop"}, "missing must be 'impute' or 'error'"),
        ({"class_weight": "even"}, "class_weight must be None or 'balanced'"),
        ({"cv": "five"}, "number of folds, at least 2, or 'loo'; got 'five'"),
        ({"cv": 1}, "at least 2"),
        ({"gap": 3}, "a gap needs ordered rows; use ordered=True"),
        ({"min_frequency": 0}, "min_frequency must be a number of rows, at least 1, or a share"),
        ({"min_frequency": 1.5}, "between 0 and 1; got 1.5"),
        ({"drop_missing_target": 1}, "drop_missing_target must be True or False; got 1"),
        ({"target_transform": "sqrt"}, "target_transform must be None or 'log'; got 'sqrt'"),
        ({"metric": "best"}, "metric must be None or 'none' or 'diagonal'"),
        ({"blend": "yes"}, "blend must be True or False or 'auto'; got 'yes'"),
        ({"simple": 1}, "simple must be True or False; got 1"),
        ({"kernel": "precomputed"}, "no kernel 'precomputed' to choose"),
        ({"kernel": 3}, "kernel must be a name or a list of names; got 3"),
        ({"kernel": []}, "no kernel ''"),
        ({"kernel": ["auto", "rbf"]}, "use auto alone"),
        ({"search": "everywhere"}, "search must be one of"),
        ({"calibration": "platt"}, 'calibration must be "temperature", "sigmoid", .*; got .platt'),
        ({"intervals": "wide"}, "intervals must be None or 'cv.' or .*; got 'wide'"),
    ],
)
def test_settings_that_mean_nothing_are_refused_first(options, words):
    with pytest.raises(ValueError, match=words):
        tune_table("not looked for.csv", "y", **options)


@pytest.mark.parametrize("criterion", ["best", ["mse", "best"], "accuracy"])
def test_criteria_are_known_before_the_table_is_looked_for(criterion):
    with pytest.raises(ValueError, match=r"there is no criterion 'best'|is for classification"):
        TableRegressor(criterion=criterion).fit("not looked for.csv", "y")


@pytest.mark.parametrize(
    ("target", "option", "words"),
    [
        ("colour", "--calibration platt", "calibration must be"),
        ("y", "--intervals wide", "intervals must be"),
        ("y", "--intervals jackknife+", "use --simple, or --intervals cv+"),
        ("y", "--criterion best", "no criterion 'best'"),
        ("colour", "--criterion mse", "is for regression"),
    ],
)
def test_names_without_a_meaning_are_refused_before_a_plan_is_told(plain, capsys, target, option, words):
    assert main(["tune", "t.csv", "--target", target, *option.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("onefold: error: ")
    assert words in line


@pytest.mark.parametrize(
    ("table", "target", "options", "message"),
    [
        ("t.csv", "y", {"drop": ["c"]}, r"drop: t\.csv has no column 'c'"),
        (NUMBERS, "b", {"drop": ["c"]}, "no drop column 'c'; the columns are"),
        (NUMBERS.head(3), "a", {"task": "regression"}, "5 folds need at least 5 rows"),
        (
            NUMBERS.replace(3.0, None),
            "b",
            {"missing": "error"},
            r"missing values in 'a' \(1 of 20 rows\)",
        ),
        (
            "t.csv",
            "y",
            {"calibration": "isotonic"},
            "calibration is for classification, and 'y' holds num",
        ),
        ("t.csv", "colour", {"intervals": "cv+"}, "intervals is for regression, and 'colour' holds cla"),
        ("t.csv", "colour", {"target_transform": "log"}, "target_transform is for regression, and 'col"),
        ("t.csv", 3, {}, "no column '3'"),
        ("t.csv", "y", {"groups": 3}, "no column '3'"),
    ],
)
def test_settings_that_do_not_suit_the_table(plain, table, target, options, message):
    with pytest.raises(ValueError, match=message):
        tune_table(table, target, **options)


def test_several_levels_of_column_names():
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=columns)
    model = TableRegressor(**SMALL).fit(table, table[("a", "x")])
    assert model.feature_names_in_.tolist() == ["a x", "a y"]


def test_bounds_come_as_frames(regressor):
    indexed = FRAME.set_index(np.arange(N) + 7)
    found = regressor.predict_interval(indexed, coverage=0.5)
    assert list(found.columns) == ["lower", "upper"]
    assert found.index.equals(indexed.index)
    expected = regressor.estimator_.predict_interval(regressor.matrix(FRAME), coverage=0.5)
    np.testing.assert_array_equal(found, expected)
    assert regressor.predict_quantiles(pl.from_pandas(FRAME), [0.1, 0.5]).columns == ["0.1", "0.5"]
    assert regressor.predict_interval(pa.Table.from_pandas(FRAME)).shape == (N, 2)


# Blocks of tables on disk


@pytest.fixture
def plain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    frame["colour"] = rng.choice(["red", "green"], 60)
    frame["y"] = np.sin(2 * frame["a"]) + (frame["colour"] == "red") + 0.1 * rng.normal(size=60)
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.fixture
def model(plain) -> TableRegressor:
    return TableRegressor(**TINY).fit(plain, "y")


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_tables_are_predicted_in_blocks(model, plain, monkeypatch, batch_rows):
    expected = model.predict(plain)
    plain.to_parquet("t.parquet", row_group_size=11)
    for table in ("t.csv", open_table("t.parquet"), rows_of_frame(plain)):
        blocks = list(model.matrix_blocks(table, batch_rows, extra=("y",)))
        assert max(len(rows) for rows, _ in blocks) <= batch_rows
        assert all(set(rows.names) == {"a", "b", "colour", "y"} for rows, _ in blocks)
        np.testing.assert_array_equal(np.concatenate([X for _, X in blocks]), model.matrix(plain))
        monkeypatch.setattr("onefold.tables.estimators._MOST_ROWS", 11)
        np.testing.assert_allclose(model.predict(table), expected, rtol=1e-10)


def test_late_blocks(model):
    """Whole numbers first, fractions later; other categories; what is wrong names its row."""
    path = Path("t.csv")
    path.write_text("a,b,colour\n" + "1,2,red\n" * 50 + "0.25,-1.5,green\n")
    later = pd.DataFrame({"a": [1.0] * 50 + [0.25], "b": [2.0] * 50 + [-1.5]})
    later["colour"] = ["red"] * 50 + ["green"]
    together = np.concatenate([X for _, X in model.matrix_blocks(path, 10)])
    np.testing.assert_array_equal(together, model.matrix(later))
    path.write_text("a,b,colour\n" + "1,2,z\n" * 50 + ",2,red\n")
    with pytest.warns(UserWarning, match="unknown categories") as caught:
        list(model.matrix_blocks(path, 10))
    unseen, missing = sorted((str(one.message) for one in caught), reverse=True)
    assert "50 in 'colour'" in unseen
    assert "missing values where training rows had none" in missing
    assert "'a' (1 of 51 rows, 2%)" in missing
    path.write_text("a,b,colour\n" + "1,2,red\n" * 50 + "1,oops,red\n")
    with pytest.raises(TableError, match="'b' should hold numbers but has 'oops' in data row 51"):
        list(model.matrix_blocks(path, 10))
    path.write_text("a,bb,colour\n1,2,red\n")
    with pytest.raises(TableError, match=r"no column 'b'.*did you mean 'bb'"):
        next(model.matrix_blocks(path))
    path.write_text("a,b,colour\n")
    with pytest.raises(TableError, match="no rows"):
        model.predict(path)


def test_tables_opened_without_options_are_read_as_the_model_was_tuned(tmp_path):
    """1.234 is a thousand in a table with decimal commas, also when the table is open already."""
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{i + 1}.234;{i},5\n" for i in range(9)))
    reading = Reading(decimal=",")
    model = TableRegressor(reading=reading, **TINY).fit(path, "y")
    model.save(tmp_path / "m.onefold")
    again = load_table_model(tmp_path / "m.onefold")
    assert again.reading_ == model.reading_
    rows = open_table(path, reading).read()
    frame = pd.DataFrame({"x": [f"{i + 1}.234" for i in range(9)]})
    expected = model.predict(path)
    assert np.ptp(expected) > 1
    for table in (path, open_table(path), rows, frame):
        np.testing.assert_array_equal(again.predict(table), expected)


# From a table to a model: a path, a frame and the command line


def test_a_path_a_frame_and_the_command_line_give_the_same_model(plain, capsys):
    events = []
    with tuning("t.csv", "y", **TINY) as job:
        model = job.run(events.append)
    assert isinstance(model, TableRegressor)
    assert events[-1]["done"] == events[-1]["total"] == 2
    small = ["--simple", "--gammas", "0.1,1", "--alphas", "0.01,0.1"]
    assert main(["tune", "t.csv", "--target", "y", *small, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {key: result[key] for key in model.report_ if key != "seconds"} == {
        key: value for key, value in model.report_.items() if key != "seconds"
    }
    expected = load_table_model("t-onefold/model.onefold").predict(plain)
    tables = (plain, "t.csv", Path("t.csv"), open_table("t.csv"))
    fitted = [TableRegressor(**TINY).fit(table, "y") for table in tables]
    for found in (model, tune_table(plain, "y", **TINY), *fitted):
        assert found.predict(plain).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("target", "options", "parameters"),
    [
        ("y", ["--intervals", "normalised", "--device", "cpu", "--min-frequency", "8"],
         {"intervals": "normalised", "device": "cpu", "min_frequency": 8}),
        ("colour", ["--calibration", "isotonic", "--min-frequency", "0.1"],
         {"calibration": "isotonic", "min_frequency": 0.1}),
        ("big", ["--target-transform", "log", "--intervals", "none", "--drop-missing-target"],
         {"target_transform": "log", "intervals": None, "drop_missing_target": True}),
    ],
)  # fmt: skip
def test_options_reach_the_model_and_its_file(plain, target, options, parameters):
    plain.assign(big=np.exp(plain.y)).to_csv("t.csv", index=False)
    assert main(["tune", "t.csv", "--target", target, "--simple", "--quiet", *options]) == 0
    loaded = load_table_model("t-onefold/model.onefold")
    assert {name: loaded.get_params()[name] for name in parameters} == parameters
    again = clone(loaded).fit("t.csv", target)
    assert again.predict("t.csv").tolist() == loaded.predict("t.csv").tolist()


def test_a_table_larger_than_memory_leaves_no_file_behind(plain, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    model = tune_table("t.csv", "y", **TINY)
    assert model.preparation_.columns == ("a", "b", "colour")
    assert sorted(tmp_path.iterdir()) == before
    on_disk = TableRegressor(gammas=[0.1, 1.0], alphas=[0.01, 0.1]).fit("t.csv", "y")
    assert "stay on disk" in on_disk.report_["search"]["note"]
    assert on_disk.predict(plain).tolist() == model.predict(plain).tolist()
    in_memory = TableRegressor(**TINY).fit(plain, "y")
    np.testing.assert_allclose(on_disk.predict(plain), in_memory.predict(plain), atol=1e-3)


@pytest.mark.parametrize("target", ["y", "colour"])
def test_a_saved_model_can_be_fitted_again_on_its_own_table(plain, target):
    plain["who"] = [f"row {i}" for i in range(60)]
    plain["mass"] = 1.0 + np.arange(60) % 3
    plain.to_csv("t.csv", index=False)
    options = {"gammas": [0.1, 1.0], "alphas": [0.1], "id_column": "who", "ordered": True}
    options |= {"kernel": ["rbf", "linear"]}
    model = tune_table("t.csv", target, weight="mass", **options)
    model.save("m.onefold")
    again = clone(onefold.load("m.onefold")).fit("t.csv", target, sample_weight="mass")
    assert again.predict(plain).tolist() == model.predict(plain).tolist()
    other = {"seconds": 0, "task_reason": ""}  # the class says which task
    assert again.report_ | other == model.report_ | other


@pytest.mark.parametrize(
    "cv",
    [
        *(LeaveOneOut(), KFold(4), ShuffleSplit(3), KFold(4, shuffle=True)),
        [([*range(40)], [*range(40, 60)])],
    ],
)
def test_splitters_are_those_of_the_estimator_inside(plain, cv):
    model = TableRegressor(simple=True, gammas=[0.1], alphas=[0.1], cv=cv).fit(plain, "y")
    assert model.estimator_.cv is cv
    held = np.asarray(model.estimator_.heldout_prediction_)
    tested = np.isfinite(held)
    assert model.report_["heldout"]["rows"] == tested.sum()
    if not isinstance(cv, ShuffleSplit):
        error = np.mean((held - plain.y.to_numpy())[tested] ** 2)
        assert model.report_["heldout"]["rmse"] ** 2 == pytest.approx(error)


# scikit-learn's own checks. The plain search with few folds changes nothing in the code of tables.
EXPLAINED = {
    "check_class_weight_classifiers": (
        "weights enter the fit, and widths are chosen by errors that count alike: on pure noise a "
        "narrow kernel, which heeds no weights, may win"
    ),
}


@parametrize_with_checks(
    [TableClassifier(**SMALL), TableRegressor(**SMALL)],
    expected_failed_checks=lambda model: EXPLAINED if isinstance(model, TableClassifier) else {},
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
