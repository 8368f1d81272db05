"""Arguments that tests of the command line start from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ONEFOLD = [sys.executable, "-m", "onefold"]
SMALL = ["--simple", "--gammas", "2^-3:2^1:3", "--alphas", "2^-5:2^1:3"]
TUNE = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "site", "mass", "--id", "who"]
NUMBERS = ["tune", "t.csv", "--target", "amount", "--drop", "kind", "site", "mass", "who"]
MODEL = "t-onefold/model.onefold"
FILES = ["model.onefold", "report.html", "search.csv"]
# A process whose output is read as UTF-8, whatever the locale of these tests is.
IN_UTF8 = {"encoding": "utf-8", "env": os.environ | {"PYTHONIOENCODING": "utf-8"}}


def files(folder: Path | str = ".") -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())
