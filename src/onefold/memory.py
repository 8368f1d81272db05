"""How much memory there is, so that work that cannot fit is refused before it starts."""

from __future__ import annotations

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def available_memory() -> int | None:
    """Bytes that can still be had without swapping, or None where the system does not say."""
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError, with the remedy, if `needed` bytes cannot be had."""
    there = available_memory()
    if there is not None and needed > there:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.1f} GiB but {there / 2**30:.1f} GiB are free; {remedy}."
        )
