"""Coefficients of a linear model f(x) = φ(x)·θ + b for many ridge values, and what they predict."""

from __future__ import annotations

from typing import Any, NamedTuple

from onefold.linalg import Array, namespace


class Coefficients(NamedTuple):
    """θ and b for every μ and target."""

    theta: Array  # (features, μ, targets)
    intercept: Array  # (μ, targets)


def mapped(T: Array | None, theta: Array) -> Any:
    """T θ for θ (r, μ, targets): (features, μ, targets); θ itself without a T."""
    if T is None:
        return theta
    return namespace(theta).reshape(T @ as_columns(theta), (T.shape[0], *theta.shape[1:]))


def as_columns(theta: Array) -> Array:
    """θ (r, μ, targets) as a matrix (r, μ · targets)."""
    r, n_ridges, n_targets = theta.shape
    return namespace(theta).reshape(theta, (r, n_ridges * n_targets))


def predictions_of(values: Array, intercept: Array) -> Any:
    """(μ, rows, targets) from features times coefficients (rows, μ · targets), and b (μ, targets)."""
    xp = namespace(values)
    return xp.permute_dims(xp.reshape(values, (-1, *intercept.shape)), (1, 0, 2)) + intercept[:, None, :]
