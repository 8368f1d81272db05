"""How far a reader has to walk: the files, functions and frames that a call goes through.

``python -m tests.tools.walk`` prints a line for each of the walks below; with ``-v`` the files, too.
Files and functions are those of ``onefold`` that are called, without imports; frames are the deepest
nesting of them. Set ``OMP_NUM_THREADS=1``: what runs in another thread is not seen.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_regression

import onefold
from onefold.cli import entry

_PACKAGE = str(Path(onefold.__file__).parent)
_HOUSES = str(Path(__file__).parents[2] / "examples" / "houses.csv")


def _ours(path: str) -> bool:
    return path.startswith(_PACKAGE) and path.endswith(".py")


def walked(call: Callable[[], Any]) -> tuple[set[str], set[tuple[str, str]], int]:
    """The files, the functions and the deepest nesting of what a call goes through."""
    files = set[str]()
    functions = set[tuple[str, str]]()
    depth = 0
    deepest = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if event not in ("call", "return") or not _ours(code.co_filename):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class
            return
        depth += 1 if event == "call" else -1
        if event == "call":
            deepest = max(deepest, depth)
            files.add(code.co_filename)
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files, functions, deepest


def _plain() -> None:
    X, y = make_classification(75, 4, random_state=0)
    onefold.LSSVCCV().fit(X, y)


def _metric() -> None:
    X, y = make_regression(120, 4, noise=1.0, random_state=0)
    onefold.LSSVRCV(kernel="auto", metric="auto", blend=True).fit(X, np.tanh(y / y.std()))


def _tune() -> None:
    with tempfile.TemporaryDirectory() as folder:
        entry.main(["tune", _HOUSES, "--target", "price", "--id", "house", "--out", f"{folder}/houses"])


WALKS: dict[str, Callable[[], None]] = {
    "LSSVCCV().fit": _plain,
    "families, metric and blend": _metric,
    "onefold tune": _tune,
}


def main() -> int:
    """Print a line for each walk."""
    warnings.simplefilter("ignore")
    for name, call in WALKS.items():
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            call()  # what is imported on the way is imported now
            files, functions, frames = walked(call)
        print(f"{name:28} {len(files):3} files {len(functions):4} functions {frames:3} frames")
        if "-v" in sys.argv:
            print("   " + " ".join(sorted(str(Path(file).relative_to(_PACKAGE)) for file in files)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
