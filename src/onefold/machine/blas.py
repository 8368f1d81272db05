"""How many threads BLAS may use, asked for by many threads of this process at once.

OpenBLAS has one number for the whole process. threadpoolctl lets one Python thread alone change it, and
ignores the others: a limit that one thread sets and another lifts would stay for good. Here all threads
may, through a count that they share. Other libraries (MKL, OpenMP) have a number for each thread.
"""

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


def process_wide() -> list[Any]:
    """The loaded libraries that have one number of threads for the whole process."""
    return [library for library in _controller().lib_controllers if _is_process_wide(library)]


def _thread_local() -> list[Any]:
    return [library for library in _controller().lib_controllers if not _is_process_wide(library)]


def _is_process_wide(library: Any) -> bool:
    return library.internal_api == "openblas" and library.threading_layer != "openmp"


def set_process_wide(library: Any, threads: int) -> None:
    """Set the number of threads of OpenBLAS from whichever thread this is."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


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
                self._before = [(library, library.num_threads) for library in process_wide()]
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
                set_process_wide(library, wanted)


_SHARED = _Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.start_again)


class limit_blas:
    """Hold BLAS to `threads` threads inside the context, if it has more; ``None`` leaves it alone.

    While several threads hold limits on a library with one number for the process, the lowest holds for
    all of them. When the last context ends it has what it had before the first, whatever others
    (scikit-learn's k-means among them) have set meanwhile.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self._own: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        try:
            _SHARED.hold(self)
            if self.threads is not None:
                self._own = [(library, library.num_threads) for library in _thread_local()]
                for library, before in self._own:
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
        for library, before in self._own:
            library.set_num_threads(before)
