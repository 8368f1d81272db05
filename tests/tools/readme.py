"""Run README.md from top to bottom, as written, in a clone with a virtual environment of its own.

    python -m tests.tools.readme        (or make readme)

Installs what the page says, which takes an index of packages (exit code 77 where there is none) and half
a minute or more; so it is no test of pytest's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.M | re.S)
NO_INDEX = 77
_WITHOUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")


def script(page: str) -> str:
    """The blocks of a page one after another in one shell; the first installs."""
    lines = ["set -e"]
    for place, (kind, text) in enumerate(BLOCK.findall(page)):
        lines += ["python - <<'END'", f"{text}END"] if kind else [text]
        if place == 0:
            lines.append(f"touch {_INSTALLED}")
    return "\n".join(lines)


_INSTALLED = ".installed"


def copy_tree(folder: Path) -> None:
    """Copy what git knows, or would add, to a new folder."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def main() -> int:
    """Run the page in a copy of the tree."""
    environment = {name: value for name, value in os.environ.items() if name not in _WITHOUT}
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        page = Path(folder, "README.md").read_text(encoding="utf-8")
        done = subprocess.run(["bash", "-c", script(page)], cwd=folder, env=environment, check=False)
        if done.returncode and not Path(folder, _INSTALLED).exists():
            print("README.md: nothing could be installed here, so it was not run", file=sys.stderr)
            return NO_INDEX
        written = ("prices.csv", "houses.html", "houses.onefold")
        missing = [name for name in written if not Path(folder, name).exists()]
    print(f"README.md: exit code {done.returncode}" + (f", no {', '.join(missing)}" if missing else ""))
    return done.returncode or int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
