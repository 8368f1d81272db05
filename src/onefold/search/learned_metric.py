r"""Metrics learned from the gradients of fitted functions, round after round, each fold with its own.

    M = mean_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ

over rows drawn at random, divided by its largest diagonal entry, plus 10⁻⁶ I. Directions along which f
does not change drop out. The next kernel compares rows as S x with SᵀS = M; a diagonal one has the
weights √M_jj.

    round 0      the family as it is, one kernel for all parts
    round r + 1  for every part J: the model of the other rows at (width, ridge) gives the next metric
                 of J, which has seen no target of J; the model of all rows gives the one for the final
                 fit

Where each part J has a kernel of its own, the parts share no matrix and no closed form holds across
them. What is left is the definition itself (:class:`CrossFitted`): for each part one model of the other
rows, and all ridges from its one factorisation or one each. O(k) times the work of a fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run, Workload
from onefold.expansions import Expansion, FoldModels, outer_gradients
from onefold.heldout import sample_rows
from onefold.kernels import RBF, Kernel
from onefold.linalg import Array, asarray_like, is_sparse, namespace, take_rows
from onefold.machine.threads import check_stop, map_in_order

KINDS = {"diagonal": ["diagonal"], "full": ["full"], "auto": ["diagonal", "full"]}
# Rows at which the gradient is taken, at most; chosen, not measured.
GRADIENT_ROWS = 1500
# Number that is added to the diagonal of M, whose largest entry is 1, so that M is regular; chosen, not
# measured.
_FLOOR = 1e-6
# Rows whose mean distance a width is relative to, at most; chosen, not measured.
_DISTANCE_ROWS = 500


@dataclass(frozen=True)
class Track:
    """What is learned: a family of kernels, and the kind of its metric."""

    name: str  # of the family
    kernel: Kernel  # before anything is learned
    kind: str  # "none", "diagonal" or "full"


def check_metric(metric: Any) -> None:
    """Raise for an unknown kind of metric."""
    if not isinstance(metric, str) or metric not in KINDS:
        names = ", ".join(f'"{kind}"' for kind in KINDS)
        raise ValueError(f"metric must be None or one of {names}; got {metric!r:.60}.")


def tracks_of(families: Sequence[tuple[str, Kernel]], metric: str, X: Array) -> list[Track]:
    """One track per family and kind of metric, simple ones first; without a metric where it has none."""
    tracks = []
    for name, kernel in families:
        possible = [kind for kind in kernel.learns if kind == "diagonal" or not is_sparse(X)]
        # The diagonal metric of the rbf kernel was never worth its time where both are tried.
        only_full = metric == "auto" and isinstance(kernel, RBF) and "full" in possible
        wanted = ["full"] if only_full else KINDS[metric]
        kinds = [kind for kind in wanted if kind in possible] or possible[:1] or ["none"]
        tracks += [Track(name, kernel, kind) for kind in kinds]
    return tracks


def gradient_metric(
    expansion: Any, X: Array, weight: Any | None, *, kind: str, generator: np.random.Generator
) -> Any:
    """S (d, d), symmetric, or its weights (d,) for a diagonal metric; O(1500 · m · d · targets)."""
    rows = sample_rows(np.arange(X.shape[0]), GRADIENT_ROWS, generator)
    row_weight = None if weight is None else weight[rows]
    M = outer_gradients(expansion, take_rows(X, rows), row_weight, diagonal=kind == "diagonal")
    largest = float(np.max(M if M.ndim == 1 else np.diagonal(M)))
    if not 0 < largest < np.inf:  # f is constant: nothing is known of any feature
        return np.ones(M.shape[0]) if M.ndim == 1 else np.eye(M.shape[0])
    if M.ndim == 1:
        return np.sqrt(M / largest + _FLOOR)
    values, vectors = np.linalg.eigh(M / largest + _FLOOR * np.eye(M.shape[0]))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


@dataclass(frozen=True)
class Fitted:
    """A kernel and the mean exponent of the rows that it was learned from."""

    kernel: Kernel
    mean_exponent: float

    def at(self, width: float) -> Kernel:
        """The kernel of that relative width."""
        return self.kernel.relative(width, self.mean_exponent)


@dataclass(frozen=True)
class Round:
    """The kernels of a track in one round; round 0 is before anything is learned."""

    track: Track
    final: Fitted  # of the final fit, learned from all rows
    parts: Sequence[Fitted] | None = None  # learned without each part; None in round 0: `final` serves
    learned_from: tuple[Any, ...] = ()  # the width and the ridge of every round before

    @property
    def metric(self) -> str:
        """What kind of metric its kernels have."""
        return self.track.kind if self.learned_from else "none"

    def part_kernels(self, width: float, count: int) -> list[Kernel]:
        """The kernel of each part at a relative width."""
        return [part.at(width) for part in self.parts or [self.final] * count]


def next_round(
    last: Round,
    run: Run,
    learning_rows: Sequence[Any],
    cell: tuple[float, Any],
    seed: int,
    *,
    with_final: bool,
) -> Round:
    """Learn the metrics of the next round from models of this one at a cell (width, ridge).

    `learning_rows` are those that each part's metric is learned from and, `with_final`, the final one's.
    Without it the metric of the first part is the final one.
    """
    width, ridge = cell
    problem = run.problem
    count = len(learning_rows) - with_final
    kernels = [*last.part_kernels(width, count), last.final.at(width)]

    def learned(number: int) -> Fitted:
        rows = learning_rows[number]
        part = problem if rows.size == problem.n else problem.rows(rows, fetch=False).centred()
        model = model_of(run, part, kernels[number], 1, rough=True)
        expansion = model.expansion(problem.ridge_of_part(part, ridge))
        generator = np.random.default_rng([seed, len(last.learned_from)])
        values = gradient_metric(
            expansion, part.X, part.weight, kind=last.track.kind, generator=generator
        )
        return measured(last.track.kernel.with_metric(values), part, seed)

    max_parallel = run.max_parallel_models if last.track.kernel.thread_safe else 1
    n_metrics = len(learning_rows)
    metrics = list(map_in_order(learned, range(n_metrics), min(n_metrics, max_parallel)))
    final = metrics[-1] if with_final else metrics[0]
    return Round(last.track, final, metrics[:count], (*last.learned_from, cell))


def part_kernels_without(
    track: Track,
    run: Run,
    cells: Sequence[tuple[float, Any]],
    width: float,
    learning_rows: Sequence[Any],
    seed: int,
) -> list[Kernel]:
    """The kernels at the end of a path of cells, gone through again without each of some parts."""
    last = Round(track, measured(track.kernel, run.problem, seed))
    for cell in cells:
        last = next_round(last, run, learning_rows, cell, seed, with_final=False)
    return last.part_kernels(width, len(learning_rows))


def measured(kernel: Kernel, problem: Problem, seed: int) -> Fitted:
    """A kernel whose width is relative to the rows of a problem; it does not see their targets."""
    rows = sample_rows(np.arange(problem.n), _DISTANCE_ROWS, np.random.default_rng(seed))
    weight = None if problem.weight is None else problem.weight[rows]
    return Fitted(kernel, kernel.mean_exponent(take_rows(problem.X, rows), weight))


def model_of(run: Run, part: Problem, kernel: Kernel, n_alphas: int, *, rough: bool = False) -> Model:
    """The model of some of a run's rows, with landmarks of its own where it has any."""
    load = Workload(alphas=n_alphas, rough=rough or run.load.rough)
    return replace(run, shared=None).on(part, load).model(kernel)


class CrossFitted(Model):
    """Models that were each trained without one of the `parts`, with a kernel learned without it."""

    no_leave_one_out = "leave-one-out cannot be used with a learned metric; use folds, such as cv=5."

    def __init__(self, run: Run, parts: Sequence[Any], kernels: Sequence[Kernel]) -> None:
        self._run = run
        self._parts = parts
        self._kernels = kernels
        self._fitted: dict[tuple[int, float], Expansion] = {}  # by part and μ, where there is one μ
        self.report: dict[str, Any] = {
            "name": run.approximation.name,
            "route": "refitted",
            "reason": "every fold has a metric of its own",
            **run.report,
        }

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        return [values for _, _, values in self.heldout_blocks(parts, alphas)]

    def _without(self, number: int, n_alphas: int) -> tuple[Problem, Model]:
        """The rows outside a part, and their model."""
        check_stop()
        part = self._run.problem.without(self._parts[number])
        return part, model_of(self._run, part, self._kernels[number], n_alphas)

    def heldout_blocks(self, parts: Sequence[Any], alphas: Any) -> Iterator[tuple[int, Any, Array]]:
        if parts is not self._parts:
            raise ValueError("the metrics were learned for other splits; use the same splits.")
        for number in range(len(parts)):
            yield number, slice(None), self._predicted(number, np.asarray(alphas).reshape(-1))

    def _predicted(self, number: int, alphas: Any) -> Array:
        """A part (μ, |J|, targets) in the problem's units, NaN where a μ cannot be solved with."""
        problem = self._run.problem
        rows = self._parts[number]
        part, model = self._without(number, alphas.size)
        ridges = problem.ridge_of_part(part, alphas)
        usable = model.usable(None, ridges)
        expansions = [part.restore(model.expansion(mu)) for mu in ridges[usable]]
        if alphas.size == 1 and expansions:
            self._fitted[number, float(alphas[0])] = expansions[0]
        xp = namespace(problem.Y)
        targets = problem.Y.shape[1]
        values = asarray_like(np.full((alphas.size, len(rows), targets), np.nan), problem.Y)
        if expansions:  # all ridges share their centres, and so one product with the kernel
            coef = xp.concat([expansion.coef for expansion in expansions], axis=1)
            intercept = xp.concat([expansion.intercept for expansion in expansions])
            of_all_ridges = replace(expansions[0], coef=coef, intercept=intercept)
            predicted = of_all_ridges.predict(take_rows(problem.X, rows))
            predicted = xp.reshape(predicted, (len(rows), len(expansions), targets))
            for place, ridge in enumerate(np.flatnonzero(usable).tolist()):
                values[ridge, ...] = predicted[:, place, :]
        return values

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels:
        """The fits without each part, or one more of each, at one μ."""

        def fitted(number: int) -> Any:
            if np.size(alpha) == 1 and (number, float(np.ravel(alpha)[0])) in self._fitted:
                return self._fitted[number, float(np.ravel(alpha)[0])]
            part, model = self._without(number, np.unique(alpha).size)
            ridges = self._run.problem.ridge_of_part(part, np.asarray(alpha))
            return part.restore(model.expansion(ridges))

        return FoldModels.from_expansions([fitted(number) for number in range(len(parts))])

    def expansion(self, alpha: Any) -> Expansion:
        raise ValueError(
            "a cross-fitted model predicts only held-out rows; the run makes the final model."
        )
