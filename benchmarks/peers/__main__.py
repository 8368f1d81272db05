"""Other libraries beside this one, on the same rows.

    python -m benchmarks.peers small medium large
    python -m benchmarks.peers tables --methods onefold,lightgbm --workers 2 --threads 1
    python -m benchmarks.peers big --device cuda
    python -m benchmarks.peers report

Jobs: `small`, the whole grid of widths and ridges on 1300 rows; `medium` and `large`, one fit of 10,000
and of 500,000 rows; `tables`, forty real tables of at most 8000 training rows; `big`, real tables of up
to 465,000 rows. Every method runs in the environment of its library, which is made from the package
registry where it is missing; with --here in the present one. A record is a line of --out as soon as a
job ends: a run that was stopped goes on, and what failed is tried again. `report` writes docs/peers from
all files of records. The tables are looked for in ONEFOLD_DATA.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common import DATA, RESULTS
from benchmarks.peers.jobs import JOBS, METHODS, file_of, make_jobs
from benchmarks.peers.run import Limits, Results, run

FOLDER = RESULTS / "peers"


def names(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("jobs", nargs="+", choices=[*JOBS, "report"])
    add("--methods", type=names, help="with commas (all)")
    add("--tables", type=names, help="with commas (all)")
    add("--out", type=Path, default=FOLDER / "records.jsonl", help="the file of records")
    add("--here", action="store_true", help="all methods in the present environment")
    add("--device", default="cpu", help="of onefold and xrfm: cpu, cuda")
    add("--workers", type=int, default=1, help="jobs at a time (1)")
    add("--threads", type=int, default=2, help="cores of each (2)")
    add("--limit", type=float, default=600, help="seconds after which a job is given up (600)")
    add("--seconds", type=float, default=300, help="after which no further setting is tried (300)")
    add("--until", type=float, default=float("inf"), help="seconds after which everything ends")
    options = parser.parse_args()
    known = {*METHODS, *(table for tables in JOBS.values() for table in tables)}
    if unknown := {*(options.methods or []), *(options.tables or [])} - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    limits = Limits(
        options.workers, options.threads, options.limit, options.seconds, options.until, options.device
    )
    jobs = []
    for job in options.jobs:
        if job == "report":
            continue
        tables = [name for name in JOBS[job] if not options.tables or name in options.tables]
        there = [t for t in tables if (f := file_of(job, t)) is None or (DATA / f"{f}.npz").exists()]
        for name in [name for name in tables if name not in there]:
            print(f"skipped {name}: it is not in {DATA}")
        jobs += make_jobs(job, there, options.methods or list(METHODS), DATA)
    if jobs:
        run(jobs, Results(options.out), limits, options.here)
    if "report" in options.jobs:
        from benchmarks.peers.report import write

        write(sorted(FOLDER.glob("*.jsonl")))


if __name__ == "__main__":
    main()
