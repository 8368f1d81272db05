"""Tables on disk become mapped rows, block by block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.tables import TableError, rows_on_disk


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2, 500), rng.normal(-1, 0.1, 500)
    return pa.table({"a": a, "y": np.sin(a) + b, "b": b, "same": np.ones(500), "id": np.arange(500)})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("block", [1, 7, 500, 10_000])
def test_rows_are_the_standardised_table(table, tmp_path, suffix, block):
    path = tmp_path / f"t{suffix}"
    write = pyarrow.csv.write_csv if suffix == ".csv" else pyarrow.parquet.write_table
    write(table, path)
    found = rows_on_disk(path, "y", tmp_path / "rows.npy", drop=["id"], block=block)
    X = np.column_stack([table["a"], table["b"]])
    assert found.preparation.columns == ("a", "b")
    assert found.preparation.constant == ("same",)
    mean, scale = ([getattr(p, name) for p in found.preparation.parts] for name in ("mean", "scale"))
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale, X.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.X, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.y, table["y"])
    assert isinstance(found.X, np.memmap)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.npy", f"t{suffix}"]


def test_a_model_is_tuned_on_them(table, tmp_path):
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    found = rows_on_disk(tmp_path / "t.parquet", "y", tmp_path / "rows.npy", drop=["id"])
    fitted = LSSVRCV(gammas=[0.5], approximation=Nystroem(50)).fit(found.X, found.y)
    assert fitted.score(found.X, found.y) > 0.99


def test_what_is_wrong_is_said_before_anything_is_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,3\n4,,6\n")
    with pytest.raises(TableError, match=r"missing values in 'b' \(1 of 2 rows\)"):
        rows_on_disk(path, "y", tmp_path / "rows.npy", missing="error")
    path.write_text("a,b,y\n1,2,3\n4,5,\n")
    with pytest.raises(TableError, match=r"missing values in 'y'.*target must be known"):
        rows_on_disk(path, "y", tmp_path / "rows.npy")
    with pytest.raises(TableError, match="no column 'z'"):
        rows_on_disk(path, "z", tmp_path / "rows.npy")
    path.write_text(f"a,b,y\n1,{2**53 + 1},3\n4,{2**53 + 3},6\n")
    with pytest.raises(TableError, match=r"9007199254740993 in data row 1, too large"):
        rows_on_disk(path, "y", tmp_path / "rows.npy")
    path.write_text("a,b,y\n")
    with pytest.raises(TableError, match="no rows"):
        rows_on_disk(path, "y", tmp_path / "rows.npy")
    assert not (tmp_path / "rows.npy").exists()
