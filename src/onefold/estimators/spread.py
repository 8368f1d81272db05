r"""σ(x): how large residuals are at x, from a second machine on the logarithms of their sizes.

log σ_s(x) is a kernel expansion fitted to log max(R_i, floor) over rows i outside fold s, so that no
residual has a say in the σ it is divided by. One search on 2000 rows at most chooses its width and
ridge, and its own fold models are the σ_s.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.expansions import FoldModels
from onefold.linalg import is_sparse, take_rows, to_numpy
from onefold.machine.threads import spans

_ROWS = 2000
_FEWEST = 10  # rows that a fold's σ is learned from
_BLOCK = 2**14
_FLOOR = 1e-3  # of the mean size
_WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
_RIDGES = tuple(4.0**power for power in range(-2, 6))  # the logarithm of a size is mostly noise


@dataclass(frozen=True)
class Spread:
    """σ of every fold.

    Attributes
    ----------
    models : FoldModels
        Of log σ.
    values : array (N, targets)
        σ at the rows of the residuals, each by the fold that the residual is of.
    """

    models: FoldModels
    values: Any


def spread_at(log_spread: Any, residuals: Any) -> Any:
    """Σ from its logarithm (…, targets), held within the sizes of the residuals (N, targets)."""
    floor, largest = _range_of(residuals)
    return np.exp(np.clip(log_spread, np.log(floor), np.log(largest)))


def learn_spread(
    problem: Problem,
    left_out: Sequence[Any],
    rows: Any,
    fold: Any,
    residuals: Any,
    precomputed: bool,
    seed: int,
) -> Spread | None:
    """σ of every fold from the residuals (N, targets) of some rows; None for too few of them."""
    from onefold.estimators.selected import LSSVRCV

    numbers, sizes = _sizes_of_rows(rows, residuals)
    few = _some(rows, fold, len(left_out), np.random.default_rng([seed, 2]))
    splits = []
    for number, out in enumerate(left_out):
        own = np.isin(few, rows[fold == number])
        outside = ~np.isin(few, out)
        if outside.sum() < _FEWEST:  # windows of a series: no earlier row was tested
            outside = ~own
        if outside.sum() < _FEWEST or not own.any():
            return None
        splits.append((np.flatnonzero(outside), np.flatnonzero(own)))
    X = take_rows(problem.X, few)
    X = X if is_sparse(X) else to_numpy(X)
    kernel: Any = "precomputed" if precomputed else ["rbf"]
    machine = LSSVRCV(
        kernel,
        gammas=None if precomputed else _WIDTHS,
        alphas=_RIDGES,
        approximation="exact",
        cv=splits,
        intervals="cv+",
    )
    with warnings.catch_warnings():  # of a grid's edge, which is no matter here
        warnings.simplefilter("ignore")
        machine.fit(X[:, few] if precomputed else X, sizes[np.searchsorted(numbers, few)])
    models = machine.fold_models_
    if models is None:
        return None
    if precomputed:
        models = models.with_columns(problem.n, few)
    return Spread(models, _own_spread(models, problem, rows, fold, residuals))


def _own_spread(models: FoldModels, problem: Problem, rows: Any, fold: Any, residuals: Any) -> Any:
    found = np.empty(residuals.shape)
    for part in spans(rows.size, _BLOCK):
        every = models.predict(take_rows(problem.X, rows[part]))
        found[part] = every[np.arange(len(every)), fold[part]]
    return spread_at(found, residuals)


def _range_of(residuals: Any) -> tuple[Any, Any]:
    """The least and the largest size that counts, for each target."""
    sizes = np.abs(residuals)
    largest = sizes.max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    mean = (sizes / largest).mean(axis=0) * largest
    return np.maximum(_FLOOR * np.where(mean > 0, mean, 1.0), np.finfo(float).tiny), largest


def _sizes_of_rows(rows: Any, residuals: Any) -> tuple[Any, Any]:
    """The rows, each once, and the mean logarithm of the sizes of its residuals."""
    floor, _ = _range_of(residuals)
    numbers, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    total = np.zeros((numbers.size, residuals.shape[1]))
    np.add.at(total, place, np.log(np.maximum(np.abs(residuals), floor)))
    return numbers, total / counts[:, None]


def _some(rows: Any, fold: Any, count: int, generator: np.random.Generator) -> Any:
    """At most 2000 of the rows, of every fold its share and one at least."""
    if np.unique(rows).size <= _ROWS:
        return np.unique(rows)
    picked = []
    for number in range(count):
        own = rows[fold == number]
        wanted = min(own.size, max(1, round(_ROWS * own.size / rows.size)))
        picked.append(generator.choice(own, wanted, replace=False))
    return np.unique(np.concatenate(picked))
