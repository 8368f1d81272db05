"""Columns that tell rows apart rather than describe them: row numbers and identifiers."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import kind_of
from onefold.tables.dates import is_moment
from onefold.tables.errors import listing
from onefold.tables.number_formats import is_number
from onefold.tables.rows import TableRows

# How pandas and this package call a column without a name.
_UNNAMED = re.compile(r"unnamed_\d+|Unnamed: ?\d+(_level_\d+)?")
_ID_NAME = re.compile(r"(?i:(.*[\s_.-])?(id|uuid|guid|key|index|row|rownum|rowid|nr|no))|.*[a-z](Id|ID)")
_FEWEST = 20  # rows before different numbers in all of them mean anything


def unnamed(name: str) -> bool:
    """Whether a column had no name in the header, or in the header of the table it came from."""
    return bool(_UNNAMED.fullmatch(name))


def column_notes(
    rows: TableRows, features: Collection[str], others: Collection[str], left_out: Collection[str]
) -> tuple[str, ...]:
    """What to tell about the columns of a table: `features`, `others` in use, and those `left_out`."""
    notes = [rows.notes[name] for name in (*features, *others) if name in rows.notes]
    if left_out:
        notes.append(f"left out, as row numbers or empty columns without a name: {listing(left_out)}")
    for name in features:
        why = _identifies(rows, name)
        if why is not None:
            notes.append(
                f"column '{name}' {why}, like an identifier or a row number; drop it, unless it means "
                "something"
            )
    return tuple(notes)


def empty_or_distinct(rows: TableRows, name: str) -> bool:
    """Whether a column holds nothing, row numbers or row names.

    Programs write such a column, without a name, for the index of a data frame, and for a delimiter at
    the end of every line.
    """
    column = rows.columns.column(name)
    kind = kind_of(column)
    if kind in ("empty", "other"):
        return kind == "empty"
    if kind == "numeric":  # measurements differ from row to row, too
        values = rows.numbers(name)
        if (values != np.round(values)).any():
            return False
    return column.null_count == 0 and len(pc.unique(column)) == len(column)


def _identifies(rows: TableRows, name: str) -> str | None:
    column = rows.columns.column(name)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    known = text or pa.types.is_integer(column.type)
    if not known or len(column) < _FEWEST or column.null_count:
        return None
    distinct = pc.count_distinct(column).as_py()
    if text:  # words, or numbers in a block of a table of text
        whole = pc.all(pc.match_substring_regex(column, r"^\s*[0-9]+\s*$")).as_py()
    else:
        whole = pa.types.is_integer(column.type) and pc.min(column).as_py() >= 0
    if distinct == len(column):
        if whole:
            return "has a different whole number in every row"
        if text and not is_number(column[0].as_py()) and not is_moment(column[0].as_py()):
            return "has a different text in every row"
    if whole and _ID_NAME.fullmatch(name) and 2 * distinct > len(column):
        return "has many different whole numbers"
    return None
