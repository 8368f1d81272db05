"""Estimators of whole tables: frames of every library and type in, scikit-learn's ways, and attacks."""

from __future__ import annotations

import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import onefold
from onefold import LSSVCCV, LSSVRCV, TableClassifier, TableRegressor
from onefold.tables import TableError, learn_preparation, rows_of_frame

N = 80
SMALL = {"simple": True, "cv": 3}


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


def test_columns_are_found_by_name(regressor):
    expected = regressor.predict(FRAME)
    shuffled = FRAME[FRAME.columns[::-1]].assign(other="x")
    np.testing.assert_array_equal(regressor.predict(shuffled), expected)
    for table in (
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        FRAME.set_index(np.arange(N)[::-1]),
    ):
        np.testing.assert_allclose(regressor.predict(table), expected, rtol=1e-12)
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


def test_saved_loaded_pickled_and_cloned(regressor, classifier, tmp_path):
    for model in (regressor, classifier):
        model.save(tmp_path / "m")
        for again in (onefold.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
            assert type(again) is type(model)
            np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
            assert again.preparation_.parts == model.preparation_.parts
            assert again.notes_ == model.notes_
            assert again.get_params() == model.get_params()
        assert not hasattr(clone(model), "estimator_")
        assert clone(model).get_params() == model.get_params()
    onefold.load(tmp_path / "m").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_importances_are_of_table_columns():
    model = TableRegressor(cv=3, kernel="rbf", metric="diagonal", blend=False).fit(FRAME, Y)
    shares = model.importances_
    assert set(shares) == set(FRAME.columns)
    assert next(iter(shares)) == "colour"
    np.testing.assert_allclose(model.feature_importances_, [shares[name] for name in FRAME.columns])
    assert model.feature_importances_.sum() == pytest.approx(1.0)
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


def series(values) -> list:
    return [values[i % len(values)] for i in range(40)]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(series([1, 2, None]), dtype="Int64"),
        pd.Series(series([True, False, None]), dtype="boolean"),
        pd.Series(series(["a", "b", None]), dtype="string"),
        pd.Series(series([1.5, 2.5, None]), dtype=pd.ArrowDtype(pa.float64())),
        pd.Series(series(["a", "b"]), dtype=pd.ArrowDtype(pa.string())),
        pd.Series(pd.Categorical(series([3, 1]))),
        pd.Series(series([decimal.Decimal("1.5"), decimal.Decimal("2")])),
        pd.Series(series([datetime.date(2020, 1, 1), datetime.date(2021, 5, 1)])),
        pd.Series(pd.to_timedelta(series([1, 5]), unit="h")),
        pd.Series(pd.period_range("2020-01", periods=40, freq="M")).astype(str),
        pd.Series(series([1, 2]), dtype="uint8"),
        pd.Series(series([1, 2]), dtype="float16"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_types_of_pandas(column):
    table = pd.DataFrame({"x": column, 3: np.arange(40.0)})
    model = TableRegressor(**SMALL).fit(table, np.sin(np.arange(40)))
    assert model.feature_names_in_.tolist() == ["x", "3"]
    assert np.isfinite(model.predict(table)).all()


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(series(["a", "b", None]), dtype=pl.Enum(["b", "a", "never"])),
        pl.Series(series(["a", "b"]), dtype=pl.Categorical),
        pl.Series(series([decimal.Decimal("1.50"), decimal.Decimal("2.25")])),
        pl.Series(series([datetime.date(2020, 1, 1), None, datetime.date(2021, 5, 1)])),
        pl.Series(series([datetime.datetime(2020, 1, 1), datetime.datetime(2021, 5, 1)])),
        pl.Series(series([datetime.timedelta(1), datetime.timedelta(2)])),
        pl.Series(series([datetime.time(1), datetime.time(2)])),
        pl.Series(series([1, None, 3]), dtype=pl.Int8),
        pl.Series(series([None, True, False])),
    ],
    ids=lambda column: str(column.dtype)[:12],
)
def test_types_of_polars(column):
    table = pl.DataFrame({"x": column, "n": np.arange(40.0)})
    model = TableRegressor(**SMALL).fit(table, pl.Series(np.sin(np.arange(40))))
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
        (NUMBERS.assign(a=np.inf), ["a", "b"] * 10, "infinite values in 'a'"),
        (NUMBERS.set_axis(["a", "a"], axis=1), ["a", "b"] * 10, "more than one column named 'a'"),
        (pd.DataFrame({"a": [1, "x"] * 10}), ["a", "b"] * 10, "mixed types"),
        (pd.DataFrame({"a": [b"1", b"x"] * 10}), ["a", "b"] * 10, r"binary.*drop=\['a'\]"),
        (pd.DataFrame({"a": [object()] * 20}), ["a", "b"] * 10, "neither number nor text"),
        (pd.DataFrame({"a": [[1], [2]] * 10}), ["a", "b"] * 10, r"type list.*drop=\['a'\]"),
        (pd.DataFrame({"a": [1.0] * 20}), ["a", "b"] * 10, "every column is constant"),
        (pd.DataFrame({"a": [f"id{i}" for i in range(60)]}), ["a", "b"] * 30, "like an identifier"),
        (pd.DataFrame({"a": [str(i) for i in range(30)]}), ["a", "b"] * 15, "numbers as text"),
        ("table.csv", ["a"], "there is no file table.csv"),
        ({"a": [1, 2]}, ["a", "b"], "not a dict; read, collect or convert it first"),
        (pl.LazyFrame({"a": [1, 2]}), ["a", "b"], "not a LazyFrame; read, collect or convert it first"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_from_is_said(X, y, message):
    with pytest.raises(ValueError, match=message):
        TableClassifier(**SMALL).fit(X, y)


def test_settings_that_mean_nothing():
    with pytest.raises(ValueError, match=r"use drop=\['a'\]"):
        TableClassifier(drop="a").fit(NUMBERS, ["a", "b"] * 10)
    with pytest.raises(ValueError, match="missing must be 'impute' or 'error'"):
        TableClassifier(missing="drop").fit(NUMBERS, ["a", "b"] * 10)
    with pytest.raises(ValueError, match="no drop column 'c'; the columns are"):
        TableClassifier(drop=["c"]).fit(NUMBERS, ["a", "b"] * 10)
    with pytest.raises(ValueError, match=r"missing values in 'size' \(9 of 80 rows\)"):
        TableRegressor(missing="error").fit(FRAME, Y)
    assert not TableRegressor(missing="error").__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="5 folds need at least 5 rows"):
        TableRegressor().fit(NUMBERS.head(3), [1.0, 2.0, 3.0])


def test_several_levels_of_column_names():
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=columns)
    model = TableRegressor(**SMALL).fit(table, table[("a", "x")])
    assert model.feature_names_in_.tolist() == ["a x", "a y"]


def test_new_categories_warn_once(classifier):
    with pytest.warns(UserWarning, match="80 in 'colour'") as caught:
        classifier.predict(FRAME.assign(colour="violet"))
    assert len(caught) == 1


def test_balanced_classes_are_chosen_by_balanced_accuracy():
    model = TableClassifier(**SMALL, class_weight="balanced").fit(FRAME, LABELS)
    assert model.estimator_.criterion == "balanced_accuracy"


def test_a_hundred_thousand_rows_are_prepared_quickly():
    n = 100_000
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"n{j}": rng.normal(size=n) for j in range(10)})
    table["when"] = pd.date_range("2000-01-01", periods=n, freq="h").astype(str)
    table["text"] = rng.choice(["a", "b", "c"], n)
    model = TableRegressor(simple=True, cv=3, approximation=onefold.approximations.Nystroem(20))
    model.fit(table.head(2000), table["n0"].head(2000))
    assert model.predict(table).shape == (n,)
    assert len(learn_preparation(rows_of_frame(table)).feature_names) == 10 + 7 + 3


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_probabilities_are_those_of_the_estimator_inside(classifier, method):
    if not hasattr(classifier.estimator_, method):
        assert not hasattr(classifier, method)
        pytest.skip("the estimator inside has no probabilities yet")
    expected = getattr(classifier.estimator_, method)(classifier.matrix(FRAME))
    np.testing.assert_array_equal(getattr(classifier, method)(FRAME), expected)


class Bounds:
    """Stands in for an estimator with intervals."""

    def predict(self, X):
        return X[:, 0]

    def predict_interval(self, X, coverage=0.9):
        return np.column_stack([X[:, 0] - coverage, X[:, 0] + coverage])

    def predict_quantiles(self, X, quantiles):
        return np.column_stack([X[:, 0] + q for q in quantiles])


def test_bounds_come_as_frames(regressor):
    model = clone(regressor)
    vars(model).update(vars(regressor))
    model.estimator_ = Bounds()
    indexed = FRAME.set_index(np.arange(N) + 7)
    found = model.predict_interval(indexed, coverage=0.5)
    assert list(found.columns) == ["lower", "upper"]
    assert found.index.equals(indexed.index)
    np.testing.assert_allclose(found["upper"] - found["lower"], 1.0)
    assert model.predict_quantiles(pl.from_pandas(FRAME), [0.1, 0.5]).columns == ["0.1", "0.5"]
    assert model.predict_interval(pa.Table.from_pandas(FRAME)).shape == (N, 2)
