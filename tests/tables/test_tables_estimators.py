"""Estimators of whole tables: any table in, scikit-learn's ways, blocks, options, and attacks."""

from __future__ import annotations

import json
import warnings
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
from onefold import LSSVR, TableClassifier, TableRegressor
from onefold.cli import main
from onefold.tables import (
    Reading,
    TableError,
    load_table_model,
    open_table,
    rows_of_frame,
    store,
)
from onefold.tables.clipping import clipped
from onefold.tables.preparation import matrix_blocks
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
    assert classifier.classes_.tolist() == ["big", "small"]
    assert regressor.feature_names_in_.tolist() == list(FRAME.columns)
    names = regressor.get_feature_names_out()
    assert {"size", "size is missing", "colour=red", "ok", "when week sin"} <= set(names)
    assert regressor.matrix(FRAME).shape == (N, len(names))
    assert "'size' (9 of 80 rows)" in regressor.notes_[0]
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        expected = getattr(classifier.estimator_, method)(classifier.matrix(FRAME))
        np.testing.assert_array_equal(getattr(classifier, method)(FRAME), expected)
    assert regressor.best_score_ == regressor.estimator_.best_score_ == regressor.report_["best_score"]
    assert regressor.best_params_ == regressor.estimator_.best_params_
    assert len(regressor.cv_results_["params"]) == regressor.report_["candidates"]
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
    with pytest.raises(TableError, match="no target column 'prize'; did you mean 'price'"):
        TableRegressor().fit(table, "prize")


def test_weights_and_groups(regressor):
    weight = np.linspace(0.5, 2, N)
    sites = np.arange(N) % 5
    model = TableRegressor(**SMALL).fit(FRAME, Y, sample_weight=weight, groups=sites)
    assert isinstance(model.estimator_.cv, GroupKFold)
    named = FRAME.assign(mass=weight, site=[f"s{i}" for i in sites])
    other = TableRegressor(**SMALL).fit(named, Y, sample_weight="mass", groups="site")
    np.testing.assert_allclose(other.predict(FRAME), model.predict(FRAME), rtol=1e-10)
    assert list(other.feature_names_in_) == list(FRAME.columns)
    for odd, message in (([None, *sites[1:]], r"missing values in groups \(1 of"), ([1], "shape")):
        with pytest.raises(TableError, match=message):
            TableRegressor(**SMALL).fit(FRAME, Y, groups=odd)


def test_what_is_no_model_of_a_table(tmp_path):
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


@pytest.mark.filterwarnings(
    "ignore:missing values in columns that had none in training"
)  # in small folds
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
    with pytest.raises(TypeError, match="Sparse data was passed"):
        TableRegressor(**SMALL).fit(csr_array(np.eye(N)), X[:, 1])
    with pytest.raises(ValueError, match="X has 3 features, but TableRegressor is expecting 2 features"):
        model.predict(np.zeros((4, 3)))


NUMBERS = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20) % 3})


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (NUMBERS, [1.0, np.nan] * 10, r"missing values in y \(10 of 20 rows\)"),
        (NUMBERS, pd.Series([1, None] * 10, dtype="Int64"), "missing values in y"),
        (NUMBERS, ["a"] * 20, "one class|with at least|needs at least two"),
        (NUMBERS, ["a", "b"] * 9, "X has 20 rows but y has 18"),
        (NUMBERS.head(1), ["a"], r"n_samples=1"),
        (NUMBERS.head(0), [], r"no rows"),
        (NUMBERS[[]], ["a", "b"] * 10, "has no columns"),
        (NUMBERS.set_axis(["a", "a"], axis=1), ["a", "b"] * 10, "more than one column named 'a'"),
        (pd.DataFrame({"a": [1, "x"] * 10}), ["a", "b"] * 10, "mixed types"),
        (pd.DataFrame({"a": [b"1", b"x"] * 10}), ["a", "b"] * 10, r"binary.*drop=\['a'\]"),
        (pd.DataFrame({"a": [object()] * 20}), ["a", "b"] * 10, "neither a number nor text"),
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
        ({"class_weight": "even"}, "class_weight must be None or 'balanced'"),
        ({"cv": "five"}, "number of folds, at least 2, 'loo' or 'past:5'; got 'five'"),
        ({"cv": 1}, "at least 2"),
        ({"gap": 3}, "a gap needs ordered rows; use ordered=True"),
        ({"min_frequency": 0}, "min_frequency must be a number of rows, at least 1, or a fraction"),
        ({"min_frequency": 1.5}, "between 0 and 1; got 1.5"),
        ({"blend": "yes"}, "blend must be True or False or 'auto'; got 'yes'"),
        ({"simple": 1}, "simple must be True or False; got 1"),
        ({"reading": ","}, "reading must be an onefold.tables.Reading; got ','"),
        ({"kernel": "precomputed"}, "unknown kernel 'precomputed'"),
        ({"kernel": 3}, "kernel must be a name or a list of names; got 3"),
        ({"kernel": []}, "unknown kernel ''"),
        ({"kernel": ["auto", "rbf"]}, "use auto alone"),
        ({"search": "everywhere"}, "search must be one of"),
        ({"calibration": "platt"}, 'calibration must be "log_odds", "temperature", .*; got .platt'),
        ({"intervals": "wide"}, "intervals must be None or 'cv.' or .*; got 'wide'"),
    ],
)
def test_settings_that_mean_nothing_are_refused_first(options, words):
    with pytest.raises(ValueError, match=words):
        tune_table("not looked for.csv", "y", **options)


def test_criteria_are_known_before_the_table_is_looked_for():
    for criterion in (["mse", "best"], "accuracy"):
        with pytest.raises(ValueError, match=r"unknown criterion 'best'|is for classification"):
            TableRegressor(criterion=criterion).fit("not looked for.csv", "y")


@pytest.mark.parametrize(
    ("table", "target", "options", "message"),
    [
        ("t.csv", "y", {"drop": ["c"]}, r"drop: t\.csv has no column 'c'"),
        (NUMBERS, "b", {"drop": ["c"]}, "no drop column 'c'; the columns are"),
        (NUMBERS.head(3), "a", {"task": "regression"}, "5 folds need at least 5 rows"),
        ("t.csv", "y", {"calibration": "isotonic"}, "calibration is for classification, but 'y' holds"),
        ("t.csv", "colour", {"intervals": "cv+"}, "intervals is for regression, but 'colour' holds cla"),
        ("t.csv", "y", {"intervals": "jackknife+"}, "use simple=True, or intervals="),
        ("t.csv", "y", {"drop": ["y"]}, "drop names the target column 'y'"),
        (NUMBERS.head(1), "a", {}, "the table has 1 row"),
        (
            NUMBERS.assign(a=np.nan),
            "a",
            {"drop_missing_target": True},
            "every value of 'a' is missing; fill",
        ),
        ("t.csv", 3, {}, "no column '3'"),
        ("t.csv", "y", {"groups": 3}, "no column '3'"),
    ],
)
def test_settings_that_do_not_suit_the_table(plain, table, target, options, message):
    with pytest.raises(ValueError, match=message):
        tune_table(table, target, **options)


def test_several_levels_of_column_names():
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    table = pd.DataFrame({column: NUMBERS["a"] ** j for j, column in enumerate(columns, 1)})
    assert rows_of_frame(table).names == ("a x", "a y")


def test_bounds_come_as_frames(regressor):
    indexed = FRAME.set_index(np.arange(N) + 7)
    found = regressor.predict_interval(indexed, coverage=0.5)
    assert list(found.columns) == ["lower", "upper"]
    assert found.index.equals(indexed.index)
    expected = regressor.estimator_.predict_interval(regressor.matrix(FRAME), coverage=0.5)
    np.testing.assert_array_equal(found, clipped(expected, regressor.clip_))
    assert regressor.predict_quantiles(pl.from_pandas(FRAME), [0.1, 0.5]).columns == ["0.1", "0.5"]
    assert regressor.predict_interval(pa.Table.from_pandas(FRAME)).shape == (N, 2)


def test_bounds_of_two_targets_come_as_frames_as_those_of_the_estimator_inside():
    """An array came back where LSSVRCV gives a frame."""
    numbers = NUMBERS.assign(c=np.sin(np.arange(len(NUMBERS))))
    y = np.column_stack([np.arange(len(numbers)), np.cos(np.arange(len(numbers)))])
    indexed = numbers.set_index(np.arange(len(numbers)) + 7)
    model = TableRegressor(**TINY, clip=None).fit(indexed, y)
    inside = model.estimator_
    matrix = pd.DataFrame(model.matrix(indexed), index=indexed.index)
    for method, argument in (("predict_interval", 0.5), ("predict_quantiles", [0.1, 0.5])):
        found = getattr(model, method)(indexed, argument)
        expected = getattr(inside, method)(matrix, argument)
        pd.testing.assert_frame_equal(found, expected)
        as_polars = getattr(model, method)(pl.from_pandas(numbers), argument)
        assert as_polars.columns == list(expected.columns)
        assert getattr(model, method)(pa.Table.from_pandas(numbers), argument).shape == (len(y), 2, 2)
    assert list(model.predict_interval(indexed).columns) == ["lower_0", "upper_0", "lower_1", "upper_1"]


@pytest.mark.parametrize("classes", [False, True])
def test_an_array_for_a_model_of_named_columns_is_warned_of(classes):
    """Columns were taken by their places without a word, also those in another order."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    y = np.where(table.a > 0, "u", "v") if classes else table.a.to_numpy()
    model = (TableClassifier if classes else TableRegressor)(**TINY).fit(table, y)
    calls = [lambda X: model.predict(X), lambda X: model.score(X, y), lambda X: model.matrix(X)]
    calls += [lambda X: onefold.plan(model, X, y), lambda X: model._as_step(X, y)]  # they were refused
    if classes:
        calls += [lambda X: model.predict_proba(X), lambda X: model.predict_log_proba(X)]
        calls += [lambda X: model.decision_function(X)]
    else:
        calls += [lambda X: model.predict_interval(X), lambda X: model.predict_quantiles(X, [0.5])]
    words = (
        f"X does not have valid feature names, but {type(model).__name__} was fitted with feature names"
    )
    for call in calls:
        with pytest.warns(UserWarning, match=words) as told:
            call(table.to_numpy())
        assert [str(one.message) for one in told] == [words]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(table)
    unnamed = type(model)(**TINY).fit(table.to_numpy(), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unnamed.predict(table.to_numpy())


@pytest.fixture
def plain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    frame["colour"] = rng.choice(["red", "green"], 60)
    frame["y"] = np.sin(2 * frame["a"]) + (frame["colour"] == "red") + 0.1 * rng.normal(size=60)
    frame.to_csv("t.csv", index=False)
    return frame


def test_late_blocks(plain):
    """Whole numbers first, fractions later; other categories; what is wrong names its row."""
    model = TableRegressor(**TINY).fit(plain, "y")
    path = Path("t.csv")
    path.write_text("a,b,colour\n" + "1,2,red\n" * 50 + "0.25,-1.5,green\n")
    later = pd.DataFrame({"a": [1.0] * 50 + [0.25], "b": [2.0] * 50 + [-1.5]})
    later["colour"] = ["red"] * 50 + ["green"]
    together = np.concatenate([X for _, X in matrix_blocks(model, path, 10)])
    np.testing.assert_array_equal(together, model.matrix(later))
    path.write_text("a,b,colour\n" + "1,2,z\n" * 50 + ",2,red\n")
    with pytest.warns(UserWarning, match="50 in 'colour'|'a' .1 of 51 rows, 2%") as caught:
        list(matrix_blocks(model, path, 10))
    assert len(caught) == 2
    path.write_text("a,b,colour\n" + "1,2,red\n" * 50 + "1,oops,red\n")
    with pytest.raises(TableError, match="'b' should hold numbers but has 'oops' in data row 51"):
        list(matrix_blocks(model, path, 10))
    path.write_text("a,bb,colour\n1,2,red\n")
    with pytest.raises(TableError, match=r"no column 'b'.*did you mean 'bb'"):
        next(matrix_blocks(model, path))
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
    assert again.reading_.points == ("x",)
    assert "'x' is read with a decimal point ('1.234')" in model.notes_[0]
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


def test_a_table_larger_than_memory_leaves_no_file_behind(plain, monkeypatch, tmp_path):
    in_memory = TableRegressor(**TINY).fit(plain, "y")
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    model = tune_table("t.csv", "y", **TINY)
    assert model.preparation_.columns == ("a", "b", "colour")
    assert sorted(tmp_path.iterdir()) == before
    on_disk = TableRegressor(gammas=[0.1, 1.0], alphas=[0.01, 0.1]).fit("t.csv", "y")
    assert "are kept on disk" in on_disk.report_["search"]["note"]
    assert on_disk.predict(plain).tolist() == model.predict(plain).tolist()
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


@pytest.mark.filterwarnings("ignore:The least populated class")  # of the checks' few rows
@parametrize_with_checks(
    [TableClassifier(**SMALL), TableRegressor(**SMALL)],
    expected_failed_checks=lambda model: EXPLAINED if isinstance(model, TableClassifier) else {},
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
