"""How many threads BLAS may use: one setting for the whole process, asked for by many of its threads."""

from __future__ import annotations

import os
import threading
from functools import cache
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Finding the loaded BLAS libraries takes milliseconds; they do not change afterwards.
    return ThreadpoolController()


def _libraries(kind: str) -> list[Any]:
    return [library for library in _controller().lib_controllers if library.user_api == kind]


class _Shared:
    """The limits that are in force. The lowest one holds; when the last one goes, all is as before.

    Saving and restoring in each context would not do: of two threads whose contexts overlap, the one
    that came second would restore the limit of the first, for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[limit_blas] = []
        self._before: list[tuple[Any, int]] = []

    def hold(self, limit: limit_blas) -> None:
        with self._lock:
            if not self._held:
                self._before = [(library, library.num_threads) for library in _libraries("blas")]
            self._held.append(limit)
            self._apply()

    def release(self, limit: limit_blas) -> None:
        with self._lock:
            self._held = [other for other in self._held if other is not limit]
            self._apply()

    def start_again(self) -> None:
        """In a forked process, which has none of the other threads that hold limits."""
        self._lock = threading.Lock()
        self._held = []
        self._apply()

    def _apply(self) -> None:
        lowest = min((limit.threads for limit in self._held if limit.threads is not None), default=None)
        for library, before in self._before:
            wanted = before if lowest is None else min(before, lowest)
            if library.num_threads != wanted:
                library.set_num_threads(wanted)


_SHARED = _Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.start_again)


class limit_blas:
    """Hold BLAS to `threads` threads inside the context, if it has more; ``None`` leaves it alone.

    BLAS has one number of threads for the whole process: while several threads hold limits, the lowest
    holds for all of them. When the last context ends, BLAS has what it had before the first, whatever
    others (scikit-learn's k-means among them) have set meanwhile.

    OpenMP's number, which k-means uses, belongs to the calling thread alone.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self._openmp: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        try:
            _SHARED.hold(self)
            if self.threads is not None:
                self._openmp = [(library, library.num_threads) for library in _libraries("openmp")]
                for library, before in self._openmp:
                    library.set_num_threads(min(before, self.threads))
        except BaseException:  # an interrupt on the way in: nothing is left behind
            self._leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        _SHARED.release(self)
        for library, before in self._openmp:
            library.set_num_threads(before)
