"""The two streams of a command: all that it prints goes through here, and decides its exit code here.

Standard output has the result. Where it can't be written, the command has failed (`OutputError`), unless
whoever read it has enough (`| head`). Standard error has notes, warnings and progress, which the work
does not depend on: where it can't be written, they are dropped. What a failed stream still holds is
thrown away, for Python would write it again at exit, fail, and change the exit code to 120.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO

# How characters are written that messages have and the encoding of a stream lacks.
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
    """A stream that writes what its encoding lacks in other characters, until it fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        """What else the stream has: its file descriptor, its encoding, whether it is a terminal."""
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
            except (OSError, ValueError) as error:  # ValueError: somebody has closed the stream
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
        # Bytes of names that are not text in this locale go back as they came.
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
    """Throw away what a stream could not write: for a moment it leads to the null device."""
    with suppress(OSError, ValueError):  # ValueError: closed, or a stream of text alone
        number = stream.fileno()
        kept = os.dup(number)
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, number)
            stream.flush()
        finally:
            os.dup2(kept, number)
            os.close(null)
            os.close(kept)


class _Notes(_Stream):
    """Standard error: what can't be written is dropped."""

    def _attempt(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # raised where a signal interrupts one note with another
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
        """Whether nobody has closed the other end of a pipe."""
        return not isinstance(self.failure, BrokenPipeError)


class ExactOutput:
    """Standard output for data: values are written as they are, or refused."""

    def write(self, text: str) -> int:
        """Write the text; refuse what the encoding of the stream lacks."""
        output = sys.stdout
        if isinstance(output, Output) and not output.can_write(text):
            lacking = next(letter for letter in text if not output.can_write(letter))
            raise ValueError(
                f"standard output has encoding {output.encoding}, which cannot represent "
                f"{_in_ascii(lacking)}; use --out FILE (written in UTF-8), or set PYTHONIOENCODING=utf-8"
            )
        return output.write(text)


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Both streams, as a command has them; what is left in them is written at the end.

    A stream that was closed by whoever started this, as ``>&-`` does, takes everything.
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
