"""Comma-, semicolon- and tab-separated text, plain or gzipped."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from onefold.tables.errors import Remedy, TableError
from onefold.tables.reading import Reading, is_number
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource, first_bytes, rechunk
from onefold.tables.text import TypeFinder, without_missing

_MEBIBYTE = 1 << 20
_HEAD = 1 << 16
_LONGEST = 1 << 28  # of a header and the first record
_RECORDS = 50
_GUESSED = "cp1252"  # what text is that is not UTF-8, has no mark, and makes sense this way
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class DelimitedSource(TableSource):
    """A text table with one header line, which may have quoted line breaks.

    What `reading` leaves open is found from the beginning of the file: the encoding by its mark,
    the delimiter of a .csv file by which of ``, ; tab |`` cuts its lines into equally many columns. Text
    that turns out not to be UTF-8 further on is read from there on as Windows-1252.
    """

    options = ("decimal", "thousands", "delimiter", "encoding", "na_values", "dayfirst")

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        self.path = path
        self.reading = reading or Reading()
        self._types: TypeFinder | None = None
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
        self.check_names()
        if self.names[0].lower().startswith("sep="):
            raise TableError(
                f"the first line of {path.name} is '{self.names[0]}', a hint to spreadsheets; remove it"
            )
        if all(is_number(name) for name in self.names):
            raise TableError(
                f"the first line of {path.name} holds numbers, not column names; add a header line"
            )

    def bytes_in_memory(self) -> int:
        """More than for other formats: the text stays next to what is made of it."""
        return 4 * super().bytes_in_memory() // 3

    def read(self) -> TableRows:
        with self._plain_errors():
            table = self._table()
        rows = self._rows(table.rename_columns(list(self.names)), 0)
        finder = self._type_finder()
        finder.add(rows)
        return finder.finish().typed(rows)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        wanted = self.names if columns is None else columns
        raw_name = dict(zip(self.names, self._raw_names))
        options = [raw_name[name] for name in wanted]
        start = 0
        with self._plain_errors():
            while True:
                try:
                    with self._stream() as stream:
                        reader = pyarrow.csv.open_csv(stream, **self._options(options, threads=False))
                        for number, table in enumerate(rechunk(reader, rows)):
                            if number * rows >= start:  # not again what came before another encoding
                                yield self._rows(table.rename_columns(list(wanted)), start)
                                start += table.num_rows
                    return
                except pa.ArrowInvalid as error:
                    self._guess_encoding(error)

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks with the types that `read` would give; the first call goes over the file once more."""
        if self._types is None:
            finder = self._type_finder()
            for block in self.batches(rows):
                finder.add(block)
            self._types = finder.finish()
        for block in self.batches(rows, columns):
            yield self._types.typed(block)

    def require(self, name: str, option: str = "") -> None:
        if name not in self.names and len(self.names) == 1:
            raise TableError(
                f"{self.path.name} has only one column, '{self.names[0]}'",
                [
                    Remedy("delimiter", "space", "if blanks separate its columns"),
                    "name another delimiter",
                ],
            )
        super().require(name, option)

    def _encoding_of_head(self) -> str:
        """The encoding: as asked for, by the byte order mark, UTF-8, or else Windows-1252.

        An encoding that begins with a mark is read so that the mark is no part of the first name.
        """
        head, name, asked = self._head(_HEAD), self.path.name, self.reading.encoding
        marked = next((one for mark, one in _MARKS.items() if head.startswith(mark)), None)
        if asked is not None:
            plain = codecs.lookup(asked).name
            if marked is not None and not plain.startswith(marked[:5]):
                raise TableError(
                    f"{name} starts with the mark of {marked[:6].rstrip('-')}; leave encoding out"
                )
            return "utf-8-sig" if plain == "utf-8" else plain
        if marked is not None:
            return marked
        if b"\x00" in head[:64]:
            raise TableError(
                f"{name} is not UTF-8 text",
                [Remedy("encoding", "utf-16-le", "if it is UTF-16 without a mark"), "export it as .csv"],
            )
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError as error:
            self._guess_encoding(error)
            return _GUESSED
        return "utf-8-sig"

    def _guess_encoding(self, error: Exception) -> None:
        """Take text that is not UTF-8 for Windows-1252; raises the error where that is no remedy."""
        utf8 = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
        if not utf8 or self.reading.encoding is not None or self.remarks:
            raise error
        self._encoding = _GUESSED
        self.remarks = (
            f"{self.path.name} is not UTF-8 text and is read as Windows-1252; if letters look wrong, "
            "name its encoding (latin-2, say)",
        )

    def _read_header(self, delimiter: str | None) -> int:
        """Find delimiter and column names; returns the length of the longest of the first lines."""
        size, complete, records = _HEAD, False, list[list[str]]()
        # Very wide tables have headers longer than the first piece.
        while len(records) < 2 and not complete and size <= _LONGEST:
            data = self._head(size)
            complete, size = len(data) < size, 8 * size
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

    def _type_finder(self) -> TypeFinder:
        return TypeFinder(self.names, self.reading, cautious=self.delimiter == ";")

    def _rows(self, text: pa.Table, start: int) -> TableRows:
        known = without_missing(text, self.reading)
        return TableRows(known, start, self.reading, written=text, remarks=self.remarks)

    def _table(self, threads: bool = True) -> pa.Table:
        try:
            with self._stream() as stream:
                return pyarrow.csv.read_csv(stream, **self._options(self._raw_names, threads))
        except pa.ArrowInvalid as error:
            if threads and _RAGGED.search(str(error)):
                return self._table(threads=False)  # only this reader knows the number of the line
            self._guess_encoding(error)
            return self._table()

    def _stream(self) -> pa.NativeFile:
        packed = self.path.suffix.lower() == ".gz"
        return pa.input_stream(str(self.path), compression="gzip" if packed else None)

    def _options(self, raw_names: Sequence[str], threads: bool) -> dict[str, object]:
        # All text: the types of a first block say nothing about later ones, and labels keep
        # their spelling.
        convert = pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in raw_names},
            include_columns=list(raw_names),
            strings_can_be_null=False,
        )
        encoding = "utf8" if self._encoding == "utf-8-sig" else self._encoding
        return {
            "read_options": pa.csv.ReadOptions(
                use_threads=threads, block_size=self._block_size, encoding=encoding
            ),
            "parse_options": pa.csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                # In a table of one column an empty line is a missing value, not nothing.
                ignore_empty_lines=len(self.names) > 1,
            ),
            "convert_options": convert,
        }

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
        name, encoding = self.path.name, self.reading.encoding
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
        return TableError(f"{name} can't be read as a table; check its delimiter and its quotes")


def _delimiter_of(text: str) -> str:
    """The one of ``, ; tab |`` that cuts the first records into equally many columns, the most."""

    def evidence(delimiter: str) -> tuple[bool, int]:
        widths = [len(record) for record in _records(text, delimiter, _RECORDS)]
        # The last record may be cut off.
        whole = widths[:-1] if len(widths) > 2 else widths
        return (len(set(whole)) == 1 and whole[0] > 1, widths[0] if widths else 0)

    return max(",;\t|", key=evidence)


def _records(text: str, delimiter: str, most: int) -> list[list[str]]:
    records: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for record in reader:
            if record:
                records.append(record)
            if len(records) == most:
                break
    except csv.Error:
        # A field longer than the reader takes: what came before it tells enough.
        pass
    return records
