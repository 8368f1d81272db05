"""The bytes of a model file: a safetensors container with one metadata string and a checksum.

Written here, so that arrays stream to the disk and a full disk is an ordinary OSError; read by the
safetensors library, which is built to be handed hostile files.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from onefold.saving.errors import UPGRADE, BadContent
from onefold.saving.nodes import ARRAY_DTYPES

METADATA_KEY = "onefold"
CHECKSUM_KEY = "sha256"
MAX_HEADER = 64 * 2**20
_LENGTH_BYTES = 8  # the header's length, little-endian, opens the file
_ALIGNMENT = 8
_SAFETENSORS_NAMES = {numpy_name: name for name, numpy_name in ARRAY_DTYPES.items()}


def write(path: Path, text: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a model file in one step: it is there complete, or `path` is as it was before.

    Parameters
    ----------
    path : Path
        Where to write.
    text : str
        The metadata.
    arrays : mapping of str to ndarray
        C-contiguous arrays with dtypes among `ARRAY_DTYPES`.

    Raises
    ------
    OSError
        If the folder does not exist, the path is not a plain file, or writing fails.
    ValueError
        If the metadata is too large.
    """
    target = Path(os.path.realpath(path))  # through a link, so that the link stays one
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"cannot save to {path}: the folder {target.parent} does not exist; create it first."
        )
    if target.is_dir():
        raise IsADirectoryError(f"cannot save to {path}: it is a folder; give a file name.")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot save to {path}: it is not a plain file; choose another name.")
    # Widest items first keeps every array aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = _header(text, {name: arrays[name] for name in order})
    temporary = target.parent / f".{target.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
            file.write(header)
            for name in order:
                file.write(raw_bytes(arrays[name]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _header(text: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    entries: dict[str, Any] = {
        "__metadata__": {METADATA_KEY: text, CHECKSUM_KEY: _checksum(text, arrays)}
    }
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        entries[name] = {
            "dtype": _SAFETENSORS_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"cannot save: everything but numeric arrays takes {len(header)} bytes, and a model "
            f"file has room for {MAX_HEADER}; keep large values in numeric arrays."
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


class Container:
    """An open model file."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._metadata: dict[str, str] = opened.metadata() or {}
        if not {METADATA_KEY, CHECKSUM_KEY} <= self._metadata.keys():
            raise BadContent("it is a safetensors file, but not one of onefold's")

    def text(self) -> str:
        """The metadata."""
        return self._metadata[METADATA_KEY]

    def describe_arrays(self) -> dict[str, dict[str, Any]]:
        """The dtype and shape of each array, from the header alone."""
        described = {}
        for name in sorted(self._opened.keys()):
            entry = self._opened.get_slice(name)
            if entry.get_dtype() not in ARRAY_DTYPES:
                raise BadContent(f"it holds an array of type {entry.get_dtype()!s:.20}", UPGRADE)
            described[name] = {
                "dtype": ARRAY_DTYPES[entry.get_dtype()],
                "shape": list(entry.get_shape()),
            }
        return described

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, in host memory and together no larger than the file; checks the checksum."""
        arrays = {name: self._opened.get_tensor(name) for name in self.describe_arrays()}
        if _checksum(self.text(), arrays) != self._metadata[CHECKSUM_KEY]:
            raise BadContent("its content does not match its checksum")
        return arrays


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """Open a model file whose header fits the file's size.

    Raises
    ------
    BadContent
        If it is not a safetensors file, now or on reading from it.
    FileNotFoundError
        If there is no such file.
    """
    # Before opening: a pipe would block.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise BadContent("it is a folder or a device, not a file", "give the model file itself")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES or length > min(size - _LENGTH_BYTES, MAX_HEADER):
        raise BadContent("it is not a safetensors file or was cut short")
    try:
        with safe_open(path, framework="numpy") as handle:
            yield Container(handle)
    except SafetensorError as error:
        raise BadContent(f"it is not a safetensors file or was cut short ({error!s:.200})") from error
