"""Files that are written whole or not at all, and what to do about disks that refuse."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Letters of a file's name that its temporary name keeps: file systems limit the length of names.
_LONGEST = 100

_ELSEWHERE = "write to a folder where you have permission"
_REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
    errno.EBADF: "open it for writing",
    errno.ENOENT: "give the name of a file in a folder that exists",
}


def with_remedy(number: int) -> str:
    """The system's message for an error of the disk, by its number, and what to do about it."""
    return f"{os.strerror(number)}; {_REMEDIES.get(number, 'check path, permissions and free space')}"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary file next to `path`, renamed to it if the block ends without error.

    Where `path` is a symbolic link, the file that it points to is replaced. Folders and devices are
    refused. Errors of the disk name `path`, and what to do.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        number = errno.EISDIR if target.is_dir() else errno.EEXIST
        raise OSError(number, "it is a folder or a device; give the name of a file", str(path))
    temporary = target.with_name(f".{target.name[:_LONGEST]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary), temporary):
            raise
        raise OSError(error.errno, with_remedy(error.errno), str(path)) from error
    finally:
        with suppress(OSError):  # a read-only disk refuses this even where there is no such file
            temporary.unlink(missing_ok=True)
