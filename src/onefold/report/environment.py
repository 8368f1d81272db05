"""What the model was looked at with: versions, libraries, the machine in general terms."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_info

from onefold._version import __version__
from onefold.machine.threads import count_workers

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "matplotlib", "torch")


def environment_facts() -> list[tuple[str, str]]:
    """Label and value; no names of hosts, people or files."""
    lines = [("onefold", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            lines.append((name, version(name)))
        except PackageNotFoundError:
            continue
    for one in threadpool_info():
        if one.get("user_api") == "blas":
            words = f"{one.get('internal_api', 'BLAS')} {one.get('version') or ''}".strip()
            lines.append(
                (_whose(one.get("filepath", "")), f"{words}, threads: {one.get('num_threads')}")
            )
    lines = list(dict.fromkeys(lines))
    cores = count_workers(None)
    lines.append(("machine", f"{platform.system()}, {platform.machine()}, threads: {cores}"))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return [*lines, ("day of this report", today)]


def _whose(path: str) -> str:
    """The package whose copy of BLAS a file is: wheels bring their own."""
    for name in ("numpy", "scipy", "torch"):
        if any(part in (name, f"{name}.libs") for part in path.replace("\\", "/").split("/")):
            return f"BLAS of {name}"
    return "BLAS"
