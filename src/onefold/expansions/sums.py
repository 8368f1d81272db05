r"""Sums of expansions: several kernels as one function, and the models of all folds.

A blend is f(x) = Σ_i w_i f_i(x).

Fold models are f_s(x) = b_s + Σ_terms Σ_j c_sj k(x, z_j): those that share their kernel and centres are
the columns of one expansion, k folds for little more than the price of one. Models with kernels of their
own are a term each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion, FittedFunction
from onefold.linalg import Array, asarray_like, host_array, index_like, namespace, scattered

Member: TypeAlias = Expansion | GridExpansion


@dataclass(frozen=True)
class Blend(FittedFunction):
    """A weighted sum of kernel expansions of the same rows' features and the same targets."""

    members: tuple[Member, ...]  # the f_i; none has a precomputed kernel, and some share their centres
    weights: Any  # w_i > 0 (members,), kept as a NumPy array in float64

    def __post_init__(self) -> None:
        members = tuple(self.members)
        if not members or not all(isinstance(member, Member) for member in members):
            raise ValueError("the members of a blend must be expansions, and at least one.")
        weights = host_array(self.weights)
        if weights.shape != (len(members),):
            raise ValueError(f"{len(members)} members do not match weights of shape {weights.shape}.")
        if not np.all((weights > 0) & (weights < np.inf)):
            raise ValueError(f"the weights of a blend must be positive and finite; got {weights}.")
        if len(targets := {member.n_targets for member in members}) > 1:
            raise ValueError(
                f"the members of a blend must have the same targets; got {sorted(targets)}."
            )
        features = [member.n_features for member in members]
        if len(set(features)) > 1 or None in features:
            raise ValueError(
                "the members of a blend must take the same features, and not values of a precomputed "
                f"kernel; got {features}."
            )
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        terms = " + ".join(f"{weight:.3g} × {member.kernel}" for weight, member in self.parts)
        return f"Blend({terms}, {self.size})"

    @property
    def intercept(self) -> Any:
        return sum(weight * member.intercept for weight, member in self.parts)

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library: member after member."""
        return self._sum(lambda member: member.predict(X, n_jobs))

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇f = Σ_i w_i ∇f_i at every row of X, shape (rows, d, targets), in X's array library."""
        return self._sum(lambda member: member.gradient(X, n_jobs))

    def _sum(self, values: Callable[[Member], Array]) -> Array:
        """Σ_i w_i values(f_i), with no more than two terms held at a time."""
        total: Any = None
        for weight, member in self.parts:
            term = values(member)
            term *= weight
            if total is not None:
                term += total
            total = term
        return total

    @property
    def parts(self) -> tuple[tuple[float, Member], ...]:
        """The weight of every member, and the member."""
        return tuple(zip(self.weights.tolist(), self.members))

    @property
    def n_features(self) -> int | None:
        return self.members[0].n_features

    def on_host(self) -> Blend:
        return Blend(all_on_host(self.members), self.weights)


def all_on_host(members: Sequence[Member]) -> tuple[Member, ...]:
    """Every member with NumPy arrays; members that share their centres still share them afterwards."""
    moved: dict[int, Any] = {}
    members_on_host = []
    for member in members:
        on_host = member.on_host()
        if isinstance(member, Expansion) and isinstance(on_host, Expansion):
            on_host = replace(on_host, centres=moved.setdefault(id(member.centres), on_host.centres))
        members_on_host.append(on_host)
    return tuple(members_on_host)


@dataclass(frozen=True)
class FoldModels:
    """The models f_s of folds s = 0 … k − 1, each trained without one fold."""

    terms: tuple[Member, ...]  # each with (its folds) · t targets, those of a fold side by side
    folds: tuple[Any, ...]  # int arrays: for each term, the numbers of the folds that it is part of
    intercept: Any  # NumPy array (k, t), added to the intercepts of the terms

    def __post_init__(self) -> None:
        terms = tuple(self.terms)
        folds = tuple(np.asarray(numbers) for numbers in self.folds)
        intercept = host_array(self.intercept)
        if intercept.ndim != 2 or not intercept.size or not terms or len(terms) != len(folds):
            raise ValueError(
                "fold models need at least one term, and an intercept of shape (folds, targets)."
            )
        k, t = intercept.shape
        for term, numbers in zip(terms, folds):
            valid = isinstance(term, Member) and numbers.ndim == 1 and numbers.dtype.kind == "i"
            if not valid or not numbers.size or numbers.min() < 0 or numbers.max() >= k:
                raise ValueError(f"a term of fold models must be an expansion with folds below {k}.")
            columns = np.unique(numbers).size * t
            if not numbers.size * t == columns == term.n_targets:
                raise ValueError(
                    f"a term of the different folds {numbers} and {t} targets must have {columns} "
                    f"columns; got {term.n_targets}."
                )
        if len({term.n_features for term in terms}) > 1:
            raise ValueError("the terms of fold models must take the same features.")
        for name, value in (("terms", terms), ("folds", folds), ("intercept", intercept)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kernel = f"{self.terms[0].kernel}{', …' if len(self.terms) > 1 else ''}"
        size = f"folds={self.count}, terms={len(self.terms)}, targets={self.n_targets}"
        return f"FoldModels({kernel}, {size})"

    @classmethod
    def of(cls, expansion: Member, folds: int) -> FoldModels:
        """From one expansion with the columns of all folds."""
        t = expansion.n_targets // folds
        return cls((expansion,), (np.arange(folds),), np.zeros((folds, t)))

    @classmethod
    def from_expansions(cls, expansions: Sequence[Member]) -> FoldModels:
        """From an expansion for every fold."""
        numbers = tuple(np.array([s]) for s in range(len(expansions)))
        return cls(tuple(expansions), numbers, np.zeros((len(expansions), expansions[0].n_targets)))

    @property
    def count(self) -> int:
        """Number of folds."""
        return int(self.intercept.shape[0])

    @property
    def n_targets(self) -> int:
        """Number of values at every row, for each fold."""
        return int(self.intercept.shape[1])

    @property
    def n_features(self) -> int | None:
        """Columns of the rows it takes; None where these are values of a precomputed kernel."""
        return self.terms[0].n_features

    @property
    def finite(self) -> bool:
        """Whether no coefficient and no intercept is infinite or undefined."""
        return bool(np.isfinite(self.intercept).all()) and all(term.finite for term in self.terms)

    def predict(self, X: Array, n_jobs: int | None = None) -> Any:
        """f_s at every row of X, a NumPy array (rows, k, t)."""
        total = np.repeat(self.intercept[None], X.shape[0], axis=0)
        for term, numbers in zip(self.terms, self.folds):
            values = host_array(term.predict(X, n_jobs))
            total[:, numbers] += values.reshape(-1, numbers.size, self.n_targets)
        return total

    def plus(self, offset: Any) -> FoldModels:
        """The same with `offset` (targets,) added to every model."""
        return replace(self, intercept=self.intercept + offset)

    def with_columns(self, n: int, kept: Any) -> FoldModels:
        """The same models for a precomputed kernel of `n` rows, of which they have only those `kept`."""
        widened = (replace(term, coef=scattered(term.coef, kept, n)) for term in self.terms)
        return replace(self, terms=tuple(widened))

    def on_host(self) -> FoldModels:
        """The same with NumPy arrays; terms that share their centres still share them afterwards."""
        return replace(self, terms=all_on_host(self.terms))


def mixed(models: Sequence[FoldModels], weights: Any, source: Any) -> FoldModels:
    """Σ_g w_fg f_g for every new fold f, where f_g is fold `source[f]` of model g."""
    weights = np.asarray(weights)
    t = models[0].n_targets
    sources = np.asarray(source, dtype=np.intp)
    terms: list[Member] = []
    folds: list[Any] = []
    total = np.zeros((len(sources), t))
    for g, model in enumerate(models):
        total += weights[:, g, None] * model.intercept[sources]
        for term, numbers in zip(model.terms, model.folds):
            new_folds = np.flatnonzero(np.isin(sources, numbers) & (weights[:, g] != 0))
            if new_folds.size:
                places = np.array([int(np.flatnonzero(numbers == sources[f])[0]) for f in new_folds])
                terms.append(_columns(term, places, weights[new_folds, g], t))
                folds.append(new_folds)
    return FoldModels(tuple(terms), tuple(folds), total)


def _columns(term: Member, places: Any, factors: Any, t: int) -> Member:
    """The columns of the folds at these `places` of a term, each times a factor."""
    index = (places[:, None] * t + np.arange(t)).reshape(-1)
    taken = {}
    for name in term.arrays:
        columns = getattr(term, name)
        xp = namespace(columns)
        axis = columns.ndim - 1
        scale = asarray_like(np.repeat(factors, t), columns)
        taken[name] = xp.take(columns, index_like(index, columns), axis=axis) * scale
    return replace(term, **taken)
