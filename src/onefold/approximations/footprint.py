r"""Peak memory of a fit beyond its data: a list of stages, each a list of arrays, for every method.

Plans, refusals and the number of models that run side by side all come from here. A peak is that of the
stage which holds most (`Stage`). The counts of arrays are those of the code, its libraries included, and
``benchmarks/plan_memory.py`` compares the sums with what processes really take. What depends on the
values in the data (a kernel matrix of low rank, rows that stand alone) can only lower them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onefold.approximations.problem import Workload
from onefold.basis.error import SAMPLE
from onefold.basis.factors import uses_factors
from onefold.basis.statistics import holds_groups
from onefold.kernels.tiles import CACHE_TILE, device_rows
from onefold.machine.threads import thread_budget
from onefold.rows.base import TASK_ROWS
from onefold.smoothers.base import choose_route

# Bytes of the buffers of BLAS, and of modules that are loaded on first use: measured.
_LIBRARIES = 4 * 10**6
# Rows up to which a matrix that is known otherwise is formed for a criterion: 128 MiB.
FORMED = 4096
# Bytes that a search holds for the chosen μ rather than predict again: 32 MiB.
HELD_PREDICTIONS = 2**25
# Columns of a factor on a GPU that are at work beside it: three panels.
PANELS = 3 * 2048
# Bytes of a matrix that a GPU factorises in one call, which copies it: 2 GiB.
_COPIED = 2**31
# Bytes that models running side by side may take together: 3 GiB.
_SIDE_BY_SIDE = 3 * 2**30
# How much of the arrays that are freed and made again the allocator holds back, beyond 1: measured.
_FREED = 1.1
# Numbers of 8 bytes that a column of `cv_results_` takes besides its scores.
_SPLIT_OVERHEAD = 40

# Numbers of arrays that are held at once, counted in the code.
# Coefficients of every fold and ridge.
_DUAL_COPIES = 5
# Held-out predictions of every ridge.
_PREDICTION_COPIES = 3
# Scores of single rows, when `cv_results_` is made of them.
_SCORE_COPIES = 5
# Arrays of landmarks × ridges × targets in which the folds are solved.
_FOLD_ITERATES = 10
# Tiles of float64 that a GPU holds while it makes one.
_DEVICE_TILES = 4
# Arrays of centres × centres, besides the sums over groups of rows.
_PRUNING_SQUARES = 8
# Vectors of grid points for each ridge, fold and target while they are solved.
_GRID_VECTORS = 4


@dataclass(frozen=True)
class Stage:
    """What a fit holds at once in one of its stages: bytes by what they are of."""

    name: str
    arrays: dict[str, float]

    @property
    def bytes(self) -> float:
        """Their sum."""
        return sum(self.arrays.values())


def peak(stages: Sequence[Stage]) -> float:
    """Bytes of the stage that holds most."""
    return max(stage.bytes for stage in stages)


def max_models_within(each: int | None, free: int | None) -> int:
    """How many models of so many bytes run side by side: within 3 GiB and half of what is free."""
    budget = _SIDE_BY_SIDE if free is None else min(_SIDE_BY_SIDE, free // 2)
    return max(1, min(thread_budget(), budget // max(1, each or 0)))


def exact_bytes(n: int, targets: int, load: Workload, n_parallel: int) -> int:
    """Bytes of a fit or a search with the dense kernel matrix, `n_parallel` kernels side by side."""
    return int(peak(exact_stages(n, targets, load, n_parallel)) + _LIBRARIES)


def exact_stages(n: int, targets: int, load: Workload, n_parallel: int) -> list[Stage]:
    """The stages of the dense kernel matrix."""
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    square = 8.0 * n * n
    tiles = (2 + workers) * 8.0 * min(n, 1024) ** 2
    if load.gpu is not None:  # strips of K, or panels of its factor; of few rows a copy of it
        strips = _DEVICE_TILES * min(n, device_rows(n))
        tiles = 8.0 * n * max(strips, PANELS) + min(square, _COPIED)
    freed = {"tiles that the process keeps": tiles if n > 1024 else 0.0}
    route = choose_route(n, load.alphas, load.need, gpu=load.gpu is not None)
    factors = {"matrix, factors and their copies": n_parallel * (route.matrices(load.folds) * square)}
    stages = [
        Stage("making the matrix", {"matrices": n_parallel * square, "tiles": n_parallel * tiles}),
        Stage("factorising it", factors | freed),
    ]
    if not load.folds:
        return stages
    predictions = 8.0 * load.alphas * load.folds * n * targets
    if load.alphas * load.folds * targets <= n and load.folds > 1:
        coefficients = {
            "matrices": n_parallel * square,
            "coefficients of all folds and ridges": n_parallel * _DUAL_COPIES * predictions,
        }
        return [*stages, Stage("coefficients without the folds", coefficients | freed)]
    blocks = 2 / load.folds + 2 / load.folds**2 if load.folds > 1 else 0.0
    held_out = {
        "matrices": n_parallel * square,
        "columns and blocks of a fold": n_parallel * blocks * square,
        "predictions": n_parallel * (_PREDICTION_COPIES + 1) * predictions / load.folds,
    }
    return [*stages, Stage("predicting held-out rows", held_out | freed)]


def basis_bytes(n: int, d: int, targets: int, m: int, load: Workload, n_parallel: int) -> int:
    """Bytes of a fit or a search with `m` landmarks, `n_parallel` kernels side by side."""
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    throughout = 8.0 * n * (5 * targets + 6 if load.folds else 2 * targets + 1)  # vectors of the rows
    if load.gpu is None:
        throughout += workers * CACHE_TILE
    else:
        throughout += 8.0 * _DEVICE_TILES * m * min(n, device_rows(m))
    if uses_factors(n, m):
        stages = factor_stages(n, targets, m, load, n_parallel, workers)
    else:
        stages = sum_stages(n, d, targets, m, load, n_parallel, workers)
    return int(peak(stages) + throughout + _LIBRARIES)


def factor_stages(
    n: int, targets: int, m: int, load: Workload, n_parallel: int, workers: int
) -> list[Stage]:
    """The stages of landmarks that are trained from factors of the rows' features.

    The features of a fold are there thrice over with its factorisation; leave-one-out has orthonormal
    columns of all rows. No factor of a group is taller than its rows.
    """
    square = 8.0 * m * m
    features = 8.0 * n * m
    folds = load.folds if load.folds > 1 else 0
    model = {
        "features": features,
        "coordinates and factor": 2 * square,
        "factors of the groups": min(max(load.groups, folds) * square, features),
    }
    model_bytes = sum(model.values())
    copies = 4.0 if load.folds == 1 or load.single else 4.0 * workers / (folds or 8)
    solving = {
        "the best model so far": model_bytes if load.kernels > 1 else 0.0,
        "models": n_parallel * model_bytes,
        "features being factorised": copies * features,
        "a decomposition": 5 * square,
    }
    width = load.alphas * targets if load.predictions and load.folds else targets
    predictions = {"predictions": 8.0 * _PREDICTION_COPIES * n * width}
    return [
        Stage("solving", _held_back(solving) | predictions),
        Stage("comparing kernels", _held_back(model | _comparing(n, m)) | predictions),
    ]


def sum_stages(
    n: int, d: int, targets: int, m: int, load: Workload, n_parallel: int, workers: int
) -> list[Stage]:
    """The stages of landmarks that are trained from sums over the rows.

    Where folds overlap, there is one sum for each group of rows that they move together. The best model
    of a search stays while others are tried. Models that run side by side hold what they keep at once,
    but seldom what they pass through.
    """
    square = 8.0 * m * m
    groups = max(load.groups, load.folds)
    folds = load.folds if load.folds > 1 and holds_groups(groups, m) else 0
    groups = groups if folds else 0
    model = {
        "coordinates, sum over all rows, its eigenvectors": 3 * square,
        "sums of the groups": groups * square,
        "sums of the training parts, plain and centred": 2 * folds * square,
    }
    model_bytes = sum(model.values())
    best = {"the best model so far": model_bytes if load.kernels > 1 else 0.0}
    collecting = {
        "landmark kernel and its factor": n_parallel * 2 * square,
        "sums being collected": n_parallel * max(1, groups) * square,
        "tiles and partial sums of the threads": n_parallel * 2 * workers * square,
    }
    held = best | {"models": n_parallel * model_bytes}
    solving = {
        "sums in the landmarks' coordinates": (groups + 3 if groups else 5) * square,
        "heaps of the other threads, which keep what they summed": 2 * (workers - 1) * square,
    }
    if load.folds:
        solving["iterates of the folds"] = 8.0 * _FOLD_ITERATES * m * load.alphas * targets
    stages = [
        Stage("placing the landmarks", {"rows to cluster, in float32": 12.0 * min(n, 20 * m) * d}),
        Stage("collecting sums", _held_back(best | collecting)),
        Stage("solving", _held_back(held | solving)),
        Stage("comparing kernels", _held_back(model | _comparing(n, m))),
    ]
    if load.folds:
        predicting = _predicting(n, m, targets, load, max(workers, n_parallel))
        stages.append(Stage("predicting held-out rows", _held_back(held) | predicting))
    return stages


def _held_back(arrays: dict[str, float]) -> dict[str, float]:
    """The arrays with what the allocator holds back."""
    return {name: _FREED * size for name, size in arrays.items()}


def _comparing(n: int, m: int) -> dict[str, float]:
    """K and K̃ of a sample of the rows, and its kernel with the landmarks."""
    sample = min(n, SAMPLE)
    return {
        "kernel of the sample, true and approximate": 16.0 * sample * sample,
        "its kernel with the landmarks": 16.0 * sample * m,
    }


def pruning_bytes(m: int, groups: int) -> int:
    """Bytes of pruning from `m` centres, with the sums over so many groups of rows."""
    groups_held = groups if holds_groups(groups, m) else 2
    return int(8.0 * m * m * (groups_held + _PRUNING_SQUARES)) + _LIBRARIES


def _predicting(n: int, m: int, targets: int, load: Workload, threads: int) -> dict[str, float]:
    """Held-out predictions, and the blocks that they come from."""
    width = load.alphas * targets if load.predictions else targets
    predictions = 8.0 * _PREDICTION_COPIES * n * width
    if load.folds > 1 and not load.whole:  # added up block by block; those of one ridge are made again
        predictions = min(predictions, HELD_PREDICTIONS + 8.0 * _PREDICTION_COPIES * n * targets)
    rows = min(n, TASK_ROWS)
    if load.folds == 1 or load.single:  # leave-one-out looks at the features of every row
        blocks = 8.0 * 4 * threads * rows * m
    else:
        blocks = 8.0 * 2 * threads * rows * width
    return {"predictions": predictions, "blocks of the threads": blocks}


def grid_bytes(
    n: int, d: int, points: int, rank: int, targets: int, load: Workload, n_parallel: int
) -> int:
    """Bytes of a fit or a search on so many grid points at most; their number depends on the width.

    WᵀVW has up to 7^d entries of 12 bytes at each point, fewer at the rim, and no more than 16^d for
    each row, for all rows, each fold and its training part. Then there is a factor of K_g with so many
    columns, and its product with one of these; or, where there is no factor, all ridges and folds are
    iterated on, with transforms on twice the grid along each axis.
    """
    n_parallel = min(n_parallel, load.kernels)
    folds = max(1, load.folds)
    entries = (7 * points ** (1 / d) - 12) ** d
    of_all = min(entries, 16.0**d * n)
    of_fold = min(entries, 16.0**d * n / folds)
    columns = folds * (targets + 1)
    solving = Stage(
        "solving",
        {
            "WᵀVW of all rows, folds and training parts": 12.0
            * ((1 + folds) * of_all + folds * of_fold),
            "factor of K_g and its product": 2 * 8.0 * rank * points,
            "iterates": 8.0 * points * columns * _GRID_VECTORS * load.alphas,
            "transforms": 8.0 * points * columns * 4 * 2**d,
        },
    )
    return int(n_parallel * solving.bytes + _LIBRARIES)


def structured_bytes(vectors: int, n: int, targets: int, load: Workload, n_parallel: int) -> int:
    """Bytes of a fit or a search with a matrix of O(n): vectors, and predictions of all ridges."""
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    solving = Stage(
        "solving",
        {
            "vectors": 8.0 * n * vectors,
            "predictions": 8.0 * n * load.alphas * targets * _PREDICTION_COPIES,
            "matrix for a criterion": formed_bytes(n, load),
            "tiles": workers * CACHE_TILE,
        },
    )
    return int(n_parallel * solving.bytes + row_score_bytes(n, load) + _LIBRARIES)


def row_score_bytes(n: int, load: Workload) -> float:
    """Bytes of the scores of single rows: `cv_results_` has a column for each of them."""
    if not load.scored_rows:
        return 0.0
    return 8.0 * n * (_SCORE_COPIES * load.kernels * load.alphas + _SPLIT_OVERHEAD)


def formed_bytes(n: int, load: Workload) -> float:
    """Bytes of the kernel matrix of `n` rows for a criterion, and of what it is read from."""
    return 16.0 * n * n if load.matrix else 0.0
