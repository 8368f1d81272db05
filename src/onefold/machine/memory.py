"""How much memory there is, so that work that cannot fit is refused before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from onefold.machine.cgroups import cgroup_folders, read_field, read_number

try:
    import resource
except ImportError:  # not a Unix system: it has no such limits
    resource = None  # type: ignore[assignment]

_PROC = Path("/proc")
# (limit, usage, what of the usage the kernel gives back when asked) by version of control groups;
# beyond "high" a process is not killed but slowed to a crawl.
_GROUP_FILES = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}


def available_memory() -> int | None:
    """Bytes that this process can still get without swapping; None where nothing says.

    The least of what the machine has free, what every control group around the process (a container,
    a service, a batch job) leaves, and what ``ulimit -v`` and ``ulimit -d`` leave.
    """
    return min([*_system(), *_groups(), *_limits()], default=None)


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError, with the remedy, if `needed` bytes cannot be had."""
    require_of(available_memory(), needed, what, remedy)


def require_of(there: int | None, needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError, with the remedy, if more is `needed` than is `there`; None is unknown."""
    if there is not None and needed > there:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.1f} GiB but {there / 2**30:.1f} GiB are free; {remedy}."
        )


def _system(proc: Path = _PROC) -> Iterator[int]:
    free = read_field(proc / "meminfo", "MemAvailable:")
    if free is not None:
        yield free * 1024
        return
    try:
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # a system that has no such number
        return


def _groups(proc: Path = _PROC) -> Iterator[int]:
    for version, folder in cgroup_folders("memory", proc / "self"):
        limits, usage, reclaimable = _GROUP_FILES[version]
        used = read_number(folder / usage) or 0
        used -= min(used, read_field(folder / "memory.stat", reclaimable) or 0)
        for name in limits:
            limit = read_number(folder / name)
            if limit is not None:
                yield max(0, limit - used)


def _limits(proc: Path = _PROC) -> Iterator[int]:
    if resource is None:
        return
    status = proc / "self" / "status"
    for kind, field in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        limit = resource.getrlimit(kind)[0]
        used = read_field(status, field)
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - (used or 0) * 1024)
