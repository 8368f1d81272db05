"""Arguments that tests of the command line start from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

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


N = 60


def two_classes() -> pd.DataFrame:
    """The table of most tests here."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"length": rng.normal(size=N), "width": rng.normal(size=N)})
    frame["colour"] = np.where(rng.random(N) < 0.5, "red", "blue")
    inside = frame.length**2 + frame.width**2 < 1.2
    frame["kind"] = np.where(inside, "inner", "outer")
    frame["amount"] = np.sin(frame.length) + 0.1 * rng.normal(size=N)
    frame["who"] = [f"row-{i:03d}" for i in range(N)]
    frame["site"] = np.arange(N) // 6
    frame["mass"] = rng.uniform(0.5, 2.0, size=N)
    return frame
