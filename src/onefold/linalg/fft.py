"""Fourier transforms of real arrays."""

from __future__ import annotations

import scipy.fft

from onefold.linalg.arrays import Array, is_numpy, namespace
from onefold.machine.threads import thread_budget


def real_fft(x: Array, levels: int) -> Array:
    """The half spectrum of real `x` over its last `levels` axes."""
    axes = tuple(range(-levels, 0))
    if is_numpy(x):
        return scipy.fft.rfftn(x, axes=axes, workers=thread_budget())
    return namespace(x).fft.rfftn(x, axes=axes)


def inverse_real_fft(spectrum: Array, shape: tuple[int, ...]) -> Array:
    """The real array of the given `shape` in its last axes behind a half spectrum, overwritten."""
    axes = tuple(range(-len(shape), 0))
    if is_numpy(spectrum):
        return scipy.fft.irfftn(spectrum, s=shape, axes=axes, workers=thread_budget(), overwrite_x=True)
    return namespace(spectrum).fft.irfftn(spectrum, s=shape, axes=axes)
