"""Check the wheel and the source archive in dist/ before they are tried out.

    python -m build && python -m tests.tools.archives        (noxfile.py does so)

The version is the one that CHANGELOG.md and CITATION.cff date; the archives hold what is under version
control and nothing else, the wheel the package alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import onefold

ROOT = Path(__file__).parents[2]
NAME = f"onefold-{onefold.__version__}"
HIDDEN = (".ci/", ".github/", ".pre-commit-config.yaml")  # of the repository, not of a release
WHEEL = ROOT / "dist" / f"{NAME}-py3-none-any.whl"
SOURCE = ROOT / "dist" / f"{NAME}.tar.gz"


def check_version() -> str:
    """The changelog and CITATION.cff speak of this version, with one date."""
    version = re.escape(onefold.__version__)
    patterns = {
        "CHANGELOG.md": rf"^## {version} \(([\d-]+)\)$",
        "CITATION.cff": rf"^version: {version}\ndate-released: ([\d-]+)$",
    }
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in patterns}
    dates = {name: re.findall(patterns[name], text, re.M) for name, text in texts.items()}
    if not dates["CHANGELOG.md"] or dates["CHANGELOG.md"] != dates["CITATION.cff"]:
        raise SystemExit(f"dates of {onefold.__version__} are missing or differ: {dates}")
    return f"{onefold.__version__} of {dates['CHANGELOG.md'][0]}"


def check_contents() -> str:
    """Nothing is missing from the archives, and nothing else is in them."""
    with zipfile.ZipFile(WHEEL) as wheel:
        in_wheel = set(wheel.namelist())
    with tarfile.open(SOURCE) as source:
        files = [member.name for member in source.getmembers() if member.isfile()]
    in_source = {name.removeprefix(f"{NAME}/") for name in files}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in listed.stdout.splitlines() if not name.startswith(HIDDEN)}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    extra = in_source - tracked - {"PKG-INFO"}
    extra |= {name for name in in_wheel - package if not name.startswith(f"{NAME}.dist-info/")}
    missing = (tracked - in_source) | (package - in_wheel)
    for problem, names in {"not under version control": extra, "missing": missing}.items():
        if names:
            raise SystemExit(f"{len(names)} files {problem}: {', '.join(sorted(names)[:5])}")
    return f"{len(in_wheel)} files in the wheel, {len(in_source)} in the source archive"


def main() -> int:
    """Both checks."""
    if not (WHEEL.exists() and SOURCE.exists()):
        raise SystemExit(f"dist/ does not hold {NAME}: run `python -m build` first")
    print(check_version())
    print(check_contents())
    return 0


if __name__ == "__main__":
    sys.exit(main())
