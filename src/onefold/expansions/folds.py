r"""The models that were each trained without one fold, as columns of few kernel products.

f_s(x) = b_s + Σ_terms Σ_j c_sj k(x, z_j): models that share their kernel and centres are the columns of
one expansion, k folds for little more than the price of one. Models with kernels of their own are a term
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.expansions.blend import Member, all_on_host
from onefold.expansions.grid import GridExpansion
from onefold.linalg import Array, like, like_index, namespace, to_numpy

_FIRST = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True)
class FoldModels:
    r"""f_s for s = 0 … k − 1.

    Attributes
    ----------
    terms : tuple of Expansion or GridExpansion
        Each with (its folds) · t targets, those of a fold side by side.
    folds : tuple of int arrays
        For each term, the numbers of the folds that it is part of.
    intercept : NumPy array (k, t)
        Beside the intercepts of the terms.
    """

    terms: tuple[Member, ...]
    folds: tuple[Any, ...]
    intercept: Any

    def __post_init__(self) -> None:
        terms, folds = tuple(self.terms), tuple(np.asarray(numbers) for numbers in self.folds)
        intercept = np.asarray(to_numpy(self.intercept), dtype=np.float64)
        if intercept.ndim != 2 or not intercept.size or not terms or len(terms) != len(folds):
            raise ValueError("fold models need a term or more, and an intercept (folds, targets).")
        k, t = intercept.shape
        for term, numbers in zip(terms, folds):
            if not isinstance(term, Member) or numbers.ndim != 1 or numbers.dtype.kind != "i":
                raise ValueError("a term of fold models must be an expansion with the folds it is of.")
            inside = numbers.size and numbers.min() >= 0 and numbers.max() < k
            if not inside or np.unique(numbers).size < numbers.size:
                raise ValueError(f"the folds of a term must be different numbers below {k}.")
            if term.n_targets != numbers.size * t:
                raise ValueError(
                    f"a term of {numbers.size} folds and {t} targets must have {numbers.size * t} "
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
    def each(cls, expansions: Sequence[Member]) -> FoldModels:
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
            values = to_numpy(term.predict(X, n_jobs))
            total[:, numbers] += values.reshape(-1, numbers.size, self.n_targets)
        return total

    def plus(self, offset: Any) -> FoldModels:
        """The same with `offset` (targets,) added to every model."""
        return replace(self, intercept=self.intercept + offset)

    def with_columns(self, n: int, kept: Any) -> FoldModels:
        """Of a precomputed kernel of `n` rows, where the models know the rows `kept` alone."""
        widened = []
        for term in self.terms:
            coef = np.zeros((n, term.n_targets))
            coef[kept] = to_numpy(term.coef)
            widened.append(replace(term, coef=like(coef, term.coef)))
        return replace(self, terms=tuple(widened))

    def on_host(self) -> FoldModels:
        """The same with NumPy arrays; terms that share their centres go on doing so."""
        return replace(self, terms=all_on_host(self.terms))


def mixed(models: Sequence[FoldModels], weights: Any, intercept: Any, source: Any) -> FoldModels:
    """Σ_g w_fg f_g for every new fold f, plus its intercept.

    Parameters
    ----------
    models : sequence of FoldModels
        One for each member g.
    weights : array (new folds, members)
    intercept : array (new folds, targets)
    source : sequence of int (new folds,)
        The fold of the members' that each new one is made from.
    """
    weights, t = np.asarray(weights), models[0].n_targets
    sources = np.asarray(source, dtype=np.intp)
    terms: list[Member] = []
    folds: list[Any] = []
    total = np.array(intercept, dtype=np.float64)
    for g, model in enumerate(models):
        total += weights[:, g, None] * model.intercept[sources]
        for term, numbers in zip(model.terms, model.folds):
            own = np.flatnonzero(np.isin(sources, numbers) & (weights[:, g] != 0))
            if own.size:
                places = np.array([int(np.flatnonzero(numbers == sources[f])[0]) for f in own])
                terms.append(_columns(term, places, weights[own, g], t))
                folds.append(own)
    if not terms:  # every weight is 0: the intercepts alone
        terms, folds = [_columns(models[0].terms[0], np.zeros(1, dtype=int), np.zeros(1), t)], [_FIRST]
    return FoldModels(tuple(terms), tuple(folds), total)


def _columns(term: Member, places: Any, factors: Any, t: int) -> Member:
    """The columns of some of a term's folds, each times a factor."""
    index = (places[:, None] * t + np.arange(t)).reshape(-1)
    names = ("coef", "intercept", "values") if isinstance(term, GridExpansion) else ("coef", "intercept")
    taken = {}
    for name in names:
        columns = getattr(term, name)
        xp, axis = namespace(columns), columns.ndim - 1
        scale = like(np.repeat(factors, t), columns)
        taken[name] = xp.take(columns, like_index(index, columns), axis=axis) * scale
    return replace(term, **taken)
