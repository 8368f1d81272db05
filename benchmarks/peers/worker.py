"""One job in this process: python -m benchmarks.peers.worker JOB, which prints the record as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scikit-learn", "torch", "numba")


def main() -> None:
    job = json.loads(sys.argv[1])
    # Before NumPy is imported: threads that a library starts stay on the cores they were born on.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job["cores"])
    warnings.simplefilter("ignore")
    print(json.dumps(measure(job), default=_plain))


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Fit, predict and score; a tiny fit before the clock imports, compiles and wakes the device."""
    import numpy as np

    from benchmarks.peers.jobs import METHODS, rows_of
    from benchmarks.peers.methods import Options
    from benchmarks.tables_data import Table

    method = METHODS[job["method"]]
    table = rows_of(job["job"], job["table"], job["split"], Path(job["data"]))
    options = Options(job["split"], job["threads"], job["device"], job["seconds"])
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = X[:, 0] if table.task == "regression" else (X[:, 0] > 0).astype(int)
    function = method.function
    function(Table("", 0, table.task, X, y, X, y), replace(options, settings=1)).predict(X)
    gpu = _gpu(job["device"])
    before = _reset_peak()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    begin = time.perf_counter()
    fitted = function(table, options)
    seconds = time.perf_counter() - begin
    predicted = np.asarray(fitted.predict(table.X_test))
    record = {
        "task": table.task,
        "n": len(table.y),
        "n_test": len(table.y_test),
        "d": table.X.shape[1],
        "classes": table.classes,
        "seconds": seconds,
        "predict seconds": time.perf_counter() - begin - seconds,
        "memory": _peak() - before,
        "facts": fitted.facts,
        "versions": versions((*PACKAGES, method.environment)),
    }
    # Workers of joblib are processes, which are counted once they have ended: as many as threads, each
    # as large as the largest at worst.
    if (loky := sys.modules.get("joblib.externals.loky")) is not None:
        loky.get_reusable_executor().shutdown(wait=True)
    if (largest := resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) > children:
        record["memory"] += 1024 * largest * job["threads"]
    if gpu is not None:
        record |= {"gpu": gpu.get_device_name(), "gpu memory": gpu.max_memory_allocated()}
    record["error"] = fitted.facts.get("cv error", table.score(predicted))
    if fitted.proba is not None:
        known = table.y_test >= 0  # training has no row of the others
        p = np.asarray(fitted.proba(table.X_test[known]))[np.arange(known.sum()), table.y_test[known]]
        record["log loss"] = float(-np.log(np.clip(p, 1e-15, 1)).mean())
    if fitted.interval is not None:
        low, high = np.asarray(fitted.interval(table.X_test)).T
        record["coverage"] = float(np.mean((low <= table.y_test) & (table.y_test <= high)))
        record["width"] = float(np.mean(high - low))
    return record


def versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # not installed, or a source tree on the path
            if own := getattr(sys.modules.get(name), "__version__", ""):
                found[name] = str(own)
    return found


def _gpu(device: str) -> Any:
    """PyTorch's module of the GPU that is in use, its peak memory set back, or None."""
    if not device.startswith("cuda"):
        return None
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda


def _peak() -> int:
    """Peak memory of this process in bytes; getrusage would hand on that of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reset_peak() -> int:
    """The memory of this process, from which its peak now begins anew where Linux lets it."""
    if (counter := Path("/proc/self/clear_refs")).exists():
        counter.write_text("5")
    return _peak()


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, everything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


if __name__ == "__main__":
    main()
