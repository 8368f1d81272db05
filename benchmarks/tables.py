"""Accuracy and time on real tables: onefold beside boosted trees and other kernel machines.

    python -m benchmarks.tables --methods lightgbm,onefold-blend --tables uci_pol,spambase --out FILE
    python -m benchmarks.tables --report FILE

FILE is JSON. Every job runs in a process of its own with so many threads, pinned to as many cores, and
is written when it ends; a later run adds to the file. The report, also a Markdown file beside it, has
scores, times, wins, ranks, ratios of errors and the paired test. The tables are looked for in
ONEFOLD_DATA. A method whose package is not installed is skipped with the reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common import DATA, RESULTS
from benchmarks.tables_data import LEFT_OUT, TASKS, present
from benchmarks.tables_methods import METHODS
from benchmarks.tables_report import write_report
from benchmarks.tables_runner import Results, make_jobs, run_jobs


def names(text: str, known: list[str]) -> list[str]:
    """A list with commas, each name known."""
    found = text.split(",")
    for name in found:
        if name not in known:
            reason = f": {LEFT_OUT[name]}" if name in LEFT_OUT else f"; there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(f"no {name}{reason}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--methods", type=lambda text: names(text, list(METHODS)), help="with commas (all)")
    add("--tables", type=lambda text: names(text, list(TASKS)), help="with commas (all)")
    add("--splits", type=int, default=1, help="random splits of each table (1)")
    add("--out", type=Path, default=RESULTS / "tables.json", help="the file of results")
    add("--missing", action="store_true", help="only what the file has no score of")
    add("--device", default="cpu", help="of onefold and xrfm: cpu, cuda")
    add("--workers", type=int, default=1, help="jobs at a time (1)")
    add("--threads-per-worker", type=int, default=2, help="cores of each (2)")
    add("--limit", type=float, default=3600, help="seconds after which a job is given up")
    add("--lightgbm-settings", type=int, default=25)
    add("--xrfm-settings", type=int, default=12)
    add(
        "--report",
        type=Path,
        metavar="FILE",
        help="report results, of the named methods, and run nothing",
    )
    add("--focus", help="the method that the report compares with the others")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.report:
        write_report(options.report, options.focus, options.methods, options.tables)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = Results(options.out)
    tables = list(present(options.tables or list(TASKS), DATA))
    jobs = make_jobs(options, tables, options.methods or list(METHODS), DATA)
    if options.missing:
        jobs = [job for job in jobs if not results.has(job)]
    run_jobs(jobs, results, options.workers, options.threads_per_worker, options.limit)
    write_report(options.out, options.focus)


if __name__ == "__main__":
    main()
