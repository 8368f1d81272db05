"""Where Linux keeps the limits of the container that this process runs in, both generations of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc/self")


def cgroup_folders(controller: str, proc: Path = _PROC) -> Iterator[tuple[int, Path]]:
    """(version, folder) of every control group above this process, its own first.

    A limit may be set at any level, so that the narrowest one counts. Version 2 has one tree for all
    controllers, version 1 one for each; a machine may have both.
    """
    own = _own_groups(proc)
    for version, controllers, root, mount in _mounts(proc):
        path = own.get("" if version == 2 else controller)
        if path is None or (version == 1 and controller not in controllers):
            continue
        # A container sees its part of the tree at the mount point, but may be told the whole path.
        inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
        folder = mount / inside.lstrip("/")
        if ".." in folder.parts or not folder.is_dir():
            folder = mount
        yield version, folder
        while folder != mount:
            folder = folder.parent
            yield version, folder


def read_number(path: Path) -> int | None:
    """The number in a file; None for no file, no right to read it, or a word such as "max"."""
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None


def read_field(path: Path, name: str) -> int | None:
    """The number after `name` in a file of ``name number`` lines, as in /proc and memory.stat."""
    try:
        lines = path.read_text("ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)
    except (OSError, ValueError, IndexError):
        return None


def _own_groups(proc: Path) -> dict[str, str]:
    """The path of this process's group by controller; "" is version 2."""
    try:
        lines = (proc / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def _mounts(proc: Path) -> Iterator[tuple[int, list[str], str, Path]]:
    """(version, controllers, root, mount point) of every mounted tree of control groups."""
    try:
        lines = (proc / "mountinfo").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        place, kind = before.split(), after.split()
        if len(place) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        yield 2 if kind[0] == "cgroup2" else 1, kind[2].split(","), place[3], Path(place[4])
