"""Comma-, semicolon- and tab-separated text, plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from onefold.tables.errors import Remedy, TableError
from onefold.tables.interpret import ColumnTypes, TypeFinder, without_missing
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows
from onefold.tables.sniff import GUESSED, encoding_of, header_of
from onefold.tables.source import TableSource, rechunk

_MEBIBYTE = 1 << 20
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


class DelimitedSource(TableSource):
    """A text table with one header line, which may have quoted line breaks.

    What `reading` leaves open is found from the beginning of the file: the encoding by its mark,
    the delimiter of a .csv file by which of ``, ; tab |`` cuts its lines into equally many columns.
    """

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        self.path = path
        self.reading = reading or Reading()
        self._types: ColumnTypes | None = None
        self._encoding = encoding_of(path, self.reading.encoding)
        if self._encoding == GUESSED and self.reading.encoding is None:
            self.remarks = (
                f"{path.name} is not UTF-8 text and is read as Windows-1252; if letters look wrong, "
                "name its encoding (latin-2, say)",
            )
        tabs = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else None
        with self._plain_errors():
            self.delimiter, self._raw_names, longest = header_of(
                path, self._encoding, self.reading.delimiter or tabs
            )
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
        if all(_is_number(name) for name in self.names):
            raise TableError(
                f"the first line of {path.name} holds numbers, not column names; add a header line"
            )

    def bytes_in_memory(self) -> int:
        """More than for other formats: the text stays beside what is made of it."""
        return 4 * super().bytes_in_memory() // 3

    def read(self) -> TableRows:
        with self._plain_errors():
            try:
                table = self._table(threads=True)
            except pa.ArrowInvalid as error:
                if not _RAGGED.search(str(error)):
                    raise
                # Only the single-threaded reader knows the number of the offending line.
                table = self._table(threads=False)
        text = without_missing(table.rename_columns(list(self.names)), self.reading)
        finder = TypeFinder(self.names, self.reading, self.delimiter)
        finder.add(text)
        return finder.finish().given_to(text)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        wanted = self.names if columns is None else columns
        raw_name = dict(zip(self.names, self._raw_names))
        raw = [raw_name[name] for name in wanted]
        start = 0
        with self._plain_errors(), self._stream() as stream:
            reader = pyarrow.csv.open_csv(stream, **self._options(raw, threads=False))
            for table in rechunk(reader, rows):
                text = without_missing(table.rename_columns(list(wanted)), self.reading)
                yield TableRows(text, start=start, reading=self.reading)
                start += table.num_rows

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks with the types that `read` would give; the first call goes over the file once more."""
        if self._types is None:
            finder = TypeFinder(self.names, self.reading, self.delimiter)
            for block in self.batches(rows):
                finder.add(block.columns, block.start)
            self._types = finder.finish()
        for block in self.batches(rows, columns):
            yield self._types.given_to(block.columns, block.start)

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

    def _table(self, threads: bool) -> pa.Table:
        with self._stream() as stream:
            return pyarrow.csv.read_csv(stream, **self._options(self._raw_names, threads))

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
        except UnicodeError as error:
            raise self._wrong_encoding() from error
        except TableError:
            raise
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            if "UTF8" in str(error) or "UTF-8" in str(error):
                raise self._wrong_encoding() from error
            raise TableError(self._diagnosis(str(error))) from error

    def _wrong_encoding(self) -> TableError:
        if self.reading.encoding:
            return TableError(
                f"{self.path.name} is not {self.reading.encoding} text; give another encoding"
            )
        return TableError(
            f"{self.path.name} is neither UTF-8 nor Windows-1252 text",
            ["save it as UTF-8", Remedy("encoding", "latin-2", "or whatever it is")],
        )

    def _diagnosis(self, message: str) -> str:
        name = self.path.name
        ragged = _RAGGED.search(message)
        if ragged:
            line, expected, got = ragged.groups()
            where = f"line {line}" if line else "a line"
            return (
                f"{where} of {name} has {got} columns where the header has {expected}; "
                "fix the line or quote the values that contain the delimiter"
            )
        if "Empty CSV" in message:
            return f"{name} has a header line but no rows; add rows"
        if self.path.suffix.lower() == ".gz":
            return f"{name} is not a complete gzip file; compress the table again"
        if "straddl" in message or "block" in message.lower():
            return f"{name} has a very long line or an unclosed quote; close the quotes"
        return f"{name} can't be read as a table; check its delimiter and its quotes"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
