"""Comma-, semicolon- and tab-separated text, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from onefold.tables.errors import TableError
from onefold.tables.rows import Rows
from onefold.tables.source import TableSource, rechunk

__all__ = ["DelimitedSource"]

_DELIMITERS = ",;\t|"
_MEBIBYTE = 1 << 20
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


class DelimitedSource(TableSource):
    """A text table with one header line.

    The delimiter of a .csv file is the one of ``, ; tab |`` that its header has most of.
    """

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        self.path = path
        header = self._header()
        self.delimiter = delimiter or _delimiter_of(header)
        # pyarrow refuses a row longer than a block, and very wide tables have such rows.
        self._block_size = max(_MEBIBYTE, 64 * len(header))
        self._raw_names = next(csv.reader([header], delimiter=self.delimiter), [])
        self.names = tuple(
            name.strip() or f"unnamed_{position}"
            for position, name in enumerate(self._raw_names, start=1)
        )
        self.check_names()
        if all(_is_number(name) for name in self.names):
            raise TableError(
                f"the first line of {path.name} holds numbers, not column names; add a header line"
            )

    def read(self) -> Rows:
        import pyarrow.csv

        with self._plain_errors():
            try:
                table = pyarrow.csv.read_csv(self.path, **self._options(threads=True))
            except pyarrow.ArrowInvalid as error:
                if not _RAGGED.search(str(error)):
                    raise
                # Only the single-threaded reader knows the number of the offending line.
                table = pyarrow.csv.read_csv(self.path, **self._options(threads=False))
        return Rows(table.rename_columns(list(self.names)))

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[Rows]:
        import pyarrow.csv

        wanted = self.names if columns is None else columns
        raw_name = dict(zip(self.names, self._raw_names))
        raw = [raw_name[name] for name in wanted]
        start = 0
        with self._plain_errors():
            reader = pyarrow.csv.open_csv(self.path, **self._options(threads=False, text=raw))
            for table in rechunk(reader, rows):
                yield Rows(table.rename_columns(list(wanted)), start=start)
                start += table.num_rows

    def _header(self) -> str:
        with self._plain_errors():
            opener = gzip.open if self.path.suffix.lower() == ".gz" else open
            with opener(self.path, "rt", encoding="utf-8-sig", newline="") as file:
                for line in file:
                    if line.strip():
                        return line.rstrip("\r\n")
        raise TableError(f"{self.path.name} is empty; a table needs a header line and rows")

    def _options(self, threads: bool, text: Sequence[str] | None = None) -> dict[str, object]:
        import pyarrow as pa
        import pyarrow.csv

        convert = pa.csv.ConvertOptions(strings_can_be_null=True)
        if text is not None:
            convert.column_types = {name: pa.string() for name in text}
            convert.include_columns = list(text)
        return {
            "read_options": pa.csv.ReadOptions(use_threads=threads, block_size=self._block_size),
            "parse_options": pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "convert_options": convert,
        }

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Say in the reader's place what is wrong with the file."""
        import pyarrow as pa

        name = self.path.name
        try:
            yield
        except UnicodeDecodeError as error:
            raise TableError(f"{name} is not UTF-8 text; save it with UTF-8 encoding") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableError(f"{name} is not a complete gzip file ({error})") from error
        except (pa.ArrowInvalid, pa.ArrowIOError, OSError) as error:
            raise TableError(self._diagnosis(str(error))) from error

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
        if "UTF8" in message or "UTF-8" in message:
            return f"{name} is not UTF-8 text; save it with UTF-8 encoding"
        return f"{name} can't be read: {' '.join(message.split())}"


def _delimiter_of(header: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", header)
    return max(_DELIMITERS, key=unquoted.count)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
