"""What the benchmarks share: timing, peak memory, a table on the screen and in a file, and data."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("ONEFOLD_DATA", Path(__file__).parents[2] / "shared" / "data"))

Row = dict[str, Any]


def seconds(function: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turn(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The best time of each function, the functions taking turns so that noise hits all alike."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            best[name] = min(best[name], seconds(function))
    return best


def ratios(times: dict[str, float], base: str) -> list[Row]:
    """Rows of seconds, and how often those of `base` go into them."""
    return [{"what": k, "seconds": v, "ratio": v / times[base]} for k, v in times.items()]


def peak_memory(code: str) -> float:
    """Bytes by which `code` raises the peak memory of a fresh interpreter.

    `code` must define ``setup()`` and ``run(value)``; what setup leaves is not counted.
    """
    program = f"{code}\n{_PEAK}value = setup()\nbefore = peak()\nrun(value)\nprint(peak() - before)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


# getrusage hands the peak of the parent on to the child; Linux's own counter starts afresh.
_PEAK = """
import pathlib, resource, sys
def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""


def report(name: str, title: str, rows: Sequence[Row], notes: str = "") -> None:
    """Print a Markdown table and keep it, with the numbers as JSON, under benchmarks/results."""
    RESULTS.mkdir(exist_ok=True)
    text = f"## {title}\n\n{markdown(rows)}\n{notes}\n"
    print(text)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    machine = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    payload = {"title": title, "rows": list(rows), "notes": notes, "environment": machine}
    (RESULTS / f"{name}.json").write_text(json.dumps(payload, indent=1, default=float), "utf-8")


def markdown(rows: Sequence[Row]) -> str:
    """Rows of equal keys as a Markdown table."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [keys, ["---"] * len(keys)] + [[_cell(row.get(key)) for key in keys] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


Parts = dict[str, tuple[str, Callable[[bool], list[Row]]]]


def run_parts(prefix: str, description: str | None, parts: Parts) -> None:
    """The command line of a benchmark: report the parts that are named, or all, small with --quick."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args()
    for name in options.parts or parts:
        if name not in parts:
            parser.error(f"no part named {name}; there are {', '.join(parts)}")
        title, function = parts[name]
        report(f"{prefix}-{name}", title, function(options.quick))


def data_sets(names: Sequence[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, arrays) of the sets that are there; the others are said to be skipped."""
    for name in names:
        path = DATA / f"{prefix}{name}.npz"
        if path.exists():
            yield name, np.load(path)
        else:
            print(f"skipped {name}: {path} is not there")
