"""The entry point: run a command, and turn whatever goes wrong into one line and an exit code.

====  ==============================================================
0     done, also where the first Ctrl-C ended the search of ``tune``
1     internal error (a traceback) or not enough memory
2     wrong usage or unusable input (one line on stderr)
130   interrupted with Ctrl-C; no file is left half-written
143   stopped with SIGTERM; likewise
====  ==============================================================
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from onefold.cli.parser import build_parser
from onefold.cli.stopping import Interrupted, orderly_stopping

if TYPE_CHECKING:
    from onefold.tables.errors import Remedy


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options: dict[str, list[str]] = {}
    try:
        with warnings.catch_warnings(), orderly_stopping():
            warnings.showwarning = _each_once()
            arguments = build_parser().parse_args(argv)
            options |= arguments.options
            arguments.argv = list(sys.argv[1:] if argv is None else argv)
            # Imported only now, so that --help and --version answer at once.
            import_module(f"onefold.cli.{arguments.command}").run(arguments)
            sys.stdout.flush()
    except SystemExit as finished:  # --help, --version, SIGTERM
        return int(finished.code or 0)
    except (KeyboardInterrupt, Interrupted):
        return _fail("interrupted; no file is left half-written", 130)
    except BrokenPipeError:
        # Whoever read our output has enough of it. Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        return _fail(f"not enough memory ({error})", 1)
    except OSError as error:
        return _fail(_trouble(error), 2)
    except (ValueError, ImportError) as error:
        message = (
            error.spelled(partial(_as_option, options)) if hasattr(error, "spelled") else str(error)
        )
        return _fail(" ".join(message.split()) or type(error).__name__, 2)
    return 0


def _as_option(options: dict[str, list[str]], remedy: Remedy) -> str | None:
    """A remedy as the option of the running command; None where the command has none for it."""
    if remedy.name not in options:
        return None
    option, value = options[remedy.name][-1 if remedy.value is False else 0], remedy.value
    if isinstance(value, bool):
        return option
    texts = [str(one) for one in (value if isinstance(value, list) else [value])]
    joint = "=" if texts[0].startswith("-") else " "
    return f"{option}{joint}{' '.join(map(_quoted, texts))}"


def _quoted(text: str) -> str:
    """A value as a shell takes it, in quotes also where a reader would take it for punctuation."""
    if re.fullmatch(r"[\w./+-]+", text):
        return text
    return shlex.quote(text) if set(text) & set('"$`!\\') else f'"{text}"'


def _trouble(error: OSError) -> str:
    """What the operating system refused, in a sentence with the file it is about."""
    if error.strerror is None:
        return " ".join(str(error).split()) or type(error).__name__
    file = error.filename if error.filename is not None else "a file"
    if isinstance(error, FileNotFoundError):
        return f"there is no file {file}"
    remedy = {
        errno.EACCES: "check its permissions",
        errno.EPERM: "check its permissions",
        errno.ENOSPC: "free some space and try again",
        errno.EROFS: "choose another place",
    }.get(error.errno or 0, "check the path")
    return f"can't use {file}: {error.strerror.lower()}; {remedy}"


def _fail(message: str, code: int) -> int:
    kind = "" if code == 130 else "error: "
    print(f"onefold: {kind}{message}", file=sys.stderr)
    return code


def _each_once() -> Callable[..., None]:
    """A way to show warnings: one line each, and none twice."""
    shown = set()

    def show(message: Warning | str, *where: object, **more: object) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            print(f"onefold: warning: {text}", file=sys.stderr)

    return show
