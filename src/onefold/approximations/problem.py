r"""What an approximation is started on: the least-squares problem, what is asked of it, its machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.compatibility import Place
from onefold.expansions import Expansion
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    host_array,
    namespace,
    take_rows,
)
from onefold.linalg.speed import device_speed
from onefold.machine import memory
from onefold.machine.speed import Speed, machine_speed
from onefold.machine.threads import cached_property, count_workers, thread_budget
from onefold.rows import Rows, StreamedRows, is_remote, rows_of, to_device
from onefold.smoothers.base import Need

# Speeds (per second) of a machine that has not been measured: a laptop of two cores, and a GPU with
# float64 units of its own.
NOMINAL = Speed(multiply_adds=4e10, exponentials=3e8)
NOMINAL_GPU = Speed(1e13, 1e11, single=2e13, cholesky=4e12, single_cholesky=8e12)
# How many times faster or slower than the nominal machine another one may be; chosen, not measured.
_LARGEST_SPEED_RATIO = 30.0
# Shares are rounded to so many parts of their size, so that sums of the same weights in another order
# are equal: 2^40 leaves 12 of float64's 52 binary digits to rounding.
_SHARE_DIGITS = 2.0**40
# Seconds of a fit from which on the machine's speed is measured, which takes half a second.
_WORTH_MEASURING = 1.0
# Share of a host's free memory that "auto" lets one fit take: other processes use it too; chosen, not
# measured.
_HOST_SHARE = 0.5
# The same of a GPU's free memory; chosen, not measured.
_GPU_SHARE = 0.9

Refit = Literal["auto", "exact", "same"]
Parts: TypeAlias = Sequence[Index]  # sets of rows, by their numbers
Loss: TypeAlias = Literal["sum", "mean"]  # of squared errors, that the user's alpha is the ridge of


@dataclass(frozen=True)
class Workload:
    """What the models of a run are needed for.

    Parameters
    ----------
    kernels : int, default=1
        Number of kernels.
    alphas : int, default=1
        Number of ridges for each kernel.
    folds : int, default=0
        Number of folds; 0 for a single fit, 1 for leave-one-out and for criteria of the whole smoother.
    groups : int, default=0
        Number of groups of rows that belong to the same folds, where folds overlap; 0 if each fold is a
        group.
    scored_rows : bool, default=False
        Whether leave-one-out keeps a score for each row, not their mean alone.
    predictions : bool, default=True
        Whether the predictions for every ridge are needed; otherwise squared errors are enough.
    whole : bool, default=True
        Whether all predictions are needed together; otherwise sums over blocks of them are enough.
    smoother : bool, default=False
        Whether R(μ) is needed as a whole.
    matrix : bool, default=False
        Whether the kernel matrix itself is needed.
    single : bool, default=False
        Whether single rows are left out besides folds.
    left_out : tuple of float, default=()
        Share of the rows that each fold leaves out, where folds overlap, as those that train on the past
        only; () where each row is left out once.
    parts : list of array, optional
        The sets of rows that are left out in turn; None if nothing is held out.
    rough : bool, default=False
        Whether solutions only rank candidates, or give a metric: float32 factors are then enough where
        a ridge allows it.
    refit : {"same", "auto", "exact"}, default="same"
        How the final model is fitted: with the same approximation, as the approximation prefers, or with
        the true kernel.
    preliminary_operations : float, default=0.0
        Multiply-adds of the work on a few rows that comes first, with any approximation.
    points : int, optional
        Points of the largest grid that the kernels are interpolated on; None before they are known.
    gpu : int, optional
        Free bytes of the GPU that is used, which has costs of its own; None for a CPU.

    Examples
    --------
    >>> from onefold.approximations import Workload
    >>> Workload(kernels=13, alphas=11, folds=5).folds
    5
    """

    kernels: int = 1
    alphas: int = 1
    folds: int = 0
    groups: int = field(default=0, kw_only=True)
    scored_rows: bool = field(default=False, kw_only=True)
    predictions: bool = True
    whole: bool = True
    smoother: bool = False
    matrix: bool = field(default=False, kw_only=True)
    single: bool = field(default=False, kw_only=True)
    left_out: tuple[float, ...] = field(default=(), kw_only=True)
    parts: Any = field(default=None, compare=False, repr=False)
    rough: bool = field(default=False, kw_only=True)
    refit: Refit = "same"
    preliminary_operations: float = field(default=0.0, kw_only=True)
    points: int | None = field(default=None, kw_only=True)
    gpu: int | None = field(default=None, kw_only=True)

    @property
    def need(self) -> Need:
        """Whether solving is enough, or held-out predictions are wanted too."""
        return "heldout" if self.folds else "coefficients"

    @property
    def block_cost(self) -> float:
        """Multiply-adds of the blocks of overlapping folds at one μ, in n³, beyond those of plain folds.

        The block of a share s of the rows is a product of s² n³, and is then solved with: s³ n³ / 3.
        Blocks of k plain folds, n³/k and less, are within the error of the estimates.
        """
        if not self.left_out:
            return 0.0
        blocks = sum(share**2 + share**3 / 3 for share in self.left_out)
        return max(0.0, blocks - 1.0 / len(self.left_out))

    @property
    def training_share(self) -> float:
        """Share of the rows that a model without a fold is trained on, whose cube is the mean cube."""
        if not self.left_out:
            return 1.0 - 1.0 / max(self.folds, 2)
        cubes = [(1.0 - share) ** 3 for share in self.left_out]
        return float((sum(cubes) / len(cubes)) ** (1 / 3))


def host_speed() -> Speed:
    """As far as the thread budget goes; it takes half a second if never measured."""
    speed = machine_speed()
    cores = count_workers(None)
    return replace(speed, multiply_adds=speed.multiply_adds * min(1.0, thread_budget() / cores))


@dataclass(frozen=True)
class Machine:
    """Where rows are worked on: the host, also for tensors in its memory, or a GPU."""

    free: int | None  # bytes; None where nothing says
    measure: Callable[[], Speed] = host_speed  # takes half a second the first time
    gpu: bool = False

    @classmethod
    def of(cls, device: Any) -> Machine:
        """The host for None, or a torch device by its name."""
        if device is None:
            return cls(memory.available_memory())
        return cls.holding(linalg.on_device(np.empty(0), device))

    @classmethod
    def holding(cls, reference: Array) -> Machine:
        """The machine that an array lies on."""
        free = linalg.free_memory_of(reference)
        if not linalg.on_accelerator(reference):
            return cls(free)
        return cls(free, partial(device_speed, reference), gpu=True)

    @property
    def usable(self) -> float | None:
        """Bytes that one fit may take unasked: half of a host's, which others use too."""
        if self.free is None:
            return None
        return (_GPU_SHARE if self.gpu else _HOST_SHARE) * self.free

    def load(self, load: Workload | None = None) -> Workload:
        """The load on this machine; by default a fit at one ridge."""
        return replace(load or Workload(), gpu=(self.free or 0) if self.gpu else None)

    def seconds(
        self,
        duration: Callable[[Speed], float | None],
        within: float | None = None,
        *,
        timed: bool = False,
    ) -> float | None:
        """The duration at this machine's speed; None for unknown.

        That of a nominal machine, unless a choice within some seconds depends on it, or the time is
        wanted (`timed`) and worth the measurement.
        """
        rough = duration(NOMINAL_GPU if self.gpu else NOMINAL)
        if rough is None:
            return None
        decisive = (
            within is not None and within / _LARGEST_SPEED_RATIO < rough < _LARGEST_SPEED_RATIO * within
        )
        return duration(self.measure()) if decisive or (timed and rough > _WORTH_MEASURING) else rough


@dataclass(frozen=True)
class Problem:
    r"""min ½‖w‖² + (1/2μ) Σ v_i ‖y_i − f(x_i)‖², with or without an intercept.

    The problem is stated in units of its own, in which nothing depends on the scale of the weights or
    on where the targets lie; `ridge` and `restore` lead from the user's units and back. With u_i the
    user's weights, v_i = u_i / ū and α the user's ridge, of the sum of squared errors or of their mean,

        loss = "sum"     ½‖w‖² + (1/2α) Σ u_i e_i²               μ = α / ū
        loss = "mean"    ½‖w‖² + (1/2α) Σ u_i e_i² / Σ u_i       μ = α Σ v_i = α n

    and a part T of the rows has the ridge μ of all rows, or μ Σ_T v_i / Σ v_i: `shares`.
    """

    X: Any  # rows (n, d), an array or CSR matrix, or the kernel matrix where the kernel is precomputed
    Y: Any  # (n, targets), float64, in X's library; about `offset`
    root_weight: Any  # √v_i (n,), all positive; None for equal weights
    fit_intercept: bool
    offset: Any = None  # (targets,), NumPy: subtracted from the user's targets; None becomes zeros
    alpha_unit: float = 1.0  # the user's alpha for μ = 1: their mean weight, or 1 / Σ v_i of a mean
    kept: Any = None  # numbers (n,) of the rows among the user's, where some of weight 0 were left out
    device: Any = None  # where rows in host memory, too many for it, are streamed to
    precomputed: bool = False  # X is the kernel matrix
    loss: Loss = "sum"

    def __post_init__(self) -> None:
        if self.offset is None:
            object.__setattr__(self, "offset", np.zeros(self.Y.shape[1]))

    def __repr__(self) -> str:
        n, d, targets = self.shape
        weighted = "" if self.root_weight is None else ", weighted"
        return f"Problem(rows={n}, features={d}, targets={targets}{weighted})"

    @cached_property
    def source(self) -> Rows:
        """The rows as a source of blocks, shared by all models of the problem."""
        return rows_of(self.X, self.Y, self.root_weight, self.device)

    @cached_property
    def machine(self) -> Machine:
        """The machine where the rows are, or are streamed to; its memory is looked at once."""
        return Machine.holding(self.source.reference) if self.on_device else Machine.of(None)

    @property
    def free(self) -> int | None:
        """Bytes free there; None where nothing says."""
        return self.machine.free

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.Y.shape[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, features and targets."""
        return self.n, int(self.X.shape[1]), int(self.Y.shape[1])

    @cached_property
    def weight(self) -> HostArray | None:
        """v_i as a NumPy array (n,); None for equal weights."""
        return None if self.root_weight is None else host_array(self.root_weight) ** 2

    @cached_property
    def targets(self) -> HostArray:
        """Y as a NumPy array: for what is computed or reported in host memory."""
        return host_array(self.Y)

    @property
    def on_device(self) -> bool:
        """Whether the work is done elsewhere than in host memory."""
        return self.source.on_device

    @property
    def remote(self) -> bool:
        """Whether the rows stay on Dask's workers; models are then solved here, in host memory."""
        return is_remote(self.X)

    @property
    def streamed(self) -> bool:
        """Whether rows in host memory travel to the device block by block."""
        return isinstance(self.source, StreamedRows)

    @property
    def place(self) -> Place:
        """Where the rows are."""
        if self.remote:
            return "dask"
        return "streamed" if self.streamed else "memory"

    def rows(self, rows: Any, *, precomputed: bool = False, fetch: bool = True) -> Problem:
        """The problem of some rows; X may be K. Unless `fetch`, rows on Dask's workers stay there."""
        root = None if self.root_weight is None else take_rows(self.root_weight, rows)
        user_rows = np.asarray(rows) if self.kept is None else self.kept[rows]
        stay = self.remote and not fetch
        X = self.X.only(rows) if stay else take_rows(self.X, rows)
        Y = take_rows(self.Y, rows)
        if precomputed:
            X = take_rows(X.T, rows).T
        if self.remote and fetch:
            X = to_device(X, self.device)
            Y = asarray_like(Y, X)
            root = None if root is None else asarray_like(root, X)
        part = replace(self, X=X, Y=Y, root_weight=root, kept=user_rows)
        return part.of_mean() if self.loss == "mean" else part

    def without(self, rows: Any, *, precomputed: bool = False) -> Problem:
        """The problem of all other rows, where they are, alone."""
        training_rows = np.delete(np.arange(self.n), rows)
        return self.rows(training_rows, precomputed=precomputed, fetch=False).centred()

    def centred(self) -> Problem:
        """The same problem about its own mean: what it restores is in this one's units."""
        return replace(self, offset=None).about_its_mean()

    def about_its_mean(self) -> Problem:
        """The same problem with targets about their weighted mean, where the intercept allows it."""
        if not self.fit_intercept:
            return self
        Y = self.targets
        weight = self.weight
        weight = np.ones(self.n) if weight is None else weight
        mean = (weight / weight.sum()) @ Y
        mean = np.where(np.all(Y[:1] == Y, axis=0), Y[0], mean)  # of equal numbers: exactly
        return replace(self, Y=self.Y - asarray_like(mean, self.Y)[None, :], offset=self.offset + mean)

    def in_table(self, values: Any, n: int) -> Any:
        """Values (rows, columns) of its rows in a table of the user's n; NaN for rows of weight 0."""
        if self.kept is None:
            return values
        table = np.full((n, values.shape[1]), np.nan)
        table[self.kept] = values
        return table

    def of_mean(self) -> Problem:
        """The same problem, with alpha the ridge of the mean squared error."""
        total = float(self.n if self.weight is None else self.weight.sum())
        return replace(self, loss="mean", alpha_unit=1.0 / total)

    def ridge(self, alpha: ArrayLike) -> HostArray:
        """The problem's μ for the user's alpha."""
        with np.errstate(over="ignore", under="ignore"):
            mu = np.asarray(alpha, dtype=np.float64) / self.alpha_unit
        if not np.all(np.isfinite(mu) & (mu > 0)):
            if self.loss == "mean":
                raise ValueError(
                    "alpha times the number of rows leaves the range of float64; use other alphas."
                )
            raise ValueError(
                f"alpha divided by the mean weight, {self.alpha_unit:.3g}, leaves the range of float64; "
                "multiply all weights by a constant."
            )
        return mu

    def ridge_of_part(self, part: Problem, mu: Any) -> Any:
        """The μ of some of the rows, from :meth:`rows`, that means the same alpha as μ does here."""
        return mu * (self.alpha_unit / part.alpha_unit)

    def shares(self, left_out: Parts) -> HostArray:
        """The μ of each model without some rows, over that of all rows: (parts,)."""
        if self.loss == "sum":
            return np.ones(len(left_out))
        if isinstance(left_out, np.ndarray):
            return self.single_shares()[left_out[:, 0]]
        weight = self.weight
        if weight is None:
            return 1.0 - np.array([len(rows) for rows in left_out]) / self.n
        # No difference of sums: what is left may be a tiny part.
        return np.array([np.delete(weight, rows).sum() for rows in left_out]) / weight.sum()

    def single_shares(self) -> HostArray:
        """The shares of the models without each row."""
        if self.loss == "sum":
            return np.ones(self.n)
        weight = np.ones(self.n) if self.weight is None else self.weight
        weight_without = weight.sum() - weight
        heaviest = int(weight.argmax())
        # What is left of the sum without it may be a tiny part, and have lost its digits.
        weight_without[heaviest] = np.delete(weight, heaviest).sum()
        return weight_without / weight.sum()

    @property
    def single_ridges(self) -> int:
        """How many different ridges the models without each row have, for every μ."""
        return int(distinct_shares(self.single_shares())[0].size)

    def restore(self, expansion: Expansion) -> Expansion:
        """The expansion of this problem as one of the user's targets."""
        intercept = expansion.intercept + asarray_like(self.offset, expansion.intercept)
        return replace(expansion, intercept=intercept)

    def scaled_targets(self) -> Array:
        """S Y: the targets of the equivalent problem with equal weights."""
        return self.Y if self.root_weight is None else self.root_weight[:, None] * self.Y

    def unscale(self, predictions: Array, rows: Any | None = None) -> Array:
        """Predictions (μ, rows, targets) of the equivalent problem, back in the targets' units."""
        if self.root_weight is None:
            return predictions
        root = self.root_weight if rows is None else take_rows(self.root_weight, rows)
        return predictions / root[None, :, None]


def distinct_shares(shares: HostArray) -> tuple[HostArray, Index]:
    """The different shares, and the place of each share among them."""
    digits, exponents = np.frexp(shares)
    rounded = np.ldexp(np.round(digits * _SHARE_DIGITS) / _SHARE_DIGITS, exponents)
    _, first, positions = np.unique(rounded, return_index=True, return_inverse=True)
    return shares[first], positions


def with_ridges_of_parts(load: Workload, problem: Problem) -> Workload:
    """The work with the ridges of all parts counted."""
    if problem.loss == "sum" or not load.folds:
        return load
    shares = problem.single_shares() if load.parts is None else problem.shares(load.parts)
    # Never one alone: that of all rows may be asked for too.
    return replace(load, alphas=max(2, load.alphas * distinct_shares(shares)[0].size))


class TargetRidges:
    """One ridge for all targets, or one for each, and what has to be solved for them."""

    def __init__(self, alpha: ArrayLike, targets: int) -> None:
        self.by_target = np.broadcast_to(as_vector(alpha), targets)  # (targets,): the μ of each
        # (μ,): every μ once; (targets,): the position of each target's μ among them
        self.distinct, self.positions = np.unique(self.by_target, return_inverse=True)

    def pick(self, solutions: Array) -> Any:
        """From solutions (μ, …, targets) each target's at its own μ: (…, targets)."""
        columns = [solutions[int(i), ..., t] for t, i in enumerate(self.positions)]
        return namespace(solutions).stack(columns, axis=-1)
