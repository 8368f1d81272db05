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
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

from onefold.cli.parser import build_parser
from onefold.cli.spelling import as_options
from onefold.cli.stopping import Interrupted, orderly_stopping


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with warnings.catch_warnings(), orderly_stopping():
            warnings.showwarning = _each_once()
            arguments = build_parser().parse_args(argv)
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
        return _fail(" ".join(str(error).split()) or type(error).__name__, 2)
    return 0


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
    print(f"onefold: {kind}{as_options(message)}", file=sys.stderr)
    return code


def _each_once() -> Callable[..., None]:
    """A way to show warnings: one line each, and none twice."""
    shown = set()

    def show(message: Warning | str, *where: object, **more: object) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            print(f"onefold: warning: {as_options(text)}", file=sys.stderr)

    return show
