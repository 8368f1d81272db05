"""Columns of text become columns of numbers or booleans where all of their values are."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import trimmed
from onefold.tables.errors import TableError
from onefold.tables.number_formats import NumberFormat, find_format, parse
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows

# What programs write for a missing value; `Reading.na_values` come on top.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
_WHOLE = "^[-+]?[0-9]+$"
_MOST_DIGITS = 38  # of Arrow's exact decimals


def without_missing(table: pa.Table, reading: Reading) -> pa.Table:
    """A table of text with null where a value, but for blanks around it, means that it is missing."""
    missing = pa.array((*_MISSING, *reading.na_values), pa.string())
    columns = []
    for column in table.columns:
        absent = pc.is_in(pc.utf8_trim_whitespace(column), value_set=missing)
        some = pc.any(absent, min_count=0).as_py()
        columns.append(pc.if_else(absent, pa.scalar(None, pa.string()), column) if some else column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def interpreted(text: pa.Table, reading: Reading, delimiter: str) -> TableRows:
    """All rows of a table of text, with types, the text itself, and notes on what was assumed."""
    columns: dict[str, pa.ChunkedArray] = {}
    formats: dict[str, NumberFormat] = {}
    notes: dict[str, str] = {}
    cautious = delimiter == ";"
    problems: dict[str, TableError] = {}
    for name in text.column_names:
        values = trimmed(text.column(name))
        columns[name] = text.column(name)
        try:
            column, form = _typed(values, name, reading, cautious)
        except TableError as error:
            # Whoever drops the column need not hear of it.
            problems[name] = error
            continue
        if column is not None:
            columns[name] = column
        if form is not None:
            formats[name] = form
        note = _note(values, column, name, form, cautious and reading.decimal is None)
        if note is not None:
            notes[name] = note
    found = replace(reading, formats=formats)
    return TableRows(pa.table(columns), reading=found, written=text, notes=notes, problems=problems)


def _typed(
    text: pa.ChunkedArray, name: str, reading: Reading, cautious: bool
) -> tuple[pa.ChunkedArray | None, NumberFormat | None]:
    """The column with its type (None: text), and its number format if that is not plain."""
    if text.null_count == len(text):
        return pa.chunked_array([pa.nulls(len(text))]), None
    if _all(pc.match_substring_regex(text, _WHOLE)):
        return _whole_numbers(text), None
    if reading.decimal != ",":
        try:
            return pc.cast(text, pa.float64()), None
        except pa.ArrowInvalid:
            pass
    if _all(pc.is_in(pc.utf8_lower(text), value_set=pa.array(["true", "false", None]))):
        return pc.cast(pc.utf8_lower(text), pa.bool_()), None
    form = find_format(text, name, reading.decimal, cautious)
    if form is None:
        return None, None
    return parse(text, form), None if form == NumberFormat(reading.decimal or ".") else form


def _whole_numbers(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers exactly, however large."""
    digits = pc.replace_substring_regex(text, r"^\+", "")
    try:
        return pc.cast(digits, pa.int64())
    except pa.ArrowInvalid:
        longest = pc.max(pc.utf8_length(digits)).as_py()
        exact = pa.decimal128(_MOST_DIGITS, 0) if longest < _MOST_DIGITS else pa.float64()
        return pc.cast(digits, exact)


def _note(
    text: pa.ChunkedArray,
    column: pa.ChunkedArray | None,
    name: str,
    form: NumberFormat | None,
    cautious: bool,
) -> str | None:
    """What a column with separators or a unit was taken for, by its longest value.

    Where columns are separated by semicolons, 1.234 may have been meant as a thousand.
    """
    if form is not None and (form.thousands or form.unit):
        lengths = pc.utf8_length(text)
        longest = pc.index(lengths, pc.max(lengths)).as_py()
        value = parse(text.slice(longest, 1), form)[0].as_py()
        return f"column '{name}' holds numbers: '{text[longest].as_py()}' is read as {value!r}"
    if not cautious or column is None or not pa.types.is_floating(column.type):
        return None
    if not _all(pc.match_substring_regex(text, NumberFormat(",", ".").pattern)):
        return None
    value = text.filter(pc.match_substring(text, "."))[0].as_py()
    return (
        f"column '{name}' is read with a decimal point ('{value}'); if the point separates "
        "thousands, use --decimal ','"
    )


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())
