"""benchmarks/peers: its statistics, its runner with a method of its own, environments and its page."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy.stats import studentized_range

from benchmarks.peers import environments, jobs, run
from benchmarks.peers.environments import CannotInstall
from benchmarks.peers.jobs import Job, Method, make_jobs, rows_of
from benchmarks.peers.report import write
from benchmarks.peers.run import Limits, Results
from benchmarks.peers.statistics import Ranks, compare, means, median_ratio, ranks


def record(table, split, method, **more):
    given = {"job": "tables", "table": table, "split": split, "method": method}
    return given | {"device": "cpu", "threads": 1, "machine": "one", **more}


# -- statistics ---------------------------------------------------------------------------------------


def test_means_are_over_the_splits_that_all_methods_have():
    records = [record("t", split, "a", error=float(split)) for split in range(3)]
    records += [record("t", 1, "b", error=5.0), record("t", 2, "b", failed="no")]
    assert means(records, "error") == {"t": {"a": 1.0, "b": 5.0}}


def test_wilcoxon_counts_the_signs_of_all_draws():
    logs = np.array([-0.5, -0.4, 0.3, -0.25, -0.1, -0.7])
    figures = {str(i): {"a": float(np.exp(x)), "b": 1.0} for i, x in enumerate(logs)}
    found = compare(figures, "a", "b")
    sizes = np.argsort(np.argsort(np.abs(logs))) + 1
    sums = [sizes @ np.array(signs) for signs in itertools.product([0, 1], repeat=6)]
    lower = np.mean(np.array(sums) <= sizes @ (logs > 0))
    assert (found.tables, found.wins, found.losses) == (6, 5, 1)
    assert found.ratio == pytest.approx(np.exp(logs.mean()))
    assert found.p == pytest.approx(2 * lower)


def test_an_error_of_zero_counts_as_half_a_row_in_the_ratio_alone():
    found = compare({"t": {"a": 0.0, "b": 0.02}}, "a", "b", {"t": 0.005})
    assert (found.wins, found.ratio) == (1, pytest.approx(0.25))
    assert compare({"t": {"a": 1.0}}, "a", "b") is None


def test_ranks_and_the_critical_difference():
    figures = {str(i): {"a": 1.0, "b": 2.0 + i % 2, "c": 2.5, "d": 9.0} for i in range(10)}
    found = ranks(figures | {"x": {"a": 0.0}}, ["a", "b", "c", "d"])
    assert found.means == {"a": 1.0, "b": 2.5, "c": 2.5, "d": 4.0}
    assert found.tables == 10
    # Demšar's table has q = 2.569 for four methods.
    assert found.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / 60), abs=1e-3)
    assert studentized_range.ppf(0.95, 4, np.inf) / np.sqrt(2) == pytest.approx(2.569, abs=1e-3)
    assert found.groups() == [["b", "c"]]
    wider = Ranks(found.means, 10, found.p, difference=1.5)
    assert wider.groups() == [["a", "b", "c"], ["b", "c", "d"]]
    assert found.p < 1e-4


def test_seconds_of_other_machines_are_not_compared():
    records = [record("t", 0, "a", seconds=3.0), record("t", 0, "b", seconds=2.0)]
    assert median_ratio(records, "seconds", "a", "b") == 1.5
    assert median_ratio([records[0], records[1] | {"machine": "two"}], "seconds", "a", "b") is None


# -- the runner ---------------------------------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch):
    """Two methods, one of which has an environment that cannot be made."""
    monkeypatch.setitem(jobs.METHODS, "fake", Method(None, "onefold", ("tables",)))
    monkeypatch.setitem(jobs.METHODS, "gone", Method(None, "gone", ("tables",)))
    monkeypatch.setitem(environments.ENVIRONMENTS, "gone", (("there-is-no-such-package",),))

    def refuse(*command):
        raise CannotInstall("No matching distribution found")

    monkeypatch.setattr(environments, "_call", refuse)
    monkeypatch.setattr(environments.interpreter, "__defaults__", (environments.FOLDER / "none",))


def test_records_are_resumed_and_a_peer_that_does_not_install_has_a_reason(fake, tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    done = []

    def perform(job, python, cores, limits, seconds):
        done.append(job.key)
        name = {"job": job.job, "table": job.table, "split": job.split, "method": job.method}
        if job.split == 1:
            return name | {"failed": "exit -11: "}
        return name | {"seconds": 1.0, "error": 0.5, "memory": 0}

    work = [Job("tables", "t", split, method) for split in range(3) for method in ("fake", "gone")]
    run.run(work, Results(path), Limits(threads=1), here=False, perform=perform)
    assert [key[2:] for key in done] == [(split, "fake") for split in range(3)]
    assert "skipped gone: No matching distribution found" in capsys.readouterr().out
    with path.open("a", encoding="utf-8") as file:
        file.write('{"job": "tables", "tab')  # the process was killed here
    found = Results(path)
    assert found.records["environment", "gone"]["failed"] == "No matching distribution found"
    done.clear()
    run.run(work, found, Limits(threads=1), here=False, perform=perform)
    assert [key[2] for key in done] == [1]
    done.clear()
    run.run(work, Results(path), Limits(threads=1, until=0.0), here=False, perform=perform)
    assert done == []


def test_the_worker_measures_and_a_late_job_is_ended(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    np.savez(tmp_path / "boston.npz", X=X, y=X[:, 0] + 0.1 * generator.normal(size=200))
    monkeypatch.setattr(run, "DATA", tmp_path)
    (job, *_) = make_jobs("tables", ["boston"], ["histgb"], tmp_path)
    limits = Limits(threads=1)
    cores = run.core_groups(1, 1)[0]
    found = run.in_a_process(job, run.sys.executable, cores, limits, 120.0)
    assert (found["n"], found["n_test"], found["task"]) == (150, 50, "regression")
    assert found["error"] < 0.6
    assert found["memory"] >= 0
    late = run.in_a_process(job, run.sys.executable, cores, limits, 0.01)
    assert late["failed"] == "longer than 0 s"


def test_jobs_have_the_splits_and_the_methods_that_fit(tmp_path):
    generator = np.random.default_rng(0)
    for name, n in (("boston", 100), ("uci_pol", 6000)):
        np.savez(tmp_path / f"{name}.npz", X=generator.normal(size=(n, 2)), y=generator.normal(size=n))
    found = make_jobs("tables", ["boston", "uci_pol"], ["onefold", "grid", "KernelRidge"], tmp_path)
    assert sorted((job.table, job.split, job.method) for job in found) == [
        *[("boston", split, method) for split in range(3) for method in ("grid", "onefold")],
        ("uci_pol", 0, "onefold"),
    ]
    assert found[0].table == "uci_pol"
    few = make_jobs("medium", ["medium", "medium_20000"], ["SVR", "KernelRidge"], tmp_path)
    assert [(job.table, job.method) for job in few] == [
        ("medium", "SVR"),
        ("medium", "KernelRidge"),
        ("medium_20000", "KernelRidge"),
    ]
    table = rows_of("medium", "medium", 0, tmp_path)
    assert (len(table.y), len(table.y_test), table.X.shape[1]) == (10_000, 5000, 20)


# -- the page -----------------------------------------------------------------------------------------


def test_the_page_says_who_wins_and_keeps_its_records(tmp_path):
    path = tmp_path / "records.jsonl"
    generator = np.random.default_rng(0)
    facts = {"n": 100, "n_test": 50, "d": 3, "seconds": 1.0, "memory": 2**30, "versions": {"numpy": "2"}}
    records = [{"environment": "rlscore", "failed": "No module named 'numpy'"}]
    for table, kind in (("boston", 0), ("abalone", 0), ("ida_german", 2)):
        for place, method in enumerate(("onefold", "lightgbm", "histgb")):
            error = 0.1 * (1 + place) + 0.01 * generator.random()
            one = record(table, 0, method, error=error, classes=kind, **facts)
            records.append(one | ({"log loss": error} if kind else {"coverage": 0.9, "width": 1.0}))
    records.append(record("letter", 0, "neo-ls-svm", failed="exit 1: two classes"))
    for table in ("uci_wine", "uci_pol"):
        records.append(record(table, 0, "onefold", error=0.2, classes=0, **facts))
        records.append(record(table, 0, "lightgbm", error=0.195 if table == "uci_pol" else 0.1, **facts))
        records.append(record(table, 0, "histgb", error=0.3, classes=0, **facts))
    small = {"job": "small", "n": 1300}
    records.append(record("small", 0, "onefold grid", error=0.1, **facts) | small | {"seconds": 0.5})
    records.append(record("small", 0, "SVC grid", error=0.09, **facts) | small)
    other = {"machine": "two", "load": 6.0}  # it was busy
    records.append(record("small", 0, "SVC grid", error=0.09, **facts) | small | other)
    crash = record("medium_20000", 0, "KernelRidge", failed="exit -11: ")
    records.append(crash | {"job": "medium"})
    big = {"promised": 0.21, "gpu memory": 3 * 2**30}
    records.append(record("bike", 0, "onefold", error=0.2, facts=big, **facts) | {"job": "big"} | big)
    second = tmp_path / "second.jsonl"  # a file is of one machine
    for place, some in ((path, "one"), (second, "two")):
        own = [one for one in records if one.get("machine", "one") == some]
        place.write_text("\n".join(map(json.dumps, own)), "utf-8")
    page = write([path, second], tmp_path / "page")
    assert "| LightGBM, 25 settings | 5 | 3 | 0 | 2 |" in page
    assert "On 1 of 5 tables" in page
    assert "| uci_wine | 0.2000 | LightGBM, 25 settings | 0.1000 | 2 |" in page
    assert "rlscore: No module named 'numpy'" in page
    assert "neo-ls-svm on letter: exit 1: two classes" in page
    assert "| onefold grid | 1,300 | 0.5 | 1 | 0.1000 | 1.00 |" in page
    assert "| SVC grid | 1,300 | 1.0 | 2 | 0.0900 | 1.00 |" in page
    assert "| SVC grid | 1,300 |  |  | 0.0900 | 1.00 |" in page
    assert "| KernelRidge | 20,000 | crashed (SIGSEGV) |" in page
    assert "KernelRidge does not survive 20,000 rows: the process crashed (SIGSEGV)." in page
    assert "- LightGBM, 25 settings: lower on 3 of 5 tables, higher on 2;" in page
    assert "| bike | 100 | 0.2000, 1.0\N{NO-BREAK SPACE}s |  |  | 0.2100 | 3 |" in page
    assert (tmp_path / "page" / "images" / "ranks.png").exists()
    assert write([], tmp_path / "page") == page
