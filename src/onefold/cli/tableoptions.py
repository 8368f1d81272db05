"""The options that say how a table of text is written, and opening a table with them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onefold.tables import Reading, TableSource

_OPTIONS = ("decimal", "delimiter", "encoding", "na_values")


def add_columns(parser: argparse._ActionsContainer, option: str, purpose: str) -> None:
    """Add an option that names columns."""
    parser.add_argument(option, metavar="COL", nargs="+", action="extend", default=[], help=purpose)


def add_table_options(parser: argparse.ArgumentParser, default: str = "found from the file") -> None:
    """Add the options to a command; `default` is what happens without them."""
    group = parser.add_argument_group(".csv and .tsv tables", f"what is not given is {default}")
    add = group.add_argument
    add("--decimal", metavar="CHAR", help="decimal mark of numbers: . or ,")
    add("--delimiter", metavar="CHAR", help="what separates columns; tab for a tab")
    add("--encoding", metavar="NAME", help="of the text, as latin-1 or utf-16")
    add(
        "--na-values",
        metavar="TEXT",
        action="append",
        help="what means a missing value besides an empty one, NA and NaN: ?,unknown (repeatable)",
    )


def open_asked(arguments: argparse.Namespace, remembered: Reading | None = None) -> TableSource:
    """Open the table of a command as its options say, and `remembered` where they say nothing."""
    from onefold.tables import Reading, open_table
    from onefold.tables.delimited import DelimitedSource

    given = {name: getattr(arguments, name) for name in _OPTIONS}
    if given["na_values"]:
        texts = [text.strip() for value in given["na_values"] for text in value.split(",")]
        given["na_values"] = tuple(texts)
    source = open_table(arguments.table, (remembered or Reading()).overridden(**given))
    used = [f"--{name.replace('_', '-')}" for name in _OPTIONS if given[name]]
    if used and not isinstance(source, DelimitedSource):
        raise ValueError(
            f"{used[0]} is for .csv and .tsv tables; {source.path.name} needs no such option"
        )
    return source
