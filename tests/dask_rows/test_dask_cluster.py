"""A cluster of processes: the same numbers, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import dask.array as da
import distributed
import numpy as np
import pytest
from dask_tables import assert_same_search, model

import onefold.criteria.heldout as sums
import onefold.rows.dask as runner
from onefold import LSSVCCV

CHUNKS = (175, 3)


@contextmanager
def cluster(workers, **settings):
    settings = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"} | settings
    with (
        distributed.LocalCluster(workers, **settings) as it,
        distributed.Client(it, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster(2, processes=True) as client:
        yield client


def lazy_rows(table):
    return da.from_array(table.X, chunks=CHUNKS)


def test_given_current_and_no_client(table, client, summed, monkeypatch):
    here = model().fit(table.X, table.y, table.weight)
    assert runner.runner_of(None).client is None
    with client.as_current():
        assert runner.runner_of(None).client is not None
        there = model().fit(lazy_rows(table).persist(), table.y, table.weight)
        assert_same_search(here, there, table.X)
        score = there.score(lazy_rows(table), table.y)
        assert score == pytest.approx(there.score(table.X, table.y), abs=1e-12)
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", 0)  # sums are made by the workers
    here = model(LSSVCCV).fit(table.X, table.labels)
    assert_same_search(here, model(LSSVCCV, client=client).fit(lazy_rows(table), table.labels), table.X)


def test_a_worker_that_dies_inside_a_task_changes_nothing(table, client, summed, tmp_path):
    def dies_once(block, folder):
        """Kill the process at the tenth partition that is read; the first pass reads four."""
        import os
        import signal
        import uuid

        with open(os.path.join(folder, uuid.uuid4().hex), "w"):
            pass
        if len(os.listdir(folder)) == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    lazy = lazy_rows(table).map_blocks(dies_once, str(tmp_path), dtype=float, meta=np.empty((0, 3)))
    here = model().fit(table.X, table.y)
    there = model(client=client).fit(lazy, table.y)
    assert len(list(tmp_path.iterdir())) > 10
    assert_same_search(here, there, table.X)
    calm = model(n_jobs=1).fit(lazy_rows(table), table.y)  # threads, nobody dies
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(calm.cv_results_[key], there.cv_results_[key])
    np.testing.assert_array_equal(calm.expansion_.coef, there.expansion_.coef)


def test_rows_that_cannot_be_made_again(table, client, summed):
    future = client.scatter(table.X)
    lazy = da.from_delayed(future, table.X.shape, dtype=float)
    holder = next(iter(client.who_has(future).values()))[0]
    pid = client.run(os.getpid)[holder]

    def kill(event):
        if event["done"] == 1:
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="cannot recompute"):
        model(client=client, callback=kill).fit(lazy, table.y)


@pytest.mark.parametrize("given", [False, True], ids=["current client", "given client"])
def test_a_fit_inside_a_task_leaves_room_for_its_own(table, given):
    def fit(X, y):
        found = distributed.get_client() if given else None
        return model(client=found).fit(da.from_array(X, chunks=CHUNKS), y)

    with cluster(1) as client:
        there = client.submit(fit, table.X, table.y).result(timeout=60)
    assert_same_search(model().fit(table.X, table.y), there, table.X)


def test_nothing_is_left_on_the_cluster_by_an_error_that_is_kept(table):
    def slow(block):
        time.sleep(0.2)
        return block

    with cluster(1) as client:
        lazy = lazy_rows(table).map_blocks(slow, dtype=float)
        wrong = lazy[:175].map_blocks(lambda block: block / None, dtype=float)
        with pytest.raises(TypeError) as kept:
            model(client=client).fit(da.concatenate([wrong, lazy[175:]]), table.y)
        _until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)
        assert kept.value.__traceback__ is not None


def test_a_cluster_without_workers_is_warned_of(table, monkeypatch):
    with cluster(0) as client:
        monkeypatch.setattr(runner, "warn_user", lambda *_: client.cluster.scale(1))
        there = model(client=client).fit(lazy_rows(table), table.y)
    assert_same_search(model().fit(table.X, table.y), there, table.X)


@pytest.mark.filterwarnings("ignore:the Dask cluster has no workers")  # yet: it is being started
def test_a_lost_scheduler_is_one_sentence(table, tmp_path):
    address = tmp_path / "scheduler.json"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    scheduler += ["--port", "0", "--no-dashboard", "--scheduler-file", str(address)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"]
    worker += ["--no-dashboard", "--scheduler-file", str(address), "--death-timeout", "20"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen(command, **quiet, cwd=tmp_path) for command in (scheduler, worker)]

    def kill(event):
        running[0].kill()

    try:
        _until(address.exists)
        client = distributed.Client(scheduler_file=str(address), timeout=30, set_as_default=False)
        with pytest.raises(ConnectionError, match=r"scheduler, .* are lost.*checkpoint="):
            model(client=client, callback=kill).fit(lazy_rows(table), table.y)
        client.close(timeout=1)
    finally:
        for process in running:
            process.kill()
            process.wait()


def _until(true, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)
