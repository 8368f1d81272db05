"""Kernel values that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.smoothers.base import UnsolvableError


def finite_kernel(values: Any) -> Any:
    """The values, if all are finite; raise otherwise, before they spoil what is computed from them."""
    if not np.isfinite(np.sum(values)):  # a sum passes on what is not finite, without a second array
        raise UnsolvableError(
            "the kernel has NaN or infinite values on these rows; scale the features, or check the "
            "kernel."
        )
    return values
