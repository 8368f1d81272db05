"""Searches that are killed at random moments and resumed: is the answer the same?

python -m tests.tools.kills            fifty kills
python -m tests.tools.kills --quick    two of each search

Every search runs with ``checkpoint=`` in a process of its own, which is killed (SIGKILL) again and again
until it comes to its end. Its answer is compared with that of a search that nobody disturbed, and the
journal is looked through for evaluations that were made twice.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown
from onefold import LSSVCCV, LSSVRCV
from onefold.machine.journal import Journal

KILLS = 50
_BEGUN = "begun"


def table(n: int, labels: bool) -> tuple[Any, Any]:
    """Rows of which some columns matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
    return X, (y > 0).astype(int) if labels else y


BLEND = {"kernel": "auto", "metric": "auto", "blend": True}
SEARCHES: dict[str, tuple[int, int, Any, dict[str, Any]]] = {
    "plain grid": (1200, 300, LSSVCCV, {}),
    "metrics and blend, each fold its own": (600, 200, LSSVRCV, BLEND),
    "metrics and blend, folds set aside": (2500, 2100, LSSVCCV, BLEND),
    "halving": (1500, 400, LSSVRCV, {"search": "halving"}),
}
"""Rows, rows with --quick, estimator and its settings."""


def work(name: str, quick: bool, journal: str | None, answer: Path) -> None:
    """Search, in a process that may not live to the end."""
    full, small, kind, settings = SEARCHES[name]
    X, y = table(small if quick else full, kind is LSSVCCV)
    print(_BEGUN, flush=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(checkpoint=journal, **settings).fit(X, y)
    seconds = time.perf_counter() - start
    function = model.decision_function if kind is LSSVCCV else model.predict
    rows = np.random.default_rng(1).standard_normal((200, X.shape[1]))
    found = {"params": model.best_params_, "score": model.best_score_, "blend": model.blend_}
    found |= {"predictions": function(rows).tolist(), "heldout": model.heldout_prediction_.tolist()}
    answer.write_text(json.dumps(found | {"seconds": seconds}), "utf-8")


def start(name: str, quick: bool, journal: Path | None, answer: Path) -> subprocess.Popen[str]:
    """A process that has begun to search."""
    command = [sys.executable, "-m", "tests.tools.kills", "--work", name, "--answer", str(answer)]
    command += ["--quick"] if quick else []
    command += [] if journal is None else ["--journal", str(journal)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if process.stdout is None or process.stdout.readline() != f"{_BEGUN}\n":
        raise RuntimeError(f"the process of {name!r} did not begin")
    return process


def undisturbed(name: str, quick: bool, folder: Path) -> dict[str, Any]:
    """The answer of a search without a journal."""
    answer = folder / "undisturbed.json"
    if start(name, quick, None, answer).wait() != 0:
        raise RuntimeError(f"{name!r} failed")
    return json.loads(answer.read_text("utf-8"))


def disturbed(name: str, quick: bool, folder: Path, seconds: float, kills: int) -> tuple[Any, int]:
    """The answer of a search that is killed at most so often; and how often it was."""
    journal, answer, done = folder / "journal", folder / "disturbed.json", 0
    journal.unlink(missing_ok=True)
    answer.unlink(missing_ok=True)
    while True:
        process = start(name, quick, journal, answer)
        try:
            # Short enough for several kills of one search; what is left to do becomes less.
            process.wait(random.uniform(0.0, 0.7 * seconds) if done < kills else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
            continue
        if process.returncode != 0:
            raise RuntimeError(f"{name!r} could not go on after {done} kills")
        return json.loads(answer.read_text("utf-8")), done


def twice(path: Path) -> tuple[int, int]:
    """Cells of a journal, and how many of them were evaluated more than once; metrics count as cells."""
    with Journal(path) as journal:
        records = journal.records[1:]
    cells = Counter((one["key"], alpha) for one in records for alpha in one.get("alphas", [None]))
    return len(cells), sum(count - 1 for count in cells.values())


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference between two answers' predictions; infinite where they chose otherwise."""
    if one["params"] != other["params"]:
        return float("inf")
    pairs = [(one[name], other[name]) for name in ("predictions", "heldout", "score")]
    return max(float(np.nanmax(np.abs(np.subtract(a, b)))) for a, b in pairs)


def search(name: str, quick: bool, kills: int) -> Row:
    """Kill searches of one kind, so often in all, and compare every answer."""
    left, searches, largest, cells, again = kills, 0, 0.0, 0, 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = undisturbed(name, quick, folder)
        while left > 0:
            answer, done = disturbed(name, quick, folder, expected["seconds"], left)
            left, searches = left - done, searches + 1
            largest = max(largest, difference(answer, expected))
            evaluated, repeated = twice(folder / "journal")
            cells, again = cells + evaluated, again + repeated
            print(f"{name}: {done} kills, difference {difference(answer, expected):g}", flush=True)
    return {
        "search": name,
        "rows": SEARCHES[name][1 if quick else 0],
        "seconds undisturbed": expected["seconds"],
        "searches": searches,
        "kills": kills - left,
        "largest difference": largest,
        "cells": cells,
        "evaluated twice": again,
    }


def main() -> None:
    """Either side: the one that kills, or with --work the one that is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, two kills each")
    parser.add_argument("--seed", type=int, default=0)
    for option in ("--work", "--journal", "--answer"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.quick, options.journal, Path(options.answer))
        return
    random.seed(options.seed)
    each, extra = divmod(2 * len(SEARCHES) if options.quick else KILLS, len(SEARCHES))
    rows = [search(name, options.quick, each + (i < extra)) for i, name in enumerate(SEARCHES)]
    print(markdown(rows))


if __name__ == "__main__":
    main()
