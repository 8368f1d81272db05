"""Whole searches on a GPU: the default grid against a plain prototype, streamed rows, the exact machine.

    python -m benchmarks.gpu [grid] [classes] [stream] [exact] [--quick]

Without names, everything runs. Without a GPU, --quick runs the same code on the host with PyTorch. The
prototype does what the method cannot avoid and nothing else: tiles, their products summed in float64, a
Cholesky factor for each fold and ridge. It checks nothing, refits nothing and makes no prediction.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from benchmarks.common import Parts, Row, run_parts
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Nystroem
from onefold.estimators.setup import DEFAULT_ALPHAS, DEFAULT_GAMMAS

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_FOLDS = 5
_BLOCK = 65_536


def surface(n: int, d: int = 20) -> tuple[Any, Any]:
    """Y = Σ_j sin(x·w_j) + 0.1 ε, five directions, float32 rows on the device."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    W = torch.randn(d, 5, generator=generator, device=DEVICE) / math.sqrt(d)
    X = torch.randn(n, d, generator=generator, device=DEVICE)
    noise = torch.randn(n, generator=generator, device=DEVICE)
    return X, (torch.sin(X @ W).sum(1) + 0.1 * noise).double()


def prototype(X: Any, y: Any, m: int) -> Any:
    """Mean squared errors (gammas, alphas) of 5 folds in a row, as plainly as can be."""
    n = len(X)
    Z = X[torch.randperm(n, device=DEVICE)[:m]]
    target = (y - y.mean())[:, None]
    bounds = [n * k // _FOLDS for k in range(_FOLDS + 1)]
    alphas = torch.tensor(DEFAULT_ALPHAS, device=DEVICE)
    table = []
    for gamma in DEFAULT_GAMMAS:
        A = torch.zeros(_FOLDS, m, m, dtype=torch.float64, device=DEVICE)
        c = torch.zeros(_FOLDS, m, 1, dtype=torch.float64, device=DEVICE)
        for k in range(_FOLDS):
            for start in range(bounds[k], bounds[k + 1], _BLOCK):
                stop = min(start + _BLOCK, bounds[k + 1])
                tile = torch.exp(-gamma * torch.cdist(X[start:stop], Z) ** 2)
                A[k] += (tile.T @ tile).double()
                c[k] += tile.T.double() @ target[start:stop]
        W = torch.exp(-gamma * torch.cdist(Z, Z) ** 2).double()
        jitter = 1e-6 * n / m * torch.eye(m, dtype=torch.float64, device=DEVICE)
        rest_A = A.sum(0) - A
        rest_c = c.sum(0) - c
        systems = (rest_A + jitter)[None] + alphas[:, None, None, None] * W
        factors, _ = torch.linalg.cholesky_ex(systems.reshape(-1, m, m))
        beta = torch.cholesky_solve(rest_c.repeat(len(alphas), 1, 1), factors)
        beta = beta.reshape(len(alphas), _FOLDS, m, 1)
        squares = torch.stack([(target[a:b] ** 2).sum() for a, b in pairwise(bounds)])
        error = squares - 2 * (beta * c).sum((2, 3)) + (beta * (A @ beta)).sum((2, 3))
        table.append((error.sum(1) / n).cpu())
    return torch.stack(table)


def timed(function: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Seconds of the first call and of the best of the others, and the last result."""
    times = []
    found = None
    for _ in range(repeats):
        _wait()
        start = time.perf_counter()
        found = function()
        _wait()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:] or times), found


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def grid(quick: bool) -> list[Row]:
    """The whole 13 × 11 × 5 grid and the final model, tensors on the device."""
    sizes = [(20_000, 100)] if quick else [(10**6, 1000), (10**6, 2000), (10**7, 1000)]
    rows: list[Row] = []
    for n, m in sizes:
        X, y = surface(n)
        _, plain, _ = timed(lambda X=X, y=y, m=m: prototype(X, y, m), 2)
        for method in ("uniform", "kmeans"):
            model = LSSVRCV(approximation=Nystroem(m, method))
            first, again, _ = timed(lambda model=model, X=X, y=y: model.fit(X, y), 3)
            rows.append(
                {"rows": n, "landmarks": m, "method": method, "first fit, s": first, "seconds": again,
                 "prototype, s": plain, "ratio": again / plain,
                 "best": f"{model.best_params_}", "mse": -model.best_score_}
            )  # fmt: skip
    return rows


def classes(quick: bool) -> list[Row]:
    """Two classes, scored by the error rate: predictions of every fold and ridge are counted."""
    n, m = (20_000, 100) if quick else (10**6, 1000)
    X, y = surface(n)
    labels = (y > 0).to(torch.int64)
    model = LSSVCCV(approximation=Nystroem(m, "uniform"))
    first, again, _ = timed(lambda: model.fit(X, labels), 2)
    return [{"rows": n, "landmarks": m, "first fit, s": first, "seconds": again,
             "error": -model.best_score_}]  # fmt: skip


def stream(quick: bool) -> list[Row]:
    """Rows that stay in host memory and travel to the device while it works."""
    sizes = [(30_000, 100)] if quick else [(10**7, 1000), (10**8, 1000)]
    found: list[Row] = []
    import onefold.rows as moving

    for n, m in sizes:
        X, y = surface(n)
        X = X.cpu().numpy()
        y = y.cpu().numpy()
        room = moving._MOVED_AT_ONCE
        moving._MOVED_AT_ONCE = 0  # streamed whatever would fit
        try:
            model = LSSVRCV(approximation=Nystroem(m, "uniform"), device=DEVICE)
            spent, _, _ = timed(lambda model=model, X=X, y=y: model.fit(X, y), 1)
        finally:
            moving._MOVED_AT_ONCE = room
        peak = torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else None
        found.append({"rows": n, "landmarks": m, "GiB of rows": X.nbytes / 2**30, "seconds": spent,
                      "mse": -model.best_score_, "GiB on the device": peak})  # fmt: skip
    return found


def exact(quick: bool) -> list[Row]:
    """The exact machine: three widths, 11 ridges, 5 folds."""
    n = 500 if quick else 10_000
    X, y = surface(n)
    model = LSSVRCV(gammas=[0.005, 0.02, 0.08], approximation="exact")
    first, again, _ = timed(lambda: model.fit(X, y), 3)
    K = torch.randn(n, n, dtype=torch.float64, device=DEVICE)
    K = K @ K.T / n + torch.eye(n, dtype=torch.float64, device=DEVICE)
    _, cholesky, _ = timed(lambda: torch.linalg.cholesky_ex(K), 3)
    _, eigh, _ = timed(lambda: torch.linalg.eigh(K), 2)
    route = model.approximation_["selected_with"].get("route")
    return [{"rows": n, "first fit, s": first, "seconds": again, "route": route,
             "one Cholesky, s": cholesky, "one eigh, s": eigh}]  # fmt: skip


PARTS: Parts = {
    "grid": ("The whole 13 × 11 × 5 grid, tensors on the device", grid),
    "classes": ("The same for two classes by the error rate", classes),
    "stream": ("Rows streamed from host memory", stream),
    "exact": ("The exact machine", exact),
}


if __name__ == "__main__":
    run_parts("gpu", __doc__, PARTS)
