r"""Peak memory of a fit beyond its data: one formula for the exact method, one for a basis model.

Plans, refusals and the number of models that run side by side all come from here. A peak is that of the
stage which holds most; the counts of arrays below are those of the code, its libraries included, and
``benchmarks/plan_memory.py`` compares the sums with what processes really take. What depends on the
values in the data (a kernel matrix of low rank, rows that stand alone) can only lower them.
"""

from __future__ import annotations

from onefold.approximations.problem import Workload
from onefold.basis.error import SAMPLE
from onefold.basis.ridge import uses_factors
from onefold.basis.statistics import holds_groups
from onefold.kernels.tiles import CACHE_TILE, device_rows
from onefold.machine.threads import thread_budget
from onefold.rows.base import TASK_ROWS
from onefold.smoothers.base import choose_route

_LIBRARIES = 4 * 10**6  # buffers of BLAS, modules loaded on first use
_DUAL_COPIES = 5  # of the coefficients of every fold and ridge
FORMED = 4096  # rows up to which a matrix that is known otherwise is formed for a criterion: 128 MiB
HELD_PREDICTIONS = 2**25  # bytes that a search holds for the chosen μ rather than predict again
_PREDICTION_COPIES = 3  # of the held-out predictions of every ridge
_SCORE_COPIES = 5  # of the scores of single rows, when `cv_results_` is made of them
_SPLIT_OVERHEAD = 40  # numbers of 8 bytes that a column of `cv_results_` takes besides its scores
_FREED = 1.1  # what the allocator holds back of arrays that are freed and made again
_ITERATES = 10  # arrays of landmarks × ridges × targets in which the folds are solved
PANELS = 3 * 2048  # columns of what is at work on a factor of a GPU beside it
_DEVICE_TILES = 4  # of float64 that a GPU has at once while it makes one
_COPIED = 2**31  # bytes of a matrix that a GPU factorises in one call, which copies it
_PRUNING = 8  # arrays of centres × centres besides the sums over groups of rows
_SIDE_BY_SIDE = 3 * 2**30  # that models running side by side may take together
_GRID_VECTORS = 4  # arrays of grid points for each ridge, fold and target while they are solved


def max_models_within(each: int | None, free: int | None) -> int:
    """How many models of so many bytes run side by side: within 3 GiB and half of what is free."""
    budget = _SIDE_BY_SIDE if free is None else min(_SIDE_BY_SIDE, free // 2)
    return max(1, min(thread_budget(), budget // max(1, each or 0)))


def exact_bytes(n: int, targets: int, load: Workload, n_parallel: int) -> int:
    """Of a fit or a search with the dense kernel matrix, `n_parallel` kernels side by side."""
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    square = 8.0 * n * n
    tiles = (2 + workers) * 8.0 * min(n, 1024) ** 2
    if load.gpu is not None:  # strips of K, or panels of its factor; of few rows a copy of it
        strips = _DEVICE_TILES * min(n, device_rows(n))
        tiles = 8.0 * n * max(strips, PANELS) + min(square, _COPIED)
    route = choose_route(n, load.alphas, load.need, gpu=load.gpu is not None)
    making = square + tiles
    stages = [route.matrices(load.folds) * square]
    if load.folds:
        columns = 8.0 * load.alphas * load.folds * n * targets
        if load.alphas * load.folds * targets <= n and load.folds > 1:
            stages.append(square + _DUAL_COPIES * columns)
        else:
            blocks = 2 / load.folds + 2 / load.folds**2 if load.folds > 1 else 0.0
            stages.append((1 + blocks) * square + (_PREDICTION_COPIES + 1) * columns / load.folds)
    freed = tiles if n > 1024 else 0.0  # which the process keeps
    return int(max(n_parallel * making, n_parallel * max(stages) + freed) + _LIBRARIES)


def basis_bytes(n: int, d: int, targets: int, m: int, load: Workload, n_parallel: int) -> int:
    """Of a fit or a search with `m` landmarks, `n_parallel` kernels side by side.

    In arrays of m × m a model holds its coordinates, the sum over all rows and its eigenvectors (3), and
    for each of k folds the sums over its rows and those of its training part, as they are and centred
    (3 k); where folds overlap, one sum for each group of rows that they move together. While they are
    made there are the sums in the landmarks' own coordinates besides (k + 3). The best model of a search
    stays while others are tried.
    """
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    groups = max(load.groups, load.folds)
    square = 8.0 * m * m
    sample = min(n, SAMPLE)
    beside = 8.0 * n * (5 * targets + 6 if load.folds else 2 * targets + 1)
    tiles = (
        workers * CACHE_TILE if load.gpu is None else 8.0 * _DEVICE_TILES * m * min(n, device_rows(m))
    )
    beside += tiles + _LIBRARIES
    comparing = 16.0 * sample * sample + 16.0 * sample * m
    if uses_factors(n, m):
        # The features of all rows, and those of a fold thrice over with its factorisation; leave-one-out
        # has orthonormal columns of all rows besides. No factor of a group is taller than its rows.
        features = 8.0 * n * m
        folds = load.folds if load.folds > 1 else 0
        model = features + 2 * square + min(max(load.groups, folds) * square, features)
        kept = model if load.kernels > 1 else 0.0
        pieces = 4.0 if load.folds == 1 or load.single else 4.0 * workers / (folds or 8)
        solving = kept + n_parallel * model + pieces * features + 5 * square
        predictions = load.alphas * targets if load.predictions and load.folds else targets
        most = _FREED * max(solving, model + comparing)
        return int(most + 8.0 * _PREDICTION_COPIES * n * predictions + beside)
    folds = load.folds if load.folds > 1 and holds_groups(groups, m) else 0
    groups = groups if folds else 0
    model = (3 + groups + 2 * folds) * square
    kept = model if load.kernels > 1 else 0.0
    collecting = (2 + max(1, groups) + 2 * workers) * square
    # Threads have heaps of their own, which keep what they summed.
    solving = ((groups + 3 if groups else 5) + 2 * (workers - 1)) * square
    # Models that run side by side hold what they keep at once, but seldom what they pass through.
    held = kept + n_parallel * model
    stages = [_FREED * (kept + n_parallel * collecting)]
    if load.folds:
        solving += 8.0 * _ITERATES * m * load.alphas * targets
        stages.append(_FREED * held + _predicting(n, m, targets, load, max(workers, n_parallel)))
    stages.append(_FREED * (held + solving))
    stages.append(_FREED * (model + comparing))
    clustering = 12.0 * min(n, 20 * m) * d
    return int(max(*stages, clustering) + beside)


def pruning_bytes(m: int, groups: int) -> int:
    """Of pruning from `m` centres, with the sums over so many groups of rows."""
    held = groups if holds_groups(groups, m) else 2
    return int(8.0 * m * m * (held + _PRUNING)) + _LIBRARIES


def _predicting(n: int, m: int, targets: int, load: Workload, threads: int) -> float:
    """Held-out predictions, and the blocks that they come from."""
    width = load.alphas * targets if load.predictions else targets
    predictions = 8.0 * _PREDICTION_COPIES * n * width
    if load.folds > 1 and not load.whole:  # added up block by block; those of one ridge are made again
        predictions = min(predictions, HELD_PREDICTIONS + 8.0 * _PREDICTION_COPIES * n * targets)
    if load.folds == 1 or load.single:  # leave-one-out looks at the features of every row
        return predictions + 8.0 * 4 * threads * min(n, TASK_ROWS) * m
    return predictions + 8.0 * 2 * threads * min(n, TASK_ROWS) * width


def grid_bytes(
    n: int, d: int, points: int, rank: int, targets: int, load: Workload, n_parallel: int
) -> int:
    """Of a fit or a search on so many grid points at most: how many, the kernel's width decides.

    WᵀVW has up to 7^d entries of 12 bytes at each point, fewer at the rim, and no more than 16^d for
    each row, for all rows, each fold and its training part. Then there is a factor of K_g with so many
    columns, and its product with one of these; or, where there is no factor, all ridges and folds are
    iterated on, with transforms on twice the grid along each axis.
    """
    n_parallel = min(n_parallel, load.kernels)
    folds = max(1, load.folds)
    most = (7 * points ** (1 / d) - 12) ** d
    of_all = min(most, 16.0**d * n)
    of_fold = min(most, 16.0**d * n / folds)
    sums = 12.0 * ((1 + folds) * of_all + folds * of_fold)
    columns = folds * (targets + 1)
    vectors = 8.0 * points * columns * (_GRID_VECTORS * load.alphas + 4 * 2**d)
    return int(n_parallel * (sums + 2 * 8.0 * rank * points + vectors) + _LIBRARIES)


def structured_bytes(vectors: int, n: int, targets: int, load: Workload, n_parallel: int) -> int:
    """Of a fit or a search with a matrix of O(n): vectors to solve with, predictions of all ridges."""
    n_parallel = min(n_parallel, load.kernels)
    workers = thread_budget() if n_parallel == 1 else 1
    columns = load.alphas * targets * _PREDICTION_COPIES
    model = 8.0 * n * (vectors + columns) + formed_bytes(n, load) + workers * CACHE_TILE
    return int(n_parallel * model + row_score_bytes(n, load) + _LIBRARIES)


def row_score_bytes(n: int, load: Workload) -> float:
    """Of a search with a score for each row: `cv_results_` has a column for each of them."""
    each = 8.0 * n * (_SCORE_COPIES * load.kernels * load.alphas + _SPLIT_OVERHEAD)
    return each if load.scored_rows else 0.0


def formed_bytes(n: int, load: Workload) -> float:
    """Of the kernel matrix of `n` rows, where a criterion needs it: with what it is read from."""
    return 16.0 * n * n if load.matrix else 0.0
