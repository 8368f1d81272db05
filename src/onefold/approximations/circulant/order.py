r"""Which row of the data stands where in the circulant matrix, and how far apart its cells are.

The matrix knows its rows by their position alone, so their order is a setting of the method:

    given      as the rows came
    random     shuffled
    principal  sorted into n_0 slabs along the first principal direction, each slab into n_1 bars
               along the second, and so on: neighbours in position are neighbours in space
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from onefold.linalg import Array, double, is_sparse, take_rows, to_numpy

Order = Literal["given", "random", "principal"]
ORDERS: tuple[Order, ...] = ("given", "random", "principal")

_FEW_FEATURES = 64
_ITERATIONS = 8
_SAMPLED_PAIRS = 2000


def row_order(order: Order, X: Array, shape: tuple[int, ...], seed: int) -> Any | None:
    """The row in each cell, as row numbers; None for the rows as they came."""
    n = X.shape[0]
    if order == "given":
        return None
    if order == "random":
        return np.random.default_rng(seed).permutation(n)
    coordinates = principal_coordinates(X, len(shape))
    group, places = np.zeros(n, dtype=np.intp), np.arange(n)
    found = places
    for level in range(len(shape)):
        found = np.lexsort((coordinates[:, level], group))
        group[found] = places // int(np.prod(shape[level + 1 :]))  # rows in a group of this level
    return found


def principal_coordinates(X: Array, levels: int) -> Any:
    """Rows along the leading `levels` principal directions, (n, levels); zeros where X has fewer.

    From the covariance matrix of few features; of many, by a few steps of subspace iteration on the
    centred rows without forming them, O(n d levels).
    """
    X = double(X) if is_sparse(X) else double(to_numpy(X))
    features = X.shape[1]
    kept = min(levels, features)
    mean = np.asarray(X.mean(axis=0)).reshape(-1)
    if not is_sparse(X):  # rows far from the origin: their squares would take the digits
        X, mean = X - mean, np.zeros(features)
    coordinates = np.zeros((X.shape[0], levels))
    if features <= _FEW_FEATURES:
        square = X.T @ X
        covariance = (square.toarray() if is_sparse(X) else square) - X.shape[0] * np.outer(mean, mean)
        basis = _one_sign(np.linalg.eigh(covariance)[1][:, ::-1][:, :kept])
        coordinates[:, :kept] = X @ basis - mean @ basis
        return coordinates
    basis = np.random.default_rng(0).standard_normal((features, kept))
    for _ in range(_ITERATIONS):
        projected = X @ basis - mean @ basis
        basis, _ = np.linalg.qr(X.T @ projected - np.outer(mean, projected.sum(axis=0)))
    projected = X @ basis - mean @ basis
    basis = _one_sign(basis @ np.linalg.eigh(projected.T @ projected)[1][:, ::-1])
    coordinates[:, :kept] = X @ basis - mean @ basis
    return coordinates


def _one_sign(basis: Any) -> Any:
    """Directions with their largest component positive, whatever the library made of their sign."""
    largest = basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])]
    return basis * np.where(largest < 0, -1.0, 1.0)


def data_spacing(X: Array, order: Any | None, shape: tuple[int, ...]) -> tuple[float, ...]:
    """Root mean square distance between rows whose positions differ by one along each level."""
    n = X.shape[0]
    steps = [int(np.prod(shape[level + 1 :])) for level in range(len(shape))]
    spacing = []
    for size, step in zip(shape, steps):
        first = np.arange(n - step) if size > 1 else np.arange(0)
        first = first[(first // step) % size < size - 1]  # the last of a level has no next one
        if first.size > _SAMPLED_PAIRS:
            first = np.random.default_rng(0).choice(first, _SAMPLED_PAIRS, replace=False)
        spacing.append(_rms_distance(X, order, first, first + step) if first.size else 1.0)
    return tuple(h if h > 0 else 1.0 for h in spacing)  # duplicated rows only: any spacing will do


def _rms_distance(X: Array, order: Any | None, left: Any, right: Any) -> float:
    if order is not None:
        left, right = order[left], order[right]
    difference = double(to_numpy(take_rows(X, left))) - double(to_numpy(take_rows(X, right)))
    squares = difference.multiply(difference) if is_sparse(X) else difference**2
    return float(np.sqrt(squares.sum() / left.size))
