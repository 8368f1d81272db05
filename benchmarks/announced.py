"""The time that `onefold plan` announces, against the time that a fit takes.

    python -m benchmarks.announced [TABLE ...]

Every table is tuned with default settings in a process of its own, which may use one core. The seconds
are processor time of that process, from the end of the preparation to the end of the report: those of
a machine that does nothing else, whatever else runs. Announced are the seconds of ``Tuning.plan``,
which are those of wall time on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA, Row, report
from benchmarks.tables_data import GIVEN_AWAY, TASKS

# Rows of a table, the first of a random order, where not all.
TABLES: dict[str, int] = {
    "uci_energy": 768,
    "ida_diabetis": 300,
    "boston": 506,
    "ida_german": 1000,
    "uci_concrete": 1030,
    "ripley_synth": 1250,
    "uci_airfoil": 1503,
    "uci_wine": 1599,
    "ida_titanic": 2201,
    "ida_image": 2310,
    "uci_skillcraft": 3338,
    "ida_splice": 3175,
    "abalone": 4177,
    "spambase": 4601,
    "uci_parkinsons": 5875,
    "ida_waveform": 5000,
    "energy_shootout_A": 4208,
    "ida_twonorm": 7400,
    "cpusmall": 8192,
    "electrical_grid": 10000,
    "letter": 6000,
    "shuttle": 12000,
    "uci_pol": 15000,
    "california_housing": 16000,
    "a9a_adult": 10000,
    "bike_hourly": 17379,
    "uci_elevators": 16599,
    "covtype": 20000,
}


def table_of(name: str) -> Any:
    """The columns and the target of a table, as a frame."""
    import pandas as pd

    with np.load(DATA / f"{name}.npz") as file:
        X = file["X"].astype(float)
        y = file["y"]
        names = file["feature_names"] if "feature_names" in file else np.arange(X.shape[1])
    y = y[:, 0] if y.ndim > 1 else y
    rows = np.random.default_rng(0).permutation(len(y))[: TABLES.get(name, len(y))]
    frame = pd.DataFrame(X[rows], columns=[f"x {column}" for column in names])
    frame = frame.drop(columns=[f"x {column}" for column in GIVEN_AWAY.get(name, [])])
    classes = TASKS[name] == "classification"
    return frame.assign(target=[f"c{label}" for label in y[rows]] if classes else y[rows].astype(float))


def measured(name: str) -> Row:
    """Announced and taken seconds of one table, and the seconds and evaluations of every part."""
    from onefold.tuning import tuning

    parts: dict[str, list[float]] = {}
    last = [0.0]

    def follow(event: Mapping[str, Any]) -> None:
        now = time.process_time()
        seconds, evaluations = parts.get(event["part"], (0.0, 0))
        parts[event["part"]] = [seconds + now - last[0], max(evaluations, int(event["done"]))]
        last[0] = now

    table = table_of(name)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with tuning(table, "target") as job:
            announced = job.plan()
            rows, features = job.training.X.shape
            last[0] = began = time.process_time()
            model = job.run(follow)
            fitted = time.process_time()
            rest = fitted - last[0]
            model.report(Path(folder) / "report.html", table, "target")
        ended = time.process_time()
    taken = ended - began
    history = model.estimator_.metric_history_
    return {
        "table": name,
        "rows": rows,
        "features": features,
        "targets": len(getattr(model, "classes_", [])),
        "announced": announced.seconds,
        "taken": taken,
        "ratio": (announced.seconds or np.nan) / taken,
        "parts": parts,
        "final": rest,
        "page": ended - fitted,
        "members": None if announced.members is None else announced.members.approximation.name,
        "rounds": sorted({(e["kernel"], e["metric"], e["round"], e["rows"]) for e in history}),
        "blend": model.estimator_.blend_,
        "method": announced.approximation.name,
    }


def in_a_process(name: str) -> Row:
    """`measured` in a fresh interpreter on one core."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.announced", "--measure", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure the tables, and print how many are within a factor of two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLE")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(arguments.measure), default=str))
        return
    rows = []
    for name in arguments.tables:
        rows.append(in_a_process(name))
        print(f"{name} {rows[-1]['announced']:.1f} {rows[-1]['taken']:.1f}", file=sys.stderr, flush=True)
    within = sum(0.5 <= row["ratio"] <= 2 for row in rows)
    shown = ("table", "rows", "features", "method", "announced", "taken", "ratio")
    notes = f"Within a factor of two: {within} of {len(rows)} tables. One core, processor time."
    report("announced", __doc__.splitlines()[0], [{k: row[k] for k in shown} for row in rows], notes)


if __name__ == "__main__":
    main()
