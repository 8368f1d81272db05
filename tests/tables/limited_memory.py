"""A fit in a process that may take a tenth of the memory that its table would take.

    python -m tests.tables.limited_memory TABLE SMALL

Both tables have the columns x0, x1, … and y. The fit of the small one comes first, with the same steps:
code that is loaded and buffers that libraries keep are not counted. Blocks and samples are smaller than
usual, as the table is. A limit of address space (RLIMIT_AS) counts mapped files, so their size is added.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pyarrow as pa

from onefold import tuning
from onefold.approximations import Nystroem
from onefold.estimators.setup import plan
from onefold.facts import scores
from onefold.machine.memory import read_field
from onefold.tables import kinds, learning, open_table, store, training
from onefold.tables.estimators import inner_estimator

OPTIONS = {
    "simple": True,
    "gammas": [0.01],
    "alphas": [0.1],
    "approximation": Nystroem(20),
    "cv": 2,
    "intervals": None,
    "holdout": 0.2,
}
# How many times larger than the memory that is allowed for it the table is.
TIMES = 10


def limit(further: int) -> None:
    """Allow so many bytes of address space more than there are now."""
    used = 1024 * (read_field(Path("/proc/self/status"), "VmSize:") or 0)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + further, hard))


def main(path: str, small: str) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    training.BLOCK = 5_000
    kinds._BLOCK_NUMBERS = 1 << 18
    learning.Median.__init__.__defaults__ = (1_000,)
    tuning._MOST_NUMBERS = 200_000
    scores._MOST_NUMBERS = 200_000
    available_memory = store.available_memory
    store.available_memory = lambda: 1_000
    tuning.tune_table(small, "y", **OPTIONS, scratch=Path(path).parent)
    store.available_memory = available_memory
    table = open_table(path)
    rows = table._data.count_rows()
    allowed = table.bytes_in_memory() // TIMES
    limit(allowed + 4 * rows * (len(table.names) - 1))
    with tuning.tuning(table, "y", **OPTIONS, scratch=Path(path).parent) as job:
        rows_of_fit = job.training
        estimator = inner_estimator(job.model, rows_of_fit.search, cv=rows_of_fit.splitting.cv)
        limit(allowed + plan(estimator, rows_of_fit.X, rows_of_fit.y).bytes)
        model = job.run()
    sys.stdout.write(f"{model.report_['rows']} {model.report_['test']['rows']}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
