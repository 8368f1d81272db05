"""Large tables on one GPU, or on the host: the default beside LightGBM and xrfm on the same rows.

    python -m benchmarks.large run DIR --device cuda
    python -m benchmarks.large report DIR

`run` fits each method to each table, one job after the other in this process, and leaves a JSON file per
job in DIR: a run that was stopped goes on, and what failed is tried again. `--out-single FILE` has all
results of DIR, written after every job; `report`, also at the end of `run`, and `run` take such files
in DIR for the results that they hold. `report` prints tables and floors, and writes report.json and .md.

Rows are those of one permutation: the first ones train, those after 80 % of it test, 20,000 at most.
Features are standardised by the training rows; pixels of mnist are divided by 255 instead, all alike.
Errors are the share of wrong labels, or the RMSE in deviations of the training target. "default" is
``kernel="auto", metric="auto", blend=True``; of LightGBM the best of 25 random settings, of xrfm that of
its default and 12 random ones, chosen by 20 % of the rows; after --seconds no further setting is tried.
Seconds are wall time of the fit; a tiny one before it imports and compiles, and is timed on its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables_lightgbm, tables_xrfm
from benchmarks.common import DATA, Row
from benchmarks.large_report import (
    GPU_FLOORS,
    HOST,
    HOST_FLOORS,
    HOST_THREADS,
    TABLES,
    records_of,
    report,
    write,
)
from benchmarks.tables_data import Table, encode, prepared
from benchmarks.tables_job import Run
from onefold import LSSVCCV, LSSVRCV
from onefold.facts.words import plain

TESTED, TRAINED = 20_000, 0.8  # test rows at most; the share of the rows before them
SETTINGS = {"default": 0, "lightgbm": 25, "xrfm": 12}
LIBRARIES = {"default": ("onefold",), "lightgbm": ("lightgbm",), "xrfm": ("torch", "tqdm", "xrfm")}


@dataclass(frozen=True)
class Job:
    """A method on a table and a device, and where its record goes."""

    name: str
    method: str
    folder: Path
    device: str = HOST
    data: Path = DATA
    threads: int = HOST_THREADS
    seconds: float = 600.0
    settings: int = 0

    @property
    def key(self) -> str:
        return f"{self.device.replace(':', '')}-{self.name}-{self.method}"

    @property
    def on(self) -> str | None:
        return None if self.device == HOST else self.device


# -- rows and methods ---------------------------------------------------------------------------------


def table_of(job: Job) -> Table:
    """The prepared rows of a job, the same for every method."""
    file, task, rows = TABLES[job.name]
    with np.load(job.data / f"{file}.npz") as stored:
        X, y = stored["X"], stored["y"].reshape(len(stored["X"]), -1)[:, 0]
    order, cut = np.random.default_rng(0).permutation(len(y)), int(TRAINED * len(y))
    train, test = order[: min(rows, cut)], order[cut:][:TESTED]
    if file == "mnist":
        y_train, y_test = encode(y[train], y[test])
        return Table(job.name, 0, task, X[train] / 255.0, y_train, X[test] / 255.0, y_test)
    return Table(job.name, 0, task, *prepared(X, y, train, test, task == "classification"))


Fitted = tuple[Callable[[Any], Any], Row]  # predictions of rows, and what there is to say of the fit


def fit_default(job: Job, table: Table) -> Fitted:
    parts: dict[str, float] = {}

    def listen(event: Row) -> None:
        """Add the time since the last event to the part of this one; events tell that of the search."""
        part = str(event["part"])
        parts[part] = parts.get(part, 0.0) + event["seconds"] - sum(parts.values())

    kind = LSSVRCV if table.task == "regression" else LSSVCCV
    model = kind(kernel="auto", metric="auto", blend=True, random_state=0, device=job.on)
    model.set_params(n_jobs=job.threads, callback=listen).fit(table.X, table.y)
    blended, held = model.blend_score_ is not None, model.heldout_prediction_
    score = float(model.blend_score_ if blended else model.best_score_)
    held = None if held is None else np.asarray(held.cpu() if hasattr(held, "cpu") else held)
    known = None if held is None else np.isfinite(held.reshape(len(table.y), -1)).all(axis=1)
    found = model.approximation_
    return model.predict, {
        "promised score": score,
        "promised": -score if table.task == "classification" else float(np.sqrt(-score)),
        "promised by": "blend_score_" if blended else "best_score_",
        "held-out rows": None if known is None else int(known.sum()),
        "reason": {k: v.get("chosen") or v.get("reason") for k, v in found.items() if type(v) is dict},
        "approximation": found,
        "members": model.blend_ or [model.best_params_ | {"weight": 1.0}],
        "search": {key: model.search_[key] for key in ("method", "stopped")},
        "parts": parts,
    }


def fit_lightgbm(job: Job, table: Table) -> Fitted:
    model, chosen = tables_lightgbm.tuned(table, job.settings, 0, job.threads, seconds=job.seconds)

    def predict(X: Any) -> Any:
        found = model.predict(X)
        if table.task == "regression":
            return found
        return found.argmax(axis=1) if found.ndim == 2 else (found > 0.5).astype(int)

    return predict, {"chosen": chosen}


def fit_xrfm(job: Job, table: Table) -> Fitted:
    run = Run(table, 0, job.threads, job.on or "cpu", xrfm_settings=job.settings)
    model, chosen, failed = tables_xrfm.tuned(run, job.seconds)
    return lambda X: tables_xrfm.predict(replace(run, table=replace(table, X_test=X)), model), {
        "chosen": chosen,
        "notes": failed,
    }


METHODS = {"default": fit_default, "lightgbm": fit_lightgbm, "xrfm": fit_xrfm}

# -- measures -----------------------------------------------------------------------------------------

_warm: set[tuple[str, str, str]] = set()


def cuda(job: Job) -> Any:
    """PyTorch's module of the GPU that the job uses, or None."""
    if job.method == "lightgbm" or not job.device.startswith("cuda"):
        return None
    import torch

    return torch.cuda


def timed(job: Job, function: Callable[[], Any]) -> tuple[float, Any]:
    """Wall time until the GPU has done its work, and the result."""
    gpu, begin = cuda(job), time.perf_counter()
    found = function()
    if gpu is not None:
        gpu.synchronize()
    return time.perf_counter() - begin, found


def measure(job: Job) -> Row:
    """Fit the method of a job and measure everything."""
    table, method, gpu, record = table_of(job), METHODS[job.method], cuda(job), Row()
    if (what := (job.method, table.task, job.device)) not in _warm:
        X = np.random.default_rng(0).normal(size=(80, 3))
        y = X[:, 0] if table.task == "regression" else (X[:, 0] > 0).astype(int)
        small = Table("", 0, table.task, X, y, X, y)
        few = replace(job, settings=min(1, job.settings))
        record["warm up"], _ = timed(job, lambda: method(few, small)[0](X))
        _warm.add(what)
    record |= {"task": table.task, "rows": len(table.y), "d": table.X.shape[1]}
    record |= {"tested": len(table.y_test), "classes": table.classes}
    if gpu is not None:
        gpu.empty_cache()
        gpu.reset_peak_memory_stats()
    record["seconds"], (predict, facts) = timed(job, lambda: method(job, table))
    if gpu is not None:
        record |= {"gpu": gpu.get_device_name(), "gpu bytes": gpu.max_memory_allocated()}
    record["predict seconds"], found = timed(job, lambda: predict(table.X_test))
    record["error"] = table.score(found)
    if "parts" in facts:
        facts["parts"]["after the search"] = record["seconds"] - sum(facts["parts"].values())
    return record | facts


def perform(job: Job) -> Row:
    """The record of a job, also where it failed; its file is written whole or not at all."""
    record: Row = {"job": job.key, "table": job.name, "method": job.method, "device": job.device}
    record |= {"threads": job.threads, "limit": job.seconds}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            record |= measure(job)
        except Exception:  # noqa: BLE001
            record["failed"] = traceback.format_exc()
    texts = [f"{one.category.__name__}: {one.message}"[:500] for one in said]
    record |= {"warnings": list(dict.fromkeys(texts))[:20], "ended": time.time()}
    record = json.loads(json.dumps(plain(record), default=str))
    write(job.folder / f"{job.key}.json", record)
    gc.collect()
    if (gpu := cuda(job)) is not None and gpu.is_available():
        gpu.empty_cache()
    return record


def run(jobs: Sequence[Job], folder: Path, single: Path | None, limit: float) -> None:
    """The jobs that have no record yet; none is begun after `limit` seconds."""
    stop, records = time.monotonic() + limit, records_of(folder)
    for job in jobs:
        left = stop - time.monotonic()
        if job.key in records and "failed" not in records[job.key]:
            print(f"{job.key}: is done", flush=True)
        elif why := missing(job):
            print(f"skipped {job.key}: {why}", flush=True)
        elif left <= 0:
            print(f"skipped {job.key}: the time limit of {limit:g} s is over", flush=True)
        else:
            one = records[job.key] = perform(replace(job, seconds=min(job.seconds, left)))
            said = one.get("failed") or f"error {one['error']:.4g}, {one['seconds']:.1f} s"
            print(f"{job.key}: {said}", flush=True)
        if single is not None:
            write(single, list(records.values()))


def missing(job: Job) -> str | None:
    """Why a job cannot run here."""
    path = job.data / f"{TABLES[job.name][0]}.npz"
    if not path.exists():
        return f"{path} is not there"
    needed = LIBRARIES[job.method] + ("torch",) * (job.on is not None and job.method != "lightgbm")
    for library in needed:
        if find_spec(library) is None:
            return f"{library} is not installed"
    gpu = cuda(job)
    return "torch finds no GPU" if gpu is not None and not gpu.is_available() else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda", help='%(default)s; "none" for the host')
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables (%(default)s)")
    parser.add_argument("--tables", help=f"of {', '.join(TABLES)}, or files (those of the floors)")
    parser.add_argument("--methods", default=",".join(METHODS), help="%(default)s")
    parser.add_argument("--threads", type=int, help=f"every core, or {HOST_THREADS} on the host")
    parser.add_argument("--seconds", type=float, default=600.0, help="of settings (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=np.inf, help="seconds; then no job is begun")
    parser.add_argument("--out-single", type=Path, help="a JSON file of all results")
    options = parser.parse_args()
    if options.what == "run":
        options.folder.mkdir(parents=True, exist_ok=True)
        host, methods = options.device == HOST, options.methods.split(",")
        floors = ",".join(HOST_FLOORS if host else GPU_FLOORS)
        wanted = (options.tables or floors).split(",")
        names = [name for name in TABLES if {name, TABLES[name][0]} & set(wanted)]
        known = {*TABLES, *METHODS, *(file for file, _, _ in TABLES.values())}
        if unknown := set(wanted + methods) - known:
            parser.error(f"unknown: {', '.join(sorted(unknown))}")
        threads = options.threads or (HOST_THREADS if host else os.cpu_count() or 1)
        same = (options.folder, options.device, options.data, threads, options.seconds)
        jobs = [Job(name, m, *same, SETTINGS[m]) for m in methods for name in names]
        run(jobs, options.folder, options.out_single, options.time_limit)
    report(options.folder)


if __name__ == "__main__":
    main()
