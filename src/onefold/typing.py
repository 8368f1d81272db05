"""Names for what users pass: arrays, splitters, scorers. For annotations; nothing is checked.

What comes back from a method has the library of X, which no annotation can say: it is ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = [
    "ArrayLike",
    "ClassWeight",
    "CriterionLike",
    "CrossValidation",
    "HasShape",
    "MaybeArray",
    "RandomState",
    "Scorer",
    "Splitter",
    "TableLike",
]


@runtime_checkable
class HasShape(Protocol):
    """An array of any library, a sparse matrix, a frame or a collection of Dask."""

    @property
    def shape(self) -> Any:
        """Its size along every axis."""


ArrayLike: TypeAlias = npt.ArrayLike | HasShape
"""Rows, targets, labels, weights or groups: what NumPy can make an array of, or what has a shape."""

MaybeArray: TypeAlias = ArrayLike | None

TableLike: TypeAlias = ArrayLike | Path
"""A table of pandas, polars or pyarrow, an array, or the path of a file."""


@runtime_checkable
class Splitter(Protocol):
    """What scikit-learn calls a cross-validation splitter."""

    def get_n_splits(self, X: Any = ..., y: Any = ..., groups: Any = ...) -> int:
        """How many splits there are."""

    def split(self, X: Any, y: Any = ..., groups: Any = ...) -> Iterable[tuple[Any, Any]]:
        """(train, test) row numbers."""


CrossValidation: TypeAlias = int | str | Splitter | Iterable[tuple[ArrayLike, ArrayLike]] | None
"""A number of folds, "loo", a splitter, or (train, test) row numbers."""

Scorer: TypeAlias = Callable[..., float]
"""``scorer(estimator, X, y)``, greater is better."""

CriterionLike: TypeAlias = str | Scorer | Sequence[str | Scorer] | None
"""The name of a criterion, a scorer, or several of them."""

ClassWeight: TypeAlias = Mapping[Any, float] | str | None
"""A weight for each label, or "balanced"."""

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
"""A seed, or a generator of random numbers."""
