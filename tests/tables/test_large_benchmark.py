"""benchmarks/large.py on a small table: what it records, skips, takes up again and says of floors."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks import large
from benchmarks.large_report import report, verdict


@pytest.fixture
def folder(tmp_path):
    """Where the table of 200 rows lies under a name that the benchmark knows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = 5 + X[:, 0] + X[:, 1] ** 2 + 0.1 * generator.normal(size=200)
    np.savez(tmp_path / "bike_hourly.npz", X=X, y=y)
    return tmp_path


def command(monkeypatch, folder, *more):
    place = ["run", str(folder / "out"), "--data", str(folder), "--device", "none", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["large", *place, *more])
    large.main()


def test_a_run_and_its_report(folder, monkeypatch, capsys):
    single = folder / "single.json"
    options = ("--tables", "bike,letter", "--methods", "default", "--out-single", str(single))
    command(monkeypatch, folder, *options)
    assert (
        f"skipped none-letter-default: {folder / 'letter.npz'} is not there" in capsys.readouterr().out
    )
    (one,) = json.loads(single.read_text("utf-8"))
    assert one == json.loads((folder / "out" / "none-bike-default.json").read_text("utf-8"))
    assert (one["rows"], one["tested"], one["held-out rows"]) == (160, 40, 160)
    assert one["error"] < 0.3
    assert one["promised"] < 0.3
    assert sum(one["parts"].values()) == pytest.approx(one["seconds"])
    assert {"kernel", "metric", "round", "gamma", "alpha", "weight"} <= one["members"][0].keys()
    command(monkeypatch, folder, *options)
    assert "none-bike-default: is done" in capsys.readouterr().out
    found = report(folder / "out")
    assert found["tables, device none"][0]["default"] == one["error"]
    assert {row[""] for row in found["floors of the host"]} == {"not measured"}
    assert (folder / "out" / "report.md").exists()


def test_a_failed_job_leaves_its_trace_and_is_tried_again(folder, monkeypatch, capsys):
    def fails(job, table):
        raise MemoryError("too little of it")

    options = ("--methods", "default", "--tables", "bike_hourly")
    with monkeypatch.context() as patched:
        patched.setitem(large.METHODS, "default", fails)
        command(patched, folder, *options)
        record = json.loads((folder / "out" / "none-bike-default.json").read_text("utf-8"))
        assert "too little of it" in record["failed"]
        command(patched, folder, *options, "--time-limit", "0")
        assert "the time limit of 0 s is over" in capsys.readouterr().out
    assert report(folder / "out")["tables, device none"][0]["default"] == "failed"
    assert verdict(record, 1.0, 1.0) == "missed: the fit failed"


def test_floors_of_a_gpu(tmp_path):
    shared = {"device": "cuda", "method": "default", "d": 8, "tested": 9, "ended": 0.0, "threads": 16}
    records = [
        {"table": "bike", "rows": 13_903, "error": 0.19, "seconds": 9.0, "gpu": "NVIDIA H200"},
        {"table": "mnist", "rows": 56_000, "error": 0.02, "seconds": 30.0, "gpu": "NVIDIA H200"},
        {"table": "letter", "rows": 16_000, "error": 0.01, "seconds": 30.0, "gpu": "NVIDIA L4"},
    ]
    records = [one | shared | {"job": f"cuda-{one['table']}-default"} for one in records]
    (tmp_path / "all.json").write_text(json.dumps(records), "utf-8")
    said = {row["floor"]: row[""] for row in report(tmp_path)["floors of an H200"]}
    assert said["bike: error 0.192 in 10 s"] == "met"
    assert said["mnist: error 0.017 in 25 s"] == "missed: error and time"
    assert said["letter: error 0.018"] == "not measured: 16000 rows on NVIDIA L4"
    assert said["protein: error 0.478 in 30 s"] == "not measured"
