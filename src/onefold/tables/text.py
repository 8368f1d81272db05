"""Tables of text: delimited files, plain or gzipped, and what their columns and those of sheets hold.

Columns of text become columns of numbers where all of their values are. Numbers are read as
the `Reading` says. A column that would hold numbers if they were written in another way is refused, with
the option that says so: 3,033 is three thousand here and three point something there.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from onefold.tables.columns import trimmed
from onefold.tables.errors import Remedy, TableError
from onefold.tables.reading import FORMATS, PLAIN, NumberFormat, Reading, has_point, is_number, parse
from onefold.tables.rows import TableRows, TableSource, check_names

_WHOLE = "^[-+]?[0-9]+$"
_MOST_DIGITS = 38  # of Arrow's exact decimals
_SMALL_DIGITS = 18  # of int64
_FIRST_VALUES = 1000  # of a block: they mostly show which formats do not fit
_POINTS_BETWEEN_THOUSANDS = NumberFormat(",", ".")

_MEBIBYTE = 1 << 20
_HEAD_BYTES = 1 << 16  # that are read to detect encoding and delimiter
_MOST_HEAD_BYTES = 1 << 28  # of a header and the first record
_HEAD_RECORDS = 50  # that the delimiter is detected from
_FALLBACK_ENCODING = "cp1252"  # of text without a byte order mark that is not UTF-8
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class TextTypes:
    """The types of the columns `names` of a table of text, found block by block.

    `notes` say what was assumed about a column, and `problems` are the errors of columns that cannot be
    used; both are by column, so that those of dropped columns can be left out. `cautious` is whether
    1.234 may mean 1234: files whose columns are separated by semicolons often have decimal commas.
    """

    def __init__(
        self, names: Iterable[str], reading: Reading, cautious: bool, blocks: Iterable[TableRows]
    ) -> None:
        columns = {name: _Evidence(name, reading.number_format) for name in names}
        for rows in blocks:
            for name, column in columns.items():
                column.add(trimmed(rows.text(name)), rows.start)
        self._types: dict[str, tuple[pa.DataType | None, NumberFormat]] = {}
        self.notes: dict[str, str] = {}
        self.problems: dict[str, TableError] = {}
        declared = reading.number_format
        points = []
        for name, column in columns.items():
            try:
                self._types[name] = kind, form = column.type()
            except TableError as error:
                self.problems[name] = error
                continue
            if kind != pa.float64():
                continue
            if form != declared:
                points.append(name)
            doubt = cautious and declared == PLAIN and _POINTS_BETWEEN_THOUSANDS in column.fitting
            if column.point and (doubt or form != declared):
                self.notes[name] = (
                    f"column '{name}' is read with a decimal point ('{column.point}'); if the point "
                    "separates thousands, set thousands to '.' and decimal to ','"
                )
        self.reading = replace(reading, points=tuple(points))

    def typed(self, text: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        """A column with its type, unchanged if it is not among `names`; raise if it cannot be used."""
        if name in self.problems:
            raise self.problems[name]
        kind, form = self._types.get(name, (None, PLAIN))
        if kind is None:
            return text
        if pa.types.is_null(kind):
            return pa.chunked_array([pa.nulls(len(text))])
        text = trimmed(text)
        if pa.types.is_floating(kind):
            return parse(text, form)[0]
        return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), kind)


class _Evidence:
    """What the values of one column have in common so far."""

    def __init__(self, name: str, declared: NumberFormat) -> None:
        self._name = name
        self._declared = declared
        self._empty = self._whole = True
        self._digits = 0
        self.fitting = list(FORMATS)
        self._first_odd: tuple[str, int] | None = None  # the first that is no plain number, and its row
        self.point = ""  # the first with a point

    def add(self, text: pa.ChunkedArray, start: int) -> None:
        if text.null_count == len(text):
            return
        self._empty = False
        self._digits = max(self._digits, pc.max(pc.utf8_length(text)).as_py())
        self._whole = self._whole and _all(pc.match_substring_regex(text, _WHOLE))
        if self._whole or not self.fitting:
            return
        try:
            is_plain = pc.cast(text, pa.float64()) is not None
        except pa.ArrowInvalid:
            is_plain = False
        if is_plain and not self.point:
            place = pc.index(pc.fill_null(pc.match_substring(text, "."), False), True).as_py()
            self.point = text[place].as_py() if place >= 0 else ""
        for part in (text.slice(0, _FIRST_VALUES), text):
            self.fitting = [form for form in self.fitting if _fits(part, form, is_plain)]
        if not is_plain and self._first_odd is None:
            matches = pc.fill_null(pc.match_substring_regex(text, PLAIN.pattern), True)
            place = pc.index(matches, False).as_py()
            self._first_odd = None if place < 0 else (text[place].as_py(), start + place + 1)

    def type(self) -> tuple[pa.DataType | None, NumberFormat]:
        """The type, None for text, and the format of numbers; raises where they need another one."""
        if self._empty:
            return pa.null(), PLAIN
        if self._whole:
            if self._digits <= _SMALL_DIGITS:
                return pa.int64(), PLAIN
            exact = self._digits < _MOST_DIGITS
            return pa.decimal128(_MOST_DIGITS, 0) if exact else pa.float64(), PLAIN
        for form in (self._declared, PLAIN):
            if form in self.fitting:
                return pa.float64(), form
        if not self.fitting or self._first_odd is None:
            return None, PLAIN
        value, row = self._first_odd
        # With no more than is needed: the declared decimal mark where it does, thousands where they are.
        decimal = self._declared.decimal
        with_declared = [form for form in self.fitting if form.decimal == decimal]
        with_other_mark = [f for f in self.fitting if f._replace(decimal=decimal) not in with_declared]
        simplest = {form.decimal: form for form in reversed([*with_declared, *with_other_mark])}
        raise TableError(
            f"column '{self._name}' holds numbers written like '{value}' (data row {row}), not like "
            f"{self._declared.example}",
            [self._remedy(form) for form in simplest.values()],
        )

    def _remedy(self, form: NumberFormat) -> Remedy:
        thousands = Remedy("thousands", form.thousands) if form.thousands else None
        if thousands is not None and form.decimal == self._declared.decimal:
            return thousands
        return Remedy("decimal", form.decimal, companion=thousands)


def _fits(text: pa.ChunkedArray, form: NumberFormat, is_plain: bool) -> bool:
    """Whether all values have a format; `is_plain` is whether every program reads them."""
    if is_plain and (form.decimal == "." or not has_point(text)):
        return True
    return _all(pc.match_substring_regex(text, form.pattern))


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())


# Delimited files


class DelimitedSource(TableSource):
    """A text table with one header line, which may have quoted line breaks.

    What `reading` leaves open is found from the beginning of the file: the encoding by its mark,
    the delimiter of a .csv file by which of ``, ; tab |`` cuts its lines into equally many columns. Text
    that turns out not to be UTF-8 further on is read from there on as Windows-1252.
    """

    options = ("decimal", "thousands", "delimiter", "encoding", "na_values", "dayfirst")

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        super().__init__(path, reading)
        self._types: TextTypes | None = None
        self._encoding = self._encoding_of_head()
        tabs = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else None
        with self._plain_errors():
            longest = self._read_header(self.reading.delimiter or tabs)
        # pyarrow refuses a row longer than a block, and very wide tables have such rows.
        self._block_size = max(_MEBIBYTE, 64 * longest)
        self.names = tuple(
            re.sub(r"\s*[\r\n]+\s*", " ", name.strip()) or f"unnamed_{position}"
            for position, name in enumerate(self._raw_names, start=1)
        )
        check_names(self.names, path.name)
        if self.names[0].lower().startswith("sep="):
            raise TableError(
                f"the first line of {path.name} is '{self.names[0]}', a hint for spreadsheets; remove it"
            )
        if all(is_number(name) for name in self.names):
            raise TableError(
                f"the first line of {path.name} holds numbers, not column names; add a header line"
            )

    def read(self) -> TableRows:
        rows = next(self.batches(1 << 62), None)
        if rows is None:
            raise self._diagnosis("Empty CSV")
        return self._typed([rows], rows)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        names = self.names if columns is None else columns
        start = 0
        with self._plain_errors():
            while True:
                try:
                    for number, text in enumerate(rechunk(self._record_batches(names), rows)):
                        if number * rows >= start:  # not again what came before another encoding
                            yield TableRows(text, start, self.reading, True, remarks=self.remarks)
                            start += len(text)
                    return
                except pa.ArrowInvalid as error:
                    self._guess_encoding(error)

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks with the types that `read` would give; the first call goes over the file once more."""
        for block in self.batches(rows, columns):
            yield self._typed(self.batches(rows), block)

    def require(self, name: str, option: str = "") -> None:
        if name not in self.names and len(self.names) == 1:
            raise TableError(
                f"{self.path.name} has only one column, '{self.names[0]}'",
                [
                    Remedy("delimiter", "space", "if spaces separate its columns"),
                    "set another delimiter",
                ],
            )
        super().require(name, option)

    def _encoding_of_head(self) -> str:
        """The requested encoding, or that of the byte order mark, or UTF-8, or else Windows-1252."""
        head = self._head(_HEAD_BYTES)
        name = self.path.name
        requested = self.reading.encoding
        marked = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
        if requested is not None:
            encoding = codecs.lookup(requested).name
            if marked is not None and not encoding.startswith(marked[:5]):
                raise TableError(
                    f"{name} starts with the byte order mark of {marked[:6].rstrip('-')}; leave "
                    "encoding out"
                )
            return "utf-8-sig" if encoding == "utf-8" else encoding
        if marked is not None:
            return marked
        if b"\x00" in head[:64]:
            raise TableError(
                f"{name} is not UTF-8 text",
                [
                    Remedy("encoding", "utf-16-le", "if it is UTF-16 without a byte order mark"),
                    "export it as .csv",
                ],
            )
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError as error:
            self._guess_encoding(error)
            return _FALLBACK_ENCODING
        return "utf-8-sig"

    def _guess_encoding(self, error: Exception) -> None:
        """Read text that is not UTF-8 as Windows-1252; raise the error if that cannot help."""
        utf8 = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
        if not utf8 or self.reading.encoding is not None or self.remarks:
            raise error
        self._encoding = _FALLBACK_ENCODING
        self.remarks = (
            f"{self.path.name} is not UTF-8 text and is read as Windows-1252; if letters look wrong, "
            "set its encoding, such as latin-2",
        )

    def _read_header(self, delimiter: str | None) -> int:
        """Find delimiter and column names; returns the length of the longest of the first lines."""
        size = _HEAD_BYTES
        complete = False
        records = list[list[str]]()
        # Very wide tables have headers longer than the first piece.
        while len(records) < 2 and not complete and size <= _MOST_HEAD_BYTES:
            data = self._head(size)
            complete = len(data) < size
            size = 8 * size
            decoder = codecs.getincrementaldecoder(self._encoding)()
            text = decoder.decode(data, complete).lstrip("\ufeff\r\n")
            self.delimiter = delimiter or _delimiter_of(text)
            records = _records(text, self.delimiter, 2)
        if not records:
            raise TableError(f"{self.path.name} is empty; a table needs a header line and rows")
        self._raw_names = records[0]
        return max(len(",".join(record)) for record in records)

    def _head(self, size: int) -> bytes:
        if self.path.suffix.lower() != ".gz":
            return first_bytes(self.path, size)
        try:
            with gzip.open(self.path) as file:
                return file.read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise self._diagnosis(str(error)) from error

    def _typed(self, blocks: Iterable[TableRows], rows: TableRows) -> TableRows:
        """Rows with the types of the whole table, which are found in its blocks once."""
        if self._types is None:
            self._types = TextTypes(self.names, self.reading, self.delimiter == ";", blocks)
        return replace(rows, types=self._types, reading=self._types.reading)

    def _record_batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns of these names, all of them text, as far as pyarrow reads at a time."""
        raw = dict(zip(self.names, self._raw_names))
        packed = "gzip" if self.path.suffix.lower() == ".gz" else None
        encoding = "utf8" if self._encoding == "utf-8-sig" else self._encoding
        with pa.input_stream(str(self.path), compression=packed) as stream:
            # Without threads, for only so it says which line is at fault.
            reader = pyarrow.csv.open_csv(
                stream,
                pa.csv.ReadOptions(use_threads=False, block_size=self._block_size, encoding=encoding),
                pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=True,
                    # In a table of one column an empty line is a missing value, not nothing.
                    ignore_empty_lines=len(self.names) > 1,
                ),
                # Text, too, for labels to keep their spelling.
                pa.csv.ConvertOptions(
                    column_types={name: pa.string() for name in self._raw_names},
                    include_columns=[raw[name] for name in names],
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield batch.rename_columns(list(names))

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Say in the reader's place what is wrong with the file."""
        try:
            yield
        except TableError:
            raise
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeError) as error:
            raise self._diagnosis(str(error)) from error

    def _diagnosis(self, message: str) -> TableError:
        name = self.path.name
        encoding = self.reading.encoding
        ragged = _RAGGED.search(message)
        if ragged:
            line, expected, got = ragged.groups()
            where = f"line {line}" if line else "a line"
            return TableError(
                f"{where} of {name} has {got} columns where the header has {expected}; "
                "fix the line or quote the values that contain the delimiter"
            )
        if "UTF8" in message or "codec" in message:
            if encoding:
                return TableError(f"{name} is not {encoding} text; give another encoding")
            return TableError(
                f"{name} is neither UTF-8 nor Windows-1252 text",
                ["save it as UTF-8", Remedy("encoding", "latin-2", "or whatever it is")],
            )
        if "Empty CSV" in message:
            return TableError(f"{name} has a header line but no rows; add rows")
        if self.path.suffix.lower() == ".gz":
            return TableError(f"{name} is not a complete gzip file; compress the table again")
        if "straddl" in message or "block" in message.lower():
            return TableError(f"{name} has a very long line or an unclosed quote; close the quotes")
        return TableError(f"{name} cannot be read as a table; check its delimiter and its quotes")


def _delimiter_of(text: str) -> str:
    """The one of ``, ; tab |`` that cuts the first records into equally many columns, the most."""

    def evidence(delimiter: str) -> tuple[bool, int]:
        widths = [len(record) for record in _records(text, delimiter, _HEAD_RECORDS)]
        # The last record may be cut off.
        complete = widths[:-1] if len(widths) > 2 else widths
        return (len(set(complete)) == 1 and complete[0] > 1, widths[0] if widths else 0)

    return max(",;\t|", key=evidence)


def _records(text: str, delimiter: str, most: int) -> list[list[str]]:
    records: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    with suppress(csv.Error):  # a field longer than it takes: what came before it tells enough
        records.extend(islice(filter(None, reader), most))
    return records


def rechunk(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join and cut record batches into tables of exactly `rows` rows (fewer in the last)."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(held)


def first_bytes(path: Path, size: int = 16) -> bytes:
    """The beginning of a file; whatever keeps it from being read is said in one sentence."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise TableError(f"{path} cannot be read ({reason}); give another file") from error
