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
    """A temporary name of its own next to `path`, renamed to it if the block ends without error."""
    temporary = path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
