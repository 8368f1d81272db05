"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 100  # letters of the name that the temporary one keeps: names have a limit


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name next to `path`, renamed to it when the block ends without error.

    No two writers share a name, whether processes or threads; after an error nothing is left of it, and
    what was at `path` before is still there.
    """
    temporary = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
