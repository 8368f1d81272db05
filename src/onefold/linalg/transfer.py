"""Between the host and a device: arrays, free memory, and copies that overlap with the device's work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from onefold.linalg.arrays import Array


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            'device=... computes with PyTorch, which is not installed; pip install "onefold[torch]", or '
            "leave device=None."
        ) from error
    return torch


def torch_device(device: Any) -> Any:
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


def on_device(x: Any, device: Any) -> Array:
    """A NumPy array as a torch tensor on the device, in its own dtype."""
    torch, found = _torch(), torch_device(device)
    x = np.require(x, requirements=["C", "W"])
    # A tensor on the host would share memory with the user's array.
    return torch.tensor(x, device=found) if found.type == "cpu" else torch.from_numpy(x).to(found)


def free_device_memory(device: Any) -> int | None:
    """Bytes free on a torch device; None for the host's own memory."""
    found = torch_device(device)
    if found.type != "cuda":
        return None
    cuda = _torch().cuda
    free, _ = cuda.mem_get_info(found)
    # What torch holds back for its next arrays is free for them.
    return int(free + cuda.memory_reserved(found) - cuda.memory_allocated(found))


def free_memory_beside(x: Array) -> int | None:
    """Bytes free on the accelerator that `x` lies on; None on the host, or where nothing says."""
    return free_device_memory(x.device) if is_torch_array(x) else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device's memory ran out."""
    return type(error).__name__ in ("OutOfMemoryError", "OutOfMemoryException")


class Uploader:
    """Copies blocks to a device from page-locked memory, on a stream of their own."""

    def __init__(self, device: Any) -> None:
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
