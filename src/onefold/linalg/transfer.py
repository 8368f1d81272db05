"""Between the host and a device: arrays, free memory, copies that overlap with work, transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.fft
from array_api_compat import is_cupy_array, is_torch_array

from onefold.linalg.arrays import Array, Device, device_of, is_numpy, namespace, on_accelerator
from onefold.machine import memory
from onefold.machine.threads import thread_budget


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            'device=... computes with PyTorch, which is not installed; pip install "onefold[torch]", or '
            "leave device=None."
        ) from error
    return torch


def torch_device(device: Device) -> Any:
    """The torch device of that name, if there is one here."""
    torch = _torch()
    try:
        found = torch.device(device)
        torch.empty(1, device=found)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f'device={device!r} cannot be used here ({reason}); use "cpu", "cuda" on a machine with a '
            "GPU, or None."
        ) from error
    return found


def on_device(x: Any, device: Device) -> Any:
    """A NumPy array as a torch tensor on the device, in its own dtype."""
    torch, found = _torch(), torch_device(device)
    x = np.require(x, requirements=["C", "W"])
    # A tensor on the host would share memory with the user's array.
    return torch.tensor(x, device=found) if found.type == "cpu" else torch.from_numpy(x).to(found)


def free_device_memory(device: Device) -> int | None:
    """Bytes free on a torch device, which may be the host; None where nothing says."""
    found = torch_device(device)
    if found.type != "cuda":
        return memory.available_memory()
    cuda = _torch().cuda
    free, _ = cuda.mem_get_info(found)
    # What torch holds back for its next arrays is free for them.
    return int(free + cuda.memory_reserved(found) - cuda.memory_allocated(found))


def free_memory_of(x: Array) -> int | None:
    """Bytes free where `x` lies, on an accelerator or on the host; None where nothing says."""
    if is_torch_array(x):
        return free_device_memory(device_of(x))
    if is_cupy_array(x):
        return int(device_of(x).mem_info[0]) + int(namespace(x).get_default_memory_pool().free_bytes())
    return None if on_accelerator(x) else memory.available_memory()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device's memory ran out."""
    return type(error).__name__ in ("OutOfMemoryError", "OutOfMemoryException")


class Uploader:
    """Copies blocks to a device from page-locked memory, on a stream of their own."""

    def __init__(self, device: Device) -> None:
        self._device = torch_device(device)
        self._stream = _torch().cuda.Stream(self._device) if self._device.type == "cuda" else None

    def send(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        """Start the copies; hand what comes back to `receive`."""
        torch = _torch()
        if self._stream is None:
            return [None if a is None else on_device(a, self._device) for a in arrays], None
        with torch.cuda.stream(self._stream):
            sent = [self._copy(a) for a in arrays]
            done = torch.cuda.Event()
            done.record(self._stream)
        return sent, done

    def _copy(self, array: Any) -> Any:
        if array is None:
            return None
        # torch warns of arrays that must not be written to, such as blocks of a mapped file.
        held = _torch().from_numpy(np.require(array, requirements=["C", "W"])).pin_memory()
        return held.to(self._device, non_blocking=True)

    def receive(self, sent: tuple[list[Any], Any]) -> list[Any]:
        """The arrays on the device; work that is started now waits for them."""
        tensors, done = sent
        if done is not None:
            current = _torch().cuda.current_stream(self._device)
            current.wait_event(done)
            for tensor in tensors:
                if tensor is not None:
                    tensor.record_stream(current)
        return tensors


def real_fft(x: Array, levels: int) -> Any:
    """The half spectrum of real `x` over its last `levels` axes."""
    axes = tuple(range(-levels, 0))
    if is_numpy(x):
        return scipy.fft.rfftn(x, axes=axes, workers=thread_budget())
    return namespace(x).fft.rfftn(x, axes=axes)


def inverse_real_fft(spectrum: Array, shape: tuple[int, ...]) -> Any:
    """The real array of the given `shape` in its last axes behind a half spectrum, overwritten."""
    axes = tuple(range(-len(shape), 0))
    if is_numpy(spectrum):
        return scipy.fft.irfftn(spectrum, s=shape, axes=axes, workers=thread_budget(), overwrite_x=True)
    return namespace(spectrum).fft.irfftn(spectrum, s=shape, axes=axes)
