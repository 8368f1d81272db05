"""The entry point: run a command, and turn whatever goes wrong into one line and an exit code.

====  =======================================================
0     done
1     internal error (a traceback) or not enough memory
2     wrong usage or unusable input (one line on stderr)
130   interrupted with Ctrl-C; no file is left half-written
143   stopped with SIGTERM; likewise
====  =======================================================
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TextIO

from onefold.cli.parser import build_parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with warnings.catch_warnings(), _orderly_termination():
            warnings.showwarning = _show_warning
            arguments = build_parser().parse_args(argv)
            # Imported only now, so that --help and --version answer at once.
            import_module(f"onefold.cli.{arguments.command}").run(arguments)
            sys.stdout.flush()
    except SystemExit as finished:  # --help, --version, SIGTERM
        return int(finished.code or 0)
    except KeyboardInterrupt:
        return _fail("interrupted; no file was written", 130)
    except BrokenPipeError:
        # Whoever read our output has enough of it. Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        return _fail(f"not enough memory ({error})", 1)
    except (ValueError, OSError, ImportError) as error:
        return _fail(" ".join(str(error).split()) or type(error).__name__, 2)
    return 0


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """Unwind on SIGTERM as on Ctrl-C, so that temporary files go too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    earlier = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _fail(message: str, code: int) -> int:
    kind = "" if code == 130 else "error: "
    print(f"onefold: {kind}{message}", file=sys.stderr)
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"onefold: warning: {' '.join(str(message).split())}", file=sys.stderr)
