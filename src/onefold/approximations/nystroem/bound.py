r"""How far the low-rank kernel matrix is from the true one, and what ding2012 makes of it.

‖K − K̃‖₂ is estimated on a uniform sample of s rows: (n/s) times the norm of that principal block, by
power iterations (K − K̃ is positive semi-definite, so they converge from below). For n ≤ s it is the
norm itself. ding2012 then bounds the change of the decision function, when both models predict with
the true kernel over all rows and share b:

    |f̃(x) − f(x)| ≤ κ √n (‖y‖ + |b| √n) ‖K − K̃‖₂ / μ²,    κ = max k(x, x)

It is a worst case, and usually far above anything seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.kernels.tiles import gram
from onefold.linalg import like, namespace
from onefold.machine.threads import map_threads, spans
from onefold.rows import Rows
from onefold.statistics import Design

_SAMPLE = 2048
_STRIP = 256  # rows at a time, whatever the number of threads
_ITERATIONS = 30


def kernel_error(design: Design, T: Any, source: Rows, *, seed: int) -> dict[str, Any]:
    """‖K − K̃‖₂, estimated: O(s²(d + r)) for a sample of s ≤ 2048 rows, whatever n."""
    n, rng = source.n, np.random.default_rng(seed)
    size = min(n, _SAMPLE)
    rows = source.sample(np.sort(rng.choice(n, size, replace=False)) if size < n else np.arange(n))
    features = design.features(rows) @ T
    difference = gram(design.kernel, rows)
    xp = namespace(difference)
    largest = float(xp.max(xp.linalg.diagonal(difference)))

    def subtract(part: slice) -> None:
        difference[part, :] -= features[part, :] @ features.T

    for _ in map_threads(subtract, spans(size, _STRIP), design.threads):
        pass
    norm = (n / size) * largest_eigenvalue(difference, rng)
    return {"kernel_error": norm, "kernel_error_rows": size, "largest_diagonal": largest}


def largest_eigenvalue(matrix: Any, rng: np.random.Generator) -> float:
    """Of a positive semi-definite matrix, by power iterations; at most what it is."""
    xp, vector = namespace(matrix), like(rng.standard_normal(matrix.shape[0]), matrix)
    values = []
    for _ in range(_ITERATIONS):
        # By its largest entry first: the squares of a kernel's values need not be numbers.
        vector = vector / xp.clip(xp.max(xp.abs(vector)), float(np.finfo(float).tiny), None)
        vector = vector / xp.clip(xp.sqrt(vector @ vector), float(np.finfo(float).tiny), None)
        image = matrix @ vector
        values.append(vector @ image)
        vector = image
    return max(0.0, float(xp.max(xp.stack(values))))


def decision_bound(found: dict[str, Any], Y: Any, intercept: Any, alpha: Any) -> float:
    """The largest over targets of ding2012's bound on |f̃ − f|."""
    n = Y.shape[0]
    length = np.linalg.norm(Y, axis=0) + np.abs(intercept) * np.sqrt(n)
    with np.errstate(over="ignore", invalid="ignore"):  # a bound of infinity is one
        worst = np.max(length / np.asarray(alpha, dtype=float) ** 2)
        return float(found["largest_diagonal"] * np.sqrt(n) * worst * found["kernel_error"])
