r"""f(x) = b + Σ_i w_i f_i(x): expansions of several kernels as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion, FittedFunction
from onefold.linalg import Array, all_finite, like, to_numpy

Member: TypeAlias = Expansion | GridExpansion


@dataclass(frozen=True)
class Blend(FittedFunction):
    r"""A weighted sum of kernel expansions of the same rows' features and the same targets.

    Attributes
    ----------
    members : tuple of Expansion or GridExpansion
        The f_i; none has a precomputed kernel. Those fitted to the same rows share their centres.
    weights : array (members,)
        The w_i, greater than 0; kept as a NumPy array in float64.
    intercept : array (targets,)
        b, beside the intercepts that the members have of their own.
    """

    members: tuple[Member, ...]
    weights: Any
    intercept: Any

    def __post_init__(self) -> None:
        members = tuple(self.members)
        if not members or not all(isinstance(member, Member) for member in members):
            raise ValueError("the members of a blend must be expansions, one at least.")
        weights = np.asarray(to_numpy(self.weights)).astype(np.float64, casting="same_kind")
        if weights.shape != (len(members),):
            raise ValueError(f"{len(members)} members do not match weights of shape {weights.shape}.")
        if not np.all((weights > 0) & (weights < np.inf)):
            raise ValueError(f"the weights of a blend must be positive and finite; got {weights}.")
        targets, features = self.intercept.shape, {member.n_features for member in members}
        if any((member.n_targets,) != tuple(targets) for member in members):
            raise ValueError(
                f"the members of a blend must have the {tuple(targets)} targets of its intercept; got "
                f"{[member.n_targets for member in members]}."
            )
        if len(features) > 1 or None in features:
            raise ValueError(
                "the members of a blend must take the same features, and not values of a precomputed "
                f"kernel; got {[member.n_features for member in members]}."
            )
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        terms = " + ".join(f"{weight:.3g} × {member.kernel}" for weight, member in self.parts)
        return f"Blend({terms}, {self.size})"

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library.

        The members one after another, each where its own rule for rows and devices has it computed.
        """
        values = self._sum(lambda member: member.predict(X, n_jobs))
        values += like(to_numpy(self.intercept), values)[None, :]
        return values

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇f = Σ_i w_i ∇f_i at every row of X, shape (rows, d, targets), in X's array library."""
        return self._sum(lambda member: member.gradient(X, n_jobs))

    def _sum(self, values: Callable[[Member], Array]) -> Array:
        """Σ_i w_i values(f_i), with no more than two terms held at a time."""
        total: Any = None
        for weight, member in self.parts:
            term = values(member)
            term *= weight
            if total is None:
                total = term
            else:
                total += term
        return total

    @property
    def parts(self) -> tuple[tuple[float, Member], ...]:
        """The weight of every member, and the member."""
        return tuple(zip(self.weights.tolist(), self.members))

    @property
    def n_features(self) -> int:
        return int(self.members[0].n_features or 0)

    @property
    def n_centres(self) -> int:
        """Kernel terms of all members together: a centre counts once for each that has it."""
        return sum(member.n_centres for member in self.members)

    @property
    def accepts_sparse(self) -> bool:
        return all(member.accepts_sparse for member in self.members)

    @property
    def finite(self) -> bool:
        return all_finite(self.intercept) and all(member.finite for member in self.members)

    def on_host(self) -> Blend:
        return Blend(all_on_host(self.members), self.weights, to_numpy(self.intercept))


def all_on_host(members: Sequence[Member]) -> tuple[Member, ...]:
    """Every member with NumPy arrays; those that share their centres go on doing so."""
    moved: dict[int, Any] = {}
    found = []
    for member in members:
        there = member.on_host()
        if isinstance(member, Expansion) and isinstance(there, Expansion):
            there = replace(there, centres=moved.setdefault(id(member.centres), there.centres))
        found.append(there)
    return tuple(found)
