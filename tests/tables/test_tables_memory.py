"""Memory: encoded rows that are too large for it are kept in a file, and rows are read by blocks."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections import namedtuple
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import onefold
from onefold import TableClassifier, TableRegressor, tuning
from onefold.approximations import Nystroem
from onefold.facts import scores
from onefold.machine import memory
from onefold.tables import Learner, TableError, kinds, store, training
from onefold.tables.training import training_of
from onefold.tuning import tune_table

SMALL = {"simple": True, "gammas": [0.1, 1.0], "alphas": [0.01, 0.1], "approximation": Nystroem(50)}


def categories(rows: int, count: int) -> pd.DataFrame:
    """Two columns with `count` categories each, and a target."""
    rng = np.random.default_rng(0)
    texts = np.array([f"c{i:04d}" for i in range(count)])
    frame = pd.DataFrame(
        {"a": texts[rng.permutation(rows) % count], "b": texts[np.arange(rows) % count]}
    )
    frame["y"] = rng.normal(size=rows)
    return frame


def peak_of(call) -> int:
    """The most bytes that Python and NumPy held at a time while `call` ran."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_encoding_takes_little_more_memory_than_the_matrix(tmp_path):
    """Three copies of the matrix were made on the way: 0.3 MB of CSV took 756 MB."""
    categories(10_000, 1_900).to_csv(tmp_path / "t.csv", index=False)
    matrix = 8 * 10_000 * 3_800

    def encode() -> None:
        with training_of(TableRegressor(), tmp_path / "t.csv", "y") as found:
            assert found.X.nbytes == matrix

    assert peak_of(encode) < 1.6 * matrix


def test_blocks_are_encoded_as_the_whole_table(monkeypatch):
    """Matrix, warnings and errors do not depend on how many rows are encoded at a time."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=90), "c": np.tile(["x", "y", "z"], 30)})
    frame["when"] = pd.date_range("2020-01-01", periods=90, freq="29h")
    frame["y"] = np.arange(90.0)
    model = TableRegressor(**SMALL).fit(frame, "y")
    strict = TableRegressor(**SMALL, missing="error").fit(frame, "y")
    frame.loc[[3, 77], "n"] = np.nan
    frame.loc[[5, 80], "c"] = "never seen"
    found = []
    for rows in (1 << 16, 7):
        monkeypatch.setattr(kinds, "_FEWEST_ROWS", rows)
        monkeypatch.setattr(kinds, "_BLOCK_NUMBERS", 0)
        with pytest.warns(UserWarning, match="unknown categories|missing values") as told:
            matrix = model.matrix(frame)
        with pytest.raises(TableError) as refused:
            strict.matrix(frame)
        found.append((matrix.tobytes(), [str(one.message) for one in told], str(refused.value)))
    assert found[0] == found[1]
    assert "'n' (2 of 90 rows" in found[0][1][1]


@pytest.mark.parametrize("as_frame", [False, True])
def test_the_width_of_the_encoded_rows_decides_whether_they_stay_on_disk(
    tmp_path, monkeypatch, as_frame
):
    """The size of the file decided, which says nothing about the indicators of its categories."""
    frame = categories(400, 150)
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = frame if as_frame else tmp_path / "t.csv"
    with training_of(TableRegressor(), table, "y") as found:
        expected = found.X
        assert not found.on_disk
    monkeypatch.setattr(store, "available_memory", lambda: 2 * expected.nbytes - 1)
    with training_of(TableRegressor(), table, "y") as found:
        assert found.on_disk
        assert "are kept on disk" in str(found.search.note)
        np.testing.assert_array_equal(found.X, expected.astype(np.float32))
    with tuning.tuning(table, "y") as job:
        assert job.rows is None  # no report encodes them again in memory
    with pytest.raises(
        ValueError, match="a blend is not available: the rows of this table are kept on disk"
    ):
        TableRegressor(blend=True).fit(table, "y")
    monkeypatch.setattr(store, "available_memory", lambda: 2 * expected.nbytes)
    with training_of(TableRegressor(), table, "y") as found:
        assert not found.on_disk


def test_simple_models_leave_mapped_rows_in_their_file(tmp_path, monkeypatch):
    """The whole matrix and whole test folds were copied into memory, at the end of a long search."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 40)).astype(np.float32)
    y = X[:, 0] + 0.1 * rng.normal(size=20_000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = np.arange(len(y))
    splits = [(rows[rows % 2 != fold], rows[rows % 2 == fold]) for fold in (0, 1)]
    monkeypatch.setattr(scores, "_MOST_NUMBERS", 40_000)
    found = []
    peak = peak_of(lambda: found.extend(scores.simple_models(mapped, y, splits, classes=None)))
    assert peak < X.nbytes / 2
    expected = scores.simple_models(X, y, splits, classes=None)
    for one, other in zip(found, expected, strict=True):
        assert (one.name, one.train_rows) == (other.name, other.train_rows)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-6)
    labels = np.where(y > 0, "b", "a")
    named = {"classes": np.array(["a", "b"])}
    both = [scores.simple_models(one, labels, splits, **named) for one in (mapped, X)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-6)


@pytest.fixture
def wide(tmp_path, monkeypatch) -> pd.DataFrame:
    """A table that stays on disk, read and predicted in small blocks."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(8_000, 40))).add_prefix("x")
    frame["y"] = frame.x0 + 0.1 * rng.normal(size=8_000)
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    monkeypatch.setattr(training, "BLOCK", 500)
    monkeypatch.setattr(kinds, "_MOST_ROWS", 500)
    monkeypatch.setattr(scores, "_MOST_NUMBERS", 40_000)
    monkeypatch.setattr(tuning, "_MOST_NUMBERS", 20_000)
    return frame


def test_held_out_rows_of_a_table_on_disk_are_scored_block_by_block(wide):
    """All held-out rows were in memory at once, four times over."""
    pd.concat([wide] * 4).to_parquet("t.parquet", index=False)
    held_out = 28_800
    with tuning.tuning("t.parquet", "y", holdout=0.9, **SMALL) as job:
        model = job.model._fit_prepared(job.training)
        found = []
        measure = tuning._scores_on
        peak = peak_of(lambda: found.append(measure(model, job.training, job.training.test)))
    assert found[0]["rows"] == held_out
    assert peak < 8 * held_out * 40


def test_the_same_scores_of_rows_in_memory_and_on_disk(wide, monkeypatch):
    last = wide.tail(1_000)
    options = SMALL | {"holdout": 0.125, "ordered": True}
    disk = tune_table("t.parquet", "y", **options)
    monkeypatch.setattr(store, "available_memory", lambda: 2**60)
    with tuning.tuning("t.parquet", "y", **options) as job:
        memory = tuning._scores_on(disk, job.training, job.training.test)
    for name in ("rows", "rmse", "r2", "baseline_rmse", "baseline_r2"):
        assert disk.report_["test"][name] == pytest.approx(memory[name], rel=1e-5, abs=1e-6)
    rmse = np.sqrt(np.mean((disk.predict(last) - last.y) ** 2))
    assert disk.report_["test"]["rmse"] == pytest.approx(rmse, rel=1e-6)


@pytest.mark.parametrize("fitted", [False, True])
def test_plan_and_trust_of_a_path_leave_its_rows_on_disk(wide, monkeypatch, tmp_path, fitted):
    """They copied the mapped rows, or read the whole table again."""
    model = TableRegressor(**SMALL, scratch=tmp_path)
    if fitted:
        model.fit("t.parquet", "y")
    before = sorted(tmp_path.iterdir())
    _, matrix, y, _ = model._as_step("t.parquet", "y")
    assert isinstance(matrix, np.memmap)
    expected = (wide.x0 - wide.x0.mean()) / wide.x0.std(ddof=0)
    np.testing.assert_allclose(matrix[:, 0], expected, atol=1e-6)
    np.testing.assert_array_equal(y, wide.y)
    assert len(list(tmp_path.iterdir())) == len(before) + 1
    del matrix
    assert sorted(tmp_path.iterdir()) == before
    assert onefold.plan(model, "t.parquet", "y").rows == 8_000
    assert onefold.trust(model, "t.parquet", "y", size=100, random_state=0).rows == 100
    assert sorted(tmp_path.iterdir()) == before
    if fitted:
        assert model.score("t.parquet", "y") == pytest.approx(model.score(wide, "y"), rel=1e-9)
        with pytest.raises(TableError, match=r"t\.parquet has no column 'z'"):
            model.score("t.parquet", "z")


def test_what_learned_the_columns_is_gone_before_the_search(wide):
    """A learner holds up to 65,536 values of every column."""

    def learners() -> int:
        gc.collect()
        return sum(type(value) is Learner for value in gc.get_objects())

    counts = []
    TableRegressor(**SMALL, callback=lambda *_: counts.append(learners())).fit("t.parquet", "y")
    tune_table("t.parquet", "y", **SMALL, holdout=0.5, callback=lambda *_: counts.append(learners()))
    assert set(counts) == {0}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs limits and /proc of Linux")
def test_a_table_ten_times_larger_than_its_memory(tmp_path):
    """The reader of Parquet files kept all that it had read, and went ahead by the whole file."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 100)).astype(np.float32)
    columns = {f"x{j}": X[:, j] for j in range(100)}
    table = pa.table(columns | {"y": X[:, 0] + 0.1 * rng.normal(size=len(X))})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=5_000, use_dictionary=False)
    parquet.write_table(table.slice(0, 6_000), tmp_path / "small.parquet")
    command = [sys.executable, "-m", "tests.tables.limited_memory", "t.parquet", "small.parquet"]
    command[3:] = [str(tmp_path / name) for name in command[3:]]
    # Pools of address space that is not used do not count as memory.
    one_pool = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | one_pool | one_thread
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert ended.stdout.split() == ["160000", "40000"], ended.stderr


# Where the file lies


def test_the_folder_for_encoded_rows_can_be_named(wide, tmp_path, monkeypatch):
    """It was the system's folder for temporary files, whatever that is."""
    scratch = tmp_path / "scratch"
    used = []
    scratch.mkdir()
    written = store.write_matrix

    def recorded(preparation, blocks, n, path):
        used.append(path.parent.parent)
        return written(preparation, blocks, n, path)

    monkeypatch.setattr(training, "write_matrix", recorded)
    model = TableRegressor(**SMALL, scratch=str(scratch)).fit("t.parquet", "y")
    assert tune_table("t.parquet", "y", **SMALL, scratch=scratch).scratch is None
    assert used == [scratch, scratch]
    assert list(scratch.iterdir()) == []
    model.save("m.onefold")
    scratch.rmdir()
    again = onefold.load("m.onefold")
    assert (again.scratch, again.dropped_params_) == (None, {"scratch": "str"})
    with pytest.raises(ValueError, match=r"scratch must be an existing folder; got '.*scratch'"):
        TableClassifier(scratch=str(scratch)).fit("not looked for.csv", "y")


def test_a_folder_without_room_is_refused_before_the_rows_are_written(wide, tmp_path, monkeypatch):
    """A full disk ended the process: a mapped file can't say that it is full."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(training, "write_matrix", None)
    room = {"room": 1 << 20}
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(0, 0, room["room"]))
    words = r"the 1\.2 MB of encoded rows do not fit in memory, and .* has only 1\.0 MB of free space; "
    with pytest.raises(
        TableError,
        match=words + "free some space there, use scratch='FOLDER' to choose a folder on a disk",
    ):
        TableRegressor(**SMALL, scratch=tmp_path).fit("t.parquet", "y")
    room["room"] = 1 << 40
    monkeypatch.setattr(memory, "lies_in_memory", lambda place: True)
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 21)
    words = (
        r", which is kept in memory \(tmpfs\), has only 1\.0 MB of free space; free some space there, "
    )
    with pytest.raises(TableError, match=words):
        TableRegressor(**SMALL).fit("t.parquet", "y")


def test_encoded_rows_are_written_as_they_come(wide, tmp_path, monkeypatch):
    """A mapped file of the whole size was filled: where room ran out the process ended by a signal.

    Rows that are written as they come get the error of the disk instead.
    """
    sizes = []
    transform = kinds.Preparation.transform

    def recorded(preparation, rows, unseen=None):
        sizes.extend(path.stat().st_size for path in tmp_path.glob("onefold-*/*"))
        return transform(preparation, rows, unseen)

    monkeypatch.setattr(kinds.Preparation, "transform", recorded)
    model = TableRegressor(**SMALL, scratch=tmp_path)
    with training_of(model, "t.parquet", "y") as found:
        assert max(sizes) < found.X.nbytes


@pytest.mark.parametrize("rows", [7_500, 8_500])
def test_a_table_that_changes_while_it_is_read_is_an_error(wide, monkeypatch, rows):
    """Rows that were gone in the second pass were rows of zeros."""
    written = store.write_matrix

    def changed(preparation, blocks, n, path):
        every = list(blocks)
        return written(preparation, [*every, every[0]][: rows // 500], n, path)

    monkeypatch.setattr(training, "write_matrix", changed)
    with pytest.raises(TableError, match=f"the table had 8000 rows and has {rows} now; leave it as it"):
        TableRegressor(**SMALL).fit("t.parquet", "y")


def test_a_relative_folder_is_that_of_the_beginning(wide, tmp_path, monkeypatch):
    """The file was left behind where the working directory changed during the fit."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "elsewhere").mkdir()

    def moved(*_):
        monkeypatch.chdir(tmp_path / "elsewhere")

    TableRegressor(**SMALL, scratch="scratch", callback=moved).fit("t.parquet", "y")
    assert Path.cwd() == tmp_path / "elsewhere"
    assert list((tmp_path / "scratch").iterdir()) == []


# Blocks without any target


@pytest.mark.parametrize("as_path", [False, True])
def test_blocks_of_a_test_table_without_targets(tmp_path, as_path):
    """A block without any target made text of whole-number labels: accuracy 0 for a good model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=70_000)
    table = pd.DataFrame({"x": x, "y": pd.array((x > 0).astype(int), dtype="Int64")})
    train = table.head(100)
    new = table.copy()
    new.loc[500:, "y"] = pd.NA
    table_to_test = new
    if as_path:
        table_to_test = tmp_path / "new.parquet"
        new.to_parquet(table_to_test)
    with pytest.warns(UserWarning, match="test table: dropped") as told:
        model = tune_table(train, "y", test=table_to_test, drop_missing_target=True, **SMALL)
    right = model.predict(new.head(500)) == new.y.head(500).astype(int)
    assert model.report_["test"]["accuracy"] == pytest.approx(right.mean())
    assert right.mean() > 0.9
    left_out = [str(one.message) for one in told if "dropped" in str(one.message)]
    assert left_out == ["test table: dropped 69500 of 70000 rows, in which 'y' is missing"]
    new["y"] = pd.NA
    with pytest.raises(TableError, match="there are no test rows"):
        tune_table(train, "y", test=new.astype({"y": "Int64"}), drop_missing_target=True, **SMALL)


def test_targets_missing_from_a_test_table_are_counted_over_all_blocks(tmp_path, monkeypatch):
    """Only those of the first block that lacked one were counted."""
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) + 0.5})
    new = frame.copy()
    new.loc[[3, 50], "y"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.setattr(kinds, "_MOST_ROWS", 20)
    monkeypatch.setattr(training, "BLOCK", 20)
    with pytest.raises(TableError, match=r"missing values in 'y' \(2 of 60 rows\)"):
        tune_table(frame, "y", test=Path(tmp_path / "new.csv"), **SMALL)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_arrays_of_targets_and_weights_for_a_table_on_disk(tmp_path, monkeypatch, suffix):
    """A table on disk had 0 rows without a column of targets, and arrays kept rows without one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=120), "c": np.tile(["a", "b", "c"], 40)})
    y = frame.x.to_numpy() + 0.1 * rng.normal(size=120)
    weight = rng.random(120) + 0.5
    groups = np.arange(120) % 15
    y[[0, 119, *range(40, 80)]] = np.nan
    known = ~np.isnan(y)
    path = tmp_path / f"t.{suffix}"
    getattr(frame.assign(y=y), f"to_{suffix}")(path, index=False)
    model = TableRegressor(**SMALL, drop=["y"], drop_missing_target=True)
    monkeypatch.setattr(training, "BLOCK", 20)
    for free in (2**60, 1000):
        monkeypatch.setattr(store, "available_memory", lambda free=free: free)
        with training_of(model, path, y, weight, groups) as found:
            assert found.on_disk == (free == 1000)
            assert found.X.shape == (78, 4)
            np.testing.assert_array_equal(found.y, y[known])
            np.testing.assert_array_equal(found.sample_weight, weight[known])
            np.testing.assert_array_equal(found.groups, groups[known])
            assert "dropped 42 of 120 rows, in which y is missing" in found.notes
        with training_of(TableRegressor(**SMALL, drop_missing_target=True), path, "y", weight) as found:
            np.testing.assert_array_equal(found.sample_weight, weight[known])
        with pytest.raises(TableError, match=r"missing values in y \(42 of 121 rows\)"):
            model.fit(path, np.append(y, 1.0))
        with pytest.raises(TableError, match="groups has 119 values, and the table has 120 rows; give"):
            model.fit(path, y, groups=groups[:-1])
    fitted = TableRegressor(**SMALL, drop_missing_target=True).fit(frame, y)
    _, matrix, targets, options = fitted._as_step(path, y, weight)
    assert matrix.shape == (78, 4)
    np.testing.assert_array_equal(targets, y[known])
    np.testing.assert_array_equal(options["sample_weight"], weight[known])
    assert TableRegressor(**SMALL, drop=["y"])._as_step(path)[1].shape == (120, 4)


@pytest.mark.parametrize("length", [59, 61])
def test_weights_of_another_length_are_refused_next_to_missing_targets(length):
    """Longer arrays were cut to the rows of the table, in silence; shorter ones were an IndexError."""
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.sin(np.arange(60.0))})
    frame.loc[3, "y"] = np.nan
    model = TableRegressor(**SMALL, drop_missing_target=True)
    with pytest.raises(TableError, match=f"sample_weight or groups has {length} values, and the table"):
        model.fit(frame, "y", sample_weight=np.ones(length))


def test_whole_numbers_that_begin_after_the_first_block(tmp_path, monkeypatch):
    """The least value of a block without any was compared with 0: a TypeError."""
    rng = np.random.default_rng(0)
    late = pd.array([pd.NA] * 40 + rng.integers(0, 9, 40).tolist(), dtype="Int64")
    frame = pd.DataFrame({"x": rng.normal(size=80), "late": late, "y": rng.normal(size=80)})
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(training, "BLOCK", 20)
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    with training_of(TableRegressor(**SMALL), tmp_path / "t.parquet", "y") as found:
        assert found.preparation.feature_names == ("x", "late", "late is missing")
