"""Arguments that tests of the command line start from, and searches that they stop or kill."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ONEFOLD = [sys.executable, "-m", "onefold"]
SMALL = ["--simple", "--gammas", "2^-3:2^1:3", "--alphas", "2^-5:2^1:3"]
TUNE = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "site", "mass", "--id", "who"]
NUMBERS = ["tune", "t.csv", "--target", "amount", "--drop", "kind", "site", "mass", "who"]
MODEL = "t-onefold/model.onefold"
FILES = ["model.onefold", "report.html", "search.csv"]


def files(folder: Path | str = ".") -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


def write_table(path: Path, rows: int) -> None:
    """Three columns and what two of them make together, as Parquet."""
    X = np.random.default_rng(0).normal(size=(rows, 3))
    columns = {"y": X[:, 0] * X[:, 1]} | {f"x{j}": X[:, j] for j in range(3)}
    pq.write_table(pa.table(columns), path)


def begun(folder: Path, *argv: str) -> subprocess.Popen[str]:
    """``onefold tune`` in a folder, deaf to the signals of this process's terminal."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*ONEFOLD, "tune", *argv]
    return subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)


def wait_for_lines(journal: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Until a journal has so many lines, or the process has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.005)
