"""What is learned: a family of kernels, and the kind of metric it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onefold.kernels import RBF, Kernel
from onefold.linalg import Array, is_sparse

KINDS = ("diagonal", "full", "auto")


@dataclass(frozen=True)
class Track:
    """A family and the kind of its metric.

    Attributes
    ----------
    name : str
        Of the family.
    kernel : Kernel
        The family before anything is learned.
    kind : {"none", "diagonal", "full"}
    """

    name: str
    kernel: Kernel
    kind: str


def tracks_of(families: Sequence[tuple[str, Kernel]], metric: str, X: Array) -> list[Track]:
    """One track per family and kind of metric, simple ones first.

    "diagonal" and "full" give every family that kind; the Laplacian kernel has the diagonal one alone.
    "auto" gives families of an L2 distance both, but the rbf kernel the full one only: its diagonal
    one was never worth its time (docs/metric.md). Families without a metric keep what they are.
    """
    if not isinstance(metric, str) or metric not in KINDS:
        names = ", ".join(f'"{kind}"' for kind in KINDS)
        raise ValueError(f"metric must be None or one of {names}; got {metric!r:.60}.")
    found = []
    for name, kernel in families:
        able = [kind for kind in kernel.learns if kind == "diagonal" or not is_sparse(X)]
        wanted = {"diagonal": ["diagonal"], "full": ["full"], "auto": ["diagonal", "full"]}[metric]
        if metric == "auto" and isinstance(kernel, RBF) and "full" in able:
            wanted = ["full"]
        if metric == "full" and kernel.learns and is_sparse(X) and "full" in kernel.learns:
            raise ValueError(
                "a full metric mixes all features and makes sparse rows dense; use "
                'metric="diagonal", or dense rows.'
            )
        kinds = [kind for kind in wanted if kind in able] or able[:1] or ["none"]
        found += [Track(name, kernel, kind) for kind in kinds]
    if all(track.kind == "none" for track in found):
        raise ValueError(
            f"none of the kernels ({', '.join(name for name, _ in families)}) has a metric to learn; "
            "use rbf, matern or laplacian, or metric=None."
        )
    return found
