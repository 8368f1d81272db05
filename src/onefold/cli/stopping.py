"""Stopping in order: said at once, files tidied up on the way out, nothing half-written.

Python runs its signal handlers between two steps of the main thread, and a step may be a
factorisation of minutes. The word that Ctrl-C was heard therefore comes from a thread that the
operating system's own handler wakes up.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_FIRST = "stopping …"
_AGAIN = "still stopping: the running factorisation cannot be interrupted"
_NOBODY = -1


@contextmanager
def orderly_stopping() -> Iterator[None]:
    """Raise KeyboardInterrupt on the first Ctrl-C and SystemExit on SIGTERM; say so on Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    ears, mouth = socket.socketpair()
    mouth.setblocking(False)
    listener = threading.Thread(target=_announce, args=(ears,), daemon=True)
    listener.start()
    earlier_fd = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    earlier = {
        signal.SIGINT: signal.signal(signal.SIGINT, _Interrupt()),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate),
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier_fd if earlier_fd >= 0 else _NOBODY)
        # The listener says what it has heard before the last word of the command.
        mouth.close()
        listener.join()
        ears.close()


class _Interrupt:
    """Raises on the first call alone: a second Ctrl-C must not disturb the tidying up."""

    def __init__(self) -> None:
        self._heard = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._heard:
            self._heard = True
            raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _announce(ears: socket.socket) -> None:
    words = _FIRST
    while heard := ears.recv(1):
        if heard[0] == signal.SIGINT:
            # A progress bar may stand at the cursor.
            start = "\n" if sys.stderr.isatty() else ""
            print(f"{start}onefold: {words}", file=sys.stderr, flush=True)
            words = _AGAIN
