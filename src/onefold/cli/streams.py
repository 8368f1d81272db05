"""The two streams of a command, through which all its output goes.

Standard output has the result. If it can't be written, the command has failed (`OutputError`), unless
the reader of a pipe has closed it (`| head`). Standard error has notes, warnings and progress, which the
work does not depend on: if it can't be written, they are dropped. What a failed stream still holds is
thrown away, because Python would try to write it at exit, fail, and change the exit code to 120.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO

# Replacements of characters in messages, for streams whose encoding lacks them.
_IN_ASCII = {
    "²": "2",
    "³": "3",
    "×": "x",
    "±": "+/-",
    "·": ".",
    "█": "#",
    "…": "...",
    "−": "-",
    "–": "-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "γ": "gamma",
    "α": "alpha",
    "μ": "mu",
}


class OutputError(OSError):
    """Standard output can't be written."""


class _Stream:
    """A stream that replaces the characters its encoding lacks, and stops writing once it has failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        """Other attributes of the stream: its descriptor, its encoding, whether it is a terminal."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text in characters that the encoding of the stream has."""
        self._attempt(lambda: self._stream.write(self._readable(text)))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        """Write or flush, unless that has failed before."""
        if self.failure is None:
            try:
                action()
            except (OSError, ValueError) as error:  # ValueError: the stream is closed
                self.failure = error
                _discard(self._stream)

    def _readable(self, text: str) -> str:
        if self.can_write(text):
            return text
        return "".join(letter if self.can_write(letter) else _in_ascii(letter) for letter in text)

    def can_write(self, text: str) -> bool:
        """Whether the encoding of the stream has all characters of a text."""
        encoding = getattr(self._stream, "encoding", None)
        if text.isascii() or encoding is None:  # None: a stream of text alone, such as StringIO
            return True
        # Names whose bytes are not text in this locale are written as the same bytes.
        errors = getattr(self._stream, "errors", None)
        escaped = "surrogateescape" if errors == "surrogateescape" else "strict"
        try:
            text.encode(encoding, escaped)
        except UnicodeEncodeError:
            return False
        return True


def _in_ascii(letter: str) -> str:
    return _IN_ASCII.get(letter) or letter.encode("ascii", "backslashreplace").decode("ascii")


def _discard(stream: TextIO) -> None:
    """Throw away what a stream could not write, by redirecting it to the null device for a moment."""
    with suppress(OSError, ValueError):  # ValueError: closed, or a stream of text alone
        descriptor = stream.fileno()
        saved = os.dup(descriptor)
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, descriptor)
            stream.flush()
        finally:
            os.dup2(saved, descriptor)
            os.close(null)
            os.close(saved)


class _Notes(_Stream):
    """Standard error: what can't be written is dropped."""

    def _attempt(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # raised if a signal interrupts one note with another
            super()._attempt(action)


class Output(_Stream):
    """Standard output: what can't be written raises OutputError, from the first time on."""

    def _attempt(self, action: Callable[[], object]) -> None:
        super()._attempt(action)
        if self.failure is not None:
            number = getattr(self.failure, "errno", None) or errno.EBADF
            raise OutputError(number, os.strerror(number)) from self.failure

    @property
    def has_reader(self) -> bool:
        """Whether the other end of a pipe is open."""
        return not isinstance(self.failure, BrokenPipeError)


class ExactOutput:
    """Standard output for data: values are written as they are, or refused."""

    def write(self, text: str) -> int:
        """Write the text; refuse what the encoding of the stream lacks."""
        output = sys.stdout
        if isinstance(output, Output) and not output.can_write(text):
            letter = next(letter for letter in text if not output.can_write(letter))
            raise ValueError(
                f"standard output has encoding {output.encoding}, which cannot represent "
                f"{_in_ascii(letter)}; use --out FILE (written in UTF-8), or set PYTHONIOENCODING=utf-8"
            )
        return output.write(text)


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Both streams of a command; they are flushed at the end.

    A stream that was closed by the shell, as ``>&-`` does, is replaced by the null device.
    """
    stdout = sys.stdout
    stderr = sys.stderr
    with ExitStack() as closing:
        output = Output(stdout or closing.enter_context(_null_stream()))
        notes = _Notes(stderr or closing.enter_context(_null_stream()))
        sys.stdout = output
        sys.stderr = notes
        try:
            yield output
        finally:
            with suppress(OutputError):
                output.flush()
            notes.flush()
            sys.stdout = stdout
            sys.stderr = stderr


def _null_stream() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
