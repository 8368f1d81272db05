"""The options that say how a table of text is written, and opening a table with them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onefold.tables import Reading, TableSource

_OPTIONS = ("decimal", "delimiter", "encoding", "na_values", "sheet")
_OF_SHEETS = ("decimal", "na_values", "sheet")


def add_columns(parser: argparse._ActionsContainer, option: str, purpose: str) -> None:
    """Add an option that names columns."""
    parser.add_argument(option, metavar="COL", nargs="+", action="extend", default=[], help=purpose)


def add_table_options(parser: argparse.ArgumentParser, default: str = "found from the file") -> None:
    """Add the options to a command; `default` is what happens without them."""
    group = parser.add_argument_group("tables of text and sheets", f"what is not given is {default}")
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
    add("--sheet", metavar="NAME|N", help="of a spreadsheet, by name or number (default: the first)")


def open_asked(arguments: argparse.Namespace, remembered: Reading | None = None) -> TableSource:
    """Open the table of a command as its options say, and `remembered` where they say nothing."""
    from onefold.tables import Reading, open_table
    from onefold.tables.delimited import DelimitedSource
    from onefold.tables.excel import ExcelSource

    given = {name: getattr(arguments, name) for name in _OPTIONS}
    if given["na_values"]:
        texts = [text.strip() for value in given["na_values"] for text in value.split(",")]
        given["na_values"] = tuple(texts)
    source = open_table(arguments.table, (remembered or Reading()).overridden(**given))
    used = [name for name in _OPTIONS if given[name]]
    takes: tuple[str, ...] = _OF_SHEETS if isinstance(source, ExcelSource) else ()
    takes = _OPTIONS[:-1] if isinstance(source, DelimitedSource) else takes
    for name in used:
        if name not in takes:
            kinds = "spreadsheets" if name == "sheet" else ".csv and .tsv tables"
            raise ValueError(
                f"--{name.replace('_', '-')} is for {kinds}; {source.path.name} needs no such option"
            )
    return source
