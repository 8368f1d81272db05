"""The preparation of tables as a transformer of its own."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import onefold
from onefold import TableClassifier, TablePreparation, TableRegressor
from onefold.cli import main
from onefold.tables import Reading, TableError, open_table, store

N = 80
QUICK = {"simple": True, "gammas": [0.1], "alphas": [0.1], "cv": 3}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"size": rng.normal(size=N), "grade": rng.integers(0, 4, N)})
    table["colour"] = rng.choice(["red", "green", "blue", "pink"], N, p=[0.4, 0.3, 0.25, 0.05])
    table["when"] = pd.date_range("2021-01-01", periods=N, freq="31h")
    table["ok"] = rng.choice(["yes", "no"], N)
    table["same"] = 1.0
    table.loc[::9, "size"] = np.nan
    table.loc[::11, "colour"] = None
    return table


FRAME = frame()
Y = np.where(FRAME["colour"] == "red", 2.0, 0.0) + FRAME["grade"]


@pytest.mark.parametrize(
    "options",
    [{}, {"categorical": ["grade"]}, {"min_frequency": 10}, {"drop": ["when"]}, {"min_frequency": 0.1}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["frame", "polars", "csv", "parquet"])
def test_the_matrix_is_that_of_a_table_estimator(options, kind, tmp_path):
    table = FRAME
    if kind == "polars":
        table = pl.from_pandas(FRAME)
    elif kind != "frame":
        table = tmp_path / f"t.{kind}"
        getattr(FRAME, f"to_{kind}")(table, index=False)
    preparation = TablePreparation(**options)
    matrix = preparation.fit_transform(table)
    model = TableRegressor(**QUICK, **options).fit(table, Y)
    np.testing.assert_array_equal(matrix, model.matrix(table))
    names = preparation.get_feature_names_out()
    assert names.tolist() == model.get_feature_names_out().tolist()
    assert matrix.shape == (N, len(names))
    assert preparation.notes_ == model.notes_
    assert preparation.feature_names_in_.tolist() == list(FRAME.columns)
    np.testing.assert_array_equal(preparation.transform(FRAME[:10]), model.matrix(FRAME[:10]))


def test_the_literal_computation():
    preparation = TablePreparation(drop=["when", "same", "grade"])
    matrix = preparation.fit_transform(FRAME)
    size = FRAME["size"].fillna(FRAME["size"].median())
    colour = FRAME["colour"].fillna(FRAME["colour"].mode()[0])
    columns = [
        (size - size.mean()) / size.std(ddof=0),
        FRAME["size"].isna(),
        np.where(FRAME["ok"] == "yes", np.sqrt(0.5), -np.sqrt(0.5)),
        *(colour == name for name in ("blue", "green", "pink", "red")),
        FRAME["colour"].isna(),
    ]
    np.testing.assert_allclose(matrix, np.column_stack(columns).astype(float), atol=1e-12)


def test_a_column_of_targets_is_not_a_feature():
    table = FRAME.assign(price=Y)
    preparation = TablePreparation().fit(table, "price")
    assert preparation.feature_names_in_.tolist() == list(FRAME.columns)
    np.testing.assert_array_equal(preparation.transform(table), TablePreparation().fit_transform(FRAME))
    with pytest.raises(TableError, match="no target column 'prize'"):
        TablePreparation().fit(table, "prize")


@pytest.mark.parametrize(("container", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_out(container, kind):
    preparation = TablePreparation().set_output(transform=container)
    indexed = FRAME.set_index(np.arange(N)[::-1])
    for frames in (preparation.fit_transform(indexed), preparation.transform(indexed)):
        assert isinstance(frames, kind)
        assert list(frames.columns) == preparation.get_feature_names_out().tolist()
        np.testing.assert_array_equal(frames.to_numpy(), TablePreparation().fit_transform(FRAME))
        if container == "pandas":
            assert frames.index.equals(indexed.index)


def test_in_a_pipeline_of_scikit_learn():
    pipeline = make_pipeline(TablePreparation(), Ridge(alpha=1e-3)).fit(FRAME, Y)
    assert pipeline.score(FRAME, Y) > 0.95
    names = pipeline[:-1].get_feature_names_out()
    assert len(names) == pipeline[-1].n_features_in_
    with pytest.warns(UserWarning, match="unknown categories ignored: 1 in 'colour'"):
        pipeline.predict(FRAME.head(3).assign(colour=["red", "violet", "blue"]))


def test_arrays_have_places_and_may_be_given_names():
    X = np.array([["a", 1.0], ["b", 2.5], ["a", None]], dtype=object)
    preparation = TablePreparation().fit(X)
    assert preparation.n_features_in_ == 2
    assert not hasattr(preparation, "feature_names_in_")
    expected = ["x1", "x1 is missing", "x0=a", "x0=b"]
    assert preparation.get_feature_names_out().tolist() == expected
    named = preparation.get_feature_names_out(["colour", "size"]).tolist()
    assert named == ["size", "size is missing", "colour=a", "colour=b"]
    with pytest.raises(ValueError, match=r"input_features should have length equal to .* 2; got 1"):
        preparation.get_feature_names_out(["colour"])
    with pytest.raises(ValueError, match="X has 3 features, but TablePreparation is expecting 2"):
        preparation.transform(np.zeros((1, 3)))
    preparation.fit(FRAME)
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        preparation.get_feature_names_out(FRAME.columns[::-1])


def test_a_table_on_disk_is_read_in_blocks(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "t.parquet", index=False)
    expected = TablePreparation().fit_transform(FRAME)
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    monkeypatch.setattr("onefold.tables.preparation.BLOCK", 7)
    source = open_table(tmp_path / "t.parquet")
    monkeypatch.setattr(source, "read", None)
    np.testing.assert_allclose(TablePreparation().fit_transform(source), expected, atol=1e-12)


def test_what_is_refused():
    with pytest.raises(ValueError, match="drop must be a list of columns"):
        TablePreparation(drop="size").fit(FRAME)
    with pytest.raises(ValueError, match="missing must be 'impute' or 'error'; got 'skip'"):
        TablePreparation(missing="skip").fit(FRAME)
    with pytest.raises(TableError, match="missing values in 'size'"):
        TablePreparation(missing="error").fit(FRAME)
    with pytest.raises(TableError, match="no categorical column 'shape'"):
        TablePreparation(categorical=["shape"]).fit(FRAME)
    with pytest.raises(TableError, match="no rows"):
        TablePreparation().fit(FRAME.head(0))
    with pytest.raises(NotFittedError):
        TablePreparation().transform(FRAME)
    with pytest.raises(NotFittedError):
        TablePreparation().get_feature_names_out()
    strict = TablePreparation(missing="error").fit(FRAME.dropna())
    with pytest.raises(TableError, match="the model was tuned on rows without missing values"):
        strict.transform(FRAME)


def test_saved_and_inspected(tmp_path, capsys):
    reading = Reading(decimal=",")
    preparation = TablePreparation(reading=reading, min_frequency=2).fit(FRAME)
    preparation.save(tmp_path / "p.onefold")
    loaded = onefold.load(tmp_path / "p.onefold")
    assert repr(loaded) == repr(preparation)
    for again in (loaded, pickle.loads(pickle.dumps(preparation))):
        np.testing.assert_array_equal(again.transform(FRAME), preparation.transform(FRAME))
    np.testing.assert_array_equal(clone(loaded).fit_transform(FRAME), preparation.transform(FRAME))
    assert main(["inspect", str(tmp_path / "p.onefold")]) == 0
    told = capsys.readouterr().out
    assert "numbers" in told
    assert "left out" in told
    assert "'same' (constant)" in told
    TableClassifier(**QUICK).fit(FRAME, Y > 2).save(tmp_path / "m.onefold")
    with pytest.raises(TableError, match="contains a TablePreparation, which was not tuned on a table"):
        onefold.tables.load_table_model(tmp_path / "p.onefold")


@parametrize_with_checks([TablePreparation()])
def test_scikit_learn_check(estimator, check):
    check(estimator)
