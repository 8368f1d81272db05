"""Bases: which rows carry the expansion of a basis model. They see inputs only, never targets."""

from __future__ import annotations

from collections.abc import Callable

from onefold.landmarks.base import Basis, candidate_rows
from onefold.landmarks.clusters import cluster_centres, metric_of
from onefold.landmarks.given import given_rows
from onefold.landmarks.pivoted import pivoted_rows
from onefold.landmarks.uniform import uniform_rows

__all__ = ["BASES", "KERNEL_FREE", "Basis", "candidate_rows", "given_rows", "metric_of"]

BASES: dict[str, Callable[..., Basis]] = {
    "rpcholesky": pivoted_rows,
    "uniform": uniform_rows,
    "kmeans": cluster_centres,
}
KERNEL_FREE = frozenset({"uniform", "kmeans"})
"""Methods whose choice does not depend on the kernel, but for its metric: one serves a whole search."""
