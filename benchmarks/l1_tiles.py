"""Tiles of the Laplacian kernel against what the machine can do: differences, threads, gradients, a GPU.

    python -m benchmarks.l1_tiles [host] [threads] [gradient] [first] [device] [--quick]

Without names, everything runs. A difference is one |a − b| added to a sum: n · m · d of them are a tile.
The bare limit of a core is a += b on arrays in its cache, one addition for each number; compiled code
passes it, since it loads and stores a sum once for four differences. The device part needs CUDA; it runs
with torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import DistanceMetric

from benchmarks.common import Parts, Row, in_turn, run_parts
from onefold.kernels import RBF, Kernel, Laplacian
from onefold.kernels.tiles import gradient_product, gram, kernel_product
from onefold.linalg import distances as l1
from onefold.linalg import to_numpy
from onefold.machine.threads import limit_blas, use_threads

_FEATURES = 20
_LOOPS = ["SciPy and NumPy", *(["Numba"] if find_spec("numba") else [])]
LAPLACIAN = Laplacian(0.05)
GAUSS = RBF(0.05)


def points(n: int, m: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Rows and landmarks of independent normal numbers."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((k, _FEATURES)).astype(dtype) for k in (n, m))  # type: ignore[return-value]


@contextmanager
def loops(name: str) -> Iterator[None]:
    """With or without Numba, for tiles of any size."""
    if name == "Numba":
        yield
        return
    with patch.object(l1, "_numba", lambda: None):
        yield


def by_columns(left: Any, columns: Any, out: Any) -> None:
    """NumPy alone: strips in cache, three passes for each feature."""
    step = max(1, 2**16 // columns.shape[1])
    scratch = np.empty((step, columns.shape[1]), out.dtype)
    for start in range(0, len(left), step):
        some = left[start : start + step]
        total = out[start : start + step]
        total[:] = 0
        for feature, column in enumerate(columns):
            part = np.subtract(some[:, feature, None], column, out=scratch[: len(some)])
            total += np.abs(part, out=part)


def host(quick: bool) -> list[Row]:
    """One core: distances alone, then whole tiles."""
    n, m = (512, 256) if quick else (2048, 1000)
    rows: list[Row] = []
    for dtype in (np.float32, np.float64):
        left, right = points(n, m, dtype)
        columns = np.ascontiguousarray(right.T)
        out = np.empty((n, m), dtype)
        a = np.zeros(2**15, dtype)
        b = np.zeros(2**15, dtype)
        repeats = left.size * m // a.size
        metric = DistanceMetric.get_metric("manhattan", dtype=dtype)
        work: dict[str, Callable[[], object]] = {
            "a += b in cache": lambda a=a, b=b, k=repeats: [np.add(a, b, out=a) for _ in range(k)],
            "cdist": lambda x=left, z=right: cdist(x, z, "cityblock"),
            "scikit-learn's DistanceMetric": lambda f=metric, x=left, z=right: f.pairwise(x, z),
            "NumPy, column by column": lambda x=left, z=columns, o=out: by_columns(x, z, o),
        }
        if find_spec("numba"):
            from onefold.linalg.l1_numba import fill_negative_l1

            work["Numba"] = lambda x=left, z=columns, o=out: fill_negative_l1(x, z, o)
        for name in _LOOPS:
            work[f"laplacian tile, {name}"] = _tile(LAPLACIAN, left, right, out, name)
        work["rbf tile"] = _tile(GAUSS, left, right, out, "Numba")
        with limit_blas(1):
            best = in_turn(work, 3 if quick else 9)
        size = left.size * m
        for name, spent in best.items():
            rows.append({"dtype": np.dtype(dtype).name, "what": name, "ms": 1e3 * spent,
                         "10⁹ differences / s": size / spent / 1e9,
                         "of a += b": best["a += b in cache"] / spent})  # fmt: skip
    return rows


def _tile(kernel: Kernel, left: Any, right: Any, out: Any, name: str) -> Callable[[], object]:
    bound = kernel.bind(right)

    def work() -> None:
        with loops(name):
            bound(left, out)

    return work


def threads(quick: bool) -> list[Row]:
    """Gram matrices, and rows × landmarks · coefficients, in float64 on one and on all cores."""
    n, many, m = (600, 2000, 200) if quick else (4096, 40_000, 1000)
    X, Z = points(many, m)
    coef = np.ones((m, 1))
    return _on_cores(
        {
            f"gram, n = {n}": lambda kernel: gram(kernel, X[:n]),
            f"{many} rows × {m} landmarks": lambda kernel: kernel_product(kernel, X, Z, coef),
        },
        3 if quick else 5,
    )


def gradient(quick: bool) -> list[Row]:
    """∇f of a kernel expansion at its own centres, one target, float64."""
    n = 300 if quick else 2000
    X, _ = points(n, 1)
    coef = np.random.default_rng(1).standard_normal((n, 1))
    work = {f"gradient, {n} × {n}": lambda kernel: gradient_product(kernel, X, X, coef)}
    return _on_cores(work, 3 if quick else 5)


def _on_cores(works: dict[str, Callable[[Kernel], object]], repeats: int) -> list[Row]:
    cores = sorted({1, os.cpu_count() or 1})
    rows: list[Row] = []
    for what, work in works.items():
        for kernel, names in ((LAPLACIAN, _LOOPS), (GAUSS, ["BLAS"])):
            for name in names:
                row: Row = {"what": what, "kernel": type(kernel).__name__, "loops": name}
                for count in cores:
                    with loops(name if kernel is LAPLACIAN else "Numba"), use_threads(count):
                        spent = in_turn({"": lambda w=work, k=kernel: w(k)}, repeats)[""]
                    row[f"ms, {count} thread{'s' * (count > 1)}"] = 1e3 * spent
                rows.append(row)
    return rows


_FIRST = """
import time
import numpy as np
from onefold.kernels import Laplacian
X = np.zeros((600, 20), {dtype!r})
start = time.perf_counter(); Laplacian(0.1)(X, X); print(time.perf_counter() - start)
"""


def first(quick: bool) -> list[Row]:
    """Seconds of a process's first tile: Numba imported, its code compiled, or found on disk."""
    if not find_spec("numba"):
        return [{"skipped": "Numba is not installed"}]
    rows: list[Row] = []
    for dtype in ("float32", "float64"):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            command = [sys.executable, "-c", _FIRST.format(dtype=dtype)]
            spent = [
                float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
                for _ in range(2)
            ]
        rows.append({"dtype": dtype, "first tile, s": spent[0], "code on disk, s": spent[1]})
    return rows


def device(quick: bool) -> list[Row]:
    """A tile of float32 and of float64 rows on a GPU."""
    n, m = (4096, 256) if quick else (65_536, 1000)
    rows: list[Row] = []
    for dtype in ("float32", "float64"):
        rows += _with_torch(n, m, dtype)
    return rows


def _with_torch(n: int, m: int, dtype: str) -> list[Row]:
    if not find_spec("torch"):
        return [{"library": "torch", "skipped": "torch is not installed"}]
    import torch

    if not torch.cuda.is_available():
        return [{"library": "torch", "skipped": "torch finds no CUDA device"}]

    left, right = (torch.asarray(values, device="cuda") for values in points(n, m, dtype))
    out = torch.empty((n, m), dtype=left.dtype, device="cuda")
    columns = (0.05 * right).T.contiguous()
    start = time.perf_counter()
    triton = l1._triton()
    torch.cuda.synchronize()
    print(f"Triton's first tile: {time.perf_counter() - start:.2f} s" if triton else "no Triton")
    laplacian = LAPLACIAN.bind(right)
    gauss = GAUSS.bind(right)
    work: dict[str, Callable[[], Any]] = {
        "write the tile": lambda: out.fill_(0.5),
        "read and write the tile": lambda: out.mul_(1.0),
        "laplacian tile": lambda: laplacian(left, out),
        "laplacian, column by column": lambda: l1._by_columns(0.05 * left, columns),
        "exp(−torch.cdist(p=1))": lambda: torch.exp(torch.cdist(left, right, p=1).mul_(-0.05)),
        "rbf tile": lambda: gauss(left, out),
    }
    rows = _device_rows("torch", dtype, work, left, right, torch.cuda.synchronize)
    if triton:
        rows += _blocks(triton, dtype, laplacian, left, right)
    some = left[:2000]
    gradients = {"gradient, 2000 × 2000": lambda: LAPLACIAN.gradient(some, some, some[:, :1])}
    return rows + _device_rows("torch", dtype, gradients, some, some, torch.cuda.synchronize)


def _blocks(triton: Any, dtype: str, tile: Any, left: Any, right: Any) -> list[Row]:
    """Other sizes of the part of a tile that one block of threads holds."""
    import torch

    sizes = [(32, 32, 1), (64, 32, 1), (64, 64, 2), (64, 64, 4), (128, 64, 4)]
    rows = []
    for size in sizes:
        with patch.multiple(triton, **dict(zip(("ROWS", "COLUMNS", "WARPS"), size))):
            work = {f"laplacian tile, blocks {size}": lambda: tile(left)}
            rows += _device_rows("torch", dtype, work, left, right, torch.cuda.synchronize)
    return rows


def _device_rows(
    library: str, dtype: str, work: dict[str, Callable[[], Any]], left: Any, right: Any, wait: Any
) -> list[Row]:
    """The best time of each, ten calls between two waits, and the largest error of some rows."""
    few, landmarks = (to_numpy(x).astype(np.float64) for x in (left[:64], right))
    exact = np.exp(-0.05 * cdist(few, landmarks, "cityblock"))

    def ten(function: Callable[[], Any]) -> None:
        for _ in range(10):
            function()
        wait()

    rows: list[Row] = []
    for name, function in work.items():
        known = "laplacian" in name or "cdist" in name
        error = np.abs(to_numpy(function()[:64]) - exact).max() if known else None
        ten(function)
        spent = in_turn({name: lambda f=function: ten(f)}, 5)[name] / 10
        rows.append({"library": library, "dtype": dtype, "what": name, "ms": 1e3 * spent,
                     "10⁹ differences / s": left.shape[0] * right.shape[0] * _FEATURES / spent / 1e9,
                     "largest error": error})  # fmt: skip
    return rows


PARTS: Parts = {
    "host": ("One core, d = 20", host),
    "threads": ("Threads, d = 20, float64", threads),
    "gradient": ("Gradients, d = 20, float64", gradient),
    "first": ("The first tile of a process", first),
    "device": ("A tile on a GPU, d = 20", device),
}


if __name__ == "__main__":
    run_parts("l1-tiles", __doc__, PARTS)
