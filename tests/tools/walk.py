"""How far a reader has to walk: the files, functions and frames that a call goes through.

``python -m tests.tools.walk`` prints a line for each of the walks below; with ``-v`` the files and the
deepest nesting, too. Files and functions are those of ``onefold`` that are called, without imports;
frames are the deepest nesting of them. Comprehensions, generator expressions and lambdas do not count:
they are read where they stand, within a function that counts, and from Python 3.12 on a comprehension
has no frame of its own, so that the figures are the same for every version. Set ``OMP_NUM_THREADS=1``:
what runs in another thread is not seen.
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
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification, make_regression

import onefold
from onefold import LSSVCCV, LSSVRCV
from onefold.cli import entry

_PACKAGE = str(Path(onefold.__file__).parent)
_HOUSES = str(Path(__file__).parents[2] / "examples" / "houses.csv")
# Code objects that are read within the function where they stand.
_INLINE = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}


def _ours(path: str) -> bool:
    return path.startswith(_PACKAGE) and path.endswith(".py")


def _relative(path: str) -> str:
    return str(Path(path).relative_to(_PACKAGE))


class Walk(NamedTuple):
    """What a call goes through."""

    files: set[str]
    functions: set[tuple[str, str]]  # file and qualified name
    deepest: list[tuple[str, str]]  # the functions of the deepest nesting, the outermost first


def walked(call: Callable[[], Any]) -> Walk:
    """The files, the functions and the deepest nesting of what a call goes through."""
    functions = set[tuple[str, str]]()
    nested = list[tuple[str, str]]()
    deepest = list[tuple[str, str]]()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not _ours(code.co_filename):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class
            return
        if code.co_name in _INLINE:
            return
        if event == "return":
            nested.pop()
            return
        nested.append((code.co_filename, code.co_qualname))
        functions.add(nested[-1])
        if len(nested) > len(deepest):
            deepest[:] = nested

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk({file for file, _ in functions}, functions, deepest)


def _plain() -> None:
    X, y = make_classification(75, 4, random_state=0)
    LSSVCCV().fit(X, y)


def _metric() -> None:
    X, y = make_regression(120, 4, noise=1.0, random_state=0)
    LSSVRCV(kernel="auto", metric="auto", blend=True).fit(X, np.tanh(y / y.std()))


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
            walk = walked(call)
        counts = f"{len(walk.files):3} files {len(walk.functions):4} functions"
        print(f"{name:28} {counts} {len(walk.deepest):3} frames")
        if "-v" in sys.argv:
            print("   " + " ".join(sorted(_relative(file) for file in walk.files)))
            for file, function in walk.deepest:
                print(f"      {_relative(file)}: {function}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
