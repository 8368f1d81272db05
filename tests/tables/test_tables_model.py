"""A table model: saved with its preparation, the same predictions in blocks and in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file

import onefold
from onefold import LSSVC, LSSVR
from onefold.tables import (
    Reading,
    TableClassifier,
    TableError,
    TableModel,
    TableRows,
    learn_preparation,
    learn_target,
    load_table_model,
    open_table,
    table_model,
)

N = 60
RNG = np.random.default_rng(1)
A, B = RNG.normal(size=N), RNG.normal(size=N)
FRAME = pa.table(
    {
        "a": A,
        "b": B,
        "c": [["x", "y"][i % 2] for i in range(N)],
        "y": np.where(A + B > 0, "yes", "no").tolist(),
    }
)


@pytest.fixture(scope="module")
def model() -> TableModel:
    rows = TableRows(FRAME)
    preparation = learn_preparation(rows, exclude=["y"])
    estimator = LSSVC(gamma=0.5, alpha=0.1).fit(
        preparation.transform(rows), learn_target(rows, "y").values
    )
    return table_model(estimator, preparation, "y", report={"note": "test"})


def test_saved_with_its_preparation(model, tmp_path):
    path = tmp_path / "m.onefold"
    model.save(path)
    again = load_table_model(path)
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    assert (again.target_, again.task, again.id_column_) == ("y", "classification", None)
    assert again.report_ == {"note": "test"}
    assert isinstance(again, TableClassifier)
    # onefold.load gives the same, from Python.
    loaded = onefold.load(path)
    np.testing.assert_array_equal(loaded.predict(FRAME.to_pandas()), model.predict(FRAME))
    X = loaded.preparation_.transform(TableRows(FRAME))
    np.testing.assert_array_equal(loaded.estimator_.predict(X), model.predict(FRAME))
    onefold.save(loaded, tmp_path / "again.onefold")
    assert (tmp_path / "again.onefold").read_bytes() == path.read_bytes()


def test_estimators_without_a_table_are_refused(tmp_path):
    path = tmp_path / "m.onefold"
    LSSVR().fit(A[:, None], B).save(path)
    with pytest.raises(TableError, match=r"not tuned on a table; read it with onefold.load"):
        load_table_model(path)


def test_every_kind_of_table_gives_the_same_predictions(model, tmp_path):
    expected = model.predict(FRAME)
    csv, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    FRAME.to_pandas().to_csv(csv, index=False)
    pa.parquet.write_table(FRAME, parquet)
    tables = [csv, str(csv), parquet, open_table(csv), FRAME.to_pandas(), pl.from_arrow(FRAME)]
    for table in [*tables, TableRows(FRAME)]:
        np.testing.assert_array_equal(model.predict(table), expected)
    assert isinstance(FRAME.to_pandas(), pd.DataFrame)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_blocks_give_the_same_predictions(model, tmp_path, suffix, batch_rows):
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        FRAME.to_pandas().to_csv(path, index=False)
    else:
        pa.parquet.write_table(FRAME, path, row_group_size=11)
    blocks = list(model.predict_blocks(path, batch_rows, beside=("y",)))
    assert max(len(rows) for rows, _ in blocks) <= batch_rows
    assert all(set(rows.names) == {"a", "b", "c", "y"} for rows, _ in blocks)
    together = np.concatenate([predicted for _, predicted in blocks])
    np.testing.assert_array_equal(together, model.predict(FRAME))


def test_a_late_block_may_look_different(model, tmp_path):
    """Whole numbers first, fractions later; one category first, another later."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,x\n" * 50 + "0.25,-1.5,y\n")
    frame = pd.DataFrame({"a": [1.0] * 50 + [0.25], "b": [2.0] * 50 + [-1.5]})
    frame["c"] = ["x"] * 50 + ["y"]
    together = np.concatenate([p for _, p in model.predict_blocks(path, 10)])
    np.testing.assert_array_equal(together, model.predict(frame))


def test_unknown_values_in_many_blocks_give_one_warning(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,z\n" * 50)
    with pytest.warns(UserWarning, match="50 in 'c'") as caught:
        list(model.predict_blocks(path, 10))
    assert len(caught) == 1


def test_bad_values_name_their_row_in_the_table(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,x\n" * 50 + "1,oops,x\n")
    with pytest.raises(TableError, match="'b' should hold numbers but has 'oops' in data row 51"):
        list(model.predict_blocks(path, 10))


def test_lacking_columns_are_noticed_before_any_row(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,bb,c\n1,2,x\n")
    with pytest.raises(TableError, match=r"no column 'b'.*did you mean 'bb'"):
        next(model.predict_blocks(path))
    path.write_text("a,b,c\n")
    with pytest.raises(TableError, match="no rows"):
        model.predict(path)


def test_tables_opened_without_options_are_read_as_the_model_was_tuned(tmp_path):
    """1.234 is a thousand in a table with decimal commas, also when the table is open already."""
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{i + 1}.234;{i},5\n" for i in range(9)))
    rows = open_table(path, Reading(decimal=",")).read()
    preparation = learn_preparation(rows, exclude=["y"])
    estimator = LSSVR().fit(preparation.transform(rows), learn_target(rows, "y").values)
    model = table_model(estimator, preparation, "y", reading=rows.reading)
    model.save(tmp_path / "m.onefold")
    again = load_table_model(tmp_path / "m.onefold")
    assert again.reading_ == model.reading_
    expected = estimator.predict(preparation.transform(rows))
    frame = pd.DataFrame({"x": [f"{i + 1}.234" for i in range(9)]})
    for table in (path, open_table(path), rows, frame):
        np.testing.assert_array_equal(again.predict(table), expected)


def test_svmlight_tables(tmp_path):
    X = RNG.normal(size=(N, 5)) * (RNG.random((N, 5)) < 0.5)
    path = tmp_path / "t.svm"
    dump_svmlight_file(X, A, str(path))
    rows = open_table(path).read()
    preparation = learn_preparation(rows)
    estimator = LSSVR(gamma=0.5, alpha=0.1).fit(preparation.transform(rows), A)
    model = table_model(estimator, preparation, "target")
    model.save(tmp_path / "m.onefold")
    again = load_table_model(tmp_path / "m.onefold")
    together = np.concatenate([p for _, p in again.predict_blocks(path, 7)])
    np.testing.assert_allclose(together, estimator.predict(preparation.transform(rows)), atol=1e-12)
