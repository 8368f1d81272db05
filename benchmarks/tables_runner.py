"""Jobs of benchmarks.tables in processes on their own cores; the file of results grows job by job."""

from __future__ import annotations

import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables_data import MOST_ROWS, TASKS
from benchmarks.tables_methods import METHODS

Record = dict[str, Any]

_THREAD_COUNTS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")


@dataclass(frozen=True)
class Job:
    """One table, split and method."""

    table: str
    split: int
    method: str
    device: str
    threads: int
    lightgbm_settings: int
    xrfm_settings: int
    data: str
    cost: float = 0.0  # roughly how long it takes: the longest go first

    @property
    def label(self) -> str:
        """The method as the report names it: with the device where it is not the host."""
        there = METHODS[self.method].on_device and self.device != "cpu"
        return f"{self.method}@{self.device}" if there else self.method

    @property
    def key(self) -> tuple[str, int, str]:
        return self.table, self.split, self.label


class Results:
    """The records of a JSON file, one per table, split and method; a newer one replaces the older."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        stored = json.loads(path.read_text("utf-8"))["records"] if path.exists() else []
        self.records: dict[tuple[str, int, str], Record] = {}
        for found in stored:
            self.records[found["table"], found["split"], found["method"]] = found

    def add(self, record: Record) -> None:
        """Keep a record and write the file, whole or not at all."""
        with self._lock:
            self.records[record["table"], record["split"], record["method"]] = record
            payload = {"records": [self.records[key] for key in sorted(self.records)]}
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(payload, indent=1), "utf-8")
            new.replace(self.path)

    def has(self, job: Job) -> bool:
        """Whether the job has a score."""
        return "score" in self.records.get(job.key, {})


def core_groups(workers: int, threads: int) -> list[list[int]]:
    """Cores of each worker, none shared."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    if workers * threads > len(cores):
        raise SystemExit(f"{workers} workers of {threads} threads need more than {len(cores)} cores")
    return [cores[i * threads : (i + 1) * threads] for i in range(workers)]


def in_a_process(job: Job, cores: list[int], limit: float) -> Record:
    """Run one job with as many threads as it has cores; a crash or a late end becomes its error."""
    counts = {f"{name}_NUM_THREADS": str(job.threads) for name in _THREAD_COUNTS}
    counts["LOKY_MAX_CPU_COUNT"] = str(job.threads)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.json"
        text = json.dumps(asdict(job) | {"cores": cores, "out": str(out)})
        command = [sys.executable, "-m", "benchmarks.tables_worker", text]
        try:
            done = subprocess.run(
                command, env=os.environ | counts, capture_output=True, text=True, timeout=limit
            )
            last = (done.stderr.strip().splitlines() or [""])[-1]
            found = {"error": f"exit {done.returncode}: {last}"}
        except subprocess.TimeoutExpired:
            found = {"error": f"longer than {limit:.0f} s"}
        if out.exists():
            found = json.loads(out.read_text("utf-8"))
    where = {"device": job.device if "@" in job.label else "cpu", "threads": job.threads}
    host = {"machine": platform.machine(), "cores": os.cpu_count()}
    return {"table": job.table, "split": job.split, "method": job.label} | found | where | host


def run_jobs(jobs: list[Job], results: Results, workers: int, threads: int, limit: float) -> None:
    """All jobs, the longest first, each on the cores of a free worker."""
    free: queue.Queue[list[int]] = queue.Queue()
    for cores in core_groups(workers, threads):
        free.put(cores)

    def work(job: Job) -> None:
        cores = free.get()
        try:
            record = in_a_process(job, cores, limit)
        finally:
            free.put(cores)
        results.add(record)
        print(line(record), flush=True)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, sorted(jobs, key=lambda job: job.cost, reverse=True)))


def line(record: Record) -> str:
    """A record in one line."""
    head = f"{record['table']} {record['split']} {record['method']}"
    if "score" not in record:
        return f"{head}: {record['error']}"
    return f"{head}: {record['score']:.4f} in {record['seconds']:.1f} s"


def size(table: str, data: Path) -> float:
    """What a table costs, in no unit: its training rows, and more for many classes."""
    with np.load(data / f"{table}.npz") as stored:
        y = stored["y"]
    classes = len(np.unique(y)) if TASKS[table] == "classification" else 1
    return min(len(y), MOST_ROWS) * (1 + classes / 5)


def make_jobs(options: Any, tables: list[str], methods: list[str], data: Path) -> list[Job]:
    """Every named table, split and method."""
    return [
        Job(
            table=table,
            split=split,
            method=method,
            device=options.device,
            threads=options.threads_per_worker,
            lightgbm_settings=options.lightgbm_settings,
            xrfm_settings=options.xrfm_settings,
            data=str(data),
            cost=METHODS[method].cost * rows,
        )
        for table, rows in ((table, size(table, data)) for table in tables)
        for split in range(options.splits)
        for method in methods
    ]
