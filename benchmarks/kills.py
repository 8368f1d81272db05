"""Searches that are killed at random moments and resumed: is the answer the same?

python -m benchmarks.kills            fifty kills
python -m benchmarks.kills --quick    two of each search

Every search runs with ``checkpoint=`` in a process of its own, which is killed (SIGKILL) again and again
until it comes to its end. Its answer is compared with that of a search that nobody disturbed, and the
journal is looked through for evaluations that were made twice.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown
from onefold import LSSVCCV, LSSVRCV
from onefold.machine.journal import Journal


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


def work(name: str, quick: bool, journal: Path | None, answer: Path, begun: Event) -> None:
    """Search, in a process that may not live to the end."""
    full, small, kind, settings = SEARCHES[name]
    X, y = table(small if quick else full, kind is LSSVCCV)
    begun.set()
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


def searched(
    name: str, quick: bool, folder: Path, journal: Any = None, kills: int = 0, seconds: float = 0.0
) -> tuple[dict[str, Any], int]:
    """The answer of a search that was killed up to so often, and how often it was."""
    answer = folder / "answer.json"
    spawn = multiprocessing.get_context("spawn")
    for done in range(kills + 1):
        begun = spawn.Event()
        process = spawn.Process(target=work, args=(name, quick, journal, answer, begun))
        process.start()
        begun.wait(300)
        # Short enough for several kills of one search; what is left to do becomes less.
        process.join(random.uniform(0.0, 0.7 * seconds) if done < kills else None)
        if process.is_alive():
            process.kill()
            process.join()
        elif process.exitcode != 0:
            raise RuntimeError(f"{name!r} failed after {done} kills")
        else:
            return json.loads(answer.read_text("utf-8")), done
    raise AssertionError("the last one is waited for")


def twice(path: Path) -> tuple[int, int]:
    """Cells of a journal, and how many of them were evaluated more than once; metrics count as cells."""
    with Journal(path) as journal:
        records = journal.records[1:]
    cells = Counter((one["key"], alpha) for one in records for alpha in one.get("alphas", [None]))
    return len(cells), cells.total() - len(cells)


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference between two answers' predictions; infinite where they chose otherwise."""
    if one["params"] != other["params"]:
        return float("inf")
    pairs = [(one[name], other[name]) for name in ("predictions", "heldout", "score")]
    return max(float(np.nanmax(np.abs(np.subtract(a, b)))) for a, b in pairs)


def search(name: str, quick: bool, kills: int) -> Row:
    """Kill searches of one kind, so often in all, and compare every answer."""
    row: Row = {"search": name, "rows": SEARCHES[name][1 if quick else 0], "searches": 0, "kills": 0}
    row |= {"largest difference": 0.0, "cells": 0, "evaluated twice": 0}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        journal = Path(place) / "journal"
        expected, _ = searched(name, quick, folder)
        while row["kills"] < kills:
            journal.unlink(missing_ok=True)
            left = kills - row["kills"]
            answer, done = searched(name, quick, folder, journal, left, expected["seconds"])
            cells, again = twice(journal)
            counted = {"searches": 1, "kills": done, "cells": cells, "evaluated twice": again}
            row |= {key: row[key] + value for key, value in counted.items()}
            row["largest difference"] = max(row["largest difference"], difference(answer, expected))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, two kills each")
    quick = parser.parse_args().quick
    random.seed(0)
    each, extra = divmod(2 * len(SEARCHES) if quick else 50, len(SEARCHES))
    print(markdown([search(name, quick, each + (i < extra)) for i, name in enumerate(SEARCHES)]))


if __name__ == "__main__":
    main()
