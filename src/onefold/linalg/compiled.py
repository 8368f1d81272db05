"""The decorator of loops that Numba compiles.

Imported only where Numba is installed (``pip install numba``). The compiled code releases the
interpreter lock and is kept on disk beside its file, or in the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Compile a function of arrays and numbers with these options of Numba."""

    def decorate(function: Function) -> Function:
        try:
            loops = njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder to keep the code in: it is compiled anew by each process
            loops = njit(nogil=True, **options)(function)
        return cast(Function, loops)

    return decorate
