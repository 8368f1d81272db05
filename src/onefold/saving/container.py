"""The bytes of a model file: a safetensors container with one metadata string and a checksum.

The format is written and read here, not by the safetensors package: arrays stream to the disk and from
it, and every fault of the disk or the file is one of the errors below. Any safetensors reader can read
the arrays.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from onefold.machine.files import atomic_write
from onefold.machine.memory import available_memory

DAMAGED = "save the model again or fetch a fresh copy of the file"
UPGRADE = "upgrade with `pip install --upgrade onefold`"
# The array types of a file: the name in the safetensors header -> the name in NumPy.
ARRAY_DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8",
    "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32",
    "F64": "float64",
}  # fmt: skip

METADATA_KEY = "onefold"
CHECKSUM_KEY = "sha256"
# Bytes of the header at most, so that no file makes a reader parse gigabytes of JSON.
MAX_HEADER = 64 * 2**20
# Bytes of the header's length, little-endian, with which the file begins; given by safetensors.
_LENGTH_BYTES = 8
# Bytes that the header is padded to a multiple of, so that arrays are aligned.
_ALIGNMENT = 8
_SAFETENSORS_NAMES = {numpy_name: name for name, numpy_name in ARRAY_DTYPES.items()}
# What constructors and checks may raise when a damaged file gives them invalid values.
NONSENSE = (
    ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RecursionError, MemoryError,
)  # fmt: skip


class ModelFileError(ValueError):
    """A file is not a usable onefold model; the message says why and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> import onefold
    >>> from onefold.saving import ModelFileError
    >>> _ = Path("notes.txt").write_text("not a model")
    >>> try:
    ...     onefold.load("notes.txt")
    ... except ModelFileError as error:
    ...     print("refused")
    refused
    """


class CannotSave(TypeError):
    """A value that a model file cannot hold, such as a Python function."""


class BadContent(ValueError):
    """What is wrong inside a file, and the remedy; a `ModelFileError` once the path is known."""

    def __init__(self, cause: str, remedy: str = DAMAGED) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


def write(path: Path, text: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a model file of C-contiguous arrays; after an error `path` is as it was before."""
    target = Path(os.path.realpath(path))  # the target of a link, so that the link is kept
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        raise OSError(
            f"cannot save to {path}: it is a folder or a device, or its folder does not exist; give a "
            "file name in an existing folder."
        )
    # Widest items first keeps every array aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = _header(text, {name: arrays[name] for name in order})
    with atomic_write(target) as temporary, open(temporary, "xb") as file:
        file.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
        file.write(header)
        for name in order:
            file.write(raw_bytes(arrays[name]))
        file.flush()
        os.fsync(file.fileno())


def _header(text: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    entries: dict[str, Any] = {
        "__metadata__": {METADATA_KEY: text, CHECKSUM_KEY: _checksum(text, arrays)}
    }
    start = 0
    for name, array in arrays.items():
        offsets = [start, start + array.nbytes]
        dtype = _SAFETENSORS_NAMES[array.dtype.name]
        shape = list(array.shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        start = offsets[1]
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"cannot save: everything except numeric arrays takes {len(header)} bytes, but a model "
            f"file can hold at most {MAX_HEADER}; keep large values in numeric arrays."
        )
    return header


def raw_bytes(array: np.ndarray) -> memoryview:
    """The little-endian bytes of a C-contiguous array, without a copy on ordinary machines."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Guards against damage, not against forgery."""
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.name} {array.shape}".encode())
        total.update(raw_bytes(array))
    return total.hexdigest()


class Entry(NamedTuple):
    """Where one array lies in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Container:
    """An open model file whose header has been checked; `text` is the metadata."""

    def __init__(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, MAX_HEADER):
            raise BadContent("it is not a safetensors file or is truncated")
        header = parse_json(file.read(length), "header")
        metadata = header.pop("__metadata__", None)
        self._file = file
        self._data = _LENGTH_BYTES + length
        self._entries = _read_entries(header, size - self._data)
        if not isinstance(metadata, dict) or not {METADATA_KEY, CHECKSUM_KEY} <= metadata.keys():
            raise BadContent("it is a safetensors file, but not a onefold model")
        self.text = metadata[METADATA_KEY]
        self._checksum = metadata[CHECKSUM_KEY]
        if not isinstance(self.text, str):
            raise BadContent("its metadata is not text")

    def describe_arrays(self) -> dict[str, dict[str, Any]]:
        """The dtype and shape of each array, from the header alone."""
        return {
            name: {"dtype": entry.dtype, "shape": list(entry.shape)}
            for name, entry in sorted(self._entries.items())
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, in host memory and together no larger than the file; checks the checksum."""
        total = sum(e.stop - e.start for e in self._entries.values())
        free = available_memory()
        if free is not None and total > free:
            # A sparse file may be as large as its author likes.
            raise BadContent(
                f"it needs {total / 2**30:.1f} GiB of memory, but only {free / 2**30:.1f} GiB are free",
                "load it on a computer with more memory",
            )
        arrays = {name: self._read(name, entry) for name, entry in self._entries.items()}
        if _checksum(self.text, arrays) != self._checksum:
            raise BadContent("its content does not match its checksum")
        return arrays

    def _read(self, name: str, entry: Entry) -> np.ndarray:
        try:
            array = np.empty(entry.shape, dtype=np.dtype(entry.dtype).newbyteorder("<"))
        except ValueError as error:  # more axes or items than NumPy can count, of size 0
            raise BadContent(f"its array {name!r:.60} has an impossible shape") from error
        raw = array.reshape(-1).view(np.uint8)
        self._file.seek(self._data + entry.start)
        if self._file.readinto(raw.data) != raw.nbytes:  # type: ignore[attr-defined]
            raise BadContent("it was truncated while being read")
        if entry.dtype == "bool" and raw.size and raw.max() > 1:
            raise BadContent(f"its array {name!r:.60} holds bytes that are neither true nor false")
        return array.astype(entry.dtype, copy=False)


def _read_entries(header: dict[str, Any], size: int) -> dict[str, Entry]:
    """The arrays of a header: they must fill the `size` bytes behind it without gap or overlap."""
    entries = {name: _entry(name, node) for name, node in header.items()}
    position = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
        if entry.start != position:
            raise BadContent("its arrays overlap or leave gaps")
        position = entry.stop
    if position != size:
        raise BadContent("its arrays do not fill the file: it is truncated or has extra bytes")
    return entries


def _entry(name: str, node: Any) -> Entry:
    match node:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [start, stop]} if len(node) == 3:
            if dtype not in ARRAY_DTYPES:
                raise BadContent(f"it holds an array of type {dtype:.20}", UPGRADE)
            are_sizes = all(type(number) is int and number >= 0 for number in (*shape, start, stop))
            itemsize = np.dtype(ARRAY_DTYPES[dtype]).itemsize
            if are_sizes and math.prod(shape) * itemsize == stop - start:
                return Entry(ARRAY_DTYPES[dtype], tuple(shape), start, stop)
    raise BadContent(f"the header entry of its array {name!r:.60} is not valid")


def parse_json(text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object without repeated keys, halves of characters, NaN or numbers of absurd length."""
    try:
        parsed = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_dict_of_unique)
        json.dumps(parsed, ensure_ascii=False).encode()  # raises where text holds half a character
    except (ValueError, RecursionError) as error:
        raise BadContent(f"its {what} is not valid JSON ({error!s:.200})") from error
    if not isinstance(parsed, dict):
        raise BadContent(f"its {what} is not a JSON object")
    return parsed


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _dict_of_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice")
    return result


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """Open a model file; errors about its content in the block name the path."""
    refusal = f"{path} cannot be read as a onefold model:"
    try:
        # Before opening: a pipe would block.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadContent("it is a folder or a device, not a file", "give the path of the model file")
        with open(path, "rb") as file:
            yield Container(file)
    except MemoryError as error:
        raise ModelFileError(
            f"{refusal} it needs more memory than is available; load it on a computer with more memory."
        ) from error
    except BadContent as error:
        raise ModelFileError(f"{refusal} {error.cause}; {error.remedy}.") from error
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:  # such as a loop of links
        reason = (error.strerror or str(error)).lower()
        raise ModelFileError(f"{refusal} {reason}; give the path of the model file.") from error
