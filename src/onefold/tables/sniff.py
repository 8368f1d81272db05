"""What a file is, from its first bytes: its format, its encoding, its delimiter."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from pathlib import Path

from onefold.tables.errors import Remedy, TableError

GUESSED = "cp1252"  # what text is that is not UTF-8, has no mark, and makes sense this way
_HEAD = 1 << 16
_LONGEST = 1 << 28  # of a header and the first record
_RECORDS = 50
_DELIMITERS = ",;\t|"
_FORMATS = {
    b"PAR1": ("a Parquet file", (".parquet",)),
    b"PK\x03\x04": (
        "a zip archive, as spreadsheets are",
        (".xlsx", ".xlsm", ".ods"),
    ),
    b"\x1f\x8b": ("compressed with gzip", (".gz",)),
    b"\x93NUMPY": ("a single NumPy array", ()),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", (".xls",)),
    b"\x89HDF": ("an HDF5 file", ()),
    b"SQLite format": ("a database", ()),
    b"ARROW1": ("an Arrow file", ()),
}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def first_bytes(path: Path, size: int = 16) -> bytes:
    """The beginning of a file; whatever keeps it from being read is said in one sentence."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except PermissionError as error:
        raise TableError(f"{path} may not be read; change its permissions") from error
    except OSError as error:
        reason = (error.strerror or "it can't be opened").lower()
        raise TableError(f"{path} can't be read ({reason}); give another file") from error


def refuse_disguise(path: Path, head: bytes) -> None:
    """Refuse a file whose content is of another format than its name says."""
    for mark, (words, suffixes) in _FORMATS.items():
        if head.startswith(mark) and not path.name.lower().endswith(suffixes):
            remedy = f"if it is a table, name it {' or '.join(suffixes)}, or " if suffixes else ""
            raise TableError(
                f"{path.name} is {words} by its content, not what its name says; "
                f"{remedy}export it as .csv or .parquet"
            )


def encoding_of(path: Path, asked: str | None) -> str:
    """The encoding of a text file: as asked for, by its byte order mark, UTF-8, or else Windows-1252.

    An encoding that begins with a mark is read so that the mark is no part of the first name.
    """
    head = _decompressed(path, 64)
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if asked is not None:
        plain = codecs.lookup(asked).name
        if marked is not None and not plain.startswith(marked[:5]):
            raise TableError(
                f"{path.name} starts with the mark of {marked[:6].rstrip('-')}; leave encoding out"
            )
        return "utf-8-sig" if plain == "utf-8" else plain
    if marked is None and b"\x00" in head:
        raise TableError(
            f"{path.name} is not UTF-8 text",
            [Remedy("encoding", "utf-16-le", "if it is UTF-16 without a mark"), "export it as .csv"],
        )
    if marked is None and not _decodes(path, "utf-8") and _decodes(path, GUESSED):
        return GUESSED
    return marked or "utf-8-sig"


def _decodes(path: Path, encoding: str) -> bool:
    """Whether the whole file is text of this encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rb") as file:
            while data := file.read(1 << 20):
                decoder.decode(data)
            decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    except (EOFError, OSError, zlib.error):  # whoever reads the table will say so
        return True
    return True


def header_of(path: Path, encoding: str, delimiter: str | None) -> tuple[str, list[str], int]:
    """The delimiter, the column names as they are written, and the longest line of the beginning.

    Raises
    ------
    TableError
        If there is no header.
    UnicodeError
        If the beginning of the file has another encoding.
    """
    size, complete, records = _HEAD, False, list[list[str]]()
    # Very wide tables have headers longer than the first piece.
    while len(records) < 2 and not complete and size <= _LONGEST:
        data = _decompressed(path, size)
        complete, size = len(data) < size, 8 * size
        text = codecs.getincrementaldecoder(encoding)().decode(data, complete).lstrip("\ufeff\r\n")
        found = delimiter or delimiter_of(text)
        records = _records(text, found, 2)
    if not records:
        raise TableError(f"{path.name} is empty; a table needs a header line and rows")
    return found, records[0], max(len(",".join(record)) for record in records)


def delimiter_of(text: str) -> str:
    """The one of ``, ; tab |`` that cuts the first records into equally many columns, the most."""

    def evidence(delimiter: str) -> tuple[bool, int]:
        widths = [len(record) for record in _records(text, delimiter, _RECORDS)]
        # The last record may be cut off.
        whole = widths[:-1] if len(widths) > 2 else widths
        return (len(set(whole)) == 1 and whole[0] > 1, widths[0] if widths else 0)

    return max(_DELIMITERS, key=evidence)


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


def _decompressed(path: Path, size: int) -> bytes:
    if path.suffix.lower() != ".gz":
        return first_bytes(path, size)
    try:
        with gzip.open(path) as file:
            return file.read(size)
    except (EOFError, OSError, zlib.error) as error:
        raise TableError(f"{path.name} is not a complete gzip file; compress the table again") from error
