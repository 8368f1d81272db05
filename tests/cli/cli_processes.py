"""Searches in processes that tests stop or kill, and a way to wait until they have got somewhere."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ONEFOLD = [sys.executable, "-m", "onefold"]


def write_table(path: Path, rows: int) -> None:
    """Three columns and what two of them make together, as Parquet."""
    X = np.random.default_rng(0).normal(size=(rows, 3))
    columns = {"y": X[:, 0] * X[:, 1]} | {f"x{j}": X[:, j] for j in range(3)}
    pq.write_table(pa.table(columns), path)


def begun(folder: Path, *argv: str) -> subprocess.Popen[str]:
    """``onefold tune`` in a folder, deaf to the signals of this process's terminal."""
    return subprocess.Popen(
        [*ONEFOLD, "tune", *argv],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_lines(journal: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Until a journal has so many lines, or the process has ended."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.005)
