"""How much memory there is, so that work that cannot fit is refused before it starts.

Linux keeps the limits of the container that this process runs in as control groups, in two generations:
version 2 has one tree for all controllers, version 1 one for each; a machine may have both. A limit may
be set at any level above the process, and the narrowest one counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # not a Unix system: it has no such limits
    resource = None  # type: ignore[assignment]

_PROC = Path("/proc")
# By version of control groups: the files of the limits, the file of the usage, and the field of
# memory.stat for the part of the usage that the kernel gives back when memory is short. Beyond "high" a
# process is not killed but slowed to a crawl.
_GROUP_FILES = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}


def available_memory() -> int | None:
    """Bytes that the machine, the containers and the limits of this process still allow."""
    return min([*_system(), *_groups(), *_limits()], default=None)


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError, with the remedy, if `needed` bytes cannot be had."""
    require_available(available_memory(), needed, what, remedy)


def require_available(available: int | None, needed: int, what: str, remedy: str) -> None:
    """Raise MemoryError, with the remedy, if more is `needed` than `available`; None is unknown."""
    if available is not None and needed > available:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.1f} GiB but {available / 2**30:.1f} GiB are free; {remedy}."
        )


def lies_in_memory(folder: Path, proc: Path = _PROC) -> bool:
    """Whether files of a folder are kept in memory, as /tmp often is (tmpfs)."""
    place = folder.resolve()
    kinds: dict[Path, str] = {}  # of file systems, by where they are mounted
    for line in _lines(proc / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])  # blanks
        kinds[Path(mount)] = after.split(" ")[0]
    mounts = (parent for parent in (place, *place.parents) if parent in kinds)
    return kinds.get(next(mounts, Path()), "") in ("tmpfs", "ramfs")


def _system(proc: Path = _PROC) -> Iterator[int]:
    """Bytes that are free on the machine."""
    free = read_field(proc / "meminfo", "MemAvailable:")
    with suppress(ValueError, OSError, AttributeError):  # a system that has no such number
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if free is None else free * 1024


def _limits(proc: Path = _PROC) -> Iterator[int]:
    """Bytes up to each resource limit of this process (``ulimit``)."""
    if resource is None:
        return
    for kind, field in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        limit = resource.getrlimit(kind)[0]
        used = read_field(proc / "self" / "status", field)
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - (used or 0) * 1024)


def _groups(proc: Path = _PROC) -> Iterator[int]:
    """Bytes up to each limit of the control groups above this process."""
    for version, folder in _group_folders(proc):
        limits, usage, reclaimable = _GROUP_FILES[version]
        used = _read_number(folder / usage) or 0
        used -= min(used, read_field(folder / "memory.stat", reclaimable) or 0)
        for name in limits:
            limit = _read_number(folder / name)
            if limit is not None:
                yield max(0, limit - used)


def _group_folders(proc: Path) -> Iterator[tuple[int, Path]]:
    """(version, folder) of every control group of memory above this process, the nearest first."""
    group_paths: dict[str, str] = {}  # of this process, by controller; "" is version 2
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        group_paths |= dict.fromkeys(controllers.split(","), path)
    for line in _lines(proc / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        mount_fields = before.split()
        type_fields = after.split()
        if len(mount_fields) < 5 or len(type_fields) < 3 or type_fields[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if type_fields[0] == "cgroup2" else 1
        root = mount_fields[3]
        mount = Path(mount_fields[4])
        group = group_paths.get("" if version == 2 else "memory")
        if group is None or (version == 1 and "memory" not in type_fields[2].split(",")):
            continue
        # A container sees its part of the tree at the mount point, but may be given the whole path.
        inside = group.removeprefix(root.rstrip("/")) if group.startswith(root) else ""
        folder = mount / inside.lstrip("/")
        if ".." in folder.parts or not folder.is_dir():
            folder = mount
        yield version, folder
        while folder != mount:
            folder = folder.parent
            yield version, folder


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not empty; none if it does not exist or may not be read."""
    try:
        text = path.read_text("utf-8", "surrogateescape")  # names of mount points may be any bytes
    except OSError:
        return []
    return [line for line in text.split("\n") if line]  # also where a name has a separator of Unicode


def _read_number(path: Path) -> int | None:
    """The number in a file; None for no file, or a word such as "max"."""
    text = " ".join(_lines(path))
    return int(text) if text.removeprefix("-").isdigit() else None


def read_field(path: Path, name: str) -> int | None:
    """The number after `name` in a file of ``name number`` lines, as in /proc and memory.stat."""
    fields = (line.split() for line in _lines(path))
    return next((int(words[1]) for words in fields if words[:1] == [name]), None)
