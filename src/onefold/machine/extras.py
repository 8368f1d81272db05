"""What optional features need: the packages of every extra, and the command that installs them."""

from __future__ import annotations

PACKAGES: dict[str, tuple[str, ...]] = {
    "plot": ("matplotlib",),
    "torch": ("torch",),
    "fast": ("numba",),
    "dask": ("dask[array,dataframe,distributed]",),
    "onnx": ("onnx", "skl2onnx"),
    "excel": ("python-calamine",),
}
"""By the names of pyproject.toml."""


def pip_install(extra: str) -> str:
    """The command for the packages of an extra by their own names, wherever onefold came from."""
    quoted = (f'"{name}"' if "[" in name else name for name in PACKAGES[extra])
    return f"pip install {' '.join(quoted)}"
