"""Parquet files tuned by the workers of a cluster: as in memory, from Python and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from onefold.cli import main
from onefold.jobs import tune_table
from onefold.tables import TableError

RNG = np.random.default_rng(3)
N = 400
TABLE = pd.DataFrame(
    RNG.standard_normal((N, 3)) * [1.0, 50.0, 1e-3] + [0.0, 9.0, 1.0], columns=list("abc")
)
TABLE["flat"] = 2.0
TABLE["shop"] = RNG.choice(["north", "south", "east", "west", "here"], N)
TABLE["weight"] = RNG.integers(1, 4, N)
TABLE["y"] = np.sin(TABLE["a"]) + TABLE["b"] / 50 + 0.1 * RNG.standard_normal(N)
TABLE["kind"] = np.where(TABLE["y"] > 0, "high", "low")


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=False, **settings) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    for number, rows in enumerate([slice(0, 150), slice(150, 150), slice(150, 260), slice(260, N)]):
        TABLE[rows].to_parquet(data / f"{number}.parquet")
    return data


OPTIONS = {
    "plain": {"simple": True, "approximation": "nystroem", "drop": ["shop", "kind", "weight"]},
    "groups": {"simple": True, "approximation": "nystroem", "drop": ["kind"], "groups": "shop"},
    "metric": {
        "approximation": "nystroem",
        "drop": ["shop", "kind"],
        "weight": "weight",
        "kernel": "rbf",
    },
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_model_is_that_of_the_table_in_memory(name: str, cluster, folder: Path) -> None:
    options = OPTIONS[name] | {"gammas": [0.1, 0.5], "alphas": [0.01, 1.0]}
    with Client(cluster) as client:
        there = tune_table(folder / "*.parquet", "y", client=client, **options)
    here = tune_table(TABLE, "y", **options)
    assert there.report_["best_score"] == pytest.approx(here.report_["best_score"], rel=1e-8)
    assert there.estimator_.best_params_ == here.estimator_.best_params_
    np.testing.assert_allclose(there.predict(TABLE), here.predict(TABLE), rtol=1e-7, atol=1e-7)
    assert there.preparation_.constant == ("flat",)


def test_the_command_line(cluster, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    call = ["tune", str(folder / "*.parquet"), "--target", "kind", "--drop", "y", "shop", "--simple"]
    call += ["--gammas", "0.1,1", "--scheduler", cluster.scheduler_address]
    call += ["--approximation", "nystroem", "--resume", "--out", str(tmp_path / "out"), "--json"]
    assert main(call) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "classification"
    assert found["rows"] == N
    assert not (tmp_path / "out.journal").exists()
    assert main(["predict", str(tmp_path / "out"), str(folder), "--out", str(tmp_path / "p.csv")]) == 0
    predicted = pd.read_csv(tmp_path / "p.csv").iloc[:, -1]
    assert np.mean(predicted.to_numpy() == TABLE["kind"].to_numpy()) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--holdout", "0.2"], "--holdout 0.2 needs the table here; leave out either"),
        (["--categorical", "shop"], "--categorical shop needs the table here"),
        ([], "values of type large_string in 'shop', 'kind', and workers take numbers"),
        (["--drop", "shop", "kind", "--approximation", "exact"], "needs all rows in one place"),
    ],
)
def test_what_is_refused(options, message: str, cluster, folder: Path, tmp_path: Path, capsys) -> None:
    call = ["tune", str(folder), "--target", "y", "--scheduler", cluster.scheduler_address]
    assert main([*call, "--out", str(tmp_path / "out"), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") <= 5


def test_other_tables_and_no_scheduler(tmp_path: Path, cluster, capsys, monkeypatch) -> None:
    import onefold.rows.runner as runner

    TABLE.to_csv(tmp_path / "t.csv", index=False)
    call = ["tune", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "out")]
    assert main([*call, "--scheduler", cluster.scheduler_address]) == 2
    assert "workers of a scheduler read Parquet files by themselves" in capsys.readouterr().err
    monkeypatch.setattr(runner, "_CONNECT", 0.5)
    assert main([*call, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "there is no Dask scheduler at tcp://127.0.0.1:1" in capsys.readouterr().err


def test_gaps_are_named_by_partition_and_column(cluster, folder: Path) -> None:
    broken = TABLE[260:].copy()
    broken.loc[broken.index[5], "b"] = np.nan
    broken.to_parquet(folder / "3.parquet")
    with Client(cluster) as client, pytest.raises((TableError, ValueError), match=r"'b' of partition 3"):
        tune_table(folder, "y", client=client, drop=["shop", "kind"])


def test_files_keep_the_order_that_they_have_in_memory(cluster, tmp_path: Path) -> None:
    for number in range(12):  # "10" comes before "2"
        TABLE[number * 30 : (number + 1) * 30].to_parquet(tmp_path / f"{number}.parquet")
    options = {"simple": True, "approximation": "nystroem", "drop": ["shop", "kind", "weight"]}
    options |= {"gammas": [0.1, 0.5], "alphas": [0.01, 1.0], "ordered": True}
    with Client(cluster) as client:
        there = tune_table(tmp_path, "y", client=client, **options)
    here = tune_table(tmp_path, "y", **options)
    assert there.report_["best_score"] == pytest.approx(here.report_["best_score"], rel=1e-8)
    heldout = [model.estimator_.heldout_prediction_ for model in (here, there)]
    np.testing.assert_allclose(*heldout, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", [None, "a", "day", "y"])
def test_an_index_that_pandas_has_stored_is_a_column(name: str | None, cluster, tmp_path: Path) -> None:
    table = TABLE[["a", "b", "c", "y"]].assign(day=RNG.permutation(N) * 3 + 5)
    index = pd.Index(table["day"].to_numpy()) if name is None else name
    table = table.set_index(index) if name else table.drop(columns="day").set_index(index)
    folder = tmp_path / "odd [0] *"  # no pattern
    folder.mkdir()
    for number, rows in enumerate([slice(0, 150), slice(150, N)]):
        table[rows].to_parquet(folder / f"part [{number}].parquet")
    options = {"simple": True, "approximation": "nystroem", "gammas": [0.1], "alphas": [0.1]}
    with Client(cluster) as client:
        there = tune_table(folder, "y", client=client, **options)
    here = tune_table(folder, "y", **options)
    assert there.preparation_.columns == here.preparation_.columns
    assert there.report_["best_score"] == pytest.approx(here.report_["best_score"], rel=1e-8)


def test_row_groups_of_a_large_file_are_partitions(tmp_path: Path, monkeypatch) -> None:
    import onefold.rows.parquet as parquet

    TABLE.to_parquet(tmp_path / "t.parquet", row_group_size=30)
    monkeypatch.setattr(parquet, "_PARTITION_BYTES", 5000)
    rows = parquet.open_files([str(tmp_path / "t.parquet")], ["kind"], ["b", "a"])
    assert 1 < rows.X.npartitions < 14
    np.testing.assert_array_equal(rows.X.compute().to_numpy(), TABLE[["b", "a"]].to_numpy())
    assert rows.y.compute()["kind"].tolist() == TABLE["kind"].tolist()


@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_the_model_predicts_as_one_of_a_table_in_memory(cluster, folder: Path) -> None:
    options = {"simple": True, "approximation": "nystroem", "drop": ["shop", "kind", "weight"]}
    with Client(cluster) as client:
        there = tune_table(folder, "y", client=client, gammas=[0.1], **options)
    assert len(there.predict(TABLE)) == N


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (TABLE["a"] > 0, "values of type bool in 'more', and workers take numbers"),
        (pd.Series(pd.date_range("2020", periods=N)), "in 'more', and workers take numbers"),
        (pd.Series(np.arange(N) + 2**60 + 1), "too large for a number"),
    ],
    ids=["booleans", "dates", "identifiers"],
)
def test_columns_that_are_no_numbers_are_refused(column, message: str, cluster, tmp_path: Path) -> None:
    TABLE[["a", "b", "y"]].assign(more=column).to_parquet(tmp_path / "0.parquet")
    with Client(cluster) as client, pytest.raises(TableError, match=message):
        tune_table(tmp_path, "y", client=client)


def test_class_weights_name_the_criterion_that_they_ask_for(cluster, folder: Path) -> None:
    options = {"drop": ["shop", "y"], "class_weight": "balanced", "approximation": "nystroem"}
    options |= {"simple": True, "gammas": [0.1], "alphas": [0.1]}
    with Client(cluster) as client:
        with pytest.raises(ValueError, match="criterion='error'"):
            tune_table(folder, "kind", client=client, **options)
        there = tune_table(folder, "kind", client=client, criterion="error", **options)
    here = tune_table(folder, "kind", criterion="error", **options)
    assert there.report_["best_score"] == pytest.approx(here.report_["best_score"], rel=1e-8)
