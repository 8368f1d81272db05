"""One job of benchmarks.tables in a process of its own: python -m benchmarks.tables_worker JOB.

JOB is JSON: what `tables_runner.Job` holds, the cores to stay on, and the file for the record.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """Python's version and those of the packages that are installed."""
    found = {"python": sys.version.split()[0]}
    for name in ("numpy", "scipy", "scikit-learn", *(name for name in names if name != "sklearn")):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree on the path
            found[name] = str(getattr(sys.modules.get(name), "__version__", ""))
    return {name: text for name, text in found.items() if text}


def wake(device: str) -> None:
    """Start the device before the clock: its first call loads libraries for seconds."""
    if device != "cpu":
        import torch

        torch.linalg.cholesky(torch.eye(2, device=device, dtype=torch.float64))
        torch.cuda.synchronize()


def record(job: dict[str, Any]) -> dict[str, Any]:
    """Load the table, run the method, score it; an exception becomes the record's error."""
    from benchmarks.tables_data import load
    from benchmarks.tables_job import Run
    from benchmarks.tables_methods import METHODS

    method = METHODS[job["method"]]
    why = method.missing()
    if why:
        return {"error": f"skipped: {why}"}
    table = load(job["table"], job["split"], Path(job["data"]))
    given = ("threads", "device", "lightgbm_settings", "xrfm_settings")
    run = Run(table, seed=job["split"], **{key: job[key] for key in given})
    if method.on_device:
        wake(job["device"])
    facts = {
        "task": table.task,
        "n_train": len(table.X),
        "n_test": len(table.X_test),
        "d": table.X.shape[1],
        "classes": table.classes,
        "versions": versions(method.needs),
    }
    start, spent = time.perf_counter(), time.process_time()
    try:
        found = method.function(run)
    except Exception as problem:  # noqa: BLE001 - one failure must not end the benchmark
        return facts | {"error": f"{type(problem).__name__}: {problem}"}
    return facts | {
        "score": table.score(found.prediction),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - spent,
        "settings": found.settings,
        "notes": found.notes,
    }


def main() -> None:
    job = json.loads(sys.argv[1])
    # Before NumPy is imported: threads that a library starts stay on the cores they were born on.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job["cores"])
    Path(job["out"]).write_text(json.dumps(record(job), default=_plain), "utf-8")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, everything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


if __name__ == "__main__":
    main()
