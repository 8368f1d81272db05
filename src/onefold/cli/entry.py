"""The entry point: run a command, stop cleanly, turn errors into one line and an exit code.

The first Ctrl-C during a search that has a score ends the search and keeps its best model; the second
one, and the first at any other time, stops at once. An evaluation that iterates is broken off if its
stage has another score, and otherwise completed. Python runs signal handlers between two steps of the
main thread, so a factorisation in progress is finished first.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from onefold.cli.options import parsed
from onefold.cli.streams import Output, OutputError, standard_streams
from onefold.machine.files import with_remedy
from onefold.machine.iterations import watcher

if TYPE_CHECKING:
    from onefold.tables.errors import Remedy

Callback = Callable[[Mapping[str, Any]], None]
# The environment variable that, if set, makes every error print its traceback.
_TRACEBACK = "ONEFOLD_TRACEBACK"
# Commands that are run by the module of another one.
_MODULES = {"plan": "tune"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    with standard_streams() as output, _matplotlib_silenced():
        try:
            with orderly_stopping():
                code = _run(argv, output)
        except SystemExit as finished:  # SIGTERM after the command
            code = int(finished.code or 0)
        except (KeyboardInterrupt, Interrupted):
            code = _interrupted()
        if code == 0 and output.failure is not None and output.has_reader:
            code = _fail(f"cannot write to standard output: {_reason(output.failure)}", 2)
    return code


def _run(argv: Sequence[str] | None, output: Output) -> int:
    """Run a command and write its output; an error is a line and an exit code."""
    options: dict[str, list[str]] = {}
    try:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_once()
                arguments = parsed(argv)
                options = arguments.options
                arguments.argv = list(sys.argv[1:] if argv is None else argv)
                _command(arguments.command)(arguments)
        except SystemExit as finished:  # --help, --version, SIGTERM
            if finished.code:
                return int(finished.code)
        output.flush()
    except (KeyboardInterrupt, Interrupted):
        return _interrupted()
    except OutputError:
        return 0  # `main` corrects it, unless the reader of a pipe has closed it
    except Exception as error:  # noqa: BLE001
        stop = _signal_behind(error)
        if stop is None:
            return _failure(error, options)
        return int(stop.code or 0) if isinstance(stop, SystemExit) else _interrupted()
    return 0


def _signal_behind(error: BaseException) -> BaseException | None:
    """The exception of a signal handler, which Python before 3.12 wraps while it creates a class."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, Interrupted | SystemExit):
        cause = cause.__cause__
    return cause


def _failure(error: Exception, options: dict[str, list[str]]) -> int:
    """Print what went wrong; also the traceback of an internal error, or if it is requested."""
    expected = isinstance(error, OSError | ValueError | ImportError | MemoryError | Warning)
    if not expected or os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    if isinstance(error, MemoryError):
        return _fail(f"not enough memory ({error})", 1)
    if not expected:
        return _fail(
            f"internal error ({type(error).__name__}); please report it with the traceback above", 1
        )
    if isinstance(error, Warning):
        return _fail(f"{error} (a warning that -W or PYTHONWARNINGS turns into an error)", 2)
    if isinstance(error, FileNotFoundError) and error.filename:
        return _fail(f"there is no file {error.filename}", 2)
    if isinstance(error, OSError) and error.errno is not None:
        file = f"cannot use {error.filename}: " if error.filename else ""
        return _fail(f"{file}{_reason(error)}", 2)
    # Errors of tables have remedies, which are spelled as options of this command.
    spelled = getattr(error, "spelled", None)
    if spelled is None:
        return _fail(str(error), 2)
    return _fail(spelled(partial(_as_option, options), partial(_option, options)), 2)


def _reason(error: Exception) -> str:
    """The system's message about an error of a file or a stream, and what to do."""
    number = getattr(error, "errno", None)
    return str(error) if number is None else with_remedy(number).lower()


def _interrupted() -> int:
    return _fail("interrupted; no file is left half-written", 130)


@contextmanager
def _matplotlib_silenced() -> Iterator[None]:
    """Silence Matplotlib's advice about its cache, which is meant for users of Python."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _command(name: str) -> Callable[[Any], None]:
    """The function that runs a command, imported only now: --help and --version answer at once."""
    gc.disable()  # imported modules stay: collecting garbage takes a tenth of the time of importing
    module = import_module(f"onefold.cli.{_MODULES.get(name, name)}")
    gc.enable()
    return getattr(module, f"run_{name}")


def _option(options: dict[str, list[str]], name: str) -> str:
    """A parameter as the option of the running command, or as it is."""
    return next(iter(options.get(name, ())), name)


def _as_option(options: dict[str, list[str]], remedy: Remedy) -> str | None:
    """A remedy as the option of the running command; None if the command has no such option."""
    if remedy.name not in options:
        return None
    option = options[remedy.name][-1 if remedy.value is False else 0]
    value = remedy.value
    if isinstance(value, bool):
        return option
    texts = list(map(str, value if isinstance(value, list) else [value]))
    separator = "=" if texts[0].startswith("-") else " "
    spelled = f"{option}{separator}{' '.join(map(_quoted, texts))}"
    if remedy.companion is None:
        return spelled
    return f"{spelled} {_as_option(options, remedy.companion)}"


def _quoted(text: str) -> str:
    """A value quoted for a shell, and where a reader would take it for punctuation."""
    if re.fullmatch(r"[\w./+-]+", text):
        return text
    return shlex.quote(text) if set(text) & set('"$`!\\') else f'"{text}"'


def _fail(message: str, code: int) -> int:
    print(f"onefold: {'' if code == 130 else 'error: '}{' '.join(message.split())}", file=sys.stderr)
    return code


def _show_once() -> Callable[..., None]:
    """A replacement of `warnings.showwarning`: one line for each warning, and none twice."""
    messages = set()

    def show(message: Warning | str, *details: object, **options: object) -> None:
        text = " ".join(str(message).split())
        if text not in messages:
            messages.add(text)
            print(f"onefold: warning: {text}", file=sys.stderr)

    return show


class Interrupted(BaseException):
    """Ctrl-C that stops at once; a search would keep its best after a KeyboardInterrupt."""


class _CtrlC:
    """The handler of Ctrl-C, and the callback by which it ends a search between two evaluations."""

    def __init__(self) -> None:
        self.callback: Callback | None = None  # of the search that is running
        self._stop_requested = False
        self._search_ended = False
        self._has_score = False
        self._stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:  # nothing disturbs the clean-up
            _announce("still stopping")
        elif self.callback is not None and self._has_score and not self._stop_requested:
            _announce("finishing the fit of the best so far; Ctrl-C again to stop")
            self._stop_requested = True
            if self._within_replaceable():
                self._end_search()
        else:
            self._stopping = True
            _announce("stopping …")
            raise Interrupted

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGTERM, which does not disturb the clean-up after an earlier signal."""
        if not self._stopping:
            self._stopping = True
            sys.exit(128 + number)

    def watch(self, event: Mapping[str, Any]) -> None:
        """Call the search's callback; raise KeyboardInterrupt, once, if Ctrl-C was pressed."""
        if self.callback is not None:
            self.callback(event)
        self._has_score |= event["best_score"] is not None
        between_evaluations = "iteration" not in event
        if self._stop_requested and not self._search_ended and between_evaluations:
            self._end_search()

    def _end_search(self) -> NoReturn:
        """Raise KeyboardInterrupt; a second one would end more than the search."""
        self._search_ended = True
        raise KeyboardInterrupt

    @staticmethod
    def _within_replaceable() -> bool:
        """Whether a long evaluation is under way, of a stage that has a score without it."""
        watching = watcher()
        return watching is not None and watching.replaceable


@contextmanager
def orderly_stopping() -> Iterator[None]:
    """Ctrl-C asks a search to end or raises Interrupted; SIGTERM raises SystemExit."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    ctrl_c = _CtrlC()
    handlers: dict[int, Any] = {signal.SIGINT: ctrl_c, signal.SIGTERM: ctrl_c.terminate}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class _Watched:
    """The callback of a search that Ctrl-C may end."""

    ctrl_c: _CtrlC
    callback: Callback

    def __call__(self, event: Mapping[str, Any]) -> None:
        self.ctrl_c.watch(event)

    def begin_part(self, event: Mapping[str, Any]) -> None:
        """A step after the search begins."""
        listener = getattr(self.callback, "begin_part", None)
        if listener is not None:
            listener(event)

    def say_interrupted(self) -> None:
        """The handler has said so."""


@contextmanager
def best_kept(callback: Callback) -> Iterator[Callback]:
    """Wrap the callback of a search, so that the first Ctrl-C in the block ends only the search."""
    ctrl_c = signal.getsignal(signal.SIGINT)
    if not isinstance(ctrl_c, _CtrlC):
        yield callback
        return
    ctrl_c.callback = callback
    try:
        yield _Watched(ctrl_c, callback)
    finally:
        ctrl_c.callback = None


def _announce(words: str) -> None:
    line_break = "\n" if sys.stderr.isatty() else ""  # a progress bar may end at the cursor
    print(f"{line_break}onefold: {words}", file=sys.stderr, flush=True)
