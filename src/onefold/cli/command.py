"""The command that would run this very program again from the shell it was started in."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path


def command_line(*arguments: str) -> str:
    """A command to copy: ``onefold`` if the shell finds this program by that name, else its path."""
    return " ".join([*_program(), *(shlex.quote(argument) for argument in arguments)])


def repeated(arguments: argparse.Namespace) -> str:
    """The command as it was given, its files without their folders: a page may be passed on."""
    files = {str(one): one.name for one in vars(arguments).values() if isinstance(one, Path)}
    return shlex.join(["onefold", *(files.get(str(Path(one)), one) for one in arguments.argv)])


def _program() -> list[str]:
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return [_called(Path(sys.executable)), "-m", "onefold"]
    if started.stem != "onefold":
        return ["onefold"]  # called from Python
    return [_called(started)]


def _called(program: Path) -> str:
    """The bare name where the search path leads to this file, else the path as it was given."""
    found = shutil.which(program.name)
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return program.name
    return shlex.quote(str(program))
