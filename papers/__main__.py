"""The tables and figures of the five papers, computed here beside the published ones, and their errata.

    python -m papers                     all of them: hours
    python -m papers KEY [PART ...]      one paper, or some of its tables and figures; or the errata
    python -m papers --pages             docs/papers/*.md from the stored numbers, nothing computed
    python -m papers --short --out DIR   small versions of everything, as in the tests, to another folder

Data sets are looked for in ONEFOLD_DATA.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from papers import summary
from papers.page import PAGES, Paper

KEYS = ("ding2011", "ding2012", "edwards2013", "cawley2002", "decherchi2010")
ALL = (*KEYS, "errata")


def paper(key: str) -> Paper:
    """The paper of a key, or the errata: ``papers.KEY.PAPER``."""
    return import_module(f"papers.{key}").PAPER


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("key", nargs="?", choices=ALL)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--pages", action="store_true", help="write the pages, compute nothing")
    parser.add_argument("--short", action="store_true", help="small sizes and few splits")
    parser.add_argument("--out", type=Path, default=PAGES, metavar="DIR", help="where to write")
    options = parser.parse_args()
    if options.short and options.out == PAGES:
        parser.error("--short needs --out: the documentation holds the full results")
    for key in [options.key] if options.key else ALL:
        if options.pages:
            paper(key).write(options.out)
        else:
            paper(key).run(options.parts, options.short, options.out)
    summary.write(KEYS, options.out)


if __name__ == "__main__":
    main()
