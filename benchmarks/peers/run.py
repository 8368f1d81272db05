"""Jobs in processes on their own cores; every record is one line of a file as soon as it is there."""

from __future__ import annotations

import json
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.common import DATA
from benchmarks.peers.environments import CannotInstall, interpreter
from benchmarks.peers.jobs import METHODS, Job

Record = dict[str, Any]
ROOT = Path(__file__).parents[2]
_COUNTS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")


@dataclass(frozen=True)
class Limits:
    """Workers and their threads; seconds of a job, of the settings it tries, and of everything."""

    workers: int = 1
    threads: int = 2
    job: float = 600.0
    settings: float = 300.0
    until: float = float("inf")
    device: str = "cpu"


class Results:
    """The records of a file of JSON lines; the last of a job counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records = read(path)

    def add(self, record: Record) -> None:
        with self._lock:
            self.records[key_of(record)] = record
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def has(self, job: Job) -> bool:
        """Whether the job has been measured; what failed is tried again."""
        return "seconds" in self.records.get(job.key, {})


def key_of(record: Record) -> tuple[Any, ...]:
    if "environment" in record:
        return ("environment", record["environment"])
    return tuple(record[name] for name in ("job", "table", "split", "method"))


def read(path: Path) -> dict[tuple[Any, ...], Record]:
    """The latest records; a last line that was cut off is passed over."""
    found: dict[tuple[Any, ...], Record] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[key_of(record)] = record
    return found


def interpreters(names: Iterable[str], here: bool, results: Results) -> dict[str, str]:
    """The Python of each environment; one that cannot be made is recorded with the reason."""
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = sys.executable if here else interpreter(name)
        except CannotInstall as problem:
            results.add({"environment": name, "failed": str(problem)})
            print(f"skipped {name}: {problem}", flush=True)
    return found


def core_groups(workers: int, threads: int) -> list[list[int]]:
    """Cores of each worker, none shared."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    if workers * threads > len(cores):
        raise SystemExit(f"{workers} workers of {threads} threads need more than {len(cores)} cores")
    return [cores[i * threads : (i + 1) * threads] for i in range(workers)]


@cache
def machine() -> str:
    """The processor and its cores: seconds of different machines are not compared."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{(models or [platform.machine()])[0]}, {os.cpu_count()} cores"


def in_a_process(job: Job, python: str, cores: list[int], limits: Limits, seconds: float) -> Record:
    """Run one job; a crash or a late end is what it failed with."""
    counts = {f"{name}_NUM_THREADS": str(limits.threads) for name in _COUNTS}
    counts |= {"LOKY_MAX_CPU_COUNT": str(limits.threads), "PYTHONHASHSEED": "0"}
    device = limits.device if METHODS[job.method].on_device else "cpu"
    record = {"job": job.job, "table": job.table, "split": job.split, "method": job.method}
    record |= {"device": device, "threads": limits.threads, "machine": machine()}
    record["date"] = date.today().isoformat()
    told = record | {"cores": cores, "seconds": limits.settings, "data": str(DATA)}
    process = subprocess.Popen(
        [python, "-m", "benchmarks.peers.worker", json.dumps(told)],
        cwd=ROOT,
        env=os.environ | counts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return record | {"failed": f"longer than {seconds:.0f} s"}
    if hasattr(os, "getloadavg"):  # above 1 where other work had a share of the cores
        record["load"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    if process.returncode:
        last = (said.strip().splitlines() or [""])[-1]
        return record | {"failed": f"exit {process.returncode}: {last}"[:300]}
    return record | json.loads(out.strip().splitlines()[-1])


Perform = Callable[[Job, str, list[int], Limits, float], Record]


def run(
    jobs: list[Job], results: Results, limits: Limits, here: bool, perform: Perform = in_a_process
) -> None:
    """The jobs that have no record, in their order, each on the cores of a free worker."""
    began = time.monotonic()
    left = [job for job in jobs if not results.has(job)]
    print(f"{len(jobs) - len(left)} of {len(jobs)} jobs are done", flush=True)
    pythons = interpreters((METHODS[job.method].environment for job in left), here, results)
    free: queue.Queue[list[int]] = queue.Queue()
    for cores in core_groups(limits.workers, limits.threads):
        free.put(cores)

    def work(job: Job) -> None:
        python = pythons.get(METHODS[job.method].environment)
        cores = free.get()
        try:
            remaining = limits.until - (time.monotonic() - began)
            if python is None or remaining <= 0:
                return
            record = perform(job, python, cores, limits, min(limits.job, remaining))
        finally:
            free.put(cores)
        if "failed" not in record or remaining > limits.job or "longer than" not in record["failed"]:
            results.add(record)
        print(line(record), flush=True)

    with ThreadPoolExecutor(limits.workers) as pool:
        list(pool.map(work, left))


def line(record: Record) -> str:
    """A record in one line."""
    head = f"{record['job']} {record['table']} {record['split']} {record['method']}"
    if "failed" in record:
        return f"{head}: {record['failed']}"
    error = "" if record["error"] is None else f"error {record['error']:.4f}, "
    return f"{head}: {error}{record['seconds']:.1f} s, {record['memory'] / 2**30:.2f} GiB"
